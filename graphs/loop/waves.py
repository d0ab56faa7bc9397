"""Planned calls, made in waves: all whose inputs are there at once, each in a task of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import Send

from taograph.calls import Steps
from taograph.graphs.loop.acting import act_input
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.repair import open_calls
from taograph.graphs.loop.stage import Stage
from taograph.graphs.loop.state import State
from taograph.graphs.loop.stopping import rejected
from taograph.graphs.parts.planned import Parameters, Plan, Planned, Results, call_ids, call_of, is_settled, results_of
from taograph.graphs.parts.references import Sign
from taograph.tools.policy import policy_of

# Supersteps that must be left for the calls to be made, looked at, and answered from.
_FOR_A_WAVE = 3


def wave(here: Stage, plan: Plan, sign: Sign, parameters: Parameters, *, apart: Collection[str] = ()) -> Steps[None]:
    """Write the calls whose inputs are there as one reply of the model, unless none is left.

    Args:
        here: The stage.
        plan: The plan.
        sign: How it writes references.
        parameters: What its tools take.
        apart: Names of tools that are none of the loop's, and no tool calls in the run's account.

    Raises:
        Ended: A limit or a person says so.
    """
    ended = here.over((rejected,))
    if ended is not None:
        raise Ended(ended)
    tasks = plan["tasks"]
    results, sent = results_of(tasks, here.history), call_ids(here.history)
    ready = [task for task in tasks if task["call"] not in sent and is_settled(task, results)]
    here.session.teller.tell("plan", plan=told(tasks, results, sign, {task["call"] for task in ready}))
    yield from ()  # nothing is waited for, as yet
    if not ready:
        return
    if here.room < _FOR_A_WAVE:
        raise Ended(here.stop("step_limit", here.recursion_detail()))
    made = [(task, *call_of(task, results, sign, parameters)) for task in ready]
    counted = [call for _, call, refused in made if not refused and call["name"] not in apart]
    if counted:
        # Those beyond the limit wait: they are made where the run goes on with a higher one.
        allowed = {call["id"] for call in counted[: here.calls_left(len(counted))]}
        late = {call["id"] for call in counted} - allowed
        made = [one for one in made if one[1]["id"] not in late]
    here.called([call for _, call, refused in made if not refused])
    here.session.run["refused"] = {call["id"] or "": refused for _, call, refused in made if refused}
    thought = "\n".join(dict.fromkeys(task["plan"] for task, *_ in made if task["plan"]))
    here.session.messages.append(AIMessage(thought, tool_calls=[call for _, call, _ in made]))
    here.sends()


def sends(state: State, apart: Collection[str] = (), node: str = "") -> list[Send]:
    """A task for each call that waits to be made.

    Args:
        state: The channels.
        apart: Names of tools that are none of the loop's.
        node: The node that those are sent to.
    """
    calls = open_calls(state["messages"])
    return [Send(node if call["name"] in apart else "act", act_input(call, state["run"])) for call in calls]


def told(tasks: Sequence[Planned], results: Results, sign: Sign, running: Collection[str]) -> list[dict[str, Any]]:
    """The plan and its progress, for the event."""

    def status(task: Planned) -> str:
        found = results.get(task["call"])
        if found is not None:
            return "failed" if found.failed else "done"
        return "running" if task["call"] in running else "waiting"

    return [
        {
            "id": sign.of(task["id"]),
            "task": task["plan"],
            "tool": task["tool"],
            "input": task["input"],
            "needs": [sign.of(int(number)) for number in task["needs"]],
            "status": status(task),
        }
        for task in tasks
    ]


def once_more(here: Stage, plan: Plan, messages: Sequence[AnyMessage]) -> Plan:
    """The plan of a run that goes on: what failed and may be repeated is made once more, and what needed it.

    Args:
        here: The stage.
        plan: The plan.
        messages: The history.
    """
    results, taken = results_of(plan["tasks"], messages), call_ids(messages)
    failed = [t for t in plan["tasks"] if t["call"] in results and results[t["call"]].failed and not t["fault"]]
    renamed: dict[str, str] = {}
    for task in failed:
        tool = here.agent.by_name.get(task["tool"])
        behind = any(call in results and results[call].failed for call in task["needs"].values())  # it was not run
        if behind or tool is None or policy_of(tool).effects != "once":
            stem = task["call"].partition("_again")[0]
            times = sum(1 for call in taken if call.partition("_again")[0] == stem)
            renamed[task["call"]] = f"{stem}_again{times}"
    tasks = [
        Planned(
            **{
                **task,
                "call": renamed.get(task["call"], task["call"]),
                "needs": {number: renamed.get(call, call) for number, call in task["needs"].items()},
            }
        )
        for task in plan["tasks"]
    ]
    return Plan(turn=plan["turn"], round=plan["round"], tasks=tasks)

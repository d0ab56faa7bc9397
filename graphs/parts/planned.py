"""Calls that were planned before their inputs were there: which can be made now, with what, and which never can.

What ReWOO (arXiv 2305.18323) and LLMCompiler (arXiv 2312.04511) have in common. The published codes put an error in the
place of a result and go on; here a call that needs a result that there is none of is not made, and says so: its tool
would be given the text of an error for an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from taograph.graphs.loop.approving import without_note
from taograph.graphs.loop.state import State
from taograph.graphs.parts.call_arguments import ArgumentsError, read_call
from taograph.graphs.parts.references import Sign, filled_in, is_reference, references
from taograph.graphs.protocols.acceptable import safe_name, storable
from taograph.graphs.protocols.fitting import UnfitArgumentsError, fit_arguments, fit_value
from taograph.graphs.protocols.sample_schema import Schema
from taograph.graphs.protocols.text_labels import as_data
from taograph.graphs.protocols.text_tools import offered_tool
from taograph.tools.policy import policy_of
from taograph.tools.results import READ_RESULT, split_frame, whole_text

NO_EVIDENCE = "No evidence found"
"""What the paper's workers say where they found nothing."""

# A result that is put into an argument is stored with the call, too.
_MOST_CHARS = 8000
_IN_WORDS = 200


class Planned(TypedDict):
    """A call of a plan.

    Attributes:
        id: Its number in the plan.
        plan: What it is for, in the model's words.
        tool: The tool.
        input: Its arguments with the references in them: an object, or a text for a tool with one parameter.
        fault: Why it cannot be made; empty where it can.
        call: The id of its call in the messages.
        round: Which plan of the run it is of, from 1.
        needs: The calls whose results it refers to, by their numbers as they are written.
    """

    id: int
    plan: str
    tool: str
    input: Any
    fault: str
    call: str
    round: int
    needs: dict[str, str]


class Plan(TypedDict):
    """The plan of a run.

    Attributes:
        turn: Id of the user's message that it is for: a plan of another run is none.
        round: How many plans there were.
        tasks: The calls of all of them.
    """

    turn: str
    round: int
    tasks: list[Planned]


class PlannedState(State):
    """The channels of a strategy that plans calls: the loop's, with the plan."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a planned call.

    Attributes:
        text: The observation, all of it, without a frame.
        failed: Whether there is no result to go on with.
    """

    text: str
    failed: bool


Results = Mapping[str, Result]
"""What came of calls, by their ids."""


Parameters = Mapping[str, Schema]
"""The JSON schemas of the arguments of the tools that a plan may name, by their names."""


def plan_of(held: Plan | None, turn: str) -> Plan:
    """The plan of a run: what is held, unless that is of a run before.

    Args:
        held: The channel.
        turn: Id of the user's message.
    """
    return held if held and held["turn"] == turn else Plan(turn=turn, round=0, tasks=[])


def planned(id: int, tool: str, input: Any, *, plan: str = "", fault: str = "") -> Planned:
    """A call as it was read from a plan."""
    return Planned(id=id, plan=plan, tool=tool, input=input, fault=fault, call="", round=0, needs={})


def parameters_of(tools: Iterable[BaseTool]) -> dict[str, Schema]:
    """What a plan may name of the tools; ``read_result`` is of no use before there is a result."""
    return {tool.name: offered_tool(tool).parameters for tool in tools if tool.name != READ_RESULT}


def placed(task: Planned, prefix: str, round: int, taken: Collection[str]) -> Planned:
    """A call of a new plan with an id that no call of the thread has.

    Args:
        task: The call.
        prefix: What the id begins with.
        round: Which plan of the run it is of.
        taken: Ids of calls that there are.
    """
    call_id, times = f"{prefix}{task['id']}", 1
    while call_id in taken:
        times += 1
        call_id = f"{prefix}{task['id']}_{times}"
    return Planned(**{**task, "call": call_id, "round": round})


def linked(
    task: Planned, known: Mapping[int, Sequence[Planned]], before: Sequence[Planned], sign: Sign, tools: Collection[str]
) -> Planned:
    """A call with what it needs, or with what keeps it from ever being made.

    Args:
        task: The call, which has its place.
        known: Calls of its plan that it may refer to, itself included, by number.
        before: Calls of plans before.
        sign: How a reference is written.
        tools: Names of the tools that may be called.
    """
    own = sign.of(task["id"])
    needs: dict[str, str] = {}
    fault = task["fault"]
    try:
        numbers = references(task["input"], sign)
    except ValueError as error:
        numbers, fault = [], fault or f"{error}."
    if not fault and known[task["id"]][0]["call"] != task["call"]:
        fault = f"{own} stands in the plan twice, so nobody can tell which one is meant. It was not run."
    if not fault and task["tool"] not in tools:
        fault = f"there is no tool named {task['tool']!r}. The tools are: {', '.join(sorted(tools)) or 'none'}."
    for number in numbers:
        meant = known.get(number) or [one for one in reversed(before) if one["id"] == number][:1]
        shown = sign.of(number)
        if any(one["call"] == task["call"] for one in meant):
            fault = fault or f"it refers to its own result, {shown}."
        elif not meant:
            fault = fault or f"it refers to {shown}, and there is no such step before it."
        elif len(meant) > 1:
            fault = fault or f"it refers to {shown}, which stands in the plan twice."
        else:
            needs[str(number)] = meant[0]["call"]
    return Planned(**{**task, "needs": {} if fault else needs, "fault": fault})


def without_cycles(tasks: Sequence[Planned], sign: Sign) -> list[Planned]:
    """The calls of a plan, with a fault where one needs its own result by way of others."""
    by_call = {task["call"]: task for task in tasks}
    waits = {task["call"]: {id for id in task["needs"].values() if id in by_call} for task in tasks}
    wanted_by: dict[str, list[str]] = {call: [] for call in by_call}
    for call, needs in waits.items():
        for need in needs:
            wanted_by[need].append(call)
    free = [call for call, needs in waits.items() if not needs]
    while free:
        call = free.pop()
        for other in wanted_by[call]:
            waits[other].discard(call)
            if not waits[other]:
                free.append(other)
    # Of what is left, each is in a circle or behind one: going back from any ends in one.
    stuck = [call for call, needs in waits.items() if needs]
    circle: dict[str, str] = {}
    seen: set[str] = set()
    for start in stuck:
        path: dict[str, None] = {}
        at = start
        while at not in path and at not in seen:
            path[at] = None
            at = min(waits[at])
        if at in path:
            steps = list(path)
            around = [*steps[steps.index(at) :], at]
            told = " → ".join(sign.of(by_call[one]["id"]) for one in around)
            circle |= dict.fromkeys(around, f"it needs its own result: {told}.")
        seen |= path.keys()
    return [
        Planned(**{**task, "needs": {}, "fault": circle[task["call"]]}) if task["call"] in circle else task
        for task in tasks
    ]


def call_ids(messages: Sequence[AnyMessage]) -> set[str]:
    """Ids of all calls of a thread."""
    return {call["id"] or "" for m in messages if isinstance(m, AIMessage) for call in m.tool_calls}


def results_of(tasks: Iterable[Planned], messages: Sequence[AnyMessage]) -> dict[str, Result]:
    """What came of calls up to now."""
    wanted = {task["call"] for task in tasks}
    return {m.tool_call_id: result_of(m) for m in messages if isinstance(m, ToolMessage) and m.tool_call_id in wanted}


def result_of(message: ToolMessage) -> Result:
    """What came of a call, from its observation."""
    whole = whole_text(message)
    text = split_frame(without_note(str(message.text)))[1] if whole is None else whole
    return Result(text, message.status == "error")


def in_words(task: Planned, results: Results, trusted: Collection[str]) -> str:
    """What came of a call, for the instruction to answer.

    What is long stands where its call does, and so does what tools return that are not trusted: there it is framed.

    Args:
        task: What was planned.
        results: What came of the calls.
        trusted: Names of the tools whose results may stand among our own words.
    """
    found = results.get(task["call"])
    if found is None:
        return f"{NO_EVIDENCE}: it was not run."
    if found.failed and not found.text.startswith(NO_EVIDENCE) and task["tool"] not in trusted:
        return f"{NO_EVIDENCE}: why stands above."
    if found.failed:
        why = " ".join(found.text.removeprefix(NO_EVIDENCE).lstrip(": ").split())
        return f"{NO_EVIDENCE}: {as_data(why if len(why) <= _IN_WORDS else f'{why[:_IN_WORDS]}…')}"
    plain = " ".join(found.text.split())
    return as_data(plain) if task["tool"] in trusted and len(plain) <= _IN_WORDS else "stands above."


def trusted_of(tools: Iterable[BaseTool]) -> set[str]:
    """Names of the tools that are trusted."""
    return {tool.name for tool in tools if policy_of(tool).trusted}


def is_settled(task: Planned, results: Results) -> bool:
    """Whether it is clear what becomes of a call: all that it needs is there, or it can never be made."""
    if task["fault"] or any(results[call].failed for call in task["needs"].values() if call in results):
        return True
    return all(call in results for call in task["needs"].values())


def call_of(task: Planned, results: Results, sign: Sign, parameters: Parameters) -> tuple[ToolCall, str]:
    """A call with results in the place of its references; and why it is not to be made, empty where it is.

    Args:
        task: What was planned; it is settled.
        results: What came of the calls before.
        sign: How a reference is written.
        parameters: What its tool takes.
    """
    fault = task["fault"]
    missing = [sign.of(int(n)) for n, call in task["needs"].items() if call in results and results[call].failed]
    if not fault and missing:
        fault = f"there is no result of {' and '.join(missing)}, which it needs. It was not run."
    args: Any = task["input"]
    if not fault:
        schema = parameters[task["tool"]]
        args = _by_name(args, schema)
        texts = {int(n): _in_short(results[call].text) for n, call in task["needs"].items()}
        filled = filled_in(args, sign, texts)
        try:
            fitted = fit_arguments(filled, schema, task["tool"])
        except UnfitArgumentsError:
            names = ", ".join(schema.get("properties") or {}) or "none"
            fault = f"{task['tool']} takes these arguments: {names}. Give a JSON object with them. It was not run."
        else:
            whole = {key for key, value in _object(args).items() if is_reference(value, sign)}
            args = {key: _typed(value, schema, key) if key in whole else value for key, value in fitted.items()}
    if fault:
        args = _object(args) or ({"input": args} if args else {})
    try:
        args = storable(args)
    except RecursionError:
        args, fault = {}, "the arguments are nested too deeply. It was not run."
    call = ToolCall(name=safe_name(task["tool"]), args=args, id=task["call"], type="tool_call")
    known = task["tool"] in parameters
    return (
        ToolCall(**{**call, "name": task["tool"]}) if known else call,
        f"{NO_EVIDENCE}: {fault}" if fault else "",
    )


def _by_name(value: Any, schema: Schema) -> Any:
    """A text that gives arguments by their names, as in ``expression="1 + 1"``, as an object; else what it is."""
    if not isinstance(value, str) or "=" not in value:
        return value
    try:
        placed, named = read_call(value)
    except ArgumentsError:
        return value
    return named if named and not placed and set(named) <= set(schema.get("properties") or {}) else value


def _object(value: Any) -> Mapping[str, Any]:
    return {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}


def _typed(value: Any, schema: Schema, key: str) -> Any:
    """What was a reference and nothing else, as its parameter takes it: results are texts."""
    part = (schema.get("properties") or {}).get(key)
    return fit_value(value, part, schema) if isinstance(value, str) and isinstance(part, Mapping) else value


def _in_short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]} […]"

"""Calls of a plan, made while the plan is still being written: each as soon as what it needs is there.

LLMCompiler's task fetching unit (Kim et al., arXiv 2312.04511), without its polling: whatever happens wakes it. A call
goes through the same layer as in the loop. One that needs a person, or that turns out to wait for one, is left for a
task of its own, so that its question is asked and answered like any other; what depends on it is left, too. A call that
must not be done twice waits until the plan is complete and kept, where the run is stored so that this can be held to:
after a crash in between, the planner might write another plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langgraph.errors import GraphBubbleUp

from taograph.beside import Mailbox, Outcome, Receive, Start
from taograph.calls import Cancelled, Steps
from taograph.checkpoints.ledger import ledger_of
from taograph.graphs.loop.acting import act_input, carried_out, own, told
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.internals import Listener, place_of, saver_of, storable
from taograph.graphs.loop.stage import Stage
from taograph.graphs.loop.state import ActInput
from taograph.graphs.loop.stopping import Stop, StopReason
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.loop.waves import told as progress
from taograph.graphs.parts.joining import BROKEN_OFF, UNREADABLE
from taograph.graphs.parts.planned import (
    Parameters,
    Plan,
    Planned,
    Result,
    call_ids,
    call_of,
    is_settled,
    linked,
    placed,
    result_of,
    results_of,
)
from taograph.graphs.parts.references import TASK
from taograph.graphs.parts.tasks import PlanReader
from taograph.graphs.protocols.native import read_reply, text_of
from taograph.tools.outcome import ToolRun
from taograph.tools.policy import policy_of

_PLANNER = "the planner"


def fetched(here: Stage, request: Sequence[AnyMessage], before: Plan, parameters: Parameters) -> Steps[Fetching]:
    """Plan and make the calls; a reply that is no plan is asked for again, ``limits.malformed`` times.

    Args:
        here: The stage.
        request: What the planner is asked.
        before: The plans before.
        parameters: What the tools take that it may name.

    Raises:
        Ended: No reply was a plan.
    """
    talk, left = list(request), here.session.limits.malformed
    while True:
        made = Fetching(here, before, parameters)
        yield from made.carry_out(talk)
        if made.stop is not None or made.tasks or made.reader.joined or made.reply is None:
            return made
        said = text_of(made.reply)
        problem = "there is no call and no join() in it." if said else "it is empty."
        if not left or not here.has_turn():
            reason: StopReason = "malformed_output" if said else "empty_output"
            raise Ended(here.stop(reason, f"the reply is no plan: {problem}"))
        left -= 1
        here.session.teller.tell("retry", reason="malformed_output", detail=problem)
        again = feedback(UNREADABLE.format(problem=problem), "malformed_output")
        talk = [*request, *([AIMessage(said)] if said else []), again]


class _Begins:
    """The planner begins to write, perhaps once more."""


class Fetching:
    """The calls of a plan, from the first word of it to the last result.

    Args:
        here: The stage.
        before: The plans before, whose results it may refer to.
        parameters: What the tools take that it may name.

    Attributes:
        tasks: Its calls, in the order in which they were written.
        reply: The planner's reply, when it is complete.
        reader: What has read it.
        stop: Why the run ends, where it does.
    """

    def __init__(self, here: Stage, before: Plan, parameters: Parameters) -> None:
        self.here, self.reader = here, PlanReader(parameters)
        self.tasks: list[Planned] = []
        self.reply: AIMessage | None = None
        self.stop: Stop | None = None
        self._before, self._round, self._parameters = before["tasks"], before["round"] + 1, parameters
        self._known: dict[int, list[Planned]] = {}
        self._past: list[Planned] = []
        self._taken = call_ids(here.history)
        self._results: dict[str, Result] = dict(results_of(before["tasks"], here.history))
        self._running: dict[str, ToolCall] = {}
        self._runs: dict[str, tuple[ToolCall, ToolRun]] = {}
        self._held: set[str] = set()
        self._shown: Any = None
        config = here.session.config
        self._most = config.get("max_concurrency")
        self._is_kept = place_of(config) is not None and ledger_of(saver_of(config)) is not None

    def carry_out(self, request: Sequence[AnyMessage]) -> Steps[None]:
        """Ask for the plan and make its calls, until there is none left that can be made here.

        Args:
            request: What the planner is asked.
        """
        box, asking, cut = Mailbox(), True, False
        listener = Listener(lambda: box.put(_Begins()), box.put)
        yield Start(self.here.ask(request, watch=listener), box, _PLANNER)
        while asking or self._running:
            try:
                event = yield Receive(box, certain=cut)  # what runs ends by itself then, with what it has
            except Cancelled as cancelled:
                cut, self.stop = True, self.here.stop("cancelled", cancelled.reason)
                continue
            if isinstance(event, _Begins):
                self._begin()
            elif isinstance(event, str):
                self._add(self.reader.feed(event))
            elif event.key == _PLANNER:
                asking = False
                self._planned(event)
            else:
                self._ended(event)
            yield from self._start(box)
            self._tell()

    def write(self) -> None:
        """Write what was called and what came of it as one reply of the model and its results."""
        here = self.here
        gone = [task for task in self._past if task["call"] in self._runs and task not in self.tasks]
        done = [task for task in [*gone, *self.tasks] if task["call"] in self._runs]
        if done:
            self._write(done)
        cut = self.reply is not None and read_reply(self.reply, ()).kind == "cut"
        if (cut and not self.reader.joined) or self.reader.left_out:
            here.send_back(BROKEN_OFF, "cut")

    def _write(self, done: Sequence[Planned]) -> None:
        here, config = self.here, self.here.session.config
        runs = [self._runs[task["call"]] for task in done]
        thought = "\n".join(dict.fromkeys(task["plan"] for task in done if task["plan"]))
        message = AIMessage(thought, tool_calls=[call for call, _ in runs])
        here.session.messages += [message, *(storable(run.message, config) for _, run in runs if not run.told)]
        here.commands += [own(command) for _, run in runs for command in run.commands]
        here.called([call for call, run in runs if run.ran])
        here.tell_thought(message)

    def _begin(self) -> None:
        """The plan is read from its first word; what was read of it before counts where it is written again."""
        self.reader = PlanReader(self._parameters)
        self._past += [task for task in self.tasks if task not in self._past]
        self.tasks, self._known = [], {}

    def _add(self, tasks: Iterable[Planned]) -> None:
        for task in tasks:
            twins = [one for one in self._past if one not in self.tasks and _says_the_same(one, task)]
            made = self._linked(task, twins[0]["call"]) if twins else None
            if made is None or made not in twins:  # what it needs is another call now
                made = self._linked(task, None)
            self._known.setdefault(made["id"], []).append(made)
            self.tasks.append(made)

    def _linked(self, task: Planned, call: str | None) -> Planned:
        if call is None:
            made = placed(task, "t", self._round, self._taken)
            self._taken.add(made["call"])
        else:
            made = Planned(**{**task, "call": call, "round": self._round})
        known = {**self._known, made["id"]: [*self._known.get(made["id"], ()), made]}
        return linked(made, known, self._before, TASK, self._parameters)

    def _planned(self, outcome: Outcome) -> None:
        if isinstance(outcome.error, Ended):
            self.stop = self.stop or outcome.error.stop
            return
        if outcome.error is not None:
            raise outcome.error
        self.reply = outcome.result
        reply = read_reply(outcome.result, ())
        if reply.kind == "refusal":
            said = reply.text[:200] or "no words were given"
            self.stop = self.here.stop("refusal", f"the model refused: {said}")
            return
        self._begin()
        self._add(self.reader.feed(text_of(outcome.result)))
        self._add(self.reader.end())

    def _ended(self, outcome: Outcome) -> None:
        call = self._running.pop(outcome.key)
        if isinstance(outcome.error, GraphBubbleUp):
            self._held.add(outcome.key)
        elif outcome.error is not None:
            raise outcome.error
        else:
            self._record(call, outcome.result)

    def _record(self, call: ToolCall, run: ToolRun) -> None:
        self._runs[call["id"] or ""] = (call, run)
        self._results[call["id"] or ""] = result_of(run.message)
        self.here.session.added["tool_calls"] += int(run.ran)

    def _start(self, box: Mailbox) -> Steps[None]:
        """Begin each call that can be made now."""
        again = True
        while again:
            again = False
            for task in self.tasks:
                id = task["call"]
                if id in self._results or id in self._running or id in self._held:
                    continue
                if not is_settled(task, self._results):
                    continue
                call, refused = call_of(task, self._results, TASK, self._parameters)
                if refused:
                    again = True  # what needs it is clear now, too
                    self._record(call, (yield from self._carried_out(call, refused)))
                elif self._may_start(call):
                    self.here.sends()
                    self._running[id] = call
                    yield Start(self._carried_out(call, None), box, id)

    def _carried_out(self, call: ToolCall, refused: str | None) -> Steps[ToolRun]:
        here = self.here
        task = ActInput(**{**act_input(call, here.session.run), "refused": refused})
        teller = here.session.teller
        return (yield from told(teller, call, carried_out(here.agent, task, here.session.config, teller)))

    def _may_start(self, call: ToolCall) -> bool:
        if self.stop is not None or (self._most is not None and len(self._running) >= self._most):
            return False
        here, name = self.here, call["name"]
        if name in here.agent.approvals.names:
            self._held.add(call["id"] or "")
            return False
        if self.reply is None and self._is_kept and policy_of(here.agent.by_name[name]).effects == "once":
            return False
        wanted = len(self._running) + 1
        try:
            if here.calls_left(wanted) < wanted:
                made = here.session.spent["tool_calls"] + wanted - 1
                raise Ended(here.stop("tool_call_limit", f"{made} tool calls made, and no more are allowed"))
        except Ended as end:
            self.stop = end.stop
            return False
        return True

    def _tell(self) -> None:
        plan = progress(self.tasks, self._results, TASK, self._running)
        if plan and plan != self._shown:
            self._shown = plan
            self.here.session.teller.tell("plan", plan=plan)


def _says_the_same(one: Planned, other: Planned) -> bool:
    return all(one[key] == other[key] for key in ("id", "tool", "input"))

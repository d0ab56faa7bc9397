"""A node that takes part in a run: its session, the checks before a model is paid, and what it writes.

``reason`` of the ReAct loop is one, and so is each node of another strategy that asks the model: it begins a run or
goes on with it, ends it where a limit says so, and never lets a run end without a stop and an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Overwrite

from taograph.calls import Steps
from taograph.cancel import current_cancellation
from taograph.graphs.loop.agent import Agent, Bound
from taograph.graphs.loop.asking import Asker, Ended
from taograph.graphs.loop.beginning import goes_on, new_turn
from taograph.graphs.loop.calling import bind
from taograph.graphs.loop.clock import DEADLINES
from taograph.graphs.loop.effects import left_open
from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.finishing import closing_of, conclude
from taograph.graphs.loop.history import keep_history, taken_history
from taograph.graphs.loop.internals import invocation_of, saver_of
from taograph.graphs.loop.repair import close_calls, open_calls, repair
from taograph.graphs.loop.session import Session
from taograph.graphs.loop.state import Child, State
from taograph.graphs.loop.stopping import BUDGETS, RULES, Progress, Rule, Stop, decide, tail_needed
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.loop.verifying import Objection, objection
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import thought_of
from taograph.tools.running import check_arguments

# What is asked about an answer may send a run on so often; then the answer stands, and the result says so.
OBJECTIONS = 2


Body = Callable[["Stage", Any], Steps[dict[str, Any]]]


def stage(
    agent: Agent,
    body: Body,
    *,
    after: int = 1,
    checked: bool = True,
    spends: bool = False,
    fresh: Mapping[str, Any] | None = None,
) -> Callable[[Any, RunnableConfig], Steps[dict[str, Any]]]:
    """The core of a strategy's node that asks the model, or decides what comes next.

    Args:
        agent: What the strategy is made of.
        body: What it does: is given the stage and the state, and returns what it writes to the strategy's own
            channels, or ``stop`` and ``answer``. It may raise :class:`Ended`.
        after: Supersteps that the graph takes until the next stage: 1, or 2 where tasks are fanned out between.
        checked: Whether the limits are looked at before the body. Where what was done before may be the answer
            already, the body looks for it first and calls :meth:`Stage.begin` where the run goes on.
        spends: Whether sub-runs follow that ask the model: then the limits are looked at after the body, too, where
            it has asked. What it writes to the strategy's own channels stands.
        fresh: What the strategy's own channels hold when a run begins, also where it ends at once.
    """

    def core(state: Any, config: RunnableConfig) -> Steps[Any]:
        here = Stage(agent, state, config, *(yield from opened(agent, state, config)))
        if here.is_over:
            return {}
        update: dict[str, Any] = {}
        try:
            if checked:
                here.begin()
            update = yield from body(here, state)
            if spends and here.session.asked and update.get("stop") is None:
                here.check()
        except Ended as end:
            update = {**update, "stop": end.stop}
        if update.get("stop") is None and here.room < after + 1:
            update["stop"] = here.stop("step_limit", here.recursion_detail())
        if fresh and here.is_new:
            update = {**fresh, **update}
        written = yield from here.close(update.pop("stop", None), update.pop("answer", None), update)
        return [written, *here.commands] if here.commands else written

    return core


def opened(agent: Agent, state: Any, config: RunnableConfig) -> Steps[tuple[Bound, Mapping[str, ToolMessage]]]:
    """The model of a run with the tools, and what is known of calls that were left open, by their ids.

    Raises:
        ValueError: The recursion limit is too small for a run; or the input cannot be used. Nothing was paid.
    """
    if state["remaining_steps"] < 1:
        raise ValueError(
            f"recursion_limit={config.get('recursion_limit')} is too small: a run takes 2 at least. "
            "Leave it out (limits.steps bounds the run) or set it higher; the model was not asked"
        )
    bound = yield from bind(agent, config)
    known = yield from left_open(state.get("messages") or [], state.get("run"), agent.by_name, config)
    return bound, known


class Stage(Asker):
    """One node's part in a run.

    Args:
        agent: What the run is made of.
        state: The channels.
        config: Of the node.
        bound: The model with the tools.
        known: What is known of calls that were left open, by their ids.

    Attributes:
        session: The run as this node sees it.
        history: The messages of the thread, acceptable to any provider.
        read: What is known of them.
        room: Supersteps that are left after this one.
        goes_on: Whether a run that a limit ended goes on here, with a higher one.
        children: The sub-runs of the run that ended since the stage before this one.
        commands: What tools that were called here ask of the graph, beside what the node writes.
    """

    def __init__(
        self, agent: Agent, state: State, config: RunnableConfig, bound: Bound, known: Mapping[str, ToolMessage]
    ) -> None:
        self.agent = agent
        self.state = state
        self.room = state["remaining_steps"]
        history = state.get("messages") or []
        before: Any = state.get("run")
        read = taken_history(config, before and before["id"], agent.by_name)
        read.read(history)
        asked = None if read.turn is None else history[read.turn]
        self.goes_on = goes_on(state, asked)
        begun = None if self.goes_on else new_turn(state, asked)
        self.session = Session.open(agent, state, config, bound, new_turn=begun)
        self.children = self._counted()
        self.commands: list[Command[Any]] = []
        if self.goes_on:
            self.session.run["done"] = False
            closing = closing_of(history)
            self.session.removed = [message.id for message in closing if message.id]
            history = history[: len(history) - len(closing)]
            read.read(history)
        self.history: Sequence[AnyMessage] = history
        if not read.sound:
            # Stored too: what comes out of the run has to be acceptable, whatever went in.
            self.history = repair(history, agent.by_name, known)
            read.read(self.history)
            self.session.messages += self.history
            self.session.replaces = True
            self.session.teller.tell("retry", reason="repair", detail="the history was made acceptable to providers")
        self.read = read
        self.session.composed = read.composed
        self._stored = len(self.session.messages)

    @property
    def is_new(self) -> bool:
        """Whether the run begins here."""
        return self.session.is_new

    @property
    def is_over(self) -> bool:
        """Whether a stage before this one has ended the run."""
        return not self.is_new and not self.goes_on and self.state.get("stop") is not None

    @property
    def conversation(self) -> list[AnyMessage]:
        """The history with what this node added."""
        return [*self.history, *self.session.messages[self._stored :]]

    @property
    def question(self) -> str:
        """What the user asked."""
        return self.read.question

    def _counted(self) -> list[Child]:
        """The sub-runs that ended since the last stage; their steps are steps of the run."""
        known: list[Child] = [] if self.is_new else cast(Any, self.state).get("children") or []
        run = self.session.run
        fresh = known[run.get("children", 0) :]
        if fresh:
            run["children"] = len(known)
            run["steps"] += sum(child["stop"]["step"] for child in fresh)
            self.session.teller.step = run["steps"]
            run["called"] = sorted({*run["called"], *(name for child in fresh for name in child["called"])})
        return fresh

    def turn(self) -> None:
        """A step begins, as :class:`Asker` has it; what was asked before in this node may have used a limit up.

        Raises:
            Ended: As :meth:`Asker.turn`; or a limit says so.
        """
        if self.session.asked:
            self.check()
        super().turn()

    def check(self) -> None:
        """End the run where what was asked in this node has used a limit up.

        Raises:
            Ended: It has.
        """
        stop = decide(self.progress(), BUDGETS)
        if stop is not None:
            raise Ended(stop)

    def begin(self) -> None:
        """Tell that a run begins, and end it where it is over before a model is asked.

        Raises:
            Ended: It was cancelled, or a limit says so.
            ValueError: It could not wait for a person, or was ended by a limit that is still the same.
        """
        self.start()
        stop = self.over(BUDGETS)
        for child in self.children:
            if child["shared"] or child["stop"]["reason"] == "cancelled":
                self._expect(child["spent"])
                stop = stop or self.stop(child["stop"]["reason"], f"{child['name']}: {child['stop']['detail']}")
        if stop is not None:
            raise Ended(stop)

    def _expect(self, spent: Spent) -> None:
        """A closing answer is expected to take no less than a turn of the sub-run that was cut: it is sent the same."""
        run, calls = self.session.run, max(spent["model_calls"], 1)
        run["turn_tokens"] = max(run["turn_tokens"], (spent["input_tokens"] + spent["output_tokens"]) // calls)
        run["turn_cost"] = max(run["turn_cost"], spent["cost"] / calls)

    def start(self) -> None:
        """Tell that a run begins.

        Raises:
            ValueError: It has to wait for a person and cannot be stored.
        """
        session = self.session
        if not session.is_new:
            return
        if self.agent.approvals and saver_of(session.config) is None:
            raise ValueError(
                "approve: a run that waits for a person has to be stored, and there is no checkpointer. Give one "
                "(checkpointer=, see taograph.checkpoints.open) and a thread_id; the model was not asked"
            )
        session.teller.set_up(session.setup)
        session.teller.tell(
            "run_started",
            question=self.question,
            limits=session.limits.to_dict(),
            tools=list(self.agent.by_name),
            model=session.bound.name,
            protocol=session.bound.protocol,
            protocol_reason=session.bound.why,
        )

    def over(self, rules: Sequence[Rule] = RULES) -> Stop | None:
        """Why the run is over, by its limits and its cancellation; None if it is not.

        Args:
            rules: Those of the stop policy that are asked.

        Raises:
            ValueError: It goes on, and the limit that ended it is still the same.
        """
        cancel = current_cancellation()
        if cancel is not None and cancel.reason is not None:
            return self.stop("cancelled", cancel.reason)
        stop = decide(self.progress(), rules) if rules else None
        if stop is None and self.goes_on:
            stop = self._no_calls()
        if stop is not None and self.goes_on:
            raise ValueError(
                f"the run ended with {stop['reason']} ({stop['detail']}), and the limit is the same: raise it to go "
                "on, as in context=Context(steps=30), or ask something new; the model was not asked"
            )
        return stop

    def _no_calls(self) -> Stop | None:
        """The stop of a run that tool calls ended, where there are still none left."""
        before, limit = self.state["stop"], self.session.limits.tool_calls
        ended = before is not None and before["reason"] == "tool_call_limit"
        return before if ended and limit is not None and self.session.spent["tool_calls"] >= limit else None

    def objection_to(self, answer: str, *, again: bool = True) -> Steps[Objection]:
        """What stands against an answer: a required tool that was not called, or what ``verify`` says.

        Args:
            answer: The answer.
            again: Whether the strategy could try once more; where it cannot, the answer stands with a note.
        """
        run = self.session.run
        again = again and self.has_turn()
        missing = [name for name in self.agent.require if name not in run["called"]]
        if missing and not run["reminded"] and again:
            run["reminded"] = True
            return self._objects(prompts.missing_tools(missing), "required_tool")
        notes = [f"{name} was required and was not called" for name in missing]
        if self.agent.verify is not None:
            found = yield from objection(self.session, self.agent.verify, answer, self.conversation)
            if found.text and run["objections"] < OBJECTIONS and again:
                run["objections"] += 1
                return self._objects(prompts.OBJECTION.format(objection=found.text), "verify")
            notes += [note for note in (found.note, found.text and f"verify still objects: {found.text}") if note]
        return Objection(notes=tuple(notes))

    def answered(self, said: AIMessage, how: str = "the model answered") -> Steps[dict[str, Any]]:
        """Give the model's answer; where something stands against it, the model is told.

        Args:
            said: The answer, as it is stored.
            how: How it came about, for the stop's detail.

        Returns:
            What ends the run; nothing where it goes on.
        """
        self.session.messages.append(said)
        self.tell_thought(said)
        answer = str(said.text)
        found = yield from self.objection_to(answer)
        if found.text:
            self.session.messages.append(feedback(found.text, found.kind))
            return {}
        return {"stop": self.stop("final", "; ".join([how, *found.notes])), "answer": answer}

    def _objects(self, text: str, kind: str) -> Objection:
        self.session.teller.tell("retry", reason=kind, detail=text)
        return Objection(text, kind)

    def close(
        self, stop: Stop | None, answer: str | None, own: Mapping[str, Any] | None = None
    ) -> Steps[dict[str, Any]]:
        """What the node writes; the run is concluded here where no superstep is left for ``finish``.

        Args:
            stop: Why the run ends; None where it goes on.
            answer: The model's own answer.
            own: What is written to other channels.
        """
        session = self.session
        update: dict[str, Any] = {"stop": stop, **(own or {})}
        if session.is_new or self.goes_on:
            update["answer"] = ""
            if self.state.get("structured") is not None:
                update["structured"] = None
            if self.is_new and cast(Any, self.state).get("children"):
                update["children"] = Overwrite([])
        if stop is not None:
            DEADLINES.forget(session.run["id"])
            self.close_calls(prompts.NOT_RUN.format(why=stop["detail"]))
            if self.room < 2 or (answer is not None and self.agent.structure is None):
                update |= yield from conclude(session, self.conversation, stop, answer)
            elif answer is not None:
                update["answer"] = answer
        else:
            keep_history(session.config, session.run["id"], self.read)
        return {**session.update(self.state), **update}

    def close_calls(self, why: str) -> None:
        """Give a result to every call of the last reply that has none."""
        self.session.messages += close_calls(open_calls(self.conversation), why)

    def calls_left(self, wanted: int) -> int:
        """How many tool calls may be made, where so many are wanted.

        Raises:
            Ended: None may.
        """
        session = self.session
        limit, made = session.limits.tool_calls, session.spent["tool_calls"]
        if limit is None:
            return wanted
        if session.grant is not None:  # another part of the run may have taken some meanwhile
            limit = min(limit, session.grant.claim("tool_calls", made + wanted))
        if limit - made <= 0:
            raise Ended(self.stop("tool_call_limit", f"{made} of {limit} tool calls made"))
        return limit - made

    def called(self, calls: Sequence[ToolCall]) -> None:
        """Tool calls are made; one that does not reach its tool has not called it."""
        tools, run = self.agent.by_name, self.session.run
        reach = [c["name"] for c in calls if c["name"] in tools and not check_arguments(tools[c["name"]], c["args"])]
        run["called"] = sorted({*run["called"], *reach})

    def sends(self) -> None:
        """The calls of this node are sent now: their time counts from here."""
        session, run = self.session, self.session.run
        run["left"] = session.seconds_left()
        DEADLINES.set(run["id"], run["steps"], within=invocation_of(session.config))

    def has_turn(self) -> bool:
        """Whether another turn of the model would be allowed after this one."""
        return super().has_turn() and self.room >= 2

    def recursion_detail(self) -> str:
        """Why a run stops whose supersteps are used up."""
        limit = self.session.config.get("recursion_limit")
        return f"recursion_limit={limit} leaves no room for another step after {self.session.run['steps']}"

    def send_back(self, text: str, kind: str, detail: str = "") -> None:
        """Tell the model something in the loop's own name."""
        self.session.messages.append(feedback(text, kind))
        self.session.teller.tell("retry", reason=kind, detail=detail or text)

    def tell_thought(self, message: AIMessage) -> None:
        """Tell the thought of a reply, if it has one."""
        thought = thought_of(message)
        if thought:
            self.session.teller.tell("thought", text=thought)

    def progress(self) -> Progress:
        """The run as the stop policy looks at it."""
        session, run = self.session, self.session.run
        return Progress(
            trajectory=self.read.trajectory(tail_needed(session.limits)),
            limits=session.limits,
            spent=session.spent,
            steps=run["steps"],
            turn_tokens=run["turn_tokens"],
            turn_cost=run["turn_cost"],
            nudged=run["nudged"],
        )

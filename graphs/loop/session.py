"""One node's view of a run: its settings, its time, its model calls and its events."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from taograph.calls import Cancelled, Pause, Steps, TimedOut
from taograph.cancel import current_cancellation
from taograph.graphs.loop.agent import Agent, Bound, check_prices
from taograph.graphs.loop.allowance import LEAST, Allowance, Grant, Used, grant_of
from taograph.graphs.loop.calling import model_call
from taograph.graphs.loop.clock import ELAPSED, Clock, active_seconds, new_clock
from taograph.graphs.loop.context import kept_in, limits_in, read_context, with_context
from taograph.graphs.loop.effects import PaidReply, as_ai
from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.fitting import Fitter, check_window
from taograph.graphs.loop.internals import runtime_of
from taograph.graphs.loop.interrupts import task_of
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.origin import setup_of
from taograph.graphs.loop.speaking import Spoken
from taograph.graphs.loop.state import NOTHING, Bookkeeping, State
from taograph.graphs.loop.telling import Teller
from taograph.graphs.loop.window import Plan
from taograph.graphs.protocols import prompts
from taograph.models.failures import (
    describe,
    is_overflow,
    is_retryable,
    refuses_tools,
    retry_after,
    secrets_of,
)
from taograph.models.prices import Price
from taograph.models.streamed import StreamedCalls
from taograph.models.usage import usage_of

_PLAN_AGAIN = 25
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class GaveUp(Exception):  # noqa: N818 - a signal within the loop
    """The model call failed for good; ``error`` is why, and ``words`` says it without secrets."""

    def __init__(self, error: Exception, words: str) -> None:
        super().__init__(words)
        self.error = error
        self.words = words


@dataclass
class Session:
    """A run as ``reason`` and ``finish`` see it while they work.

    Attributes:
        agent: What the loop is made of.
        config: The node's config.
        bound: The model with the tools.
        limits: The limits of this run.
        prompt: The system prompt that was given for this run.
        run: The bookkeeping, changed in place and stored at the end.
        before: What was spent when the node began; for a new run, nothing.
        is_new: Whether the run begins here.
        plan: What requests show of the history, when the node began.
        added: What this node spent so far.
        asked: How often it has asked a model.
        messages: New messages, in order; all messages where it replaces the history.
        replaces: Whether it does.
        removed: Ids of messages that are to go.
        grant: What a parent lets it use, where it is a sub-run.
        narrowed: Names of the limits that are the parent's.
        beside: Whether other tasks of its superstep ask the model, too.
        composed: Whether an answer in the history may have been put together by the loop.
    """

    agent: Agent
    config: RunnableConfig
    bound: Bound
    limits: Limits
    prompt: str | None
    run: Bookkeeping
    before: Spent
    is_new: bool
    elapsed_before: float
    teller: Teller
    plan: Plan
    added: Spent = field(default_factory=NOTHING.copy)
    asked: int = 0
    messages: list[AnyMessage] = field(default_factory=list)
    replaces: bool = False
    removed: list[str] = field(default_factory=list)
    grant: Grant | None = None
    narrowed: frozenset[str] = frozenset()
    beside: bool = False
    composed: bool = True
    started: float = field(default_factory=time.time)
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, agent: Agent, state: State, config: RunnableConfig, bound: Bound, *, new_turn: str | None) -> Session:
        """Look at a run from a node.

        Args:
            agent: What the loop is made of.
            state: The channels.
            config: The node's config.
            bound: The model with the tools, as :func:`bind` gives it.
            new_turn: Id of the user's message where a new run begins, else None.

        Raises:
            ValueError: A setting is out of its range; nothing was paid yet.
        """
        if new_turn is not None:
            run = _new_run(new_turn, bound.protocol, config)
            held: Any = state.get("run")
            if held and "gauge" in held:  # the window is what it was in the run before
                run["gauge"] = held["gauge"]
        else:
            run = Bookkeeping(**state["run"])
            if run.get("protocol") == "text" != bound.protocol:  # learned in another process
                bound = agent.in_text(bound, "the run was in the text protocol before")
            run["protocol"] = bound.protocol
        # A run that goes on keeps its limits, also where whoever resumes it sets none.
        settings = {**run["limits"], **read_context(runtime_of(config).context)}
        grant, narrowed = grant_of(config), frozenset[str]()
        elapsed = 0.0 if new_turn is not None else active_seconds(state.get("clock"))
        if grant is None:
            limits = with_context(agent.limits, settings)
        else:  # what a run's context says of limits is said to its parent
            settings = {name: value for name, value in settings.items() if name not in limits_in(settings)}
            limits, narrowed = grant.narrow(agent.limits, elapsed)
            _expect(run, limits, narrowed)
        check_prices(agent, bound, limits)
        check_window(settings.get("window"))
        run["limits"] = kept_in(settings)
        return cls(
            agent=agent,
            config=config,
            bound=bound,
            limits=limits,
            prompt=settings.get("system_prompt", agent.system_prompt),
            run=run,
            before=NOTHING if new_turn is not None else state["spent"],
            is_new=new_turn is not None,
            elapsed_before=elapsed,
            teller=Teller(config, run["id"], run["steps"]),
            plan=state.get("window") or Plan(),
            grant=grant,
            narrowed=narrowed,
        )

    def __post_init__(self) -> None:
        self.fitter = Fitter(self, self.plan)

    @property
    def system(self) -> str | None:
        """The system prompt; the text protocol's own instructions say beside it that there are no thoughts."""
        if self.agent.thoughts or not self.agent.tools or self.bound.protocol == "text":
            return self.prompt
        return f"{self.prompt}\n\n{prompts.ONLY_ACT}" if self.prompt else prompts.ONLY_ACT

    def setup(self) -> dict[str, Any]:
        """What the run is made of, for its record."""
        return setup_of(self.agent, self.bound)

    @property
    def seconds(self) -> float:
        """Active time of the run, up to now."""
        told = ELAPSED.get()
        return told(self) if told is not None else self.elapsed_before + time.monotonic() - self._began

    @property
    def spent(self) -> Spent:
        """What the run has used, up to now."""
        before, added = self.before, self.added
        return {  # asked for several times a step, so written out
            "model_calls": before["model_calls"] + added["model_calls"],
            "tool_calls": before["tool_calls"] + added["tool_calls"],
            "input_tokens": before["input_tokens"] + added["input_tokens"],
            "output_tokens": before["output_tokens"] + added["output_tokens"],
            "cached_tokens": before["cached_tokens"] + added["cached_tokens"],
            "cost": before["cost"] + added["cost"],
            "seconds": round(self.seconds, 6),
        }

    def seconds_left(self, reserve: float = 0.0) -> float | None:
        """Active time that is left, with so much of the reserve; None for no limit."""
        return None if self.limits.seconds is None else self.limits.seconds + reserve - self.seconds

    def allowance(self) -> Allowance:
        """What is left now, for sub-runs."""
        limits, used = self.limits, Used.of(self.spent, self.run["steps"])
        left = {name: getattr(limits, name) for name in ("steps", "tool_calls", "tokens", "cost")}
        rest = {name: None if most is None else most - getattr(used, name) for name, most in left.items()}
        return Allowance({**rest, "seconds": self.seconds_left()}, self.grant, used)

    def update(self, state: State) -> dict[str, Any]:
        """What the node writes: messages, bookkeeping, what it spent and the time it took."""
        spent = self.spent
        if self.grant is not None:
            self.grant.report(Used.of(spent, self.run["steps"]))
        stored: Any = state["spent"]
        held = stored or NOTHING  # the channel of a new thread is empty
        end = self.started + time.monotonic() - self._began
        clock = new_clock(self.started, end) if self.is_new else Clock(seconds=0.0, start=self.started, end=end)
        # Sums are stored as differences: a new run takes back what the one before it left.
        change = {key: spent[key] - held[key] for key in NOTHING}  # type: ignore[literal-required]
        gone = [REMOVE_ALL_MESSAGES] if self.replaces else self.removed
        messages: list[Any] = [*map(RemoveMessage, gone), *self.messages]
        update = {"messages": messages, "run": self.run, "spent": change, "clock": clock}
        plan = self.fitter.plan
        # A plan that stands is written again now and then: what is read back starts from where it was written last.
        if self.fitter.changed or (plan and self.run["steps"] % _PLAN_AGAIN == 0):
            update["window"] = plan
        return update

    def fall_back(self, failure: GaveUp) -> bool:
        """Go on in the text protocol where the endpoint refuses tools and the caller leaves it open.

        Returns:
            Whether it does; then the model has to be asked again. If that works, see :meth:`keep_to_text`.
        """
        if self.bound.protocol == "text" or self.agent.protocol != "auto" or not self.agent.tools:
            return False
        if not refuses_tools(failure.error):
            return False
        why = f"the endpoint refuses tools: {failure.words}"
        self.bound = self.agent.in_text(self.bound, why)
        self.teller.tell("retry", reason="protocol", detail=f"going on in the text protocol: {why}")
        return True

    def keep_to_text(self) -> None:
        """Stay with the text protocol, in this run and in later ones: an endpoint that takes neither learns nothing."""
        self.run["protocol"] = "text"
        self.agent.remember(self.bound)

    def budget(self) -> None:
        """Tell what was spent."""
        self.teller.tell("budget", steps=self.run["steps"], limits=self.limits.to_dict(), spent=self.spent)

    def ask_to_fit(
        self, model: Runnable[Any, Any], conversation: Sequence[AnyMessage], **options: Any
    ) -> Steps[AIMessage]:
        """Call a model on as much of the conversation as fits its window; once more with less where it is too long.

        Args:
            model: The model, with or without tools.
            conversation: The messages of the run.
            **options: As :meth:`ask`, which also says what is raised.
        """
        fitter = self.fitter
        request = yield from fitter.request(model, conversation)
        try:
            reply = yield from self.ask(model, request, **options)
        except GaveUp as failure:
            if not is_overflow(failure.error):
                raise
            fitter.refused(failure.error, model, conversation)
            self.teller.tell("retry", reason="context_overflow", detail=f"asked again with less: {failure.words}")
            request = yield from fitter.request(model, conversation)
            reply = yield from self.ask(model, request, **options)
        fitter.measured(reply)
        return reply

    def ask(
        self,
        model: Runnable[Any, Any],
        request: Sequence[AnyMessage],
        *,
        reserve: float = 0.0,
        quiet: bool = False,
        price: Price | None = None,
        watch: BaseCallbackHandler | None = None,
    ) -> Steps[AIMessage]:
        """Call a model; retry what can pass, within the time.

        Args:
            model: The model, with or without tools.
            request: The messages.
            reserve: Seconds beyond the run's limit that the call may use.
            quiet: Keep its tokens out of the streams: they are not part of the run's text.
            price: Its price, where it is not the run's own model.
            watch: Is told how the reply comes; where it was paid for before a crash, only :meth:`ask` knows it.

        Raises:
            GaveUp: It failed for good.
            TimedOut: The time was over.
            Cancelled: The run was cancelled.
        """
        self.asked += 1
        paid = PaidReply(self.config, self.asked, request)
        reply = yield from paid.recall()
        if reply is not None:
            self.added["model_calls"] += 1
        else:
            config = self.config
            if quiet:
                config = {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}
            reply = yield from self._retried(model, request, config, reserve, watch, paid=paid)
            # Who watches may have acted on the reply before it was complete: what came of that is not stored yet.
            yield from paid.keep(reply, only=watch is None and not self.beside)
        self._count(model, request, reply, price)
        return reply

    def _retried(
        self,
        model: Runnable[Any, Any],
        request: Sequence[AnyMessage],
        config: RunnableConfig,
        reserve: float,
        watch: BaseCallbackHandler | None,
        *,
        paid: PaidReply,
    ) -> Steps[AIMessage]:
        attempt = 0
        while True:
            left = self.seconds_left(reserve)
            cancel = current_cancellation()
            if left is None or left > 0:  # else the call is refused before it is made
                self.added["model_calls"] += 0 if cancel is not None and cancel.requested else 1
            streamed = StreamedCalls()
            callbacks = streamed.beside(config.get("callbacks"), watch)
            try:
                arrived = paid.arrived(streamed)
                reply = yield model_call(model, request, {**config, "callbacks": callbacks}, left, arrived)
            except (Cancelled, TimedOut):
                raise
            except GraphBubbleUp:
                raise
            except Exception as error:
                if getattr(
                    error, "taograph_fatal", False
                ):  # a replay that does not cover the run must not look like one
                    raise
                words = describe(error, secrets_of(getattr(model, "bound", model)))
                if attempt >= self.limits.model_retries or not is_retryable(error):
                    raise GaveUp(error, words) from error
                pause = retry_after(error)
                if pause is None:
                    pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)  # noqa: S311
                left = self.seconds_left(reserve)
                if left is not None and pause >= left:
                    raise GaveUp(error, words) from error
                attempt += 1
                self.teller.tell("retry", reason="model_error", detail=words)
                yield Pause(pause)
            else:
                return streamed.checked(as_ai(reply))

    def _count(
        self, model: Runnable[Any, Any], request: Sequence[AnyMessage], reply: AIMessage, price: Price | None
    ) -> None:
        tools = getattr(model, "kwargs", {}).get("tools") or ()
        usage = usage_of(request, reply, price or self.bound.price, tools)
        self.added["input_tokens"] += usage.input_tokens
        self.added["output_tokens"] += usage.output_tokens
        self.added["cached_tokens"] += usage.cached_tokens
        self.added["cost"] += usage.cost


def _expect(run: Bookkeeping, limits: Limits, narrowed: frozenset[str]) -> None:
    """A sub-run that nothing is left for is not to take even a first turn, whose size nobody knows."""
    if "tokens" in narrowed and limits.tokens is not None and limits.tokens <= LEAST["tokens"]:
        run["turn_tokens"] = max(run["turn_tokens"], limits.tokens)
    if "cost" in narrowed and limits.cost is not None and limits.cost <= LEAST["cost"]:
        run["turn_cost"] = max(run["turn_cost"], limits.cost)


def _new_run(turn: str, protocol: Spoken, config: RunnableConfig) -> Bookkeeping:
    # The same when the first turn is done again after a crash: the ledger knows its calls by it.
    task = task_of(config)
    return Bookkeeping(
        id=uuid5(NAMESPACE_OID, task).hex if task else uuid4().hex,
        turn=turn,
        protocol=protocol,
        limits={},
        steps=0,
        unusable=0,
        nudged=False,
        objections=0,
        reminded=False,
        called=[],
        refused={},
        turn_tokens=0,
        turn_cost=0.0,
        left=None,
        done=False,
    )

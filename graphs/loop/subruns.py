"""A graph as a part of a run: it draws on what the run has left, and what it did is told with the run.

A node that runs another of our graphs, or asks the model beside other tasks of the same superstep, is a
:class:`Branch`. It does nothing else: where it waits for a person or is done again after a crash, it begins anew, and
only the graph within it goes on from where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from typing_extensions import TypedDict

from taograph.calls import MODEL_THREADS, Call, Cancelled, Steps, TimedOut
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.allowance import ALLOWANCES, SHARED, Grant
from taograph.graphs.loop.calling import bind
from taograph.graphs.loop.carrying import keep_used, used_before
from taograph.graphs.loop.clock import Clock
from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.internals import invocation_of, read_channels, runtime_of
from taograph.graphs.loop.interrupts import task_of
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.state import NOTHING, Child
from taograph.graphs.loop.stopping import Stop, StopReason
from taograph.models.failures import describe, refusal_text, refuses_temperature

_READ = ("messages", "run", "spent", "clock", "window", "stop")


class Subrun(TypedDict):
    """What came of a graph that was run as a part of a run.

    Attributes:
        answer: Its answer, never empty.
        stop: Why it ended.
        messages: What it added to the messages that it was given.
        structured: Its answer in a required form, where one was asked for.
        child: The record of it, for the channel ``children``.
        output: All that it gave; empty where it failed.
    """

    answer: str
    stop: Stop
    messages: list[AnyMessage]
    structured: Any
    child: Child
    output: Mapping[str, Any]


def branch(
    agent: Agent, body: Callable[[Branch, Any], Steps[dict[str, Any]]]
) -> Callable[[Any, RunnableConfig], Steps[dict[str, Any]]]:
    """The core of a node that runs a graph, or one of several tasks that a strategy fans out.

    Args:
        agent: What the strategy is made of.
        body: What it does: is given the branch and what the task was sent, and returns what it writes to channels
            that take several writes. What was spent is added to it.
    """

    def core(task: Any, config: RunnableConfig) -> Steps[dict[str, Any]]:
        state = read_channels(config, _READ)
        here = Branch(Session.open(agent, state, config, (yield from bind(agent, config)), new_turn=None))
        update = yield from body(here, task)
        return here.close(update)

    return core


class Branch:
    """One task of a run that works beside others.

    Args:
        session: The run as this task sees it; its bookkeeping is not written.

    Attributes:
        session: The same.
        fault: Why the model gave no reply when it was asked last, with the words for it; None where it did.
        is_plain: Whether the model refused the temperature that it was to be asked at.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        session.beside = True  # the replies of the others are not stored with the run yet
        self.fault: tuple[StopReason, str] | None = None
        self.is_plain = False
        self._began, self._seconds = time.time(), 0.0
        self._runs = 0
        self._children: list[Child] = []

    @property
    def messages(self) -> list[AnyMessage]:
        """The messages of the thread."""
        return read_channels(self.session.config, ("messages",)).get("messages") or []

    def ask(
        self,
        request: Sequence[AnyMessage],
        *,
        model: Runnable[Any, Any] | None = None,
        temperature: float | None = None,
        **options: Any,
    ) -> Steps[AIMessage | None]:
        """Ask the model; None where it gave no reply, which is told as a retry, and ``fault`` says why.

        Args:
            request: The messages after the system prompt, which is put before them.
            model: The model, where it is not the run's own without tools.
            temperature: The temperature; a model that refuses it is asked without, and ``is_plain`` says so.
            **options: As :meth:`Session.ask`.
        """
        session, asked = self.session, model or self.session.bound.model
        self.fault = None
        try:
            if temperature is not None:
                warm = asked.bind(temperature=temperature)
                try:
                    return (yield from session.ask_to_fit(warm, request, **options))
                except GaveUp as failure:
                    if not refuses_temperature(failure.error):
                        raise
                    self.is_plain = True
                    session.teller.tell("retry", reason="temperature", detail=f"asked without one: {failure.words}")
            return (yield from session.ask_to_fit(asked, request, **options))
        except Cancelled as cut:
            fault: tuple[StopReason, str] = "cancelled", cut.reason
        except TimedOut:
            fault = "deadline", "the model had not replied in time"
        except GaveUp as failure:
            refused = refusal_text(failure.error)
            fault = ("model_error", failure.words) if refused is None else ("refusal", refused[:200])
        self.fault = fault
        session.teller.tell("retry", reason=fault[0], detail=fault[1])
        return None

    def run(
        self,
        graph: Pregel[Any, Any, Any, Any],
        limits: Limits,
        messages: Sequence[AnyMessage],
        *,
        name: str,
        about: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> Steps[Subrun]:
        """Run one of our graphs within what the run has left.

        Args:
            graph: The graph.
            limits: Those that it was made with.
            messages: What it is given; messages without an id are given one that is the same when it is done again.
            name: What it is called in the record: the strategy's name.
            about: What it is run for, such as the step of a plan.
            extra: Other channels of its input.
        """
        session = self.session
        given = [self._with_id(message, place) for place, message in enumerate(messages)]
        run, moment = session.run["id"], (_checkpoint(session.config), session.run["steps"])
        within = invocation_of(session.config)
        allowance = ALLOWANCES.shared(session.allowance(), run, moment, within=within)
        grant = Grant(allowance, f"{task_of(session.config)}:{self._runs}")
        self._runs += 1
        for part, used in (yield from used_before(session.config)):
            allowance.report(part, used)
        config = grant.within(session.config)
        inputs = {"messages": given, **(extra or {})}
        try:
            output: Mapping[str, Any] = yield Call(
                lambda: graph.invoke(inputs, config),
                lambda: graph.ainvoke(inputs, config),
                None,
                MODEL_THREADS,
                certain=True,  # where the run is cancelled or its time is over, it ends by itself, with what it has
            )
        except GraphBubbleUp:
            yield from keep_used(session.config, grant.name, grant.used)
            raise
        except Exception as error:
            if getattr(error, "taograph_fatal", False):
                raise
            output = {}
            stop = Stop(reason="model_error", detail=describe(error), step=0)
        else:
            stop = output["stop"]
        spent: Spent = output.get("spent") or NOTHING
        told = {message.id for message in given}
        new = [message for message in output.get("messages") or () if message.id not in told]
        shared = SHARED.get(stop["reason"]) in grant.narrow(limits, spent["seconds"])[1]
        self._seconds += spent["seconds"]
        for key in NOTHING:
            if key != "seconds":
                session.added[key] += spent[key]  # type: ignore[literal-required]
        child = Child(
            name=name,
            about=about,
            stop=stop,
            spent=spent,
            shared=shared,
            called=sorted({c["name"] for m in new if isinstance(m, AIMessage) for c in m.tool_calls}),
        )
        self._children.append(child)
        answer = output.get("answer") or f"{name} failed: {stop['detail']}"
        return Subrun(
            answer=answer,
            stop=stop,
            messages=new,
            structured=output.get("structured"),
            child=child,
            output=output,
        )

    def close(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """What the task writes, what it spent included."""
        end = time.time()
        # What a sub-run took before it waited for a person is in its own time only.
        start = min(self._began, end - self._seconds) if self._seconds else self._began
        return {
            **update,
            **({"children": self._children} if self._children else {}),
            "spent": {**self.session.added, "seconds": 0.0},
            "clock": Clock(seconds=0.0, start=start, end=end),
        }

    def _with_id(self, message: AnyMessage, place: int) -> AnyMessage:
        if isinstance(message, BaseMessage) and message.id:
            return message
        made = uuid5(NAMESPACE_OID, f"{task_of(self.session.config)}:{self._runs}:{place}")
        return message.model_copy(update={"id": str(made)})


def _checkpoint(config: RunnableConfig) -> str:
    info = runtime_of(config).execution_info
    return "" if info is None else info.checkpoint_id

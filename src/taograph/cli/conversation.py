"""A run as the command carries it out: its events to the renderer, its questions to the person, its end."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from taograph.cli.ask import EndOfInput, Unanswered, ask_all, can_ask
from taograph.cli.console import say
from taograph.cli.endings import in_use
from taograph.cli.errors import CommandError
from taograph.cli.signals import Interrupts, Terminated
from taograph.cli.waiting import Waiting

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

    from taograph.cancel import Cancellation
    from taograph.cli.ask import Check
    from taograph.cli.render import Renderer
    from taograph.graphs.loop.events import Event


class Drained(Exception):  # noqa: N818 - not an error
    """The run was told to stop where it is, and did."""


class Conversation:
    """A run that may stop to ask the person something.

    Args:
        graph: What is run.
        config: Its config, with the thread.
        context: Its context.
        check: Looks at arguments that the person changes.
        renderer: Tells the events.
        cancel: Ends the run.
        interrupts: Signals.
        kept: Whether an open question outlives the process, in a thread.
    """

    def __init__(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        *,
        context: Any,
        check: Check,
        renderer: Renderer,
        cancel: Cancellation,
        interrupts: Interrupts,
        kept: bool,
    ) -> None:
        self._graph = graph
        self._config = config
        self._context = context
        self._check = check
        self._renderer = renderer
        self._cancel = cancel
        self._interrupts = interrupts
        self._kept = kept
        self._later: set[str] = set()

    @property
    def ended(self) -> bool:
        """Whether the person wants no more of it."""
        return self._cancel.requested

    def run(self, given: Any) -> str | None:
        """Run to the end, asking what the run wants to know.

        Args:
            given: The graph's input.

        Returns:
            The stop reason.

        Raises:
            Unanswered: Something that was asked stays open, in the thread.
            Drained: The run was told to stop where it is.
            CommandError: Another run has the thread.
        """
        while True:
            with self._renderer:
                waiting = self._stretch(given)
                if not waiting and self._renderer.last_stop is None:
                    self._tell_what_is_stored()
            if not waiting:
                return self._renderer.last_stop
            if self._interrupts.draining:
                raise Drained
            given = self.answers(waiting)

    def answers(self, waiting: Sequence[Waiting]) -> Any:
        """Ask what is open, and make of the answers what resumes the run.

        Where nobody answers and nothing is kept, the run is ended with what it has.

        Args:
            waiting: What the run waits for.

        Raises:
            Unanswered: Something stays open, in the thread.
        """
        from langgraph.types import Command

        asked = [each for each in waiting if each.interrupt not in self._later]
        if not asked:
            raise Unanswered(waiting, left=True)
        try:
            if not can_ask():
                raise Unanswered(waiting, left=False)
            with self._interrupts.raising():
                found = ask_all(asked, self._check)
        except (Unanswered, EndOfInput, KeyboardInterrupt) as left:
            return self._unanswered(waiting, left)
        self._later |= {each.interrupt for each in asked} - found.keys()
        if not found:
            raise Unanswered(waiting, left=True)
        return Command(resume=found)

    def _unanswered(self, waiting: Sequence[Waiting], why: BaseException) -> Any:
        from langgraph.types import Command

        left = not isinstance(why, Unanswered)
        if left:
            say("")
        if self._kept:
            raise Unanswered(waiting, left=left, signal=signal.SIGTERM if isinstance(why, Terminated) else 0) from None
        if not left:
            say("Nobody can answer here: run it in a terminal, or with --thread ID to answer later.")
        self._cancel.request("a question was left unanswered")
        return Command(resume={each.interrupt: each.declined() for each in waiting})

    def _stretch(self, given: Any) -> list[Waiting]:
        from langgraph.errors import GraphDrained

        from taograph.writers import ThreadBusyError, ThreadLostError

        waiting: list[Waiting] = []
        try:
            for event in self._events(given):
                inner: Mapping[str, Any] = event["event"] if event["type"] == "child" else event
                if inner["type"] == "approval":
                    waiting.append(Waiting.read(inner["id"], inner["value"]))
                self._renderer.event(event)
        except GraphDrained:
            raise Drained from None
        except ThreadBusyError as error:
            raise in_use(error) from error
        except ThreadLostError as error:
            lost = str(error).partition(". ")[0]
            raise CommandError(lost, fixes=("`tao resume` goes on from what is stored",)) from error
        return self._in_order(waiting)

    def _tell_what_is_stored(self) -> None:
        """Tell how a run ended of which nothing was left to do: the process before died when all had been done.

        Then its last step has only to be stored, and LangGraph streams nothing.
        """
        from taograph.graphs.loop.events import utc_now

        values = self._graph.get_state(self._config).values
        stop, run = values.get("stop"), values.get("run")
        if not isinstance(stop, Mapping) or not isinstance(run, Mapping):
            return
        thread = self._config["configurable"].get("thread_id")
        head: Any = {"step": stop["step"], "thread": thread, "run": run["id"], "time": utc_now(), "path": []}
        ended: Any = {**head, "type": "stop", "reason": stop["reason"], "detail": stop["detail"]}
        self._renderer.event(ended)
        answer: Any = {**head, "type": "answer", "text": values.get("answer") or "", "spent": values["spent"]}
        if values.get("structured") is not None:
            answer["structured"] = values["structured"]
        self._renderer.event(answer)

    def _in_order(self, waiting: list[Waiting]) -> list[Waiting]:
        """As the model made the calls, and as `tao resume` finds them; they came as their tasks got there."""
        if len(waiting) < 2:
            return waiting
        stored = [each.id for each in self._graph.get_state(self._config).interrupts]
        places = {id: place for place, id in enumerate(stored)}
        return sorted(waiting, key=lambda each: places.get(each.interrupt, len(places)))

    def _events(self, given: Any) -> Iterable[Event]:
        from langgraph.runtime import RunControl

        from taograph import stream_steps

        control = RunControl()  # one for each stretch: the loop tells its invocations apart by it
        self._interrupts.runs(control.request_drain)
        return stream_steps(
            self._graph,
            given,
            self._config,
            context=self._context,
            cancel=self._cancel,  # stream_steps puts the run under it
            control=control,
            durability="sync" if self._kept else "async",  # a step is stored before the next begins
        )

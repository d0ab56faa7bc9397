"""Carrying out `tao run`: the graph, the events to the renderer, the questions to the person."""

from __future__ import annotations

import shlex
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from taograph.cli.ask import Unanswered, answer_to
from taograph.cli.console import on_terminal, say, status
from taograph.cli.errors import CommandError
from taograph.cli.servers import mcp_tools
from taograph.cli.signals import Interrupts
from taograph.cli.words import count

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from taograph.cancel import Cancellation
    from taograph.cli.render import Renderer
    from taograph.graphs.loop.events import Event

EXIT_FINAL, EXIT_ERROR, EXIT_STOPPED = 0, 1, 3


def exit_code(reason: str | None) -> int:
    """The exit status for a stop reason; None where the run told none."""
    if reason == "final":
        return EXIT_FINAL
    return EXIT_ERROR if reason in (None, "model_error") else EXIT_STOPPED


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for.

    Attributes:
        question: The question; empty only where a thread may have something open.
        graph: The strategy's name.
        model: The model as the person named it, or None.
        tools: Names of tools, with commas, or None for the usual ones.
        docs: The folder of documents, or None.
        mcp: The file that names MCP servers, or None.
        limits: Fields of ``Limits``.
        system: The system prompt, or None.
        thread: The thread's name, or None for a run that is not kept.
        yes: Fetch the local model without asking.
    """

    question: str
    graph: str
    model: str | None
    tools: str | None
    docs: Path | None
    mcp: Path | None
    limits: Mapping[str, Any]
    system: str | None
    thread: str | None
    yes: bool


def carry_out(asked: Asked, renderer: Renderer) -> int:
    """Run what was asked for, and return the exit status."""
    with status("Starting…") if on_terminal(sys.stderr) else ExitStack():
        factory = _factory(asked.graph)
        from taograph import Cancellation, stream_steps
        from taograph.models import endpoint  # noqa: F401 - most of the waiting is for this

    with ExitStack() as stack:
        graph = _graph(factory, asked, renderer, stack)
        config: Any = {"configurable": {"thread_id": asked.thread or f"tao-{uuid.uuid4()}"}}
        cancel = Cancellation()  # stream_steps puts the run under it
        interrupts = stack.enter_context(Interrupts(cancel, renderer))

        def steps(given: Any) -> Iterable[Event]:
            return stream_steps(graph, given, config, cancel=cancel)

        conversation = Conversation(steps, renderer, interrupts, cancel, kept=asked.thread is not None)
        state = graph.get_state(config) if asked.thread else None
        try:
            return exit_code(_converse(conversation, state, asked))
        except Unanswered as still_open:
            say(_how_to_go_on(asked, left=still_open.left))
            return EXIT_STOPPED


class Conversation:
    """A run that may stop to ask the person something.

    Args:
        steps: Runs the graph on an input and yields the events up to the end or to a question.
        renderer: Tells the events.
        interrupts: Ctrl-C.
        cancel: Ends the run.
        kept: Whether an open question outlives the process, in a thread.
    """

    def __init__(
        self,
        steps: Callable[[Any], Iterable[Event]],
        renderer: Renderer,
        interrupts: Interrupts,
        cancel: Cancellation,
        *,
        kept: bool,
    ) -> None:
        self._steps = steps
        self._renderer = renderer
        self._interrupts = interrupts
        self._cancel = cancel
        self._kept = kept

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
            Unanswered: A question stays open, in the thread.
        """
        while True:
            with self._renderer:
                waiting = self._stretch(given)
            if not waiting:
                return self._renderer.last_stop
            given = self.answers(waiting)

    def answers(self, waiting: Mapping[str, Any]) -> Any:
        """Ask the open questions, and make of the answers what resumes the run.

        Where nobody answers and nothing is kept, the run is ended with what it has.

        Args:
            waiting: Interrupt id to its value.

        Raises:
            Unanswered: A question stays open, in the thread.
        """
        from langgraph.types import Command

        try:
            with self._interrupts.raising():
                return Command(resume={id: answer_to(value) for id, value in waiting.items()})
        except (Unanswered, KeyboardInterrupt) as left:
            still_open = left if isinstance(left, Unanswered) else Unanswered(left=True)
            if still_open.left:
                say("")
            if self._kept:
                raise still_open from None
            if not still_open.left:
                say("Nobody can answer here: run it in a terminal, or with --thread ID to answer later.")
            self._cancel.request("a question was left unanswered")
            return Command(resume=dict.fromkeys(waiting, ""))

    def _stretch(self, given: Any) -> dict[str, Any]:
        waiting: dict[str, Any] = {}
        for event in self._steps(given):
            if event["type"] == "approval":
                waiting[event["id"]] = event["value"]
            self._renderer.event(event)
        return waiting


def _factory(name: str) -> Callable[..., Any]:
    from taograph.graphs import STRATEGIES

    try:
        return STRATEGIES[name]
    except KeyError:
        known = ", ".join(STRATEGIES)
        raise typer.BadParameter(f"no strategy is called {name!r}; there are: {known}", param_hint="--graph") from None


def _graph(
    factory: Callable[..., Any], asked: Asked, renderer: Renderer, stack: ExitStack
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph that was asked for; wrong names are told before a model is fetched or paid."""
    from taograph import Limits
    from taograph.cli.model import resolved
    from taograph.models.prices import price_of

    tools = _tools(asked)
    model = resolved(asked.model, yes=asked.yes)
    renderer.priced = price_of(model) is not None
    if model._llm_type == "taograph-local":  # it is started by its first call
        renderer.waiting_for = "loading the local model, reading the prompt"
        if not on_terminal(sys.stdout):
            say("Loading the local model…")
    if asked.limits["cost"] is not None and not renderer.priced:
        raise typer.BadParameter(
            "the price of this model is not known, so the limit could not be kept; name it in the file "
            'that TAOGRAPH_PRICES names ({"model": {"input": 0.5, "output": 1.5}}, dollars for a million tokens)',
            param_hint="--cost",
        )
    graph: CompiledStateGraph[Any, Any, Any, Any] = factory(
        model,
        tools,
        limits=Limits(**asked.limits),
        system_prompt=asked.system,
        checkpointer=_checkpointer(asked.thread, stack),
    )
    return graph


def _tools(asked: Asked) -> list[Any]:
    """The tools that were named, or the usual ones; documents are indexed now, before the run's time counts."""
    from taograph.tools import catalog

    folder = str(asked.docs) if asked.docs else None
    try:
        tools = catalog.default_tools(folder) if asked.tools is None else catalog.load(asked.tools, docs=folder)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--tools" if asked.tools else "TAOGRAPH_DOCS") from error
    if asked.tools is None and asked.thread is None and not sys.stdin.isatty():
        tools = [tool for tool in tools if tool.name != "ask_person"]  # nobody is there, now or later
    if asked.docs and any(tool.name == "search_documents" for tool in tools):
        _index(asked.docs)
    return [*tools, *mcp_tools(asked.mcp)] if asked.mcp else tools


def _index(folder: Path) -> None:
    from taograph.cli.index import indexing
    from taograph.tools.documents import index_folder
    from taograph.tools.engines.document_index import IndexUnavailable

    try:
        with indexing() as on_file:
            failed = index_folder(folder, on_file=on_file).failed
    except IndexUnavailable as error:
        raise CommandError(str(error)) from error
    if failed:
        say(f"{count(len(failed), 'file')} of {folder} could not be read; `tao index` names them.")


def _checkpointer(thread: str | None, stack: ExitStack) -> Any:
    if thread is None:
        from langgraph.checkpoint.memory import InMemorySaver

        return InMemorySaver()  # so that a run can stop to ask
    from taograph import checkpoints
    from taograph.cli.paths import threads_file

    try:
        return stack.enter_context(checkpoints.open(f"sqlite:///{threads_file()}"))
    except OSError as error:
        raise CommandError(
            f"thread {thread!r} can't be kept: {error}", fixes=("set TAOGRAPH_DATA to a folder you can write to",)
        ) from error


def _converse(conversation: Conversation, state: Any, asked: Asked) -> str | None:
    """First what the thread has left open, then the question."""
    reason: str | None = None
    if state is not None and state.interrupts:
        waiting = {interrupt.id: interrupt.value for interrupt in state.interrupts}
        reason = conversation.run(conversation.answers(waiting))
    elif state is not None and state.next and not asked.question:
        reason = conversation.run(None)  # it was cut off, by a crash or a second Ctrl-C
    elif not asked.question:
        raise typer.BadParameter(
            f"there is none, and thread {asked.thread!r} has nothing open: give a question", param_hint="QUESTION"
        )
    if asked.question and not conversation.ended:
        reason = conversation.run({"messages": [("user", asked.question)]})
    return reason


def _how_to_go_on(asked: Asked, *, left: bool) -> str:
    """What to do about a question that stays open."""
    again = ["tao", "run", "--thread", asked.thread or ""]
    for option, value in (("--graph", asked.graph), ("--model", asked.model), ("--tools", asked.tools)):
        if value is not None and (option, value) != ("--graph", "react"):
            again += [option, value]
    for option, path in (("--docs", asked.docs), ("--mcp", asked.mcp)):
        if path:
            again += [option, str(path)]
    why = "The question stays open" if left else "Nobody can answer here; the question stays open"
    return f"{why} in thread {asked.thread!r}. To answer it and go on, in a terminal: {shlex.join(again)}"

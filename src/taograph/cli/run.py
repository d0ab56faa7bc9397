"""`tao run`: ask a question and watch the answer being found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taograph.cli import kept
from taograph.cli.answers import Given
from taograph.cli.ask import Unanswered, can_ask, confirm
from taograph.cli.carrying import carry
from taograph.cli.console import say
from taograph.cli.conversation import Conversation
from taograph.cli.endings import Place, in_use, say_what_waits
from taograph.cli.making import asks_first, make, started, tools_of
from taograph.cli.options import (
    IfBusy,
    Json,
    Plain,
    Verbose,
    Yes,
    a_name,
    above_zero,
    at_least_one,
    folder,
    given_limits,
    renderer_for,
)
from taograph.cli.reading import Reader
from taograph.cli.resume import go_on
from taograph.cli.settings import Settings
from taograph.cli.trace_recording import Option, Recording
from taograph.cli.waiting import Waiting, in_words, listing

if TYPE_CHECKING:
    from taograph.checkpoints import Checkpoints
    from taograph.cli.render import Renderer


def run(  # noqa: PLR0917 - Typer calls it by keyword
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help='What to find out; "-" or nothing reads it from stdin.', show_default=False
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", "-g", metavar="NAME", help="The strategy; see `tao graphs`.", show_default="react"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="SPEC",
            callback=a_name,
            help='"openai:NAME", "local", "local:NAME", "http://host:port/v1#name", or the path of a .gguf file.',
        ),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option("--tools", "-t", metavar="LIST", help="Tools by name, with commas; see `tao tools`."),
    ] = None,
    docs: Annotated[
        Path | None, typer.Option("--docs", metavar="FOLDER", help="Search the documents in this folder.")
    ] = None,
    mcp: Annotated[
        Path | None,
        typer.Option(
            "--mcp", metavar="FILE", envvar="TAOGRAPH_MCP", help="Add the tools of the MCP servers in this file."
        ),
    ] = None,
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="LIST",
            callback=a_name,
            help='Ask you before these tools run: names with commas, "all" or "none".',
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", metavar="N", callback=at_least_one, help="Reasoning turns at most.", show_default="15"),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="S",
            callback=above_zero,
            show_default="300",
            help="Seconds at most; waiting for you does not count.",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", metavar="N", callback=at_least_one, help="Tokens at most, both ways."),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option("--cost", metavar="USD", callback=above_zero, help="US dollars at most."),
    ] = None,
    tool_calls: Annotated[
        int | None,
        typer.Option("--tool-calls", metavar="N", callback=at_least_one, help="Tool calls at most."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="TEXT", help="Instructions that stand before the conversation."),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            metavar="ID",
            callback=a_name,
            help="Keep the conversation under this name, or go on with it; it remembers the options.",
        ),
    ] = None,
    checkpoints: kept.Url = None,
    if_busy: IfBusy = "reject",
    trace: Option = None,
    json: Json = False,
    yes: Yes = False,
    plain: Plain = False,
    verbose: Verbose = False,
) -> int:
    """Ask a question; thoughts, actions and observations are shown as they happen.

    A run is kept where --thread names it, where --checkpoints (or TAOGRAPH_CHECKPOINTS) says where, or where it may
    have to wait for your approval; see `tao resume` and `tao threads`. A thread remembers its options: a later
    question, or `tao resume`, needs none. What each run did is recorded, without secrets and personal data, for 190
    days, on this machine unless you say otherwise; see `tao trace`. --trace none records nothing.

    Ctrl-C ends the run with what it has, a second one quits. SIGTERM stops a run that is kept after the step at
    hand, to be gone on with. Exit status: 0 answered, 3 stopped by a limit or by you, 4 waits for you, 5 another run
    has the thread, 143 stopped by SIGTERM, 2 wrong usage, 1 error.

    \b
    tao run "What is 17% of 2340?"
    tao run "Which contract ends first?" --docs ~/contracts --steps 8
    tao run "Summarize the case" --model openai:gpt-5-mini --cost 0.05
    tao run "Which orders are late?" --mcp mcp.json
    tao run "Tidy up my notes" --tools files --approve write_file
    tao run "My name is Ada." --thread ada; tao run "What is my name?" --thread ada
    echo "What time is it in Lima?" | tao run --json | jq .type
    """
    settings = Settings(
        graph=graph,
        model=model,
        tools=tools,
        docs=folder(docs),
        mcp=mcp.expanduser() if mcp else None,
        approve=approve,
        system=system,
        limits=given_limits(steps=steps, seconds=seconds, tokens=tokens, cost=cost, tool_calls=tool_calls),
    )
    recording = Recording(trace, verbose)
    asked = Asked(_read(question, thread), settings, thread, checkpoints, if_busy, yes, recording)
    return carry_out(asked, renderer_for(json=json, plain=plain, verbose=verbose))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for.

    Attributes:
        question: The question; empty only where a thread may have something open.
        settings: What the run is given.
        thread: The thread's name, or None.
        url: Where threads are kept, or None for the user's own file.
        if_busy: What to do where another run has the thread.
        yes: Fetch the local model without asking.
        recording: What was said of the trace.
    """

    question: str
    settings: Settings
    thread: str | None
    url: str | None
    if_busy: str
    yes: bool
    recording: Recording


def carry_out(asked: Asked, renderer: Renderer) -> int:
    """Run what was asked for, and return the exit status."""
    factory = started(asked.settings.graph)
    with ExitStack() as stack:

        def opened() -> Checkpoints:
            return stack.enter_context(kept.opened(asked.url))

        if asked.thread is None:
            return _ask_anew(asked, factory, renderer, opened)
        saver = opened()
        if asked.question:
            return _ask_in(asked, saver, Reader(saver), asked.thread, renderer)
        return go_on(
            saver,
            Place(asked.thread, asked.url),
            renderer,
            given=Given(),
            other=replace(asked.settings, limits={}),
            raised=asked.settings.limits,
            yes=asked.yes,
            recording=asked.recording,
        )


def _ask_anew(asked: Asked, factory: Callable[..., Any], renderer: Renderer, opened: Callable[[], Checkpoints]) -> int:
    """A question outside of any thread, or in a new one where it has to be kept."""
    settings = asked.settings
    is_kept = asked.url is not None or settings.approve not in (None, "none")
    tools = tools_of(settings, somebody=is_kept or can_ask())
    if not is_kept and asks_first(settings, tools):
        is_kept = True
    if is_kept:
        checkpointer: Any = opened()
    else:
        from langgraph.checkpoint.memory import InMemorySaver

        checkpointer = InMemorySaver()  # so that a run can stop to ask
    made = make(factory, settings, tools, checkpointer=checkpointer, renderer=renderer, yes=asked.yes)
    thread = kept.new_id()
    if is_kept:
        say(f"Kept as thread {thread}.")
    place = Place(thread, asked.url, kept=is_kept)
    return carry(made, place, renderer, lambda talk: talk.run(_turn(asked.question)), recording=asked.recording)


def _ask_in(asked: Asked, saver: Checkpoints, reader: Reader, thread: str, renderer: Renderer) -> int:
    """A question in a thread, after what that has left open."""
    settings = asked.settings.over(reader.settings(thread))
    settings.check()
    factory = started(settings.graph)
    place = Place(thread, asked.url)
    busy = reader.busy(thread)
    if busy is not None and asked.if_busy == "reject":
        raise in_use(busy)
    standing = None if busy else reader.standing(thread)
    waiting = standing.waiting if standing else ()
    if waiting and not can_ask():
        return say_what_waits(place, Unanswered(waiting, left=False))
    if standing and standing.state in ("unfinished", "failed"):
        say(f"The run before was cut off, and is closed by this question. {_instead(place)}")
    made = make(
        factory,
        settings,
        tools_of(settings, somebody=True),
        checkpointer=saver,
        renderer=renderer,
        yes=asked.yes,
    )

    def talk(conversation: Conversation) -> str | None:
        if waiting and _first(waiting, thread):
            reason = conversation.run(conversation.answers(waiting))
            if conversation.ended:
                return reason
        return conversation.run(_turn(asked.question))

    return carry(made, place, renderer, talk, if_busy=asked.if_busy, recording=asked.recording)


def _first(waiting: Sequence[Waiting], thread: str) -> bool:
    """Whether the person wants to answer what is open before the new question."""
    say(f"Thread {thread!r} still waits for {in_words(waiting)}:")
    for line in listing(waiting):
        say(line)
    return confirm("Answer that first? Else it is closed, and the model is told so.")


def _instead(place: Place) -> str:
    return f"To go on with it instead: {kept.command('resume', place.thread, url=place.url)}"


def _turn(question: str) -> dict[str, Any]:
    return {"messages": [("user", question)]}


def _read(question: str | None, thread: str | None) -> str:
    """The question, from the arguments or from stdin; empty only where a thread may have something open."""
    if question is None and sys.stdin.isatty():
        text = ""
    elif question is None or question == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        text = question
    if not text.strip() and thread is None:
        raise typer.BadParameter('there is none: tao run "What is 17% of 2340?", or pipe it in', param_hint="QUESTION")
    return text.strip()

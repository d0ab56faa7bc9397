"""`tao resume`: go on with a thread, whatever state it was left in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from taograph.cli import kept
from taograph.cli.answers import Given
from taograph.cli.ask import Unanswered, can_ask
from taograph.cli.carrying import carry
from taograph.cli.console import say
from taograph.cli.conversation import Conversation
from taograph.cli.endings import Place, in_use, raise_of, say_what_waits
from taograph.cli.errors import CommandError
from taograph.cli.making import Made, make, started, tools_of
from taograph.cli.options import (
    Json,
    Plain,
    ThreadId,
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
from taograph.cli.settings import Settings
from taograph.cli.standing import RAISES, Standing
from taograph.cli.trace_recording import Option, Recording
from taograph.cli.words import STOPPED

if TYPE_CHECKING:
    from taograph.checkpoints import Checkpoints
    from taograph.cli.render import Renderer
    from taograph.graphs.loop.events import Spent


def resume(  # noqa: PLR0917 - Typer calls it by keyword
    thread: ThreadId,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call that waits run.")] = False,
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="WHY", help="Do not let it run; the model is told why.")
    ] = None,
    edit: Annotated[
        str | None,
        typer.Option("--edit", metavar="JSON", help="Let it run with these arguments, all of them in one object."),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            "--answer",
            metavar="TEXT",
            help='Answer a question; for a call that was cut off: "repeat", "done: what it returned" or "unknown".',
        ),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option("--call", metavar="ID,…", callback=a_name, help="Which calls, where several wait, or all."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="With --reject: end the run.")] = False,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who says so; the model is told.")] = "",
    steps: Annotated[
        int | None,
        typer.Option("--steps", metavar="N", callback=at_least_one, help="Raise the limit of reasoning turns."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", callback=above_zero, help="Raise the limit of seconds."),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", callback=at_least_one, help="Raise the limit of tokens.")
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option("--cost", metavar="USD", callback=above_zero, help="Raise the limit of US dollars."),
    ] = None,
    tool_calls: Annotated[
        int | None,
        typer.Option("--tool-calls", metavar="N", callback=at_least_one, help="Raise the limit of tool calls."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="SPEC", callback=a_name, help="Another model than the thread had."),
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", "-t", metavar="LIST", help="Other tools than the thread had.")
    ] = None,
    docs: Annotated[Path | None, typer.Option("--docs", metavar="FOLDER", help="Another folder of documents.")] = None,
    mcp: Annotated[Path | None, typer.Option("--mcp", metavar="FILE", help="Another file of MCP servers.")] = None,
    checkpoints: kept.Url = None,
    trace: Option = None,
    json: Json = False,
    yes: Yes = False,
    plain: Plain = False,
    verbose: Verbose = False,
) -> int:
    """Go on with a thread: answer what it waits for, raise the limit that stopped it, take up what was cut off.

    The model, the tools and the limits are those that the thread remembers. What waits is asked for in a terminal;
    elsewhere it is said, and an option answers it. The limits count the whole run, what it used before included.

    Exit status: as `tao run`.

    \b
    tao resume ada                          asks you what waits; or goes on after a crash
    tao resume ada --approve
    tao resume ada --reject "not this month"
    tao resume ada --edit '{"amount": 10, "to": "Bob"}'
    tao resume ada --answer "the green one"
    tao resume ada --steps 30               after the step limit
    """
    given = Given(approve=approve, reject=reject, edit=edit, answer=answer, calls=call, stop=stop, by=by)
    given.check()
    other = Settings(model=model, tools=tools, docs=folder(docs), mcp=mcp.expanduser() if mcp else None)
    raised = given_limits(steps=steps, seconds=seconds, tokens=tokens, cost=cost, tool_calls=tool_calls)
    renderer = renderer_for(json=json, plain=plain, verbose=verbose)
    with kept.opened(checkpoints, must_exist=True) as saver:
        place = Place(kept.thread_named(saver, thread), checkpoints)
        recording = Recording(trace, verbose)
        return go_on(saver, place, renderer, given=given, other=other, raised=raised, yes=yes, recording=recording)


def go_on(
    saver: Checkpoints,
    place: Place,
    renderer: Renderer,
    *,
    given: Given,
    other: Settings,
    raised: Mapping[str, Any],
    yes: bool,
    recording: Recording,
) -> int:
    """Go on with a thread.

    Args:
        saver: Where it is kept.
        place: The same, and the thread.
        renderer: Tells what happens.
        given: The answers that were given.
        other: What is to be used instead of what the thread remembers.
        raised: Limits that are to be raised.
        yes: Fetch the local model without asking.
        recording: What was said of the trace.

    Returns:
        The exit status.

    Raises:
        typer.BadParameter: An answer fits nothing that waits.
        CommandError: There is nothing to go on with, or a limit has to be raised.
    """
    started(other.graph)
    from taograph import Context

    reader = Reader(saver)
    remembered = reader.settings(place.thread)
    settings = other.over(remembered)
    settings.check()
    standing = reader.standing(place.thread)
    if standing.state == "unfinished" and (busy := reader.busy(place.thread)):
        raise in_use(busy)
    answers = _answers(given, standing, place)
    limits = {**settings.limits, **standing.limits, **raised}
    _check_open(standing, limits, place)
    if standing.waiting and not answers and not can_ask():
        return say_what_waits(place, Unanswered(standing.waiting, left=False))

    tools = tools_of(settings, somebody=True)
    if remembered == Settings():
        say(f"Thread {place.thread!r} was begun by another program; what it used is not known. Here it has:")
    made = make(
        started(settings.graph),
        replace(settings, limits=limits),
        tools,
        checkpointer=saver,
        renderer=renderer,
        yes=yes,
    )
    _check_calls(answers, standing, made)
    renderer.going_on(
        {
            "question": standing.question,
            "model": made.model,
            "tools": [*made.tools],
            "limits": made.limits,
            "steps": standing.steps,
        }
    )

    def talk(conversation: Conversation) -> str | None:
        from langgraph.types import Command

        if answers:
            return conversation.run(Command(resume=answers))
        if standing.waiting:
            return conversation.run(conversation.answers(standing.waiting))
        return conversation.run({"messages": []} if standing.goes_on else None)

    # What was raised is so for this run only.
    made = replace(made, settings=replace(made.settings, limits=settings.limits))
    return carry(made, place, renderer, talk, context=Context(**raised), recording=recording)


def _answers(given: Given, standing: Standing, place: Place) -> dict[str, Any]:
    if not given:
        return {}
    if not standing.waiting:
        raise CommandError(
            f"thread {place.thread!r} waits for no answer: {standing.in_words()}",
            fixes=(f"{kept.command('threads', 'show', place.thread, url=place.url)} tells more",),
            code=2,
        )
    return given.to_answers(standing.waiting)


def _check_open(standing: Standing, limits: Mapping[str, Any], place: Place) -> None:
    """Refuse where there is nothing to go on with, or a limit is still in the way.

    Raises:
        CommandError: As said.
    """
    if not standing.open:
        ask = kept.command("run", "…", "--thread", place.thread, url=place.url)
        raise CommandError(
            f"thread {place.thread!r} has nothing open: {standing.in_words()}",
            fixes=(f"ask it something: {ask}",),
            code=2,
        )
    if not standing.goes_on:
        return
    from taograph import Limits
    from taograph.graphs.loop.stopping import Progress, decide
    from taograph.graphs.loop.trajectory import Trajectory

    progress = Progress(
        trajectory=Trajectory("", ()),
        limits=Limits(**limits),
        spent=cast("Spent", standing.spent),
        steps=standing.steps,
        turn_tokens=standing.run.get("turn_tokens", 0),
        turn_cost=standing.run.get("turn_cost", 0.0),
    )
    if (stop := decide(progress)) is None:
        return
    option = raise_of(RAISES[stop["reason"]], Limits(**limits).to_dict(), standing.spent, standing.steps)
    raise CommandError(
        f"thread {place.thread!r} was {STOPPED[stop['reason']]}: {stop['detail']}",
        fixes=(f"raise it to go on: {kept.command('resume', place.thread, *option, url=place.url)}",),
        code=2,
    )


def _check_calls(answers: Mapping[str, Any], standing: Standing, made: Made) -> None:
    """Refuse arguments that a tool would not take, and to go on without the tool of a call that waits.

    Raises:
        typer.BadParameter: The message says what is wrong.
    """
    from taograph.tools.results import READ_RESULT

    for each in standing.waiting:
        if each.is_call and each.tool not in made.tools and each.tool != READ_RESULT:
            raise typer.BadParameter(
                f"the call that waits is of {each.tool}, and the tools are {', '.join(made.tools) or 'none'}: "
                "name the tools that the thread was begun with",
                param_hint="--tools",
            )
        answer = answers.get(each.interrupt)
        if isinstance(answer, Mapping) and "args" in answer and (complaint := made.check(each.tool, answer["args"])):
            raise typer.BadParameter(complaint, param_hint="--edit")

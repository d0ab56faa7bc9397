"""Carrying out a run in its thread, up to what is said when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from taograph.cli.ask import Unanswered
from taograph.cli.conversation import Conversation, Drained
from taograph.cli.endings import Place, exit_code, say_drained, say_how_to_go_on, say_what_waits
from taograph.cli.signals import Interrupts
from taograph.cli.trace_recording import Recording

if TYPE_CHECKING:
    from taograph.cli.making import Made
    from taograph.cli.render import Renderer


def carry(
    made: Made,
    place: Place,
    renderer: Renderer,
    talk: Callable[[Conversation], str | None],
    *,
    context: Any = None,
    if_busy: str = "reject",
    recording: Recording = Recording(),  # noqa: B008 - a value
) -> int:
    """Carry a run out, and say how it ended where that is not its answer.

    Args:
        made: The graph.
        place: Where the run is kept.
        renderer: Tells its events.
        talk: Says what is run; returns the stop reason.
        context: What is set for this run only.
        if_busy: What to do where another run has the thread.
        recording: What is told of the run to the trace.

    Returns:
        The exit status.
    """
    from taograph import Cancellation

    config: Any = {"configurable": {"thread_id": place.thread}}
    if place.kept:
        config["metadata"] = made.settings.to_metadata()
    if if_busy != "reject":
        config["configurable"]["multitask_strategy"] = if_busy
    cancel = Cancellation()
    with recording.handlers() as handlers, Interrupts(cancel, renderer, drains=place.kept) as interrupts:
        config["callbacks"] = handlers
        conversation = Conversation(
            made.graph,
            config,
            context=context,
            check=made.check,
            renderer=renderer,
            cancel=cancel,
            interrupts=interrupts,
            kept=place.kept,
        )
        try:
            reason = talk(conversation)
        except Unanswered as unanswered:
            return say_what_waits(place, unanswered)
        except Drained:
            return say_drained(place)
    if place.kept:
        say_how_to_go_on(place, reason, renderer.last_budget)
    return exit_code(reason)

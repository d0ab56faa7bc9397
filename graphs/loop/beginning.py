"""Whether a node begins a run, or goes on with one."""

from __future__ import annotations

from langchain_core.messages import AnyMessage

from taograph.graphs.loop.state import State
from taograph.graphs.protocols.acceptable import is_blank

# Endings that are not the answer's: such a run goes on where nothing new is asked on its thread.
GOES_ON = frozenset(
    {"step_limit", "tool_call_limit", "deadline", "token_limit", "cost_limit", "cancelled", "model_error"}
)


def goes_on(state: State, asked: AnyMessage | None) -> bool:
    """Whether a run that a limit, a cancellation or a failing endpoint ended is to go on: nothing new was asked.

    Args:
        state: The channels.
        asked: The user's last message.
    """
    run, stop = state.get("run"), state.get("stop")
    if run is None or stop is None or stop["reason"] not in GOES_ON:
        return False
    return asked is not None and (asked.id or "") == run["turn"]


def new_turn(state: State, asked: AnyMessage | None) -> str | None:
    """Id of the user's message where a new run begins; None where one goes on.

    A run is over once it has a stop; one that waits for a person, or was left by a crash, is not, unless the
    user has said something new.

    Args:
        state: The channels.
        asked: The user's last message.
    """
    if asked is None:
        raise ValueError(
            'messages: there is no message of the user to answer. Give {"messages": [("user", "your question")]}'
        )
    if is_blank(asked.content):
        raise ValueError("messages: the last message of the user is empty. Write the question in it")
    turn = asked.id or ""
    run = state.get("run")
    return turn if run is None or state.get("stop") is not None or run["turn"] != turn else None

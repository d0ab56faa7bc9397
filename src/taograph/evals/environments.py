"""Environments as tools: what they return, and when an episode is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from langchain_core.tools import BaseTool

from taograph.evals.records import Episode, RecordedStep
from taograph.graphs.protocols.paper import ANY_ACTION
from taograph.models.replay import NotRecordedError
from taograph.tools.policy import tool

_BUYS = "click[Buy Now]"
_INVALID = "Invalid action!"


class RecordedEnvironment:
    """An environment whose tools return what was recorded, one episode after the other.

    Each call has to be the action that was recorded at its place. Tools cannot raise out of a run, so what was
    wrong is kept, for whoever started the run to raise.

    Attributes:
        tools: Its tools, one for each action it knows, and one for any other action.
        problem: The first call that is not in the record; None while there is none.
    """

    def __init__(self, actions: Mapping[str, str]) -> None:
        """Make an environment.

        Args:
            actions: Name of an action → what it does.
        """
        self.tools: list[BaseTool] = [
            *(_tool(name, what, self._caller(name)) for name, what in actions.items()),
            _tool(ANY_ACTION, "Any other action, as it was written.", self._caller(ANY_ACTION)),
        ]
        self.problem: NotRecordedError | None = None
        self._episode: Episode | None = None
        self._steps: list[RecordedStep] = []

    def begin(self, episode: Episode) -> None:
        """Begin an episode."""
        self._episode, self._steps, self.problem = episode, list(reversed(episode.steps)), None
        self._end(False)

    @property
    def left(self) -> int:
        """Recorded steps of the episode that were not taken."""
        return len(self._steps)

    def _caller(self, name: str) -> Callable[[str], str]:
        return lambda text: self._take(name, text)

    def _take(self, name: str, text: str) -> str:
        step = self._steps.pop() if self._steps else None
        if step is None or not _is(step.action.strip(), name, text):
            asked = text if name == ANY_ACTION else f"{name}[{text}]"
            index = self._episode.index if self._episode else None
            recorded = f"it has {step.action!r} there" if step else "its steps are over"
            problem = NotRecordedError(
                f"the action {asked!r} is not in the record of episode {index}: {recorded}", asked
            )
            self.problem = self.problem or problem
            raise problem
        self._end(step.action == _BUYS and step.observation != _INVALID)
        return step.observation

    def _end(self, over: bool) -> None:
        """Whether the last observation ends the run: LangChain's ``return_direct``, which the loop asks for then."""
        for one in self.tools:
            one.return_direct = over


def fever_environment() -> RecordedEnvironment:
    """What the claims were checked with: two actions on Wikipedia."""
    return RecordedEnvironment(
        {
            "search": "Open the page of this title, or name similar titles.",
            "lookup": "The next sentence with this text on the page that is open.",
        }
    )


def webshop_environment() -> RecordedEnvironment:
    """The shop."""
    return RecordedEnvironment(
        {
            "search": "Search the shop.",
            "click": "Press the button of this label.",
            "think": "Think; nothing happens.",
        }
    )


def _is(recorded: str, name: str, text: str) -> bool:
    """Whether a call is the recorded action."""
    if name == ANY_ACTION:
        return text.strip() == recorded
    said = f"{name}[{text}]"
    # The first letter of a name is a capital in one of the formats; a thought may have been cut before its bracket.
    return said in (recorded, recorded[:1].lower() + recorded[1:]) or (
        name == "think" and recorded.startswith(said[:-1]) and len(recorded) <= len(said)
    )


def _tool(name: str, what: str, call: Callable[[str], str]) -> BaseTool:
    def action(text: str) -> str:
        return call(text)

    action.__doc__ = what
    return tool(name=name, effects="none", timeout=None, max_chars=None)(action)

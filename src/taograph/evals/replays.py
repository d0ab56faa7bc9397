"""The published runs of ReAct, replayed through the whole graph: model calls and observations are the recorded ones.

A run that asks the model or the environment for anything else raises :class:`NotRecordedError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import ToolMessage

from taograph.evals.environments import RecordedEnvironment, fever_environment, webshop_environment
from taograph.evals.records import Episode, fever_calls, webshop_calls
from taograph.evals.scoring import exact_match, shop_score
from taograph.graphs.loop.limits import Limits
from taograph.graphs.protocols.paper import CLAIMS, SHOPPING, PaperDialect
from taograph.graphs.react import create_react_graph
from taograph.models.replay import NotRecordedError, ReplayLLM
from taograph.models.text_react import TextReAct

FEVER_PROMPT = (
    "Say whether what is observed SUPPORTS or REFUTES the claim, or whether there is NOT ENOUGH INFO. "
    "Actions: Search[title], Lookup[text], Finish[SUPPORTS, REFUTES or NOT ENOUGH INFO]."
)
WEBSHOP_PROMPT = "Buy what the instruction asks for. Actions: search[text], think[text], click[label]."
_FEVER_STEPS, _WEBSHOP_STEPS = 7, 14


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an episode.

    Attributes:
        index: Its number in the data set.
        score: What it scores, from 0 to 1.
        answer: The answer; empty where none was given.
        stop: Why the run ended.
        model_calls: Calls of the model, as the loop counts them.
        seconds: What it took.
    """

    index: int
    score: float
    answer: str
    stop: str
    model_calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a record.

    Attributes:
        data: Which one.
        strict_original: Whether replies were read as the published code reads them.
        outcomes: Of the episodes, in order.
    """

    data: Literal["FEVER", "WebShop"]
    strict_original: bool
    outcomes: tuple[Outcome, ...]

    @property
    def score(self) -> float:
        """The mean score; of claims, the accuracy."""
        return sum(one.score for one in self.outcomes) / len(self.outcomes)

    @property
    def solved(self) -> int:
        """Episodes with the full score."""
        return sum(one.score == 1 for one in self.outcomes)

    @property
    def success_rate(self) -> float:
        """Their share."""
        return self.solved / len(self.outcomes)

    @property
    def seconds(self) -> float:
        """What the runs took."""
        return sum(one.seconds for one in self.outcomes)


Told = Callable[[int, int], None]


def replay_fever(episodes: Sequence[Episode], *, strict_original: bool, told: Told | None = None) -> Replay:
    """Replay the claims.

    Args:
        episodes: The record, see :func:`taograph.evals.records.load_fever`.
        strict_original: Read replies as the published code does; else tolerantly.
        told: Called with the number of episodes that are done, and of all.

    Raises:
        NotRecordedError: A run asked for what is not in the record.
    """
    model = _model(fever_calls(episodes, f"{FEVER_PROMPT}\n\n"), CLAIMS, strict_original)
    environment = fever_environment()
    graph = _graph(model, environment, FEVER_PROMPT, _FEVER_STEPS)

    def score(episode: Episode, result: dict[str, Any]) -> tuple[float, str]:
        answer = result["answer"] if result["stop"]["reason"] == "final" else ""
        return float(exact_match(answer, episode.gold or "")), answer

    return Replay("FEVER", strict_original, _run(graph, environment, episodes, score, told))


def replay_webshop(episodes: Sequence[Episode], *, strict_original: bool, told: Told | None = None) -> Replay:
    """Replay the purchases.

    Args:
        episodes: The record, see :func:`taograph.evals.records.load_webshop`.
        strict_original: Read replies as the published code does; else tolerantly.
        told: As :func:`replay_fever`.

    Raises:
        NotRecordedError: A run asked for what is not in the record.
    """
    model = _model(webshop_calls(episodes, f"{WEBSHOP_PROMPT}\n\n"), SHOPPING, strict_original)
    environment = webshop_environment()
    graph = _graph(model, environment, WEBSHOP_PROMPT, _WEBSHOP_STEPS)

    def score(_: Episode, result: dict[str, Any]) -> tuple[float, str]:
        seen = [str(message.text) for message in result["messages"] if isinstance(message, ToolMessage)]
        last = seen[-1] if seen else ""
        return shop_score(last), last if result["stop"]["reason"] == "final" else ""

    return Replay("WebShop", strict_original, _run(graph, environment, episodes, score, told))


def _model(record: dict[str, str], dialect: PaperDialect, strict_original: bool) -> TextReAct:
    return TextReAct(
        model=ReplayLLM(record=record),
        dialect=dialect,
        strict_original=strict_original,
        template="",  # the system prompt says it all, as the paper's do
        on_malformed="return",
    )


def _graph(model: TextReAct, environment: RecordedEnvironment, prompt: str, steps: int) -> Any:
    # As the published loops: nothing but the steps ends a run, nothing is said to the model beside, no call is made
    # again, and none after the last step.
    limits = Limits(
        steps=steps, seconds=None, repeats=steps + 2, errors=steps + 2, malformed=0, model_retries=0, closing=False
    )
    return create_react_graph(model, environment.tools, system_prompt=prompt, limits=limits)


def _run(
    graph: Any,
    environment: RecordedEnvironment,
    episodes: Sequence[Episode],
    score: Callable[[Episode, dict[str, Any]], tuple[float, str]],
    told: Told | None,
) -> tuple[Outcome, ...]:
    outcomes: list[Outcome] = []
    for done, episode in enumerate(episodes, start=1):
        environment.begin(episode)
        began = time.perf_counter()
        try:
            result = graph.invoke({"messages": [("user", episode.task)]})
        except NotRecordedError as error:
            raise environment.problem or error from None
        seconds = time.perf_counter() - began
        if environment.problem:
            raise environment.problem
        scored, answer = score(episode, result)
        calls = result["spent"]["model_calls"]
        outcomes.append(Outcome(episode.index, scored, answer, result["stop"]["reason"], calls, seconds))
        if told:
            told(done, len(episodes))
    return tuple(outcomes)

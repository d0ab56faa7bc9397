"""The published runs of ReAct with GPT-3 (text-davinci-002), as files of recorded episodes, and their prompts.

What the files hold, and what was put back to make prompts and replies of it again:

* Thoughts, actions and observations are kept without the white space at their ends. So are the prompts here: the
  published run's instruction and worked examples, the same before every prompt, are not in the record either; a
  system prompt of one's own takes their place.
* FEVER. The published code makes the first character of an action lower case, and only then strips it. Where the
  environment answered ``Invalid action: Finish[…]`` with the capital letter, the action began with white space: one
  blank is put back (:func:`load_fever`). A reply that the code could not split was followed by a second call; the
  file counts these calls, three in all, each at the last step of its episode, and the rest of these replies is
  taken from the output that was published with the code (:data:`BAD_CALLS`).
* WebShop. The first step, ``reset``, is the environment's own: its observation is the task. ``think[…]`` is an
  action, answered with "OK."; where the length limit cut it, it has no closing bracket. Titles of products have
  brackets, too. ``score`` is the score of the purchase, 0 where there was none; seven purchases brought an empty
  page and score 0. Fifteen steps are the most, ``reset`` included; the fifteenth reply of such an episode was paid
  for and never acted on, and is not in the file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

FEVER_FILE = "fever_react_gpt3_500.json.gz"
WEBSHOP_FILE = "webshop_react_gpt3_500.json.gz"
BAD_CALLS: Mapping[int, str] = {2817: "\n\nAction 7:\n\nFinish[NOT ENOUGH INFO]", 3991: "\nAction 2", 6626: ""}
"""FEVER: index of an episode → what its last first reply had behind the thought."""

_INVALID = "Invalid action: "


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step of a recorded run.

    Attributes:
        thought: Empty where the format has none.
        action: In the model's own words.
        observation: What the environment answered.
        first_reply: The model's reply that could not be read, where the action took a second call.
    """

    thought: str
    action: str
    observation: str
    first_reply: str | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """A recorded run.

    Attributes:
        index: Its number in the data set.
        task: What was asked: the claim, or the shop's first page.
        steps: What was done.
        score: What it scored as published, from 0 to 1.
        answer: The answer given; empty where there was none.
        gold: The right answer, where there is such a thing.
    """

    index: int
    task: str
    steps: tuple[RecordedStep, ...] = field(repr=False)
    score: float
    answer: str = ""
    gold: str | None = None


def load_fever(path: Path) -> list[Episode]:
    """The 500 claims.

    Raises:
        ValueError: The file holds something else.
    """
    return [_fever(entry) for entry in _entries(path, {"idx", "claim", "gold", "answer", "em", "badcalls", "steps"})]


def load_webshop(path: Path) -> list[Episode]:
    """The 500 purchases.

    Raises:
        ValueError: The file holds something else.
    """
    return [_webshop(entry, path) for entry in _entries(path, {"idx", "score", "steps"})]


def fever_calls(episodes: Sequence[Episode], head: str) -> dict[str, str]:
    """Prompt → reply of every model call, put together as the published code does it.

    Args:
        episodes: The record.
        head: What stands before every claim.

    Raises:
        ValueError: The same prompt was answered in two ways.
    """
    return _collected(call for episode in episodes for call in _fever_calls(episode, head))


def webshop_calls(episodes: Sequence[Episode], head: str, *, most_chars: int = 6400) -> dict[str, str]:
    """Prompt → reply of every model call, put together as the published code does it.

    Args:
        episodes: The record.
        head: What stands before every task.
        most_chars: Characters of a prompt; the oldest of a longer conversation is cut.

    Raises:
        ValueError: The same prompt was answered in two ways.
    """
    return _collected(call for episode in episodes for call in _webshop_calls(episode, head, most_chars - len(head)))


def _fever_calls(episode: Episode, head: str) -> Iterator[tuple[str, str]]:
    prompt = f"{head}Claim: {episode.task}\n"
    for number, step in enumerate(episode.steps, start=1):
        asked = f"{prompt}Thought {number}:"
        if step.first_reply is None:
            yield asked, f" {step.thought}\nAction {number}: {step.action}"
        else:
            yield asked, step.first_reply
            yield f"{asked} {step.thought}\nAction {number}:", f" {step.action}"
        prompt = f"{asked} {step.thought}\nAction {number}: {step.action}\nObservation {number}: {step.observation}\n"


def _webshop_calls(episode: Episode, head: str, room: int) -> Iterator[tuple[str, str]]:
    told = f"{episode.task}\n\nAction:"
    for step in episode.steps:
        yield head + told[-room:], f" {step.action}"
        told += f" {step.action}\nObservation: {step.observation}\n\nAction:"


def _collected(calls: Iterator[tuple[str, str]]) -> dict[str, str]:
    record: dict[str, str] = {}
    for prompt, reply in calls:
        if record.setdefault(prompt, reply) != reply:
            raise ValueError(f"the record has two replies to one prompt, which ends {prompt[-200:]!r}")
    return record


def _entries(path: Path, wanted: set[str]) -> list[dict[str, Any]]:
    entries = json.loads(gzip.decompress(path.read_bytes()))
    if not isinstance(entries, list) or not all(isinstance(one, dict) and wanted <= one.keys() for one in entries):
        raise ValueError(f"{path} is not the record: each entry of its list needs {', '.join(sorted(wanted))}")
    return entries


def _fever(entry: Mapping[str, Any]) -> Episode:
    steps = [_fever_step(step) for step in entry["steps"]]
    if entry["badcalls"]:
        steps[-1] = replace(steps[-1], first_reply=f" {steps[-1].thought}{BAD_CALLS[entry['idx']]}")
    return Episode(entry["idx"], entry["claim"], tuple(steps), float(entry["em"]), entry["answer"], entry["gold"])


def _fever_step(step: Mapping[str, Any]) -> RecordedStep:
    action = step["action"]
    if step["observation"] == f"{_INVALID}{action}" and action[0].isupper():
        action = f" {action}"
    return RecordedStep(step["thought"], action, step["observation"])


def _webshop(entry: Mapping[str, Any], path: Path) -> Episode:
    first, *rest = entry["steps"]
    if first["action"] != "reset":
        raise ValueError(f"{path}: episode {entry['idx']} begins with {first['action']!r} where it should be reset")
    steps = tuple(RecordedStep("", step["action"], step["observation"]) for step in rest)
    return Episode(entry["idx"], first["observation"], steps, entry["score"])

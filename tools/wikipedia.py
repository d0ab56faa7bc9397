"""ReAct's two Wikipedia tools: ``wikipedia_search`` and ``wikipedia_lookup``.

They behave as in the paper's environment (Yao et al. 2022, ``wikienv.py``), over a live wiki or a local file. Which
page is open and how far a look-up has come belongs to the run: each result carries it in its artifact, and
the next call reads it from the messages. So runs do not disturb each other, and a resumed run goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime

from taograph.tools.engines.wiki_corpus import Corpus, CorpusError, build_corpus
from taograph.tools.engines.wiki_live import MediaWiki
from taograph.tools.engines.wiki_text import Encyclopedia, Missing, Page, beginning, holding
from taograph.tools.policy import ToolError, ToolExample, tool

__all__ = ["build_corpus", "wikipedia_tools"]

SEARCH, LOOKUP = "wikipedia_search", "wikipedia_lookup"
_NOTE = "wikipedia"
_OUTSIDE = cast(ToolRuntime, None)
"""What a tool is given outside a graph. LangGraph knows the argument by its type, which ``| None`` would hide."""
_MOST = 3000
"""Characters of an observation."""
_LONGEST = 200
"""Characters of a name: what is longer is a question or a text."""

# Codes of Wikipedias: a language, perhaps a script or region of more than two letters, or one of these.
_CODE = re.compile(r"[a-z]{2,3}(-[a-z]{3,10}){0,2}|simple|nds-nl|be-x-old")

# What the tools return over a file of three pages that were written for it; a test holds them to that.
_SEARCH_EXAMPLES = (
    ToolExample(
        question="Which two countries share Lake Titicaca?",
        args={"entity": "Lake Titicaca"},
        observation=(
            "Lake Titicaca is a large freshwater lake in the Andes. It lies on the border of Peru and Bolivia. "
            "Its surface is about 3,812 meters above sea level. More than 25 rivers flow into it. "
            "Only one river of note, the Desaguadero, flows out of it."
        ),
        answer="Lake Titicaca is shared by Peru and Bolivia.",
    ),
    ToolExample(
        question="Look up the Eiffel Tower: when was it finished?",
        args={"entity": "Eiffel Tower"},
        observation=(
            "The Eiffel Tower is an iron tower in Paris. It was finished in 1889. It is about 330 meters high. "
            "It bears the name of Gustave Eiffel, whose company built it."
        ),
        answer="The Eiffel Tower was finished in 1889.",
    ),
    ToolExample(
        question="Who was Marie Curie?",
        args={"entity": "Marie Curie"},
        observation=(
            "Marie Curie was a physicist and chemist. She was born in Warsaw in 1867 and worked in Paris. "
            "With her husband Pierre she discovered polonium and radium. She was given two Nobel Prizes."
        ),
        answer="Marie Curie was a physicist and chemist, born in Warsaw, who discovered polonium and radium.",
    ),
)
_LOOKUP_EXAMPLE = ToolExample(
    question="And how deep is it? Look further on the page that is open.",
    args={"keyword": "deep"},
    observation="(Result 1 / 1) At its deepest point the lake is about 280 meters deep.",
    answer="At its deepest point it is about 280 meters deep.",
)


def wikipedia_tools(
    *,
    language: str = "en",
    corpus: str | Path | None = None,
    base_url: str | None = None,
    timeout: float | None = None,
) -> list[BaseTool]:
    """The tools ``wikipedia_search`` and ``wikipedia_lookup``.

    Args:
        language: The code of a Wikipedia, as in its address: ``"en"``, ``"de"``, ``"zh-yue"``.
        corpus: A local file to read instead: a database made by :func:`build_corpus`, or the ``.jsonl`` or
            ``.jsonl.gz`` to make one of, which happens at the first call. Nothing leaves the machine.
        base_url: The ``api.php`` of another wiki (MediaWiki with the extension TextExtracts).
        timeout: Seconds one call may take; 20 where a wiki is asked, 120 with a file that may have to be read first.

    Raises:
        ValueError: The language, the file or the address is none, or both of the latter are given.
    """
    if not _CODE.fullmatch(language):
        raise ValueError(f"language={language!r} is no code of a Wikipedia: use one such as en, de, fr, ja or zh-yue")
    if corpus is not None and base_url is not None:
        raise ValueError("give either corpus (a local file) or base_url (a wiki), not both")
    if corpus is not None:
        return _tools(Corpus(corpus), "the local copy of Wikipedia", timeout or 120.0)
    seconds = timeout or 20.0
    named = "Wikipedia" if language == "en" else f"Wikipedia ({language})"
    service = "The wiki" if base_url else named
    endpoint = base_url or f"https://{language}.wikipedia.org/w/api.php"
    # A little less than the call may take: so the model reads what was wrong, not only that time ran out.
    return _tools(MediaWiki(endpoint, service=service, seconds=seconds * 0.9), service.replace("The", "the"), seconds)


def _tools(source: Encyclopedia, named: str, timeout: float) -> list[BaseTool]:
    @tool(name=SEARCH, effects="none", timeout=timeout, max_chars=None, trusted=False, examples=_SEARCH_EXAMPLES)
    def search(entity: str) -> tuple[str, dict[str, Any] | None]:
        """Open a page and read its first five sentences, or learn which titles are like it.

        Args:
            entity: The title of a page: the name of one person, place, work or thing. Not a question.
        """
        asked = " ".join(entity.split())
        if not asked:
            raise ToolError("The entity is empty. Write the name of what you look for.")
        if len(asked) > _LONGEST:
            raise ToolError("The entity is too long. Write the name of one person, place, work or thing.")
        with _told():
            found = source.search(asked)
        if isinstance(found, Missing):
            # As in the paper, a title of several meanings is told from a missing one by its brackets.
            return f"Could not find {f'[{asked}]' if found.meanings else asked}. Similar: {list(found.similar)}.", None
        text = beginning(found.text) or f"The page {found.title!r} has no running text."
        return _shown(text), _noted(source, Place(found.title, found.revision))

    @tool(name=LOOKUP, effects="none", timeout=timeout, max_chars=None, trusted=False, examples=(_LOOKUP_EXAMPLE,))
    def lookup(keyword: str, runtime: ToolRuntime = _OUTSIDE) -> tuple[str, dict[str, Any]]:
        """Find more on the page that wikipedia_search has opened: the next sentence that holds some words.

        Use wikipedia_search first. The same words again: the sentence after it.
        Example: wikipedia_lookup(keyword="deep").

        Args:
            keyword: A word that stands in the sentence, just as it is written there.
        """
        with _told():
            text, place = _look_up(source, _standing(source, runtime), keyword.strip())
        return _shown(text), _noted(source, place)

    about = (
        f"Open a page of {named} and read its first five sentences, or learn which titles are like it. "
        'Example: wikipedia_search(entity="Lake Titicaca").'
    )
    return [
        search.model_copy(update={"response_format": "content_and_artifact", "description": about}),
        lookup.model_copy(update={"response_format": "content_and_artifact"}),
    ]


def _shown(text: str) -> str:
    """A text in a size to read: where a page is a list without full stops, all of it is one sentence."""
    return text if len(text) <= _MOST else f"{text[:_MOST]}… [the rest of {len(text)} characters is left out]"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run stands.

    Attributes:
        title: The page that is open.
        revision: Which revision of it.
        keyword: What was looked up on it last.
        given: How many sentences with that were given.
    """

    title: str
    revision: str
    keyword: str | None = None
    given: int = 0


def _look_up(source: Encyclopedia, place: Place | None, keyword: str) -> tuple[str, Place]:
    if place is None:
        raise ToolError(f"No page is open. Call {SEARCH} first, with the name of the person, place or thing.")
    page = source.read(place.title, place.revision)
    if page is None:
        raise ToolError(f"The page {place.title!r} is no longer there. Open another one with {SEARCH}.")
    given = place.given if keyword == place.keyword else 0
    found = holding(page.text, keyword)
    if given >= len(found):
        return "No more results.", Place(page.title, page.revision, keyword, given)
    text = f"(Result {given + 1} / {len(found)}) {found[given]}"
    return text, Place(page.title, page.revision, keyword, given + 1)


def _noted(source: Encyclopedia, place: Place) -> dict[str, Any]:
    return {_NOTE: {"source": source.key, **asdict(place)}}


def _standing(source: Encyclopedia, runtime: ToolRuntime | None) -> Place | None:
    """Where the run stands before a call: what was noted last, and what the calls before it in its turn will do."""
    state = runtime.state if runtime is not None else None
    held = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    messages: Sequence[Any] = held or ()
    place: Place | None = None
    for message in messages:
        if isinstance(message, ToolMessage):
            place = _read_note(source, message) or place
    if runtime is not None:
        for call in _before(messages, runtime.tool_call_id):
            place = _foreseen(source, place, call)
    return place


def _read_note(source: Encyclopedia, message: ToolMessage) -> Place | None:
    artifact = message.artifact
    if isinstance(artifact, Mapping) and isinstance(artifact.get("tool_artifact"), Mapping):
        artifact = artifact["tool_artifact"]  # the result was long: the loop keeps it whole beside the tool's own
    note = artifact.get(_NOTE) if isinstance(artifact, Mapping) else None
    if not isinstance(note, Mapping) or note.get("source") != source.key:
        return None
    title, revision, keyword, given = (note.get(name) for name in ("title", "revision", "keyword", "given"))
    if not isinstance(title, str) or not isinstance(revision, str) or not isinstance(given, int):
        return None
    return Place(title, revision, keyword if isinstance(keyword, str) else None, given)


def _before(messages: Sequence[Any], call_id: str | None) -> list[Mapping[str, Any]]:
    """The calls that stand before this one in its turn and run beside it, so that their results are not there yet."""
    turn = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    calls = list(turn.tool_calls) if turn is not None else []
    ids = [call["id"] for call in calls]
    if call_id not in ids:
        return []
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [dict(call) for call in calls[: ids.index(call_id)] if call["id"] not in done]


def _foreseen(source: Encyclopedia, place: Place | None, call: Mapping[str, Any]) -> Place | None:
    try:
        if call["name"] == SEARCH:
            found = source.search(" ".join(str(call["args"]["entity"]).split()))
            return Place(found.title, found.revision) if isinstance(found, Page) else place
        if call["name"] == LOOKUP:
            return _look_up(source, place, str(call["args"]["keyword"]).strip())[1]
    except (KeyError, ToolError, CorpusError):
        pass  # that call fails by itself and changes nothing
    return place


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a corpus, in words for the model."""
    try:
        yield
    except CorpusError as error:
        raise ToolError(f"Wikipedia can't be read now: {error}. Go on without it, or use another tool.") from error

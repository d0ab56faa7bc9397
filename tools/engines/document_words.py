"""What the document tools say: passages, pages and what went wrong, bounded and in words for a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taograph.tools.engines.document_index import DocumentIndex, IndexUnavailable, UnknownDocument
from taograph.tools.engines.document_search import Hit
from taograph.tools.engines.passages import PAGE_CHARS, PASSAGE_CHARS
from taograph.tools.policy import ToolError

_RESULT_CHARS = 1500
"""Characters of a search result with three passages; each further one adds to it."""
_MORE_CHARS = 300
"""Characters of each passage but the first, at most: every one of them is read by the model again at each step."""
_MAX_PASSAGES = 10


def passages_found(index: DocumentIndex, query: str, limit: int) -> str:
    """The passages with these words.

    Args:
        index: Where to look.
        query: The words.
        limit: How many passages, 1 to 10.
    """
    with _told():
        hits = index.search(query, max(1, min(limit, _MAX_PASSAGES)))
    return _results(hits, limit) if hits else _nothing(query, index)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the index in words for the model."""
    try:
        yield
    except UnknownDocument as error:
        near = ", ".join(f'"{name}"' for name in error.closest)
        hint = f"The closest are: {near}." if near else "Use search_documents to find its name."
        raise ToolError(f"There is no document with that name. {hint}") from error
    except IndexUnavailable as error:
        raise ToolError(
            "The documents can't be read now. Answer without them and say that `tao index` shows what is wrong."
        ) from error


def _nothing(query: str, index: DocumentIndex) -> str:
    if not query.strip():
        raise ToolError("The query is empty. Write a few key words of what is asked.")
    if index.empty():
        return "There are no documents to search."
    return "No passage has these words. Search again with other or fewer words."


def _results(hits: list[Hit], limit: int) -> str:
    """The passages, best first, the first one in full and the others as the space allows."""
    space = _RESULT_CHARS + _MORE_CHARS * max(0, min(limit, _MAX_PASSAGES) - 3)
    shown: list[str] = []
    for number, hit in enumerate(hits, start=1):
        head = f"{number}. {_label(hit)}: "
        foot = f'\n[document "{hit.document}", page {hit.page}]'
        room = min(space - len(head) - len(foot), PASSAGE_CHARS if number == 1 else _MORE_CHARS)
        if room < 60:
            break
        shown.append(head + excerpt(hit, room) + foot)
        space -= len(shown[-1]) + 2
    return "\n\n".join(shown)


def _label(hit: Hit) -> str:
    return f"{hit.title} — {hit.heading}" if hit.heading else hit.title


def excerpt(hit: Hit, size: int) -> str:
    """The passage, or the stretch of it that holds the most of the words looked for.

    Args:
        hit: What was found.
        size: Characters at most.
    """
    text = hit.text
    if len(text) <= size:
        return text
    span = size - 2  # for the two ellipses
    spots = hit.spots or (0,)
    _, start = max((sum(spot <= other < spot + span for other in spots), -spot) for spot in spots)
    last = max(spot for spot in spots if -start <= spot < -start + span)
    middle = (last - start) // 2
    start = max(0, min(middle - span // 2, -start, len(text) - span))
    end = start + span
    if start:  # begin and end between words where there is one near
        space = text.find(" ", start, start + 20)
        start = space + 1 if space >= 0 else start
    if end < len(text):
        space = text.rfind(" ", end - 20, end)
        end = space if space >= 0 else end
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def page_of(index: DocumentIndex, document: str, number: int) -> str:
    """A page of a document.

    Args:
        index: Where it is.
        document: Its name.
        number: Which page, from 1.
    """
    with _told():
        page = index.page(document, number)
    if not 1 <= number <= page.pages:
        pages = "1 page" if page.pages == 1 else f"{page.pages} pages, 1 to {page.pages}"
        raise ToolError(f'The document "{page.document}" has {pages}: there is no page {number}.')
    head = f'{page.title} (document "{page.document}"), page {number} of {page.pages}'
    more = f'\n\nGo on: open_document(document="{page.document}", page={number + 1})'
    return f"{head}\n\n{page.text}{more if number < page.pages else ''}"


def places_found(index: DocumentIndex, document: str, words: str) -> str:
    """The places of a document that have these words.

    Args:
        index: Where it is.
        document: Its name.
        words: The words.
    """
    with _told():
        hits = index.find(document, words.strip())
        page = None if hits else index.page(document, 1)
    if page is not None:
        return f'Nothing in "{page.document}" has these words. It has {page.pages} page(s) to read.'
    shown = [f'{hits[0].title} (document "{hits[0].document}"), what fits best first']
    space = PAGE_CHARS - len(shown[0])
    for hit in hits:
        part = f"Page {hit.page}{f', {hit.heading}' if hit.heading else ''}: {hit.text}"
        space -= len(part) + 2
        if space < 0:
            break
        shown.append(part)
    return "\n\n".join(shown)

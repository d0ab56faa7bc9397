"""Searching the web."""

from __future__ import annotations

import os
from collections.abc import Sequence

from langchain_core.tools import BaseTool

from taograph.tools.engines.search_services import SECONDS, SERVICES, SearchProvider, SearchResult
from taograph.tools.policy import ToolError, ToolExample, tool

__all__ = ["SearchProvider", "SearchResult", "web_search_tool"]

_NAMED_BY = "TAOGRAPH_SEARCH"
_MOST = 10
_MOST_QUERY = 1000

_EXAMPLE = ToolExample(
    question="How tall is the lighthouse of Example Point?",
    args={"query": "Example Point lighthouse height"},
    observation=(
        "1. Example Point lighthouse\nhttps://lights.example.org/example-point\n"
        "The lighthouse of Example Point, built in 1871, is 38 metres tall."
    ),
    answer="It is 38 metres tall (https://lights.example.org/example-point).",
)


def web_search_tool(provider: str | SearchProvider | None = None) -> BaseTool:
    """The tool ``web_search``.

    Args:
        provider: What searches: the name of a service (``"ddgs"``, ``"tavily"``, ``"brave"``, ``"serper"``,
            ``"searxng"``), or a function of one's own. When absent, the one that ``TAOGRAPH_SEARCH`` names, else
            the first whose key or URL is in the environment, else ``ddgs``, which needs no key.

    Raises:
        ValueError: There is no such service, or its key or library is missing; the message says the fix.
    """
    search = provider if callable(provider) else _provider(provider)

    @tool(effects="none", timeout=SECONDS + 5.0, max_chars=None, trusted=False, examples=(_EXAMPLE,))
    def web_search(query: str, max_results: int = 5) -> str:
        """Search the web. Example: web_search(query="population of Oslo 2024").

        Args:
            query: What to search for, in a few key words.
            max_results: How many results to return, 1 to 10.
        """
        words = " ".join(query.split())[:_MOST_QUERY]
        if not words:
            raise ToolError("The query is empty. Write a few key words of what is asked.")
        most = max(1, min(max_results, _MOST))
        return _shown(search(words, most)[:most])

    return web_search


def _provider(name: str | None) -> SearchProvider:
    chosen, said = name, "provider"
    if chosen is None:
        chosen, said = os.environ.get(_NAMED_BY, "").strip().lower() or None, _NAMED_BY
    if chosen is None:
        chosen = next((each for each, service in SERVICES.items() if service.ready()), None)
        if chosen is None:
            variables = ", ".join(service.variable for service in SERVICES.values() if service.variable)
            raise ValueError(
                f"web_search has nothing to search with: pip install taograph[web], or set one of {variables}"
            )
    service = SERVICES.get(chosen)
    if service is None:
        raise ValueError(f"{said}: there is no search service {chosen!r}. There are {', '.join(SERVICES)}")
    if not service.ready():
        fix = f"set {service.variable}" if service.variable else "pip install taograph[web]"
        raise ValueError(f"web_search can't use {chosen}: {fix}")
    return service.make()


def _shown(results: Sequence[SearchResult]) -> str:
    if not results:
        return "Nothing was found. Search again with other or fewer words."
    return "\n\n".join(
        f"{number}. {result.title or 'Untitled'}\n{result.url}" + (f"\n{result.snippet}" if result.snippet else "")
        for number, result in enumerate(results, start=1)
    )

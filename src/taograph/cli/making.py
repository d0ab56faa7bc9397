"""From what a run is given to the graph that carries it out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from taograph.cli.console import on_terminal, say, status
from taograph.cli.errors import CommandError
from taograph.cli.servers import mcp_tools
from taograph.cli.settings import DEFAULT_GRAPH, Settings
from taograph.cli.words import count

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph

    from taograph.cli.render import Renderer


def started(graph: str | None) -> Callable[..., Any]:
    """The factory of a strategy, with all that a run needs imported: most of the waiting is for this.

    Raises:
        typer.BadParameter: There is no such strategy.
    """
    with status("Starting…") if on_terminal(sys.stderr) else ExitStack():
        from taograph.graphs import STRATEGIES
        from taograph.models import endpoint  # noqa: F401

        name = graph or DEFAULT_GRAPH
        try:
            return STRATEGIES[name]
        except KeyError:
            known = ", ".join(STRATEGIES)
            raise typer.BadParameter(
                f"no strategy is called {name!r}; there are: {known}", param_hint="--graph"
            ) from None


def tools_of(settings: Settings, *, somebody: bool) -> list[BaseTool]:
    """The tools that were named, or the usual ones; documents are indexed now, before the run's time counts.

    Args:
        settings: What the run is given.
        somebody: Whether a person can be asked, now or later.

    Raises:
        typer.BadParameter: There is no such tool.
    """
    from taograph.tools import catalog

    folder = str(settings.docs) if settings.docs else None
    try:
        tools = catalog.default_tools(folder) if settings.tools is None else catalog.load(settings.tools, docs=folder)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--tools" if settings.tools else "TAOGRAPH_DOCS") from error
    if settings.tools is None and not somebody:
        tools = [tool for tool in tools if tool.name != "ask_person"]
    if settings.docs and any(tool.name == "search_documents" for tool in tools):
        _index(settings.docs)
    return [*tools, *mcp_tools(settings.mcp)] if settings.mcp else tools


def asks_first(settings: Settings, tools: Sequence[BaseTool]) -> bool:
    """Whether a run may have to wait for approval."""
    from taograph.tools.policy import policy_of

    return bool(_approve(settings.approve)) or any(policy_of(tool).approve for tool in tools)


@dataclass(frozen=True)
class Made:
    """A graph, and what is to be known of it.

    Attributes:
        graph: The graph.
        tools: Its tools, by name.
        settings: What it was made from, the model's name included where none was given.
        model: The model's name, for a header.
        limits: Its limits.
    """

    graph: CompiledStateGraph[Any, Any, Any, Any]
    tools: Mapping[str, BaseTool]
    settings: Settings
    model: str
    limits: Mapping[str, Any]

    def check(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """What is wrong with the arguments of a call; None if nothing is, or the tool is not known here."""
        from taograph.tools.running import check_arguments

        found = self.tools.get(tool)
        return None if found is None else check_arguments(found, args)


def make(
    factory: Callable[..., Any],
    settings: Settings,
    tools: Sequence[BaseTool],
    *,
    checkpointer: Any,
    renderer: Renderer,
    yes: bool,
) -> Made:
    """The graph.

    Args:
        factory: Of its strategy.
        settings: What the run is given.
        tools: Its tools.
        checkpointer: Where it is kept.
        renderer: Is told whether there is a price, and what the first wait is for.
        yes: Fetch the local model without asking, if it is needed.

    Raises:
        typer.BadParameter: Something that was given can't be used; the message names the option.
        CommandError: There is no model.
    """
    from taograph.cli.model import resolved
    from taograph.models.prices import model_name, price_of
    from taograph.models.resolving import default_model

    model = resolved(settings.model, yes=yes)
    renderer.priced = price_of(model) is not None
    if model._llm_type == "taograph-local":  # it is started by its first call
        renderer.waiting_for = "loading the local model, reading the prompt"
        if not on_terminal(sys.stdout):
            say("Loading the local model…")
    if settings.limits.get("cost") is not None and not renderer.priced:
        raise typer.BadParameter(
            "the price of this model is not known, so the limit could not be kept; name it in the file "
            'that TAOGRAPH_PRICES names ({"model": {"input": 0.5, "output": 1.5}}, dollars for a million tokens)',
            param_hint="--cost",
        )
    approve = _approve(settings.approve)
    options = {"system_prompt": settings.system, "approve": approve, "checkpointer": checkpointer}
    try:
        graph = factory(model, tools, **options)
        if settings.limits:  # what is not said is the strategy's own
            graph = factory(model, tools, **options, limits=replace(graph.limits, **settings.limits))
    except ValueError as error:
        if not str(error).startswith("approve="):
            raise
        raise typer.BadParameter(str(error), param_hint="--approve") from error
    return Made(
        graph=graph,
        tools={tool.name: tool for tool in tools},
        settings=replace(settings, model=settings.model or default_model()),
        model=model_name(model) or type(model).__name__,
        limits=graph.limits.to_dict(),
    )


def _approve(named: str | None) -> bool | list[str]:
    """What ``approve=`` is for what was named."""
    names = [name for name in map(str.strip, (named or "").split(",")) if name]
    match [name.lower() for name in names]:
        case ["all"]:
            return True
        case ["none"] | []:
            return []
        case _:
            return names


def _index(folder: Path) -> None:
    from taograph.cli.index import indexing
    from taograph.tools.documents import index_folder
    from taograph.tools.engines.document_index import IndexUnavailable

    try:
        with indexing() as on_file:
            failed = index_folder(folder, on_file=on_file).failed
    except IndexUnavailable as error:
        raise CommandError(str(error)) from error
    if failed:
        say(f"{count(len(failed), 'file')} of {folder} could not be read; `tao index` names them.")

"""The graphs: one file, one strategy.

To add one, write ``graphs/NAME.py`` with ``create_NAME_graph`` and a module-level ``graph``, and name it in
:data:`STRATEGIES` and in ``langgraph.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any


class _Strategies(Mapping[str, Callable[..., Any]]):
    """Name → factory; a strategy is imported when it is asked for."""

    _homes: Mapping[str, tuple[str, str]] = {
        "react": ("taograph.graphs.react", "create_react_graph"),
        "direct": ("taograph.graphs.direct", "create_direct_graph"),
        "act_only": ("taograph.graphs.act_only", "create_act_only_graph"),
        "self_consistency": ("taograph.graphs.self_consistency", "create_self_consistency_graph"),
        "hybrid": ("taograph.graphs.hybrid", "create_hybrid_graph"),
        "rewoo": ("taograph.graphs.rewoo", "create_rewoo_graph"),
        "dag": ("taograph.graphs.dag", "create_dag_graph"),
        "reflexion": ("taograph.graphs.reflexion", "create_reflexion_graph"),
        "router": ("taograph.graphs.router", "create_router_graph"),
        "plan_execute": ("taograph.graphs.plan_execute", "create_plan_execute_graph"),
    }

    def __getitem__(self, name: str) -> Callable[..., Any]:
        module, factory = self._homes[name]
        made: Callable[..., Any] = getattr(import_module(module), factory)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


STRATEGIES: Mapping[str, Callable[..., Any]] = _Strategies()
"""Every strategy's factory, by the name that ``tao run --graph`` and the server know it by."""

"""The loop without thoughts: act → observe → act → … → answer.

The "Act" baseline of the ReAct paper (Yao et al., arXiv 2210.03629): what it is given is what the loop is given, less
the thoughts, so that a comparison of both shows what the thoughts are worth.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph.state import CompiledStateGraph
from typing_extensions import Unpack

from taograph.graphs.loop.options import Model, Options, Tools, agent_of, context_of
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.react import loop_of
from taograph.served import served
from taograph.tools.catalog import default_tools


@a_strategy
def create_act_only_graph(
    model: Model, tools: Tools = (), **options: Unpack[Options]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that answers a question by acting alone: the loop of :func:`taograph.create_react_graph`.

    With native calls the model is told to act without explaining; what it writes or reasons beside a call is not kept
    and not sent again. In the text protocol its instructions and examples have no thoughts. A model that reasons on
    its own does so all the same, and some endpoints refuse its calls without the reasoning they came with: switch that
    off in the model.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: As :func:`taograph.create_react_graph`.
        **options: As :func:`taograph.create_react_graph`.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.loop.state.Output` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    agent = agent_of(model, tools, options, name="act_only", thoughts=False)
    return loop_of(
        agent,
        checkpointer=options.get("checkpointer"),
        store=options.get("store"),
        context_schema=context_of(options),
    )


graph = served(create_act_only_graph(None, default_tools()))

"""What every strategy's factory takes, beside what is its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from taograph.graphs.loop.agent import Agent, Verifier, make_agent
from taograph.graphs.loop.approving import Approve
from taograph.graphs.loop.context import Context
from taograph.graphs.loop.internals import with_own_limit
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.speaking import Protocol

Model = str | BaseChatModel | BaseLLM | None
Tools = Sequence[BaseTool | Callable[..., Any]] | None


class Options(TypedDict, total=False):
    """The options of every strategy; :func:`taograph.create_react_graph` says what they mean.

    Attributes:
        system_prompt: Instructions that stand before the conversation.
        protocol: How the model is asked: "auto", "native" or "text".
        examples: Worked examples as real turns.
        limits: What a run may use, its sub-runs included.
        response_format: The form of the answer.
        require: Names of tools that must have been called before an answer is accepted.
        approve: Which calls need a person's word.
        verify: A check of the answer.
        checkpointer: As LangGraph's ``compile``.
        store: As LangGraph's ``compile``.
        context_schema: What ``context=`` may hold.
        name: The graph's name.
    """

    system_prompt: str | SystemMessage | None
    protocol: Protocol
    examples: Sequence[Any]
    limits: Limits
    response_format: Any
    require: Sequence[str]
    approve: Approve
    verify: Verifier | None
    checkpointer: Any
    store: Any
    context_schema: type[Any]
    name: str


_OF_GRAPH = ("checkpointer", "store", "context_schema")


def agent_of(
    model: Model,
    tools: Tools,
    options: Options,
    *,
    name: str,
    limits: Limits | None = None,
    thoughts: bool = True,
    worked: bool = True,
) -> Agent:
    """The parts of a strategy, checked.

    Args:
        model: As the factory was given it.
        tools: Likewise; None is none.
        options: Likewise.
        name: What the graph is called where the options name it no other.
        limits: What a run may use where the options do not say it.
        thoughts: As :class:`~taograph.graphs.loop.agent.Agent`.
        worked: Likewise.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
        TypeError: There is no such option, or a part is of the wrong kind.
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"create_{name}_graph has no option {unknown[0]!r}; beside its own there are: {known}")
    given: dict[str, Any] = {
        "system_prompt": None,
        "protocol": "auto",
        "examples": (),
        "limits": limits or Limits(),
        "response_format": None,
        "require": (),
        "approve": (),
        "verify": None,
        "name": name,
        **{key: value for key, value in options.items() if key not in _OF_GRAPH},
    }
    return make_agent(model, tools or (), **given, thoughts=thoughts, worked=worked)


def for_child(options: Options, **changes: Any) -> Options:
    """The options of a graph that is a part of a strategy.

    It is stored with its parent, and the answer's form and the checks of the answer are the parent's, unless the
    changes say otherwise.
    """
    kept = ("system_prompt", "protocol", "examples", "approve", "context_schema")
    made: Any = {key: value for key, value in options.items() if key in kept} | changes
    child: Options = made
    return child


def compiled(
    builder: StateGraph[Any, Any, Any, Any], agent: Agent, options: Options
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph of a strategy."""
    made = builder.compile(
        checkpointer=options.get("checkpointer"), store=options.get("store"), name=options.get("name") or agent.name
    )
    return with_own_limit(made, agent.limits)


def context_of(options: Options) -> type[Any]:
    """What a run's context may hold."""
    return options.get("context_schema") or Context

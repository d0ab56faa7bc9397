"""The ReAct loop: reason → act → reason → … → finish. Thought, action, observation, until an answer.

ReAct: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", arXiv 2210.03629.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from taograph.graphs.loop.acting import act, act_input
from taograph.graphs.loop.agent import Agent, Verifier, make_agent
from taograph.graphs.loop.approving import Approve
from taograph.graphs.loop.context import Context
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router, with_own_limit
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.reasoning import reason
from taograph.graphs.loop.repair import open_calls
from taograph.graphs.loop.speaking import Protocol
from taograph.graphs.loop.state import ActInput, Input, Output, State
from taograph.served import served
from taograph.tools.catalog import default_tools


@a_strategy
def create_react_graph(
    model: str | BaseChatModel | BaseLLM | None,
    tools: Sequence[BaseTool | Callable[..., Any]] | None = (),
    *,
    system_prompt: str | SystemMessage | None = None,
    protocol: Protocol = "auto",
    examples: Sequence[Any] = (),
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    response_format: Any = None,
    require: Sequence[str] = (),
    approve: Approve = (),
    verify: Verifier | None = None,
    checkpointer: Any = None,
    store: Any = None,
    context_schema: type[Any] = Context,
    name: str = "react",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that answers a question by reasoning and acting.

    Args:
        model: A chat model, a completion model (asked in the text protocol), a name ("openai:gpt-5-mini",
            "local", "http://host:port/v1#name"), or None: then each run takes it from its ``Context``, or from what
            the environment configures.
        tools: Functions, LangChain tools or MCP tools; None is none.
        system_prompt: Instructions that stand before the conversation.
        protocol: "native" for function calling, "text" for Thought/Action/Observation written out; "auto" is
            native where the model and its endpoint call functions and text where not, also learned during a run.
        examples: Worked examples as real turns: messages, or lists of messages. A small local model is given
            the tools' own when there are none.
        limits: What a run may use.
        response_format: A Pydantic model, a TypedDict, a dataclass or a JSON Schema that the answer must fit.
        require: Names of tools that must have been called before an answer is accepted.
        approve: Which calls need a person's word before they run: names of tools, True for all, or a function of
            (tool, arguments, trajectory). The run waits (see :mod:`taograph.graphs.loop.approving` for the answers),
            so it needs a checkpointer.
        verify: A check of the answer: a function of (answer, trajectory), sync or async, that returns None or True
            if it holds and an objection (or False) if not; or a model that judges. It may send the loop on twice.
        checkpointer: As LangGraph's ``compile``.
        store: As LangGraph's ``compile``.
        context_schema: What ``context=`` may hold; fields with the names of :class:`~taograph.Context` count.
        name: The graph's name.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.loop.state.Output` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    agent = make_agent(
        model,
        tools or (),
        system_prompt=system_prompt,
        protocol=protocol,
        examples=examples,
        limits=limits,
        response_format=response_format,
        require=require,
        approve=approve,
        verify=verify,
        name=name,
    )
    return loop_of(agent, checkpointer=checkpointer, store=store, context_schema=context_schema)


def loop_of(
    agent: Agent, *, checkpointer: Any = None, store: Any = None, context_schema: type[Any] = Context
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The loop itself.

    Args:
        agent: What it is made of.
        checkpointer: As LangGraph's ``compile``.
        store: As LangGraph's ``compile``.
        context_schema: What ``context=`` may hold.
    """

    def route(state: State) -> Literal["reason", "finish", "__end__"] | list[Send]:
        run = state["run"]
        if state.get("stop") is not None:
            return "__end__" if run["done"] else "finish"
        calls = open_calls(state["messages"])
        if not calls:
            return "reason"
        return [Send("act", act_input(call, run)) for call in calls]

    compiled = (
        StateGraph(State, context_schema=context_schema, input_schema=Input, output_schema=Output)
        .add_node("reason", node("reason", reason(agent)))
        .add_node("act", node("act", act(agent)), input_schema=ActInput)
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "reason")
        .add_conditional_edges("reason", router("route", route), ["reason", "act", "finish", END])
        .add_edge("act", "reason")
        .add_edge("finish", END)
        .compile(checkpointer=checkpointer, store=store, name=agent.name)
    )
    return with_own_limit(compiled, agent.limits)


graph = served(create_react_graph(None, default_tools()))

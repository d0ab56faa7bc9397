"""What a loop is made of: model, tools, prompt, limits, checks, validated when the graph is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from taograph.graphs.loop.approving import Approvals, Approve, read_approve
from taograph.graphs.loop.internals import Injector
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.origin import Origin, origin
from taograph.graphs.loop.repair import is_sound
from taograph.graphs.loop.speaking import Protocol, Spoken, declared, in_text, speaks_text
from taograph.graphs.loop.structure import Structure, read_structure
from taograph.graphs.protocols.acceptable import without_thoughts
from taograph.models.prices import FREE, Price, is_free, model_name, price_by_name, price_of
from taograph.models.resolving import resolve, safe_across_loops
from taograph.tools.policy import as_tool, policy_of
from taograph.tools.results import READ_RESULT, read_result_tool
from taograph.tools.schemas import fault_of_references

_REMEMBERED = 32
Verifier = Callable[..., Any] | BaseChatModel | str


@dataclass(frozen=True)
class Agent:
    """The parts of a loop; see :func:`taograph.create_react_graph` for what they mean.

    Attributes:
        thoughts: Whether the model is to think in words before it acts, and its thoughts are kept.
        origin: The factory that it is of, for the record of a run.
        worked: Whether a model that needs worked examples is shown the tools' own. They are turns of the loop: a model
            that is asked for a plan, or for an answer from results, takes them for its own.
    """

    model: BaseChatModel | None
    tools: tuple[BaseTool, ...]
    protocol: Protocol
    system_prompt: str | None
    examples: tuple[AnyMessage, ...]
    limits: Limits
    structure: Structure | None
    require: tuple[str, ...]
    approvals: Approvals
    verify: Callable[..., Any] | BaseChatModel | None
    name: str
    thoughts: bool = True
    origin: Origin | None = None
    worked: bool = True
    _bound: dict[tuple[int, str, Spoken], Bound] = field(default_factory=dict, repr=False)
    _refusing: dict[int, tuple[BaseChatModel, str]] = field(default_factory=dict, repr=False)

    @cached_property
    def by_name(self) -> Mapping[str, BaseTool]:
        """The tools by name, ``read_result`` included where an observation may be cut."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def injector(self) -> Injector:
        """Supplies what tools ask of the graph."""
        return Injector(list(self.tools))

    def bound(self, chosen: str | None) -> Bound:
        """The model of a run with the tools bound to it.

        Args:
            chosen: What the run's context names, or None for the graph's own.

        Raises:
            ValueError: There is no such model, or none at all.
        """
        model = resolve(chosen) if chosen else self.model or resolve(None)
        refused = self._refusing.get(id(model))
        if refused is not None and refused[0] is model:
            return self._bind(model, "text", refused[1])
        return self._bind(model, *declared(model, self.protocol))

    def in_text(self, bound: Bound, why: str) -> Bound:
        """The same model, asked in the text protocol.

        Args:
            bound: The model as it was asked.
            why: Why it changes, for the trace.
        """
        return self._bind(bound.given, "text", why)

    def remember(self, bound: Bound) -> None:
        """Ask a model in later runs as it is asked now: its endpoint refused tools, and took the text protocol."""
        if len(self._refusing) >= _REMEMBERED:
            self._refusing.clear()
        self._refusing[id(bound.given)] = (bound.given, bound.why)

    def _bind(self, model: BaseChatModel, spoken: Spoken, why: str) -> Bound:
        key = (id(model), model_name(model), spoken)  # a model may be given another name
        found = self._bound.get(key)
        if found is None or found.given is not model:
            if len(self._bound) >= _REMEMBERED:
                self._bound.clear()
            found = self._bound[key] = Bound.make(model, self, spoken, why)
        # What it was bound for another reason before is bound the same; what turned out to speak text says why itself.
        return replace(found, why=why) if found.protocol == spoken and found.why != why else found


@dataclass(frozen=True)
class Bound:
    """A model with the tools of a loop.

    Attributes:
        given: The model as it was given.
        model: The model alone.
        acting: The model with the tools.
        closing: The model as it is asked for a closing answer, without calls.
        examples: Worked examples that stand before the conversation.
        name: Its name, for events.
        protocol: How it is asked.
        why: Why it is asked so, for events.
        priced: The name that its price is known by; None where it is free of charge.
    """

    given: BaseChatModel
    model: BaseChatModel
    acting: Runnable[Any, Any]
    closing: Runnable[Any, Any]
    examples: tuple[AnyMessage, ...]
    name: str
    protocol: Spoken
    why: str
    priced: str | None

    @property
    def price(self) -> Price | None:
        """Its price, or None where nobody knows it; looked up each time, since it can be set later."""
        return FREE if self.priced is None else price_by_name(self.priced)

    @classmethod
    def make(cls, given: BaseChatModel, agent: Agent, protocol: Spoken, why: str) -> Bound:
        """Bind the tools of a loop to a model.

        Raises:
            ValueError: The model cannot be given tools.
        """
        model = in_text(given, thoughts=agent.thoughts) if protocol == "text" else safe_across_loops(given)
        small = bool(getattr(model, "worked_examples", False))
        acting: Runnable[Any, Any] = model
        closing: Runnable[Any, Any] = model
        if agent.tools:
            try:
                acting = model.bind_tools(list(agent.tools))
                if small:  # a prompt that begins as the others did is not read anew, which takes it half a minute
                    closing = model.bind_tools(list(agent.tools), tool_choice="none")
            except NotImplementedError:
                if agent.protocol == "auto":
                    return cls.make(given, agent, "text", "the model's bind_tools is not implemented")
                raise ValueError(
                    f"model {model_name(model) or type(model).__name__} cannot be given tools: its class has no "
                    'bind_tools. Use protocol="auto" or "text", or a model with function calling'
                ) from None
        examples = agent.examples
        if not examples and small and agent.worked:
            from taograph.graphs.protocols.examples import worked_examples

            examples = tuple(worked_examples(agent.tools))
        name = model_name(model) or type(model).__name__
        priced = None if is_free(model) else model_name(model)
        bound = cls(given, model, acting, closing, examples, name, protocol, why, priced)
        _ = bound.price  # reads the tables here, where files may be read, and not on an event loop later
        return bound


def make_agent(
    model: str | BaseChatModel | BaseLLM | None,
    tools: Sequence[BaseTool | Callable[..., Any]],
    *,
    system_prompt: str | SystemMessage | None,
    protocol: Protocol,
    examples: Sequence[Any],
    limits: Limits,
    response_format: Any,
    require: Sequence[str],
    approve: Approve | None,
    verify: Verifier | None,
    name: str,
    thoughts: bool = True,
    worked: bool = True,
) -> Agent:
    """Check the parts of a loop and put them together; see :func:`taograph.create_react_graph` and :class:`Agent`."""
    if protocol not in ("auto", "native", "text"):
        raise ValueError(f'protocol={protocol!r}: use "auto", "native" or "text"')
    if isinstance(model, BaseLLM):
        if protocol == "native":
            raise ValueError('protocol="native": a completion model calls no functions. Use "auto" or "text"')
        model = in_text(model)
    if protocol == "native" and speaks_text(model):
        raise ValueError('protocol="native": the model is wrapped in TextReAct. Use "auto", or give it unwrapped')
    if not isinstance(limits, Limits):
        raise TypeError(f"limits={limits!r}: give a taograph.Limits")
    given: Any = tools  # whatever the caller's type checker has let pass
    if isinstance(given, BaseTool | str) or callable(given):
        raise TypeError(f"tools={tools!r}: give a list of tools, also for one")
    if system_prompt is not None and not isinstance(system_prompt, str | SystemMessage):
        raise TypeError(f"system_prompt={system_prompt!r}: give a text or a SystemMessage")
    if verify is not None and not (callable(verify) or isinstance(verify, str | BaseChatModel)):
        raise TypeError(f"verify={verify!r}: give a function of (answer, trajectory), a chat model or its name")
    made = _tools(tools)
    required = (require,) if isinstance(require, str) else tuple(require)
    shown = _example_messages(examples)
    unknown = [tool_name for tool_name in required if tool_name not in {tool.name for tool in made}]
    if unknown:
        raise ValueError(f"require={unknown[0]!r} is none of the tools: {', '.join(t.name for t in made) or 'none'}")
    agent = Agent(
        model=None if model is None else resolve(model),
        tools=made,
        protocol=protocol,
        system_prompt=str(system_prompt.text) if isinstance(system_prompt, SystemMessage) else system_prompt,
        examples=tuple(shown if thoughts else [_only_acting(message) for message in shown]),
        limits=limits,
        structure=None if response_format is None else read_structure(response_format),
        require=required,
        approvals=read_approve(approve, made),
        verify=safe_across_loops(resolve(verify)) if isinstance(verify, str | BaseChatModel) else verify,
        name=name,
        thoughts=thoughts,
        worked=worked,
        origin=origin(),
    )
    if agent.model is not None:
        check_prices(agent, agent.bound(None), limits)
    return agent


def check_prices(agent: Agent, bound: Bound, limits: Limits) -> None:
    """Refuse a cost limit that could not be kept, and a price table that cannot be read.

    Raises:
        ValueError: The price of a model is not known.
    """
    found = [(bound.model, bound.price)]
    if isinstance(agent.verify, BaseChatModel):
        found.append((agent.verify, price_of(agent.verify)))
    for model, price in found:
        if price is None and limits.cost is not None:
            name = model_name(model) or type(model).__name__
            raise ValueError(
                f"limits.cost={limits.cost!r}, but the price of {name!r} is not known, so the limit could not be "
                "kept: set it with taograph.models.set_price or the file TAOGRAPH_PRICES names, or drop the limit"
            )


def _tools(sources: Sequence[BaseTool | Callable[..., Any]]) -> tuple[BaseTool, ...]:
    made = [as_tool(source) for source in sources]
    seen: set[str] = set()
    for tool in made:
        if tool.name in seen:
            raise ValueError(f"two tools are named {tool.name!r}: rename one, since a call could mean either")
        seen.add(tool.name)
        fault = fault_of_references(tool.args_schema) if isinstance(tool.args_schema, Mapping) else None
        if fault:
            raise ValueError(f"tool {tool.name!r}: its argument schema cannot be used: {fault}")
    if any(policy_of(tool).max_chars is not None for tool in made) and read_result_tool() not in made:
        if READ_RESULT in seen:
            raise ValueError(
                f"a tool is named {READ_RESULT!r}, which is how the model reads on in a long result: rename yours, or "
                "let no result be cut (max_chars=None in the policy of every tool)"
            )
        made.append(read_result_tool())
    return tuple(made)


def _only_acting(message: AnyMessage) -> AnyMessage:
    return without_thoughts(message) if isinstance(message, AIMessage) else message


def _example_messages(examples: Sequence[Any]) -> list[AnyMessage]:
    messages: list[Any] = []
    for example in examples:
        messages += convert_to_messages(example if isinstance(example, list) else [example])
    if any(isinstance(message, SystemMessage) for message in messages):
        raise ValueError("examples: a system message is no example; write it into system_prompt")
    if not is_sound(messages):
        raise ValueError(
            "examples: no provider would accept them: each call needs an id of its own and its result right behind "
            "it, and each message has to say something"
        )
    return messages

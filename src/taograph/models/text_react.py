"""``TextReAct``: a chat model that calls tools, made of any model that writes text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, BaseLLM, LanguageModelInput, ModelProfile
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from taograph.graphs.protocols.paper import PaperDialect
from taograph.graphs.protocols.text_labels import labels
from taograph.graphs.protocols.text_prompts import system_text
from taograph.graphs.protocols.text_tools import OfferedTool
from taograph.models.prices import model_name
from taograph.models.resolving import resolve
from taograph.models.text_constrain import Constrain, Constraint, check_constrain, constraints_of
from taograph.models.text_dialects import DialectName, dialect_of
from taograph.models.text_exchange import Exchange, MalformedStepError, OnMalformed
from taograph.models.text_inner import Asked, Inner
from taograph.models.text_offers import as_bound, choice_of, offer_of

__all__ = ["MalformedStepError", "TextReAct"]

# Of function calling, or of whoever is bound: they mean nothing to the model behind.
_OURS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "strict", "stream", "response_format"})
_PASSED_ON = ("temperature", "max_tokens", "timeout")


class TextReAct(BaseChatModel):
    """A model without function calling, asked in the text protocol; a chat model with tools to the outside.

    ``bind_tools`` puts the tools and the format into the prompt; a reply in the format becomes a message with a tool
    call, or the answer. Earlier calls and results are shown to the model in the same format. It works wherever a
    LangChain chat model does::

        model = TextReAct(ChatOpenAI(base_url="http://localhost:8080/v1", api_key="none", model="any"))
        agent = create_agent(model, tools=[search])

    A reply is one of two messages. An action: the thought as ``content`` and one tool call. An answer: the answer as
    ``content``, the thought in ``additional_kwargs["reasoning_content"]``. ``response_metadata`` is that of the model,
    with ``protocol="text"`` and, where it holds, ``truncated`` (something behind the step was dropped, such as an
    observation the model made up), ``repaired`` (arguments that were not quite JSON), ``unread_replies`` (so many
    were asked for again), ``corrected`` (the content, where a stream had shown another before it) and
    ``usage_estimated`` (the model was left before it reported its tokens).

    While it streams, thoughts come as they are written, in ``reasoning_content``, since nobody can know yet whether
    an answer follows; an answer comes as text; a call comes whole. The stream of the model behind is closed as soon
    as it begins to make up an observation or goes on to a second step. Of several answers the last counts; in a
    stream it stands below the one that was shown already.

    What has effects is read strictly: a call of a tool whose policy does not say ``effects="none"`` is never guessed
    from broken JSON, nor run where the same reply holds an answer.

    The calls of the model behind are part of this model's own run: its callbacks, tags and cache are taken over,
    and traces show one model call with the name and the parameters of the model behind.

    Args:
        model: A chat model, a completion model, or a name as :func:`taograph.models.resolve` takes it.
        **options: The attributes.

    Attributes:
        model: The model behind.
        language: Of labels and instructions: "en", "zh", "de" or "pl".
        template: Instructions in place of our own; ``{tools}`` in it is the list of tools. See
            :func:`taograph.graphs.protocols.text_prompts.system_text`.
        dialect: "labels" for Thought / Action / Action Input / Observation / Final Answer; "paper" for
            ``Thought 1: / Action 1: Search[x]``, or one of the paper's forms as a ``PaperDialect``.
        strict_original: Of the paper's form: the published code to the letter.
        thoughts: Whether a reply begins with a thought. Without, the model is told of actions and answers alone, and
            earlier thoughts are not shown to it.
        on_malformed: "retry" asks again, with a hint that quotes what was wrong; "return" gives the reply as it
            is, with ``error``, ``error_detail`` and ``error_hint`` in ``response_metadata``.
        retries: How often it is asked again for one message.
        constrain: Whether the server holds replies to one well-formed step: "grammar" for llama.cpp, "json_schema" for
            OpenAI and most who follow it, "guided" for vLLM; "auto" tries. What a server refuses, or passes over so
            that a reply shows it, is not asked of it again. What was in force is said in ``response_metadata`` as
            ``constrained``, what was not taken as ``refused``.
        temperature: Passed on with each call; None leaves it to the model.
        max_tokens: Likewise.
        timeout: Likewise, in seconds.
        stop: Texts that end a reply, besides those of the protocol.
        streaming: As LangChain has it: whether ``invoke`` streams within.

    Raises:
        ValueError: An option cannot be used; the message says what can.
        TypeError: ``model`` is no model.
    """

    model: BaseChatModel | BaseLLM
    language: str = "en"
    template: str | None = None
    dialect: DialectName | PaperDialect = "labels"
    strict_original: bool = False
    thoughts: bool = True
    on_malformed: OnMalformed = "retry"
    retries: int = 2
    constrain: Constrain = "none"
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    stop: list[str] | None = None
    streaming: bool = False

    _learned: dict[str, bool] = PrivateAttr(default_factory=dict)

    def __init__(self, model: BaseChatModel | BaseLLM | str, **options: Any) -> None:
        given: Any = resolve(model) if isinstance(model, str) else model
        if isinstance(given, TextReAct):
            raise ValueError("model is wrapped in TextReAct already; give the model behind it")
        if not isinstance(given, BaseChatModel | BaseLLM):
            raise TypeError(f"model={type(given).__name__}: give a chat model, a completion model or a name")
        _check(options)
        check_constrain(options.get("constrain", "none"), given, options.get("dialect", "labels"))
        if getattr(given, "constrain_calls", False):  # it holds replies to the form of function calls, or to one line
            given = given.model_copy(update={"constrain_calls": False})
        for name in ("cache", "callbacks", "tags", "metadata"):
            options.setdefault(name, getattr(given, name, None))
        super().__init__(**{"model": given, **options})

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not: LangChain would look for the class among its own."""
        return False

    @property
    def model_name(self) -> str:
        """The name of the model behind: prices and traces go by it."""
        return model_name(self.model) or type(self.model).__name__

    @property
    def worked_examples(self) -> bool:
        """Whether the model behind needs worked examples as turns before the question."""
        return bool(getattr(self.model, "worked_examples", False))

    @property
    def free_of_charge(self) -> bool:
        """Whether nothing is charged for the tokens of the model behind."""
        return bool(getattr(self.model, "free_of_charge", False))

    @property
    def _llm_type(self) -> str:
        return "text-react"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        own = {name: getattr(self, name) for name in type(self).model_fields if name in _IDENTIFYING}
        behind = {"_type": self.model._llm_type, **self.model._identifying_params}
        return {"model_name": self.model_name, **own, "model": behind}

    def __repr_args__(self) -> Any:
        """Own attributes and the name of the model behind, which may hold keys."""
        yield "model", f"{type(self.model).__name__}({self.model_name})"
        yield from ((name, getattr(self, name)) for name in sorted(_IDENTIFYING & self.model_fields_set))

    def _resolve_model_profile(self) -> ModelProfile | None:
        behind = getattr(self.model, "profile", None)
        if not behind:
            return None
        more = {"tool_calling": True, "tool_choice": True, "structured_output": False}
        return cast(ModelProfile, {**behind, **more})

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        options = {name: value for name, value in self._options(kwargs).items() if name in ("model", *_PASSED_ON)}
        params = self.model._get_ls_params(stop=stop, **options)
        params["ls_model_type"] = "chat"
        params.setdefault("ls_model_name", self.model_name)
        return params

    def bind_tools(
        self,
        tools: Sequence[Mapping[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools.

        Args:
            tools: In any form that LangChain takes: tools, functions, pydantic classes, TypedDicts, JSON schemas,
                OpenAI's form and others'. What a tool of ours says about its effects and examples is used.
            tool_choice: "auto" or None: the model decides; "any", "required" or True: it has to call one; "none"
                or False: it has to answer; the name of a tool, also in the forms of OpenAI and Anthropic.
            **kwargs: Passed on to the model behind; what belongs to function calling is left out.

        Raises:
            ValueError: Something is no tool, two have the same name, the choice is none of them, or the template
                cannot be used.
        """
        bound = as_bound(tools)
        options: dict[str, Any] = {"tools": bound}
        choice = choice_of(tool_choice, bound)
        if choice is not None:
            options["tool_choice"] = choice
        return self.bind(**options, **kwargs)

    def written(self, messages: Sequence[BaseMessage], **options: Any) -> Sequence[BaseMessage] | str:
        """What the model behind is sent for some messages.

        Args:
            messages: The messages.
            **options: As they are bound, the tools among them.
        """
        request = self._begin(list(messages), None, options)[0].request
        return request.content if request is not None else ""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        exchange, inner = self._begin(messages, stop, kwargs)
        while exchange.request is not None:
            _read(exchange.take(inner.whole(self._asked(exchange, kwargs))))
            _read(exchange.over())
        return _result(exchange)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        exchange, inner = self._begin(messages, stop, kwargs)
        while exchange.request is not None:
            _read(exchange.take(await inner.awhole(self._asked(exchange, kwargs))))
            _read(exchange.over())
        return _result(exchange)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages, stop, kwargs):
            made = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(made.text, chunk=made)
            yield made

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in self._achunks(messages, stop, kwargs):
            made = ChatGenerationChunk(message=chunk)
            if run_manager:
                await run_manager.on_llm_new_token(made.text, chunk=made)
            yield made

    def _chunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Iterator[AIMessageChunk]:
        exchange, inner = self._begin(messages, stop, kwargs)
        while exchange.request is not None:
            with closing(inner.pieces(self._asked(exchange, kwargs))) as pieces:
                for piece in pieces:
                    yield from exchange.take(piece)
                    if exchange.is_cut:
                        break
            yield from exchange.over(left=exchange.is_cut)

    async def _achunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncIterator[AIMessageChunk]:
        exchange, inner = self._begin(messages, stop, kwargs)
        while exchange.request is not None:
            async with aclosing(inner.apieces(self._asked(exchange, kwargs))) as pieces:
                async for piece in pieces:
                    for chunk in exchange.take(piece):
                        yield chunk
                    if exchange.is_cut:
                        break
            for chunk in exchange.over(left=exchange.is_cut):
                yield chunk

    def _begin(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[Exchange, Inner]:
        offer = offer_of(kwargs)
        dialect = dialect_of(
            self.dialect,
            offer,
            completion=isinstance(self.model, BaseLLM),
            language=self.language,
            template=self.template,
            strict_original=self.strict_original,
            thoughts=self.thoughts,
        )
        exchange = Exchange(
            dialect,
            offer,
            messages,
            stop=stop if stop is not None else self.stop or (),
            on_malformed=self.on_malformed,
            retries=self.retries,
        )
        return exchange, Inner(self.model, self._learned)

    def _asked(self, exchange: Exchange, kwargs: Mapping[str, Any]) -> Asked:
        """The request of an exchange, as it is sent."""
        request = exchange.request
        content = request.content if request else ""
        options = self._options(kwargs)
        held: tuple[Constraint, ...] | None = None
        if self.constrain != "none" and kwargs.get("tools"):
            wanted = self.constrain if self.dialect == "labels" else "none"
            held = constraints_of(wanted, self.model, offer_of(kwargs), options, self.language, thoughts=self.thoughts)
        return Asked(content, exchange.stop, options, held)

    def _options(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords of a call of the model behind."""
        own = {name: getattr(self, name) for name in _PASSED_ON if getattr(self, name) is not None}
        kept = {name: value for name, value in kwargs.items() if name not in _OURS}
        if "response_format" in kwargs and not kwargs.get("tools") and isinstance(self.model, BaseChatModel):
            kept["response_format"] = kwargs[
                "response_format"
            ]  # with tools it is told in words: an action is no answer
        return {**own, **kept}


_IDENTIFYING = frozenset(
    {"language", "template", "dialect", "strict_original", "thoughts", "on_malformed", "retries", "constrain", "stop"}
    | set(_PASSED_ON)
)
# Of the model behind, and asked for by whoever makes any chat model in the same way.
_IGNORED = frozenset({"api_key", "max_retries"})


def _check(options: dict[str, Any]) -> None:
    """Refuse options that nobody knows, or that cannot be: a slip would go unseen otherwise."""
    for name in _IGNORED:
        options.pop(name, None)
    unknown = sorted(options.keys() - TextReAct.model_fields.keys())
    if unknown:
        raise ValueError(f"{unknown[0]}= is no option of TextReAct; there are {', '.join(sorted(_IDENTIFYING))}")
    labels(options.get("language", "en"))
    retries = options.get("retries", 0)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries={retries!r}: give 0 or more")
    template = options.get("template")
    if template is not None and options.get("dialect", "labels") == "labels":
        system_text([OfferedTool("tool", "", {})], template=template)  # says what is wrong with it


def _read(chunks: Iterator[AIMessageChunk]) -> None:
    """Let an exchange go on where nobody wants the chunks."""
    for _ in chunks:
        pass


def _result(exchange: Exchange) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=cast(AIMessage, exchange.message))])

"""``"local"``: a small model on this machine, behind ``ChatOpenAI`` like any other endpoint.

Making the model object starts nothing and reads one directory; the first call starts the server, or finds the
one that other processes of the user have running (see :mod:`taograph.models.local_lease`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai.chat_models.base import OpenAIContextOverflowError
from pydantic import PrivateAttr, SecretStr

from taograph.folders import cache_folder
from taograph.graphs.protocols.examples import EXAMPLE_ID
from taograph.models.catalog import DEFAULT, Model, find, names
from taograph.models.endpoint import ChatEndpoint
from taograph.models.local_begun import begun_for, chunk_with_beginning, with_beginning
from taograph.models.local_calls import Held, offered, with_calls
from taograph.models.local_grammar import call_grammar
from taograph.models.local_lease import Lease, LocalServerError, lease_for
from taograph.models.local_spec import ServerSpec, default_threads
from taograph.models.local_transport import ADDRESS, AsyncLocalTransport, LocalTransport
from taograph.models.pull import ModelNotPulled, locate, pulled

__all__ = ["LocalChat", "LocalServerError", "ModelNotPulled", "chat_model"]

# A prompt of some thousand tokens takes a slow machine minutes before the first byte of the reply.
_READ_SECONDS = 600.0
_MAX_TOKENS = 512
_LINE_TOKENS = 160


class LocalChat(ChatEndpoint):
    """The local server as a chat model.

    Calls that the model writes as JSON come out as ``tool_calls``, in streams too: text that may still become a
    call is held back until that is decided. A prompt that does not fit raises LangChain's
    ``ContextOverflowError``; a server that cannot be started :class:`LocalServerError`.
    """

    worked_examples: bool = True
    """Whether the tools' worked examples should stand before the question: small models need them."""

    free_of_charge: bool = True
    """Nothing is charged for its tokens."""

    constrain_calls: bool = False
    """Whether replies are held to text or well-formed calls by a grammar; needs a template of taograph's."""
    one_line: bool = False
    """Whether replies are one line too: for base models, which do not know where to stop."""

    _lease: Lease | None = PrivateAttr(default=None)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not: what it holds is a process."""
        return False

    @property
    def _llm_type(self) -> str:
        return "taograph-local"

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        offers = bool(payload.get("tools"))
        own = payload.get("extra_body") or {}
        if not self.constrain_calls or not (offers or self.one_line) or "response_format" in {*payload, *own}:
            if self.one_line:  # what its template writes behind an answer
                payload["stop"] = [*(payload.get("stop") or ()), "\nQuestion:"]
                if begun := begun_for(payload["stop"], payload):
                    payload["extra_body"] = {**own, "chat_template_kwargs": {**_template(own), "begun": begun}}
            return payload
        # The server takes no grammar together with tools, so the template gets them under another name.
        tools, choice = payload.pop("tools", []), payload.pop("tool_choice", None)
        payload.pop("parallel_tool_calls", None)
        payload["extra_body"] = {
            "grammar": call_grammar(tools, choice, one_line=self.one_line),
            **own,
            "chat_template_kwargs": {**_template(own), "offered": tools},
        }
        _remember_prefix(self._lease, payload)
        return payload

    def _begun(self, stop: list[str] | None, kwargs: dict[str, Any]) -> str:
        """What a reply is begun with."""
        sent = [self.stop] if isinstance(self.stop, str) else self.stop
        return begun_for(stop or sent, kwargs) if self.one_line and not self.constrain_calls else ""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with _own_errors():
            result = super()._generate(messages, stop, run_manager, **kwargs)
        return with_beginning(with_calls(result, offered(kwargs)), self._begun(stop, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with _own_errors():
            result = await super()._agenerate(messages, stop, run_manager, **kwargs)
        return with_beginning(with_calls(result, offered(kwargs)), self._begun(stop, kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        held, begun = Held(offered(kwargs)), self._begun(stop, kwargs)
        with _own_errors():
            for chunk in super()._stream(messages, stop, None, **kwargs):
                whole, begun = chunk_with_beginning(chunk, begun), ""
                for ready in held.take(whole):
                    if run_manager:
                        run_manager.on_llm_new_token(ready.text, chunk=ready)
                    yield ready
        for ready in held.rest():
            if run_manager:
                run_manager.on_llm_new_token(ready.text, chunk=ready)
            yield ready

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        held, begun = Held(offered(kwargs)), self._begun(stop, kwargs)
        with _own_errors():
            async for chunk in super()._astream(messages, stop, None, **kwargs):
                whole, begun = chunk_with_beginning(chunk, begun), ""
                for ready in held.take(whole):
                    if run_manager:
                        await run_manager.on_llm_new_token(ready.text, chunk=ready)
                    yield ready
        for ready in held.rest():
            if run_manager:
                await run_manager.on_llm_new_token(ready.text, chunk=ready)
            yield ready


def chat_model(name: str = "local", **options: Any) -> BaseChatModel:
    """The local model as a chat model. Starts nothing yet, but looks at files: not for an event loop.

    Args:
        name: ``"local"`` for ``TAOGRAPH_LOCAL_MODEL``, the default model or whichever is pulled;
            ``"local:NAME"`` for a known one; or the path of a .gguf file.
        **options: ``context`` (tokens), ``threads`` and ``template`` of the server; the rest goes to
            ``ChatOpenAI``, such as ``temperature`` or ``max_tokens``.

    Raises:
        ModelNotPulled: The model's file is not here; the message says how to get it.
        NotAModel: The file at the path is no GGUF model.
    """
    path, known = _choose(name)
    template = options.pop("template", known.template if known else "auto")
    spec = ServerSpec(
        model=path,
        run_dir=cache_folder() / "run",
        context=options.pop("context", 8192),
        threads=options.pop("threads", None) or default_threads(),
        template=template,
        linger=_linger(),
    )
    lease = lease_for(spec)
    settings: dict[str, Any] = {
        "model": known.name if known else path.stem,
        "temperature": 0,
        "max_retries": 0,
        "max_tokens": _LINE_TOKENS if template == "plain" else _MAX_TOKENS,
        "stream_usage": True,
        "use_responses_api": False,
        "constrain_calls": template in ("bare_json", "plain"),
        "one_line": template == "plain",
        "timeout": httpx.Timeout(_READ_SECONDS, connect=10.0),
        "profile": {"max_input_tokens": spec.context},
        **options,
    }
    made = LocalChat(
        base_url=ADDRESS,
        api_key=SecretStr("held-by-the-lease"),
        openai_proxy="",
        # No proxy of the environment may stand between this process and its own machine.
        http_client=httpx.Client(transport=LocalTransport(lease), trust_env=False),
        http_async_client=httpx.AsyncClient(transport=AsyncLocalTransport(lease), trust_env=False),
        **settings,
    )
    made._lease = lease
    return made


def _remember_prefix(lease: Lease | None, payload: dict[str, Any]) -> None:
    """Note the worked examples that a request begins with: the same in every run, and slow to read in."""
    messages: list[dict[str, Any]] = payload["messages"]
    shown = [at for at, said in enumerate(messages) if str(said.get("tool_call_id", "")).startswith(EXAMPLE_ID)]
    if lease is not None and shown:
        body = {
            "messages": messages[: shown[-1] + 2],
            "chat_template_kwargs": payload["extra_body"]["chat_template_kwargs"],
            "add_generation_prompt": False,
        }
        lease.prefix = json.dumps(body).encode()


def _template(body: dict[str, Any]) -> dict[str, Any]:
    return body.get("chat_template_kwargs") or {}


def _choose(name: str) -> tuple[Path, Model | None]:
    asked = name.strip()
    if asked in ("", "local"):
        asked = os.environ.get("TAOGRAPH_LOCAL_MODEL", "").strip() or next(iter(pulled()), DEFAULT.name)
    wanted = asked.removeprefix("local:")
    path = locate(wanted)
    if path is not None:
        return path, find(wanted)
    if find(wanted) is not None:
        raise ModelNotPulled(wanted)
    if wanted.lower().endswith(".gguf"):
        raise ValueError(f"no model file at {wanted}")
    raise ValueError(f"no local model is called {wanted!r}: known are {names()}; or give the path of a .gguf file")


def _linger() -> float:
    named = os.environ.get("TAOGRAPH_LOCAL_LINGER", "").strip()
    try:
        return max(0.0, float(named)) if named else 2.0
    except ValueError:
        raise ValueError(f"TAOGRAPH_LOCAL_LINGER={named!r}: give seconds, such as 2 or 600") from None


@contextmanager
def _own_errors() -> Iterator[None]:
    """Tell a context overflow and a server that did not start from other trouble."""
    try:
        yield
    except openai.BadRequestError as error:
        if "exceeds the available context size" in error.message:
            raise OpenAIContextOverflowError(message=error.message, response=error.response, body=error.body) from error
        raise
    except openai.APIConnectionError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, LocalServerError):
                raise cause from None
            cause = cause.__cause__
        raise

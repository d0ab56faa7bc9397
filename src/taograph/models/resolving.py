"""From a name to a chat model: "openai:NAME", an endpoint, "local", any provider LangChain knows."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from taograph.redaction import redact

_MADE_FROM = re.compile(
    r"^(TAOGRAPH|OPENAI|AZURE_OPENAI)_|_(API_KEY|TOKEN|BASE_URL|API_BASE|ENDPOINT|REGION|PROXY|proxy)$"
)
DEFAULT_OPENAI = "openai:gpt-5-mini"
_OPENAI_PREFIXES = ("gpt-", "o1", "o3", "o4", "chatgpt-")
# One call may hang this long before it counts as lost, where the run itself has no earlier deadline.
_CALL_SECONDS = 180.0


class NoModel(ValueError):  # noqa: N818 - reads as what it says
    """Raised when no model was named and none is configured; the message lists the ways to have one."""

    def __init__(self) -> None:
        super().__init__(
            "no model: name one (model=, --model or TAOGRAPH_MODEL), set OPENAI_API_KEY, "
            "or get the local one with `tao model pull`"
        )


def resolve(model: str | BaseChatModel | None) -> BaseChatModel:
    """A chat model from a name; a chat model is returned as it is.

    Args:
        model: ``"openai:NAME"`` (``OPENAI_BASE_URL`` is honored), ``"azure_openai:DEPLOYMENT"``,
            ``"http://host:port/v1#NAME"`` for any OpenAI-compatible endpoint (its key from
            ``TAOGRAPH_API_KEY``), ``"local"``, ``"local:NAME"`` or the path of a .gguf file, any other
            ``"provider:NAME"`` that ``langchain.chat_models.init_chat_model`` knows, or None for
            :func:`default_model`.

    Raises:
        ValueError: The name says no model, or what it needs is missing; the message says the fix.
        NoModel: None was given and nothing is configured.
    """
    if isinstance(model, BaseChatModel):
        return model
    if model is None:
        return resolve(default_model())
    if not isinstance(model, str) or not model.strip():
        raise ValueError(f'model={model!r}: give a chat model, or a name like "openai:gpt-5-mini" or "local"')
    return _resolve(model.strip(), _environment())


def default_model() -> str:
    """The model of a run that names none: ``TAOGRAPH_MODEL``, OpenAI where a key is set, or the local one.

    Raises:
        NoModel: Nothing is configured.
    """
    if named := os.environ.get("TAOGRAPH_MODEL", "").strip():
        return named
    if os.environ.get("OPENAI_API_KEY", "").strip():
        return DEFAULT_OPENAI
    from taograph.models.pull import pulled

    if pulled():
        return "local"
    raise NoModel


def safe_across_loops(model: BaseChatModel) -> BaseChatModel:
    """A caller's own ``ChatOpenAI`` as it is asked here; other models as they are.

    It keeps to no event loop, where its caller gave it no HTTP client: LangChain gives all such models of a process
    one async client by address, see :class:`~taograph.models.connections.ClientOfEachLoop` for what comes of that.
    And it sends what it is given without a walk through all of it, see :mod:`taograph.models.completions`. The caller's
    object stays as it was, and its clients, headers, addresses and keys are those of the copy.
    """
    if "langchain_openai" not in sys.modules:
        return model
    from langchain_openai.chat_models.base import BaseChatOpenAI, ChatOpenAI

    if not isinstance(model, BaseChatOpenAI):
        return model
    from taograph.models.completions import ready_clients

    # Where a proxy is named there is one too, which is LangChain's own: it takes no other beside it.
    own, given = model.root_async_client, model.http_async_client is not None and not model.openai_proxy
    if own and not given and model.async_client is own.chat.completions:
        from taograph.models.connections import ClientOfEachLoop

        client = own.with_options(http_client=ClientOfEachLoop(model.openai_proxy))
        model = model.model_copy(update={"root_async_client": client, "async_client": client.chat.completions})
    ready = ready_clients(model, dicts=type(model) is ChatOpenAI or _is_azure(model))
    return model.model_copy(update=ready) if ready else model


def _is_azure(model: BaseChatModel) -> bool:
    azure = sys.modules.get("langchain_openai.chat_models.azure")
    return azure is not None and type(model) is azure.AzureChatOpenAI


def _environment() -> frozenset[tuple[str, str]]:
    """What of the environment a model is made from: keys, addresses and versions, of whatever provider."""
    return frozenset(item for item in os.environ.items() if _MADE_FROM.search(item[0]))


@lru_cache(maxsize=32)
def _resolve(name: str, _environment: frozenset[tuple[str, str]]) -> BaseChatModel:
    # One object for one name keeps its connections open from run to run.
    if name == "local" or name.startswith("local:") or name.lower().endswith(".gguf"):
        from taograph.models.local import chat_model

        return chat_model(name)
    if name.startswith(("http://", "https://")):
        return _endpoint(name)
    provider, colon, rest = name.partition(":")
    if not colon and name.startswith(_OPENAI_PREFIXES):
        provider, rest = "openai", name
    if colon and not (provider and rest):
        raise ValueError(f'model {name!r}: write the provider and the model\'s name, as in "openai:gpt-5-mini"')
    if provider == "openai" and rest:
        return _openai(rest)
    if provider in ("azure", "azure_openai") and rest:
        return _azure(rest)
    return _any_provider(name)


def _openai(name: str) -> BaseChatModel:
    if not os.environ.get("OPENAI_API_KEY") and not os.environ.get("OPENAI_BASE_URL"):
        raise ValueError(f'model "openai:{name}" needs OPENAI_API_KEY (or OPENAI_BASE_URL) in the environment')
    from taograph.models.endpoint import ChatEndpoint

    key = os.environ.get("OPENAI_API_KEY") or "none"
    return ChatEndpoint(model=name, api_key=SecretStr(key), **_connections(), **_OPTIONS)


def _endpoint(address: str) -> BaseChatModel:
    parts = urlsplit(address)
    base, _, name = address.partition("#")
    if parts.username or parts.password:
        raise ValueError("model: no password in the address, please; set TAOGRAPH_API_KEY instead")
    if not parts.hostname or not name or not _has_port_or_none(parts):
        raise ValueError(f'model {redact(base)!r}: write the address and the model\'s name: "http://host:port/v1#name"')
    from taograph.models.endpoint import ChatEndpoint

    # OPENAI_API_KEY belongs to whom OPENAI_BASE_URL names; it is not sent to any other address.
    own = os.environ.get("OPENAI_BASE_URL", "").rstrip("/") == base.rstrip("/")
    key = os.environ.get("TAOGRAPH_API_KEY") or (os.environ.get("OPENAI_API_KEY") if own else None) or "none"
    model = ChatEndpoint(model=name, base_url=base, api_key=SecretStr(key), **_connections(), **_OPTIONS)
    if not own:  # nor is whose it is
        for client in (model.root_client, model.root_async_client):
            client.organization = client.project = None
    return model


def _has_port_or_none(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _connections() -> dict[str, Any]:
    """Connections as the environment has them; where LangChain is named a proxy, it makes its own."""
    authorities = os.environ.get("SSL_CERT_FILE")
    if authorities and not os.path.exists(authorities):
        raise ValueError(f"SSL_CERT_FILE={authorities!r}: there is no such file; name one of certificates, or none")
    if os.environ.get("OPENAI_PROXY"):
        return {}
    from urllib.request import getproxies

    from taograph.models.connections import ClientOfEachLoop

    made: dict[str, Any] = {"http_async_client": ClientOfEachLoop()}
    if {"http", "https", "all"} & getproxies().keys():
        from langchain_openai.chat_models.base import BaseChatOpenAI

        # With options of sockets, which LangChain sets if it may, its sync client would go past the proxy.
        if "http_socket_options" in BaseChatOpenAI.model_fields:
            made["http_socket_options"] = ()
    return made


def _azure(deployment: str) -> BaseChatModel:
    needed = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        raise ValueError(f'model "azure_openai:{deployment}" needs {", ".join(missing)} in the environment')
    from taograph.models.azure import AzureEndpoint

    return AzureEndpoint(azure_deployment=deployment, **_connections(), **_OPTIONS)


def _any_provider(name: str) -> BaseChatModel:
    shown = redact(name)  # a key in the place of a name is a likely slip
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        raise ValueError(
            f"model {shown!r}: providers other than OpenAI come through LangChain: `pip install langchain` and "
            'the provider\'s package, or use "openai:NAME", "http://host:port/v1#name" or "local"'
        ) from None
    try:
        made = init_chat_model(name)
    except Exception as error:  # a package or a key that is missing; each integration says it in its own way
        raise ValueError(f"model {shown!r}: {redact(str(error))}") from error
    if not isinstance(made, BaseChatModel):
        raise ValueError(f'model {shown!r}: write the provider too, as in "anthropic:{shown}"')
    return made


# The loop retries by itself, within its deadline and counted; usage is asked for in streams too.
_OPTIONS: dict[str, Any] = {"max_retries": 0, "timeout": _CALL_SECONDS, "stream_usage": True}

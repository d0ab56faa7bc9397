"""From a name to a chat model; keys go only to whom they belong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Raw
from langchain_core.language_models import BaseChatModel
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langchain_tests.unit_tests import ChatModelUnitTests

from taograph import Context, create_react_graph
from taograph.models import NoModel, ScriptedModel, default_model, resolve, resolving
from taograph.models.endpoint import ChatEndpoint

OPENAI, OWN, AZURE = "sk-openai-0123456789abcdef", "own-key-0123456789", "azure-key-0123456789"
_PROVIDERS = ("OPENAI_", "AZURE_", "TAOGRAPH_", "ANTHROPIC_", "GOOGLE_")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_PROVIDERS):
            monkeypatch.delenv(name)
    monkeypatch.setattr("taograph.models.pull.pulled", list)
    resolving._resolve.cache_clear()


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeOpenAI]]:
    servers: list[FakeOpenAI] = []

    def start(*replies: Any, **options: Any) -> FakeOpenAI:
        servers.append(FakeOpenAI(list(replies), **options).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def key_sent(server: FakeOpenAI) -> str:
    return server.headers[-1].get("authorization", "").removeprefix("Bearer ")


def everything_sent(server: FakeOpenAI) -> str:
    return str(server.headers) + str(server.requests)


# --- names -------------------------------------------------------------------------------------------------


def test_a_model_is_returned_as_it_is() -> None:
    model = ScriptedModel(replies=["x"])
    assert resolve(model) is model


def test_an_address() -> None:
    model = resolve("http://127.0.0.1:8000/v1#org/name-7b:latest")
    assert isinstance(model, ChatEndpoint)
    assert model.model_name == "org/name-7b:latest"
    assert model.openai_api_base == "http://127.0.0.1:8000/v1"
    assert model.max_retries == 0, "the loop retries, bounded and counted"
    assert model.stream_usage is True, "budgets see streams"
    assert model.request_timeout


def test_one_name_is_one_object_until_the_environment_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "http://127.0.0.1:8000/v1#name"
    first = resolve(name)
    assert resolve(name) is first
    monkeypatch.setenv("TAOGRAPH_API_KEY", OWN)
    assert resolve(name) is not first


@pytest.mark.parametrize("name", ["openai:gpt-5-mini", "gpt-5-mini", "  openai:gpt-5-mini  "])
def test_openai_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    model = resolve(name)
    assert isinstance(model, ChatOpenAI)
    assert model.model_name == "gpt-5-mini"
    assert model.max_retries == 0


def test_openai_base_url_is_honored(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    assert resolve("openai:some-model").invoke("Hi").text == "Hello."
    assert key_sent(server) == OPENAI
    assert server.requests[0]["model"] == "some-model"


def test_openai_base_url_alone_will_do(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert resolve("openai:some-model").invoke("Hi").text == "Hello."


def test_azure(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", AZURE)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01-preview")
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    model = resolve("azure_openai:my-deployment")
    assert isinstance(model, AzureChatOpenAI)
    assert model.deployment_name == "my-deployment"
    assert model.max_retries == 0
    assert model.stream_usage is True
    assert model.invoke("Hi").text == "Hello."
    assert server.headers[-1]["api-key"] == AZURE
    assert OPENAI not in everything_sent(server)


def test_azure_follows_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in ("1", "2"):
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", f"{AZURE}{number}")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"https://{number}.example.org")
        monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01-preview")
        model = resolve("azure_openai:my-deployment")
        assert isinstance(model, AzureChatOpenAI)
        assert model.azure_endpoint == f"https://{number}.example.org"


def test_any_other_provider_comes_through_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def init_chat_model(name: str, **options: Any) -> BaseChatModel:
        asked.append(name)
        return ScriptedModel(replies=["Hello."])

    monkeypatch.setattr("langchain.chat_models.init_chat_model", init_chat_model)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "one")
    first = resolve("anthropic:claude-sonnet-4-5")
    assert isinstance(first, ScriptedModel)
    assert asked == ["anthropic:claude-sonnet-4-5"]
    assert resolve("anthropic:claude-sonnet-4-5") is first
    monkeypatch.setenv("ANTHROPIC_API_KEY", "two")
    assert resolve("anthropic:claude-sonnet-4-5") is not first, "a key that was changed is not held on to"


# --- what cannot be resolved -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "   ", 42, ["openai:x"], object()])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(ValueError, match="model="):
        resolve(name)


@pytest.mark.parametrize(
    "name", ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1#", "http://#x", "https:///v1#x"]
)
def test_an_address_without_a_host_or_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="http://host:port/v1#name"):
        resolve(name)


def test_an_address_with_a_port_that_is_none() -> None:
    with pytest.raises(ValueError, match="http://host:port/v1#name"):
        resolve("http://127.0.0.1:port/v1#x")


@pytest.mark.parametrize("end", ["#name", "", "#"])
def test_a_password_in_an_address_is_refused_and_not_repeated(end: str) -> None:
    with pytest.raises(ValueError, match="TAOGRAPH_API_KEY") as caught:
        resolve(f"http://user:hunter2hunter2@127.0.0.1:8000/v1{end}")
    assert "hunter2" not in str(caught.value)


def test_openai_without_a_key_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        resolve("openai:gpt-5-mini")


def test_azure_says_all_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", AZURE)
    with pytest.raises(ValueError, match="AZURE_OPENAI_ENDPOINT, OPENAI_API_VERSION") as caught:
        resolve("azure:my-deployment")
    assert AZURE not in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-model", "nobody:no-such-model", "openai:", "azure:", ":x", "a b c"])
def test_a_name_that_nobody_knows(name: str) -> None:
    with pytest.raises(ValueError, match="model") as caught:
        resolve(name)
    assert name in str(caught.value), "the error names what was asked for"


def test_a_provider_whose_package_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="langchain-anthropic"):
        resolve("anthropic:claude-sonnet-4-5")


def test_without_langchain_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ValueError, match="pip install langchain"):
        resolve("anthropic:claude-sonnet-4-5")


def test_a_model_file_that_is_not_there(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"missing\.gguf"):
        resolve(str(tmp_path / "missing.gguf"))


def test_a_local_model_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="no-such-model"):
        resolve("local:no-such-model")


# --- the default -------------------------------------------------------------------------------------------


def test_nothing_is_configured() -> None:
    with pytest.raises(NoModel) as caught:
        resolve(None)
    for way in ("TAOGRAPH_MODEL", "OPENAI_API_KEY", "tao model pull"):
        assert way in str(caught.value)


def test_what_the_default_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.models.pull.pulled", lambda: ["something"])
    assert default_model() == "local"
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    assert default_model().startswith("openai:")
    monkeypatch.setenv("TAOGRAPH_MODEL", " http://127.0.0.1:8000/v1#name ")
    assert default_model() == "http://127.0.0.1:8000/v1#name"


def test_a_graph_without_a_model_takes_it_from_the_run(serve: Any) -> None:
    server = serve("Hello.")
    graph = create_react_graph(None, [])
    with pytest.raises(NoModel):
        graph.invoke({"messages": [("user", "Hi")]})
    result = graph.invoke({"messages": [("user", "Hi")]}, context=Context(model=f"{server.url}#fake"))
    assert result["answer"] == "Hello."


def test_a_runs_model_goes_before_the_graphs(serve: Any) -> None:
    server = serve("From the run.")
    own = ScriptedModel(replies=["From the graph."])
    graph = create_react_graph(own, [])
    result = graph.invoke({"messages": [("user", "Hi")]}, context={"model": f"{server.url}#fake"})
    assert result["answer"] == "From the run."
    assert own.requests == []


# --- keys --------------------------------------------------------------------------------------------------


def test_the_key_of_openai_is_not_sent_to_another_address(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_WEBHOOK_SECRET"):
        monkeypatch.setenv(name, f"{OPENAI}-{name}")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-private")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-private")
    resolve(f"{server.url}#fake").invoke("Hi")
    assert OPENAI not in everything_sent(server)
    assert "private" not in everything_sent(server), "nor who the account is"


def test_an_address_of_ones_own_gets_its_own_key(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    monkeypatch.setenv("TAOGRAPH_API_KEY", OWN)
    resolve(f"{server.url}#fake").invoke("Hi")
    assert key_sent(server) == OWN
    assert OPENAI not in everything_sent(server)


@pytest.mark.parametrize("end", ["", "/"])
def test_the_address_that_openai_base_url_names_gets_the_key_of_openai(
    monkeypatch: pytest.MonkeyPatch, serve: Any, end: str
) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + end)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    resolve(f"{server.url}#fake").invoke("Hi")
    assert key_sent(server) == OPENAI


def test_a_key_of_ones_own_is_not_sent_to_openai(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    server = serve("Hello.")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    monkeypatch.setenv("TAOGRAPH_API_KEY", OWN)
    resolve("openai:fake").invoke("Hi")
    assert key_sent(server) == OPENAI


def test_a_redirect_to_another_host_does_not_take_the_key_along(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    other = serve("Hello.")
    server = serve(Raw("", 307, headers={"Location": f"{other.url}/chat/completions"}))
    monkeypatch.setenv("TAOGRAPH_API_KEY", OWN)
    assert resolve(f"{server.url}#fake").invoke("Hi").text == "Hello."
    assert key_sent(server) == OWN
    assert OWN not in everything_sent(other)


def test_a_model_does_not_show_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_API_KEY", OWN)
    model = resolve("http://127.0.0.1:8000/v1#name")
    assert OWN not in f"{model!r} {model} {model.model_dump()} {model._identifying_params}"


# --- what LangChain asks of every chat model ---------------------------------------------------------------


class TestEndpointIsAChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatEndpoint

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "fake", "base_url": "http://127.0.0.1:9/v1", "api_key": "x"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return (
            {"OPENAI_API_KEY": "api_key", "OPENAI_API_BASE": "https://base.example.org"},
            {"model": "fake"},
            {"openai_api_key": "api_key", "openai_api_base": "https://base.example.org"},
        )


class TestScriptedIsAChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ScriptedModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"replies": ["Hello."]}

"""No key leaves the process: not in a stop, an answer, an event, a log or an error."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
from fake_openai_server import Fail, FakeOpenAI
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from taograph import ToolError, create_react_graph, stream_steps, tool
from taograph.models import ScriptedModel, call, resolve
from taograph.redaction import HIDDEN, redact

KEYS = [
    "sk-abcdefghijklmnopqrstuvwx0123456789",
    "sk-abcdefghijklmnopqrstuvwxyz",
    "sk-proj-Abc_def-0123456789abcdef",
    "sk-ant-api03-AbCdEf0123456789-xyz",
    "sk-or-v1-0123456789abcdef",
    "sk-lf-01234567-89ab-cdef",
    "pk-lf-01234567-89ab-cdef",
    "sk-abcde***************wxyz",
    "sk_live_0123456789abcdef",
    "gsk_0123456789abcdefABCDEF",
    "xai-0123456789abcdefABCDEF",
    "lsv2_pt_0123456789abcdef0123456789abcdef_0123456789",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
    "glpat-0123456789abcdefABCD",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "sk-proj-AbCdEfGhIjKlMnOpQrStUv",
    "xoxb-012345678901-abcdefABCDEF",
    "tvly-dev-0123456789abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["{}", "Incorrect API key provided: {}.", "('{}',)", '{{"k": "{}"}}', "x={}&y=1"])
def test_keys_of_the_usual_shapes(key: str, form: str) -> None:
    told = redact(form.format(key))
    assert key[:20] not in told
    assert key[-8:] not in told
    assert HIDDEN in told


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-123", "abc.def-123"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("postgresql://user:hunter2@db.example.org/x", "hunter2"),
        ("https://u:p%40ss@example.org", "p%40ss"),
        ("GET /v1/models?key=abcdef&x=1", "abcdef"),
        ("https://example.org/a?x=1&token=abcdef", "abcdef"),
        ("https://example.org/a?sig=Ab%2F3", "Ab%2F3"),
        ("api_key=abcdefgh", "abcdefgh"),
        ("ClientError(api_key='abcdefgh')", "abcdefgh"),
        ('{"api_key": "abcdefgh", "model": "x"}', "abcdefgh"),
        ("{'x-api-key': 'abcdefgh'}", "abcdefgh"),
        ("x-api-key: abcd1234", "abcd1234"),
        ("password=hunter", "hunter"),
        ('"client_secret":"abcdefgh"', "abcdefgh"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEA"),
    ],
)
def test_secrets_in_their_usual_places(text: str, secret: str) -> None:
    told = redact(text)
    assert secret not in told
    assert HIDDEN in told


@pytest.mark.parametrize(
    "text",
    [
        "pk_customer_id: Field required",
        "api_key: Field required; password: Input should be a valid string",
        "No table named sk_address_2024",
        "scikit-learn, sk-learn-contrib, hf-internal-testing/tiny-random-gpt2, hf_dataset",
        "No product SK-1002003 in stock",
        "Basic information about the token limit: 4000 of 5000 tokens",
        "http://127.0.0.1:8000/v1/chat/completions at 12:30@noon",
        "the key of the riddle; tokens=5000; key=value",
        "The password is missing. The API key was not accepted.",
        "a-task-force-12345678 risk-0123456789",
    ],
)
def test_what_only_looks_like_a_key_is_kept(text: str) -> None:
    assert redact(text) == text


def test_the_values_of_secret_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "plainword")
    monkeypatch.setenv("MY_SERVICE_TOKEN_SECRET", "plainword-and-more")
    monkeypatch.setenv("MY_SHORT_KEY", "abc")
    monkeypatch.setenv("MY_HOME", "not-a-secret")
    assert redact("plainword abc not-a-secret plainword-and-more") == f"{HIDDEN} abc not-a-secret {HIDDEN}"


def test_other_values_on_demand() -> None:
    assert redact("the blue fox", ["blue", ""]) == f"the {HIDDEN} fox"


@pytest.mark.parametrize(
    "text",
    [
        "sk-" * 30000,
        "gsk_" * 25000,
        "eyJ" * 30000,
        "eyJ-" * 25000,
        "://" + "a" * 100_000,
        "://a:" * 20000,
        "-----BEGIN " * 9000,
        "password:" * 11000,
        "password" + " " * 100_000,
        "api_key=" * 12000,
        "sk-" + "a" * 100_000,
    ],
    ids=range(11),
)
def test_no_text_takes_long(text: str) -> None:
    begun = time.monotonic()
    redact(text)
    assert time.monotonic() - begun < 3


# --- through a run -----------------------------------------------------------------------------------------

PLAIN = "correct horse battery staple"
"""A key that has no shape."""


@tool(effects="none")
def lookup(name: str) -> str:
    """Look a name up.

    Args:
        name: The name.
    """
    return f"{name} is on page 3."


def question() -> dict[str, Any]:
    return {"messages": [("user", "Where is Ada?")]}


def everything(graph: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> str:
    """All that a run lets out: result, events, logs of all levels, output."""
    with caplog.at_level(logging.DEBUG):
        result = graph.invoke(question())
        events = list(stream_steps(graph, question()))
    shown = capsys.readouterr()
    messages = [m.model_dump_json() for m in result.pop("messages")]
    return json.dumps([result, events, messages]) + caplog.text + shown.out + shown.err


@pytest.mark.parametrize("key", [PLAIN, KEYS[0]], ids=["plain", "shaped"])
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_given_in_code_is_not_shown_by_an_error_that_repeats_it(
    key: str, status: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAI(default=Fail(status, f"Incorrect API key provided: {key}.", retry_after=0)) as server:
        model = ChatOpenAI(base_url=server.url, api_key=key, model="fake", max_retries=0)
        told = everything(create_react_graph(model, [lookup]), capsys, caplog)
        assert server.headers[0]["authorization"] == f"Bearer {key}", "it was sent, of course"
    assert key not in told
    assert HIDDEN in told
    assert "Incorrect API key provided" in told


def test_a_key_of_the_environment_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TAOGRAPH_API_KEY", PLAIN)
    with FakeOpenAI(default=Fail(401, f"no account has the key {PLAIN}")) as server:
        told = everything(create_react_graph(f"{server.url}#fake", [lookup]), capsys, caplog)
    assert PLAIN not in told
    assert HIDDEN in told


def test_a_key_that_the_judge_or_the_closing_call_repeats_is_not_shown(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAI(default=Fail(401, f"Incorrect API key provided: {PLAIN}.")) as server:
        judge = ChatOpenAI(base_url=server.url, api_key=PLAIN, model="judge", max_retries=0)
        model = ScriptedModel(replies=["Page 3."], repeat=True)
        told = everything(create_react_graph(model, [lookup], verify=judge), capsys, caplog)
    assert PLAIN not in told
    assert "not verified" in told


def test_a_header_given_in_code_is_not_shown(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAI(default=Fail(401, f"unknown subscription {PLAIN}")) as server:
        headers = {"Ocp-Apim-Subscription-Key": PLAIN, "X-Team": "blue"}
        model = ChatOpenAI(base_url=server.url, api_key="x", model="fake", max_retries=0, default_headers=headers)
        told = everything(create_react_graph(model, [lookup]), capsys, caplog)
    assert PLAIN not in told


@pytest.mark.parametrize("error", [RuntimeError, ToolError, KeyError])
def test_a_tools_error_does_not_show_a_key(
    error: type[Exception], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effects="none")
    def fails(name: str) -> str:
        """Fail.

        Args:
            name: Anything.
        """
        raise error(f"401 for key {KEYS[0]}")

    model = ScriptedModel(replies=[AIMessage("", tool_calls=[call("fails", {"name": "a"})]), "Done."] * 2)
    told = everything(create_react_graph(model, [fails]), capsys, caplog)
    assert KEYS[0] not in told
    assert not any(KEYS[0] in str(request.messages) for request in model.requests), "nor to the model"


def test_a_key_is_not_in_what_a_failed_resolve_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEYS[0])
    for name in ("anthropic:claude", "http://127.0.0.1", f"nobody:{KEYS[0]}", f"http://127.0.0.1/v1?k={KEYS[0]}"):
        with pytest.raises(ValueError, match="model") as caught:
            resolve(name)
        assert KEYS[0] not in str(caught.value)


def test_the_hint_of_how_an_address_looks_is_kept() -> None:
    assert redact("give postgresql://user:password@host/db") == "give postgresql://user:password@host/db"
    assert redact("postgresql://user:hunter22@host/db") == f"postgresql://{HIDDEN}@host/db"

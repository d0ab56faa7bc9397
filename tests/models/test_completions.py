"""What is sent, what comes back and what fails is what LangChain's own classes send, return and raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from wire_support import (
    HISTORY,
    KEY,
    PAIRS,
    STREAM,
    WAYS,
    Ask,
    Pair,
    Recorder,
    Say,
    at_once,
    azure_by_name,
    both,
    by_name,
    on_a_loop,
    own,
    own_azure,
    plain,
    plain_azure,
    whole,
)


class Answer(BaseModel):
    """An answer."""

    text: str


@pytest.fixture(scope="module")
def one_server() -> Iterator[Recorder]:
    with Recorder() as made:
        yield made


@pytest.fixture
def server(one_server: Recorder) -> Recorder:
    one_server.answers = [whole()]
    one_server.take()
    return one_server


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return PAIRS[request.param]


# --- options -----------------------------------------------------------------------------------------------

TOOLS = [{"type": "function", "function": {"name": "f", "description": "F — of x.", "parameters": {"type": "object"}}}]
CALL_OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "tools": {"tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": False},
    "stop and seed": {"stop": ["\nObservation:"], "seed": 7, "temperature": 0.0, "max_tokens": 5},
    "extra headers": {"extra_headers": {"X-Own": "1", "User-Agent": "own"}},
    "extra query": {"extra_query": {"trace": "on", "n": 2}},
    "extra body": {"extra_body": {"grammar": "root ::= x", "model": "other", "stream_options": None}},
    "messages in the extra body": {"extra_body": {"messages": [{"role": "user", "content": "Other."}]}},
    "a header less": {"extra_headers": {"X-Stainless-Lang": openai.Omit()}},
    "a timeout": {"timeout": 17.5},
    "no timeout": {"timeout": None},
    "a timeout in parts": {"timeout": openai.Timeout(9.0, read=11.0)},
    "what is None": {"extra_headers": None, "extra_query": None, "extra_body": None, "user": None},
    "what is not given": {"timeout": openai.NOT_GIVEN, "seed": openai.NOT_GIVEN, "user": openai.omit},
    "an option nobody knows": {"no_such_option": 1},
    "no JSON": {"metadata": {"a": {1, 2}}},
    "a number that is none": {"temperature": float("nan")},
    "a tuple": {"stop": ("a", "b")},
    "a typed object": {"metadata": Answer(text="x")},
}


@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_options_of_a_call(server: Recorder, pair: Pair, ask: Ask) -> None:
    models = pair[0](server), pair[1](server)
    for options in CALL_OPTIONS.values():
        both(server, pair, ask, made=models, **options)


MADE: dict[str, dict[str, Any]] = {
    "headers and query": {"default_headers": {"X-Own": "1"}, "default_query": {"api-version": "x", "a": "b c"}},
    "an organization": {"organization": "org-1"},
    "extra body": {"extra_body": {"grammar": "root ::= x"}, "model_kwargs": {"user": "u"}, "store": True},
    "all that is sampled": {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "n": 2,
        "logit_bias": {"5": 1},
        "max_tokens": 9,
    },
    "a timeout": {"timeout": 12.0},
    "reply headers": {"include_response_headers": True},
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_options_of_a_model(server: Recorder, pair: Pair, made: dict[str, Any]) -> None:
    models = pair[0](server, **made), pair[1](server, **made)
    for ask in WAYS:
        server.answers = [whole() if ask in (at_once, on_a_loop) else Say(events=STREAM)]
        assert isinstance(both(server, pair, ask, made=models), list)


def test_what_goes_over_the_wire(server: Recorder) -> None:
    own(server, default_headers={"X-Own": "1"}).invoke(HISTORY)
    (asked,) = server.take()
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["content-length"] == str(len(asked.body))
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["x-own"] == "1"
    assert "Snæfell".encode() in asked.body


@pytest.mark.parametrize("made", [plain_azure, own_azure, azure_by_name])
def test_the_address_of_a_deployment(server: Recorder, made: Any) -> None:
    made(server).invoke(HISTORY)
    made(server, azure_deployment=None, model="a name").invoke(HISTORY)
    asked = server.take()
    ends = "/chat/completions?api-version=2025-01-01-preview"
    assert [a.path for a in asked] == [
        f"/openai/deployments/my%20deployment{ends}",
        f"/openai/deployments/a%20name{ends}",
    ]
    assert {a.headers["api-key"] for a in asked} == {KEY}
    assert asked[1].said["messages"][1]["content"] == "How high is Snæfell?"


@pytest.mark.parametrize("made", [plain_azure, own_azure, azure_by_name])
@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_tokens_of_a_directory_are_taken_anew_for_each_request(server: Recorder, made: Any, ask: Ask) -> None:
    tokens = iter(["one", "two", "three"])
    model = made(server, azure_ad_token_provider=lambda: next(tokens))
    ask(model, HISTORY)
    ask(model, HISTORY)
    assert [a.headers["authorization"] for a in server.take()] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("made", [plain, own, by_name])
@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_a_key_that_is_called_for(server: Recorder, made: Any, ask: Ask) -> None:
    keys = iter(["one", "two", "three", "four"])
    model = made(server, api_key=lambda: next(keys))
    ask(model, HISTORY)
    ask(model, HISTORY)
    first, second = [a.headers["authorization"] for a in server.take()]
    assert first != second


# --- errors ------------------------------------------------------------------------------------------------

TOO_LONG = {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}
FAILED: dict[str, Say] = {
    **{
        str(status): Say({"error": {"message": "no", "type": "t"}}, status) for status in (401, 403, 404, 409, 422, 429)
    },
    "500": Say({"error": {"message": "no", "type": "t"}}, 500),
    "too long": Say({"error": TOO_LONG}, 400),
    "refused": Say({"error": {"message": "no", "code": "content_filter", "param": "prompt"}}, 400),
    "a page": Say("<html>Bad gateway</html>", 502),
    "a page that is no error": Say("<html>Log in</html>", 200),
    "an error with status 200": Say({"error": {"message": "the model is not loaded"}}),
    "no choices": Say({"id": "x", "choices": None}),
    "nothing at all": Say({}),
    "a list": Say([1]),
}


@pytest.mark.parametrize("ask", WAYS)
def test_errors(server: Recorder, pair: Pair, ask: Ask) -> None:
    models = pair[0](server), pair[1](server)
    for failed in FAILED.values():
        server.answers = [failed]
        both(server, pair, ask, made=models)


@pytest.mark.parametrize("ask", WAYS)
def test_nobody_listens(server: Recorder, pair: Pair, ask: Ask) -> None:
    free = "http://127.0.0.1:9"
    where = {"azure_endpoint": free} if "azure" in pair[0].__name__ else {"base_url": f"{free}/v1"}
    kind, text, *_ = both(server, pair, ask, made=where)
    assert "onnection" in kind.__name__
    assert "onnection" in text


@pytest.mark.parametrize("ask", WAYS)
def test_retries_of_a_model_that_is_to_make_them(server: Recorder, pair: Pair, ask: Ask) -> None:
    soon = {"retry-after-ms": "1"}
    last = whole() if ask in (at_once, on_a_loop) else Say(events=STREAM)
    server.answers = [Say({"error": {"message": "no"}}, 429, headers=soon), Say({}, 500, headers=soon), last]
    both(server, pair, ask, made={"max_retries": 2})
    asked = server.take()
    assert [a.headers["x-stainless-retry-count"] for a in asked] == ["0", "1", "2"]
    assert len({a.body for a in asked}) == 1


@pytest.mark.parametrize("ask", WAYS)
def test_retries_that_are_used_up(server: Recorder, pair: Pair, ask: Ask) -> None:
    server.answers = [Say({"error": {"message": "no"}}, 500, headers={"retry-after-ms": "1"})]
    both(server, pair, ask, made={"max_retries": 1})
    assert len(server.take()) == 2

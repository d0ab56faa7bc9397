"""What providers answer when they do not answer: over real HTTP, by address and through ``ChatOpenAI``."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from fake_openai_server import Fail, Raw, Reply
from http_support import Made, assert_concluded, both_models, both_pairs, by_address
from support import Way, assert_acceptable, both_ways, lookup, question, run

from taograph import Limits, create_react_graph, stream_steps, tool
from taograph.graphs.loop import session

SEARCH = Reply(calls=[("lookup", {"name": "Ada"})])
OVERFLOW = Fail(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")
LLAMA_OVERFLOW = Fail(400, "the request exceeds the available context size, try increasing it")
LLAMA_MALFORMED = Fail(500, "The model produced output that does not match the expected peg-native format")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between retries where the provider names no time; nothing else is sped up."""
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.01)


# --- what may pass -----------------------------------------------------------------------------------------


@both_pairs
def test_a_rate_limit_waits_as_long_as_the_provider_says(serve: Any, made: Made, way: Way) -> None:
    server = serve(Fail(429, "slow down", retry_after=0.4), "Page 3.")
    begun = time.monotonic()
    result = run(way, create_react_graph(made(server), [lookup]), question())
    assert_concluded(result, "final", server)
    assert time.monotonic() - begun >= 0.4
    assert len(server.requests) == 2


def test_a_wait_beyond_the_deadline_is_not_begun(serve: Any) -> None:
    server = serve(SEARCH, Fail(429, "come back tomorrow", retry_after=86400))
    begun = time.monotonic()
    result = create_react_graph(by_address(server), [lookup], limits=Limits(seconds=20)).invoke(question())
    assert time.monotonic() - begun < 15
    assert_concluded(result, "model_error", server)
    assert "429" in result["stop"]["detail"] or "come back tomorrow" in result["stop"]["detail"]
    assert "page 3" in result["answer"], "what was found is not lost"


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "-3", "nan", "inf", ""])
def test_a_wait_that_cannot_be_read_is_the_usual_one(serve: Any, value: str) -> None:
    body = json.dumps({"error": {"message": "slow down"}})
    server = serve(Raw(body, 429, headers={"Retry-After": value}), "Page 3.")
    result = create_react_graph(by_address(server), [lookup], limits=Limits(seconds=None)).invoke(question())
    assert_concluded(result, "final", server)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(serve: Any, status: int) -> None:
    server = serve(Fail(status, "busy"), SEARCH, Fail(status, "busy"), "Page 3.")
    events = list(stream_steps(create_react_graph(by_address(server), [lookup]), question()))
    assert events[-1]["text"] == "Page 3."
    assert events[-1]["spent"]["model_calls"] == 4
    retries = [e for e in events if e["type"] == "retry"]
    assert [e["reason"] for e in retries] == ["model_error", "model_error"]
    assert "busy" in retries[0]["detail"]


@both_pairs
@pytest.mark.parametrize("status", [429, 500])
def test_what_never_passes_ends_as_model_error_with_what_was_found(
    serve: Any, made: Made, way: Way, status: int
) -> None:
    server = serve(SEARCH, default=Fail(status, "busy"))
    result = run(way, create_react_graph(made(server), [lookup]), question())
    assert_concluded(result, "model_error", server)
    assert len(server.requests) == 1 + 3, "one try and two retries, and no closing call to a provider that is down"
    assert "busy" in result["stop"]["detail"]
    assert "page 3" in result["answer"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_number_of_retries_is_a_limit(serve: Any, retries: int) -> None:
    server = serve(default=Fail(503, "busy"))
    graph = create_react_graph(by_address(server), [lookup], limits=Limits(model_retries=retries))
    assert_concluded(graph.invoke(question()), "model_error", server)
    assert len(server.requests) == 1 + retries


@both_ways
def test_a_connection_that_drops_is_tried_again(serve: Any, way: Way) -> None:
    server = serve(Fail(drop=True), "Page 3.")
    result = run(way, create_react_graph(by_address(server), [lookup]), question())
    assert_concluded(result, "final", server)


@both_models
def test_a_stream_that_is_cut_is_tried_again(serve: Any, made: Made) -> None:
    delta = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
    delta |= {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Page 9"}, "finish_reason": None}]}
    server = serve(Raw(f"data: {json.dumps(delta)}\n\n", kind="text/event-stream", cut=True), "Page 3.")
    events = list(stream_steps(create_react_graph(made(server), [lookup]), question()))
    assert events[-1]["text"] == "Page 3."
    assert events[-1]["spent"]["model_calls"] == 2
    assert [e["reason"] for e in events if e["type"] == "retry"] == ["model_error"]


@pytest.mark.parametrize(
    "error",
    [
        {"message": "overloaded", "code": 502},
        {"message": "busy", "type": "overloaded_error"},
        {"message": "slow down", "code": "rate_limit_exceeded"},
    ],
)
def test_an_error_in_the_midst_of_a_stream_that_may_pass(serve: Any, error: dict[str, Any]) -> None:
    body = f"data: {json.dumps({'error': error})}\n\n"
    server = serve(Raw(body, kind="text/event-stream"), "Page 3.")
    events = list(stream_steps(create_react_graph(by_address(server), [lookup]), question()))
    assert events[-1]["text"] == "Page 3."
    assert events[-1]["spent"]["model_calls"] == 2


@both_ways
def test_nobody_listens(way: Way) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = run(way, create_react_graph(f"http://127.0.0.1:{port}/v1#fake", [lookup]), question())
    assert result["stop"]["reason"] == "model_error"
    assert result["spent"]["model_calls"] == 3
    assert f"http://127.0.0.1:{port}/v1" in result["stop"]["detail"], "it says what could not be reached"
    assert result["answer"].strip()
    assert_acceptable(result["messages"])


# --- what never passes -------------------------------------------------------------------------------------


@both_pairs
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_pass_is_not_tried_again(serve: Any, made: Made, way: Way, status: int) -> None:
    server = serve(default=Fail(status, "that will not do"))
    result = run(way, create_react_graph(made(server), [lookup]), question())
    assert_concluded(result, "model_error", server)
    assert len(server.requests) == 1
    assert "that will not do" in result["stop"]["detail"]


@pytest.mark.parametrize(
    "answer",
    [
        Raw("<html><body>Sign in to the network</body></html>", kind="text/html"),
        Raw('{"choices": [{"message": {"role": "assistant", "cont'),
        Raw('{"unexpected": true}'),
        Raw('{"choices": []}'),
        Raw('{"choices": null}'),
        Raw("null"),
        Raw(""),
        Raw("", 204),
    ],
    ids=["html", "truncated", "another object", "no choices", "null choices", "null", "nothing", "no content"],
)
@both_ways
def test_an_answer_that_is_no_completion_ends_the_run_not_the_program(serve: Any, answer: Raw, way: Way) -> None:
    server = serve(SEARCH, default=answer)
    result = run(way, create_react_graph(by_address(server), [lookup]), question())
    assert result["stop"]["reason"] in ("model_error", "empty_output"), result["stop"]
    assert_concluded(result, result["stop"]["reason"], server)
    assert len(server.requests) <= 5
    assert "page 3" in result["answer"]


@pytest.mark.parametrize(
    "answer",
    [
        Raw("<html><body>Sign in to the network</body></html>", kind="text/html"),
        Raw("data: {not json\n\ndata: [DONE]\n\n", kind="text/event-stream"),
        Raw("data: [DONE]\n\n", kind="text/event-stream"),
        Raw('data: {"error": {"message": "overloaded"}}\n\n', kind="text/event-stream"),
        Raw("", kind="text/event-stream"),
    ],
    ids=["html", "no json", "nothing but the end", "an error in the stream", "nothing"],
)
def test_a_stream_that_is_no_completion_ends_the_run_not_the_program(serve: Any, answer: Raw) -> None:
    server = serve(SEARCH, default=answer)
    events = list(stream_steps(create_react_graph(by_address(server), [lookup]), question()))
    stop, last = events[-2:]
    assert stop["reason"] in ("model_error", "empty_output")
    assert "page 3" in last["text"]
    assert last["spent"]["model_calls"] == len(server.requests) <= 5


def test_an_error_page_with_a_status_that_may_pass(serve: Any) -> None:
    server = serve(Raw("<html>Bad Gateway</html>", 502, "text/html"), "Page 3.")
    result = create_react_graph(by_address(server), [lookup]).invoke(question())
    assert_concluded(result, "final", server)


# --- a prompt that is too long -----------------------------------------------------------------------------


@tool(effects="none", max_chars=None)
def long_text(number: int) -> str:
    """A long text.

    Args:
        number: Which one.
    """
    return f"text {number}: " + "word " * 400


def _long(number: int) -> Reply:
    return Reply(calls=[("long_text", {"number": number})])


@both_pairs
@pytest.mark.parametrize("overflow", [OVERFLOW, LLAMA_OVERFLOW], ids=["openai", "llama.cpp"])
def test_a_prompt_that_is_too_long_is_cut_once(serve: Any, made: Made, way: Way, overflow: Fail) -> None:
    server = serve(_long(1), _long(2), _long(3), overflow, "Three texts.")
    result = run(way, create_react_graph(made(server), [long_text]), question())
    assert_concluded(result, "final", server)
    refused, sent = [[m for m in r["messages"] if m["role"] == "tool"] for r in server.requests[3:]]
    assert len(sent[0]["content"]) < len(refused[0]["content"]) / 2
    assert sent[1:] == refused[1:], "the last observations are kept whole"
    assert server.requests[4]["messages"][0] == server.requests[3]["messages"][0], "the question is kept"
    stored = [m for m in result["messages"] if m.type == "tool"]
    assert len(stored[0].content) > 2000, "what is stored is not cut"


@both_models
def test_a_prompt_that_stays_too_long_is_a_model_error_with_what_was_found(serve: Any, made: Made) -> None:
    server = serve(SEARCH, default=OVERFLOW)
    result = create_react_graph(made(server), [lookup]).invoke(question())
    assert_concluded(result, "model_error", server)
    assert len(server.requests) == 3
    assert "page 3" in result["answer"]
    assert "context" in result["stop"]["detail"]


def test_a_closing_request_that_is_too_long_is_cut_too(serve: Any) -> None:
    server = serve(_long(1), _long(2), _long(3), OVERFLOW, "Three texts, and no more.")
    result = create_react_graph(by_address(server), [long_text], limits=Limits(steps=3)).invoke(question())
    assert_concluded(result, "step_limit", server)
    assert result["answer"] == "Three texts, and no more."


# --- a reply that the server itself could not read ----------------------------------------------------------


@both_pairs
def test_output_that_the_server_could_not_read_is_asked_for_again(serve: Any, made: Made, way: Way) -> None:
    server = serve(LLAMA_MALFORMED, "Page 3.")
    result = run(way, create_react_graph(made(server), [lookup]), question())
    assert_concluded(result, "final", server)
    assert "could not be read" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "failure",
    [LLAMA_MALFORMED, Fail(400, "Failed to call a function. Please adjust your prompt.", "tool_use_failed")],
    ids=["llama.cpp", "groq"],
)
def test_output_that_the_server_can_never_read_is_malformed_output(serve: Any, failure: Fail) -> None:
    server = serve(failure, failure, failure, "I could not call the tool.")
    events = list(stream_steps(create_react_graph(by_address(server), [lookup]), question()))
    stop, answer = events[-2:]
    assert stop["reason"] == "malformed_output"
    assert answer["text"] == "I could not call the tool."
    assert [e["reason"] for e in events if e["type"] == "retry"] == ["malformed_output"] * 2

"""What a failed model call means, by whichever exception a provider's client raises."""

from __future__ import annotations

import httpx
import httpx2
import openai
import pytest
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeoutError,
    OutputParserException,
)

from taograph.models.failures import (
    describe,
    is_malformed,
    is_overflow,
    is_retryable,
    refusal_text,
    retry_after,
    status_of,
)


def answered(status: int, **headers: str) -> Exception:
    """An error as a client makes it of an answer."""
    error = RuntimeError(f"status {status}")
    error.response = httpx.Response(status, headers=headers)  # type: ignore[attr-defined]
    return error


def raised(number: int) -> Exception:
    error = RuntimeError("a client that keeps the status itself")
    error.status_code = number  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "error",
    [
        ModelRateLimitError("slow down"),
        ModelAPIError("oops"),
        ModelConnectionError("lost"),
        ModelTimeoutError("late"),
        TimeoutError(),
        ConnectionResetError(),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
        httpx.RemoteProtocolError("cut"),
        httpx2.ReadError("cut"),
        answered(429),
        answered(503),
        raised(500),
        raised(408),
    ],
    ids=lambda e: f"{type(e).__name__} {e}"[:40],
)
def test_what_may_pass(error: Exception) -> None:
    assert is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelAuthenticationError("no"),
        ModelPermissionDeniedError("no"),
        ModelInvalidRequestError("no"),
        ModelNotFoundError("no"),
        ModelRefusalError("no"),
        ContextOverflowError("too long"),
        ValueError("a mistake in the code"),
        KeyError("choices"),
        answered(400),
        answered(401),
        raised(404),
        answered(400, **{"retry-after": "1"}),
        RuntimeError("The model produced output that does not match the expected peg-native format"),
    ],
    ids=lambda e: f"{type(e).__name__} {e}"[:40],
)
def test_what_cannot_pass(error: Exception) -> None:
    assert not is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        ContextOverflowError("x"),
        RuntimeError("prompt is too long: 9000 tokens > 8192 maximum"),
        RuntimeError("This model's maximum context length is 8192 tokens"),
        RuntimeError("the request exceeds the available context size"),
        RuntimeError("code: context_length_exceeded"),
    ],
    ids=str,
)
def test_a_prompt_that_is_too_long(error: Exception) -> None:
    assert is_overflow(error)
    assert not is_retryable(error)
    assert not is_malformed(error)


def test_a_server_that_is_down_does_not_overflow_whatever_it_says() -> None:
    error = raised(503)
    error.args = ("the context window service is down",)
    assert not is_overflow(error)
    assert is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        OutputParserException("not this"),
        RecursionError("arguments nested without end"),
        RuntimeError("The model produced output that does not match the expected peg-native format"),
        RuntimeError("Failed to parse tool call arguments as JSON"),
        RuntimeError("finish reason MALFORMED_FUNCTION_CALL"),
    ],
    ids=str,
)
def test_a_reply_that_nobody_could_read(error: Exception) -> None:
    assert is_malformed(error)
    assert not is_retryable(error)


@pytest.mark.parametrize(
    "error", [ValueError("x"), answered(400), RuntimeError("'messages.0' does not match the expected type")], ids=str
)
def test_other_errors_are_no_broken_replies(error: Exception) -> None:
    assert not is_malformed(error)


def test_a_refusal_and_its_words() -> None:
    assert refusal_text(ModelRefusalError("I won't.")) == "I won't."
    assert refusal_text(ModelRefusalError("")) == "The model refused."
    assert refusal_text(ValueError("I won't.")) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"Retry-After": "-1"}, 0.0),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(answered(429, **headers)) == seconds


def test_an_error_without_an_answer_asks_for_no_wait() -> None:
    assert retry_after(ValueError("x")) is None


@pytest.mark.parametrize(("error", "status"), [(answered(429), 429), (raised(500), 500), (ValueError("x"), None)])
def test_the_status_of_an_error(error: Exception, status: int | None) -> None:
    assert status_of(error) == status


def test_an_error_in_one_line() -> None:
    assert describe(ValueError("one\n  two\tthree")) == "ValueError: one two three"
    assert describe(TimeoutError()) == "TimeoutError"
    assert len(describe(ValueError("x" * 5000))) < 400


def test_an_error_does_not_show_a_key() -> None:
    assert "sk-abc" not in describe(ValueError("Incorrect API key provided: sk-abcdefghijklmnop1234."))


def test_a_connection_that_failed_says_where_but_not_what_was_asked() -> None:
    request = httpx2.Request("POST", "http://127.0.0.1:9/v1/chat/completions?token=hidden-in-the-query")
    error = openai.APIConnectionError(request=request)
    error.__cause__ = httpx2.ConnectError("[Errno 111] Connection refused")
    told = describe(error)
    assert "http://127.0.0.1:9/v1/chat/completions" in told
    assert "Connection refused" in told
    assert "hidden" not in told


def test_an_error_of_httpx_without_a_request() -> None:
    assert describe(httpx.ConnectError("refused")) == "ConnectError: refused"

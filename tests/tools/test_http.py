"""The JSON client, against a local service with every failure it must survive."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from fake_service import CIRCLE, HTML, SILENCE, Answer, Service

from taograph.tools.engines import http
from taograph.tools.engines.http import ServiceError, get_json, post_json, user_agent

KEY = "sk-abcdef0123456789"


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(lambda ask: {"asked": ask}) as running:
        yield running


def ask(service: Service, timeout: float = 5.0, **more: Any) -> Any:
    return get_json(f"{service.url}/api", {"q": "é &=", "key": KEY}, service="The service", timeout=timeout, **more)


def failed(service: Service, timeout: float = 5.0, **more: Any) -> ServiceError:
    began = time.monotonic()
    with pytest.raises(ServiceError) as caught:
        ask(service, timeout, **more)
    assert time.monotonic() - began < timeout + 2
    text = str(caught.value)
    assert text.startswith("The service ")
    assert KEY not in text
    assert "127.0.0.1" not in text
    return caught.value


def test_an_answer_and_what_was_sent(service: Service) -> None:
    assert ask(service, headers={"x-more": "1"}) == {"asked": {"q": "é &=", "key": KEY}}
    method, headers, _ = service.requests[0]
    assert (method, headers["x-more"], headers["accept"]) == ("GET", "1", "application/json")
    assert headers["user-agent"] == user_agent()
    assert headers["user-agent"].startswith("taograph/")


def test_a_body_can_be_asked_with(service: Service) -> None:
    assert post_json(service.url, {"query": "x"}, headers={"authorization": f"Bearer {KEY}"}) == {"asked": {}}
    method, headers, body = service.requests[0]
    assert (method, body, headers["content-type"]) == ("POST", b'{"query": "x"}', "application/json")


def test_the_contact_is_named_where_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_CONTACT", "ops@example.org")
    assert "(ops@example.org; " in user_agent()
    monkeypatch.setenv("TAOGRAPH_CONTACT", "a\r\nx: y")
    assert "(a x: y; " in user_agent()
    monkeypatch.setenv("TAOGRAPH_CONTACT", "é")
    assert "é" not in user_agent()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(status=503, headers={"Retry-After": "0"}),
        Answer(status=429, headers={"Retry-After": "0"}),
        Answer(body={"a": "b" * 1000}, cut=True),
    ],
)
def test_what_can_succeed_is_tried_again(service: Service, answer: Answer) -> None:
    service.fail(answer)
    assert ask(service)["asked"]["q"] == "é &="
    assert len(service.asked) == 2


def test_a_silence_is_followed_by_one_more_try(service: Service) -> None:
    service.fail(SILENCE)
    assert ask(service, timeout=1.0)["asked"]["q"] == "é &="


@pytest.mark.parametrize(
    ("answer", "says", "asked"),
    [
        (Answer(status=403, body="no"), "refused the request (status 403); asking again will not help", 1),
        (Answer(status=401), "refused the request (status 401)", 1),
        (Answer(status=404), "has nothing there (status 404)", 1),
        (Answer(status=418), "did not take the request (status 418)", 1),
        (Answer(status=500), "is out of order (status 500)", 3),
        (Answer(status=429, headers={"Retry-After": "0"}), "gets too many requests (status 429)", 3),
        (Answer(status=429, headers={"Retry-After": "3600"}), "asks to wait 3600 s", 1),
        (HTML, "did not answer with JSON (text/html)", 1),
        (Answer(body="[" * 200_000), "did not answer with JSON", 1),
        (Answer(body=b"\xff\xfe\xfd"), "did not answer with JSON", 1),
        (Answer(body={"a": "b" * 1000}, cut=True), "broke off its answer", 3),
        (CIRCLE, "redirects without an end", 4),
        (Answer(status=302, headers={"Location": "http://localhost:1/"}), "sends us to another address", 1),
        (Answer(status=302, headers={"Location": "file:///etc/passwd"}), "", 1),
        (Answer(body="not packed", headers={"Content-Encoding": "gzip"}), "can't be unpacked", 1),
        (Answer(body=gzip.compress(b" " * 9_000_000), headers={"Content-Encoding": "gzip"}), "more than 4000000", 1),
    ],
)
def test_every_failure_is_told(service: Service, answer: Answer, says: str, asked: int) -> None:
    service.fail(answer, times=None)
    assert says in str(failed(service))
    assert len(service.asked) == asked


def test_a_redirect_on_the_same_host_is_followed(service: Service) -> None:
    service.fail(Answer(status=301, headers={"Location": "/other?moved=1"}))
    assert ask(service) == {"asked": {"moved": "1"}}


@pytest.mark.parametrize("answer", [SILENCE, Answer(body={"a": "b" * 1000}, drip=0.05)], ids=["silence", "drip"])
def test_what_takes_too_long_is_given_up(service: Service, answer: Answer) -> None:
    service.fail(answer, times=None)
    error = failed(service, timeout=0.6)
    assert "did not answer in time" in str(error)
    assert error.passing


def test_nobody_there() -> None:
    with Service(lambda ask: {}) as gone:
        pass
    assert "can't be reached" in str(failed(gone))


def test_the_reason_in_an_errors_body_is_kept(service: Service) -> None:
    service.fail(Answer(status=400, body={"error": True, "reason": "no such field"}))
    error = failed(service)
    assert (error.status, error.payload) == (400, {"error": True, "reason": "no such field"})


def test_a_reply_may_mean_try_again(service: Service) -> None:
    service.fail(Answer(body={"error": "lag"}, headers={"Retry-After": "0"}))
    assert ask(service, busy=lambda reply: reply.get("error"))["asked"]
    service.fail(Answer(body={"error": "lag"}, headers={"Retry-After": "60"}))
    error = failed(service, busy=lambda reply: reply.get("error"))
    assert "is busy (lag)" in str(error)
    assert error.wait == 60


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("7", 7.0, 7.0),
        (format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True), 3000.0, 3600.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0, 0.0),
        ("soon", None, None),
        ("-3", None, None),
    ],
    ids=["seconds", "date", "past date", "words", "negative"],  # the date is another one in every process
)
def test_retry_after_is_read(service: Service, said: str, least: float | None, most: float | None) -> None:
    service.fail(Answer(status=403, headers={"Retry-After": said}))
    wait = failed(service).wait
    assert wait == least if least is None or most is None or wait is None else least <= wait <= most


def test_certificates_are_read_once() -> None:
    assert http._certificates() is http._certificates()

"""web_search: every service in the same shape, and every failure in words, against local servers.

The keyless one is the real library ``ddgs``, one of whose engines is sent to a local server; what it can't be
brought to do there is done by an object in its place.
"""

import base64
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fake_service import HTML, SILENCE, Answer, Service
from langchain_core.tools import BaseTool

from taograph.tools.catalog import available, default_tools, load
from taograph.tools.engines.search_services import SERVICES, SearchProvider, brave, ddgs, searxng, serper, tavily
from taograph.tools.policy import ToolError, policy_of
from taograph.tools.web_search import SearchResult, web_search_tool

KEY = "tvly-abcdef0123456789"
FOUND = [
    {
        "name": "Harbour <strong>lighthouse</strong>",
        "at": "https://lights.example/a",
        "said": "It is\n38 metres  tall &amp; white.",
    },
    {"name": "", "at": "http://lights.example/b", "said": ""},
    {"name": "The same page again", "at": "https://lights.example/a", "said": "again"},
    {"name": "No page", "at": "javascript:alert(1)", "said": "x"},
    {"name": "No address", "at": None, "said": "x"},
    {"name": "\x1b[31mHid\u202eden\u200b", "at": "https://lights.example/c", "said": "y" * 5000},
]
SHOWN = (
    "1. Harbour lighthouse\nhttps://lights.example/a\nIt is 38 metres tall & white.\n\n"
    "2. Untitled\nhttp://lights.example/b\n\n"
    "3. [31mHid den\nhttps://lights.example/c\n" + "y" * 399 + "…"
)


def as_named(*names: str) -> list[Any]:
    """What was found, under a service's own names; and two things that are no results."""
    return [dict(zip(names, each.values(), strict=True)) for each in FOUND] + ["noise", None]


Make = Callable[[str, float], SearchProvider]
REPLIES: dict[str, tuple[Make, Any]] = {
    "tavily": (lambda url, s: tavily(KEY, url=url, seconds=s), {"results": as_named("title", "url", "content")}),
    "brave": (
        lambda url, s: brave(KEY, url=url, seconds=s),
        {"web": {"results": as_named("title", "url", "description")}},
    ),
    "serper": (lambda url, s: serper(KEY, url=url, seconds=s), {"organic": as_named("title", "link", "snippet")}),
    "searxng": (lambda url, s: searxng(url, seconds=s), {"results": as_named("title", "url", "content")}),
}
each_service = pytest.mark.parametrize("name", REPLIES)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TAOGRAPH_SEARCH", *(service.variable for service in SERVICES.values())):
        if variable:
            monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    name = request.getfixturevalue("name")
    with Service(lambda _: REPLIES[name][1]) as running:
        yield running


def tool(name: str, service: Service, seconds: float = 5.0) -> BaseTool:
    return web_search_tool(REPLIES[name][0](service.url, seconds))


def failed(tool: BaseTool, within: float = 7.0) -> str:
    began = time.monotonic()
    with pytest.raises(ToolError) as caught:
        tool.invoke({"query": "lighthouse"})
    assert time.monotonic() - began < within
    text = str(caught.value)
    assert KEY not in text
    assert "127.0.0.1" not in text
    return text


# --- the services


@each_service
def test_every_service_answers_in_the_same_shape(name: str, service: Service) -> None:
    assert tool(name, service).invoke({"query": " how tall\nis it "}) == SHOWN
    assert tool(name, service).invoke({"query": "x", "max_results": 1}).count("https://") == 1


def test_what_is_asked_of_each() -> None:
    asked = {}
    for name, (make, reply) in REPLIES.items():
        with Service(lambda _, reply=reply: reply) as service:  # type: ignore[misc]
            web_search_tool(make(service.url, 5.0)).invoke({"query": "é &=", "max_results": 99})
            method, headers, body = service.requests[0]
            auth = {k: v for k, v in headers.items() if k in ("authorization", "x-subscription-token", "x-api-key")}
            asked[name] = (method, auth, body.decode(), service.asked[0])
    query = '"\\u00e9 &="'
    assert asked == {
        "tavily": ("POST", {"authorization": f"Bearer {KEY}"}, f'{{"query": {query}, "max_results": 10}}', {}),
        "brave": ("GET", {"x-subscription-token": KEY}, "", {"q": "é &=", "count": "10"}),
        "serper": ("POST", {"x-api-key": KEY}, f'{{"q": {query}, "num": 10}}', {}),
        "searxng": ("GET", {}, "", {"q": "é &=", "format": "json"}),
    }


@each_service
@pytest.mark.parametrize("reply", [{}, {"results": []}, {"web": {}}, {"organic": [], "web": {"results": []}}])
def test_nothing_found(name: str, service: Service, reply: Any) -> None:
    service.fail(Answer(body=reply))
    assert tool(name, service).invoke({"query": "x"}) == "Nothing was found. Search again with other or fewer words."


@each_service
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=401), "refused the request (status 401)"),
        (Answer(status=429, headers={"Retry-After": "3600"}), "asks to wait 3600 s (status 429)"),
        (Answer(status=500, headers={"Retry-After": "0"}), "out of order (status 500)"),
        (HTML, "did not answer with JSON (text/html)"),
        (Answer(body={"results": "x" * 99}, cut=True), "broke off its answer"),
        (Answer(body=[1, 2]), "in a form that is not known"),
        (Answer(body={"results": 5, "web": 5, "organic": 5}), "in a form that is not known"),
    ],
)
def test_failures(name: str, service: Service, answer: Answer, words: str) -> None:
    service.fail(answer, times=None)
    assert words in failed(tool(name, service))


@each_service
def test_what_passes_is_tried_again(name: str, service: Service) -> None:
    service.fail(Answer(status=429, headers={"Retry-After": "0"}))
    assert tool(name, service).invoke({"query": "x"}) == SHOWN
    assert len(service.asked) == 2


@each_service
def test_a_silence_ends_in_time(name: str, service: Service) -> None:
    service.fail(SILENCE, times=None)
    assert "did not answer in time" in failed(tool(name, service, seconds=0.6), within=3.0)


@pytest.mark.parametrize("name", ["searxng"])
def test_a_searxng_that_gives_no_json(name: str, service: Service) -> None:
    service.fail(Answer(status=403))
    assert failed(tool(name, service)).startswith("SearXNG gives no JSON: its owner has to list json")


@pytest.mark.parametrize("name", ["searxng"])
@pytest.mark.parametrize("path", ["", "/", "/search", "/under/here/"])
def test_the_address_of_a_searxng(name: str, service: Service, path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = service.url.replace("://", "://anna:s3cr%65t-pass@") + path
    assert web_search_tool(searxng(url)).invoke({"query": "x"}) == SHOWN
    assert service.requests[0][1]["authorization"] == "Basic " + base64.b64encode(b"anna:s3cret-pass").decode()
    assert "pass" not in caplog.text
    assert f"{path.rstrip('/').removesuffix('/search')}/search?q=x" in caplog.text


@each_service
def test_keys_stand_in_no_log(name: str, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tool(name, service).invoke({"query": "x"})
    service.fail(Answer(status=401), times=None)
    failed(tool(name, service))
    assert caplog.records
    assert KEY not in caplog.text
    assert KEY not in repr(tool(name, service))


# --- without a key


MOJEEK = """<ul class="results-standard">
<li><h2><a href="https://lights.example/a">Harbour <b>lighthouse</b></a></h2>
<p class="s">The lighthouse is 38 metres tall.</p></li>
<li><h2><a href="https://lights.example/b">Other</a></h2>
<p class="s">Another lighthouse of no great height.</p></li></ul>"""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """One of the engines of ddgs, on this machine."""
    pytest.importorskip("ddgs", reason="needs taograph[web]")
    from ddgs.engines.mojeek import Mojeek

    with Service(lambda _: Answer(body=MOJEEK, headers={"Content-Type": "text/html"})) as running:
        monkeypatch.setattr(Mojeek, "search_url", running.url)
        yield running


def keyless(seconds: float = 10.0) -> BaseTool:
    return web_search_tool(ddgs(backend="mojeek", seconds=seconds))


def test_the_real_library_over_a_local_engine(engine: Service) -> None:
    text = keyless().invoke({"query": "lighthouse height", "max_results": 2})
    assert "Harbour lighthouse\nhttps://lights.example/a\nThe lighthouse is 38 metres tall." in text
    assert "\n\n2. " in text
    assert engine.asked[0]["q"] == "lighthouse height"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=403),
        Answer(status=429, headers={"Retry-After": "3600"}),
        Answer(status=500),
        Answer(body="<html><body>Are you a robot?", headers={"Content-Type": "text/html"}),
        Answer(body=MOJEEK, cut=True),
    ],
)
def test_failures_of_the_real_library(engine: Service, answer: Answer) -> None:
    engine.fail(answer, times=None)
    text = failed(keyless(), within=15.0)
    assert text.startswith("The search engines ")
    assert text.endswith("or go on without it.")


def test_a_silence_of_the_real_library(engine: Service) -> None:
    engine.fail(SILENCE, times=None)
    assert failed(keyless(1.5), within=5.0).startswith("The search engines ")


def test_a_library_that_never_comes_back() -> None:
    hanging = SimpleNamespace(DDGS=lambda timeout: SimpleNamespace(text=lambda *_, **__: time.sleep(1.5)))
    text = failed(web_search_tool(ddgs(seconds=0.2, library=hanging)), within=1.2)
    assert text == "The search engines did not answer within 0.2 s. Search again once, or go on without it."


def test_what_a_library_raises_is_not_shown() -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"https://engine.example/?q=x&key={KEY}")

    broken = SimpleNamespace(DDGS=lambda timeout: SimpleNamespace(text=fail))
    text = failed(web_search_tool(ddgs(library=broken)))
    assert text == "The search engines can't be reached. Search again once, or go on without it."


# --- which service


def one_result(query: str, most: int) -> Sequence[SearchResult]:
    return [SearchResult("A page", "https://own.example/", f"{query} {most}")] * 99


def test_a_provider_of_ones_own() -> None:
    text = web_search_tool(one_result).invoke({"query": "x", "max_results": 2})
    assert text == "1. A page\nhttps://own.example/\nx 2\n\n2. A page\nhttps://own.example/\nx 2"


def test_an_empty_query() -> None:
    with pytest.raises(ToolError, match="The query is empty"):
        web_search_tool(one_result).invoke({"query": " \n"})


@pytest.mark.parametrize(("asked", "wanted"), [(0, 1), (-5, 1), (3, 3), (1000, 10)])
def test_how_many(asked: int, wanted: int) -> None:
    assert web_search_tool(one_result).invoke({"query": "x", "max_results": asked}).count("A page") == wanted


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(lambda _: REPLIES["searxng"][1]) as mine:
        monkeypatch.setenv("SEARXNG_URL", mine.url)
        assert web_search_tool().invoke({"query": "x"}) == SHOWN
        assert load("web_search")[0].invoke({"query": "x"}) == SHOWN
        monkeypatch.setenv("TAVILY_API_KEY", KEY)
        monkeypatch.setenv("TAOGRAPH_SEARCH", "SearXNG")
        assert web_search_tool().invoke({"query": "x"}) == SHOWN
        assert web_search_tool("searxng").invoke({"query": "x"}) == SHOWN
        assert len(mine.asked) == 4


@pytest.mark.parametrize(
    ("provider", "setting", "fix"),
    [
        ("google", "", "provider: there is no search service 'google'. There are tavily, brave, serper, searxng, ddgs"),
        (None, "google", "TAOGRAPH_SEARCH: there is no search service 'google'. There are tavily"),
        ("tavily", "", "web_search can't use tavily: set TAVILY_API_KEY"),
        (None, "brave", "web_search can't use brave: set BRAVE_SEARCH_API_KEY"),
        ("searxng", "", "web_search can't use searxng: set SEARXNG_URL"),
    ],
)
def test_what_is_missing_is_said_when_the_tool_is_made(
    provider: str | None, setting: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOGRAPH_SEARCH", setting)
    with pytest.raises(ValueError, match=fix.replace("(", r"\(")):
        web_search_tool(provider)


def test_without_library_and_key_the_ways_to_have_one_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("taograph.tools.catalog", "taograph.tools.engines.search_services"):
        monkeypatch.setattr(f"{module}.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install taograph\[web\], or set one of TAVILY_API_KEY"):
        load("web_search")
    assert not available()["web_search"].ready
    with pytest.raises(ValueError, match=r"can't use ddgs: pip install taograph\[web\]"):
        web_search_tool("ddgs")
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    assert available()["web_search"].ready


@pytest.mark.parametrize("key", ["", " ", "two words", "line\nbreak", "ключ"])
def test_keys_that_can_not_be_sent(key: str) -> None:
    for make, variable in ((tavily, "TAVILY_API_KEY"), (brave, "BRAVE_SEARCH_API_KEY"), (serper, "SERPER_API_KEY")):
        with pytest.raises(ValueError, match=f"^{variable} ") as caught:
            make(key)
        assert not key.strip() or key not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8888", "ftp://x/", "http://", "x"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"^SEARXNG_URL is no URL: write it like http://localhost:8888"):
        searxng(url)


def test_the_worked_example_is_what_the_tool_returns() -> None:
    (example,) = policy_of(web_search_tool(one_result)).examples
    title, url, snippet = example.observation.removeprefix("1. ").split("\n")
    made = web_search_tool(lambda query, most: [SearchResult(title, url, snippet)])
    assert made.invoke(dict(example.args)) == example.observation


def test_what_the_tool_says_of_itself() -> None:
    made = web_search_tool(one_result)
    policy = policy_of(made)
    assert (made.name, policy.effects, policy.trusted) == ("web_search", "none", False)
    assert policy.timeout is not None
    assert policy.timeout > 20
    assert 'web_search(query="' in made.description
    assert all(argument["description"] for argument in made.args.values())
    assert "web_search" not in {each.name for each in default_tools()}
    assert set(SERVICES) == {"tavily", "brave", "serper", "searxng", "ddgs"}

"""open_page: text from pages of every kind, page by page; and what it says where there is none."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_site import Site
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from test_document_readers import pdf
from visiting import PUBLIC, Names, Network

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.catalog import available, default_tools, load
from taograph.tools.engines import web_text
from taograph.tools.engines.document_readers import Unreadable
from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_fetch import Fetched
from taograph.tools.engines.web_reader import PageText, decode, read
from taograph.tools.engines.web_text import read_page
from taograph.tools.open_page import PAGE_CHARS, open_page_tool
from taograph.tools.policy import policy_of

pytest.importorskip("trafilatura", reason="needs taograph[web]")

ARTICLE = """<!doctype html><html><head><title>Opening hours | Harbour library</title>
<meta property="article:published_time" content="2024-05-01T10:00:00Z"></head><body>
<nav><a href=/>Home</a> <a href=/x>Shop</a></nav><article><h1>Opening hours</h1>
<p>The harbour library opens at nine on weekdays. It closes at five.</p>
<h2>Holidays</h2><p>It is closed on the first of May and on the last day of the year, whatever the weekday is.</p>
<table><tr><th>Day</th><th>Hours</th></tr><tr><td>Saturday</td><td>10 to 2</td></tr></table></article>
<footer>All rights reserved</footer></body></html>"""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def tool(site: Site, **more: Any) -> BaseTool:
    return open_page_tool(allow_private=[site.host], **more)


def opened(tool: BaseTool, url: str, **more: Any) -> str:
    text = tool.invoke({"url": url, **more})
    assert isinstance(text, str)
    return text


# --- the tool


def test_an_article(site: Site) -> None:
    site.page("/hours", ARTICLE)
    text = opened(tool(site), site.url("/hours"))
    assert text.startswith(f"Opening hours\n{site.url('/hours')}, dated 2024-05-01, page 1 of 1\n\n")
    assert "It closes at five." in text
    assert "| Saturday | 10 to 2 |" in text
    assert "Shop" not in text
    assert "All rights" not in text
    assert site.paths == ["/robots.txt", "/hours"]


def test_a_long_text_in_pages(site: Site) -> None:
    lines = [f"Line {number} of a long text, said once." for number in range(500)]
    site.page("/long", "\n".join(lines), type="text/plain")
    reader, url = tool(site, respect_robots=False), site.url("/long")
    pages = [opened(reader, url)]
    count = int(pages[0].partition("page 1 of ")[2].split()[0])
    for number in range(2, count + 1):
        assert pages[-1].endswith(f'\n\nGo on: open_page(url="{url}", page={number})')
        pages.append(opened(reader, url, page=number))
    assert "Go on" not in pages[-1]
    assert all(len(page) < PAGE_CHARS + 200 for page in pages)
    assert [line for page in pages for line in page.splitlines() if line.startswith("Line ")] == lines
    assert site.paths == ["/long"]  # further pages come from what was read
    with pytest.raises(WebError, match=rf"no page {count + 1}: this text has {count} pages"):
        opened(reader, url, page=count + 1)
    with pytest.raises(WebError, match="counted from 1"):
        opened(reader, url, page=0)
    opened(reader, url)
    assert site.paths == ["/long"] * 2  # page 1 may have changed


def test_a_further_page_in_another_process_is_got_anew(site: Site) -> None:
    site.page("/long", "word " * 3000, type="text/plain")
    assert ", page 2 of " in opened(tool(site, respect_robots=False), site.url("/long"), page=2)


def test_a_pdf(site: Site) -> None:
    pytest.importorskip("pypdf", reason="needs taograph[web]")
    site.page("/files/tide%20table.pdf", pdf("High water at noon", "Low water at six"), type="application/octet-stream")
    text = opened(tool(site, respect_robots=False), site.url("/files/tide%20table.pdf"))
    assert text.startswith("tide table\n")
    assert "## PDF page 2\n\nLow water at six" in text


def test_where_a_redirect_led_is_told(site: Site) -> None:
    site.redirect("/old", "/new")
    site.page("/new", "moved here", type="text/plain")
    assert (
        opened(tool(site, respect_robots=False), site.url("/old")) == f"{site.url('/new')}, page 1 of 1\n\nmoved here"
    )


def test_refusals_reach_the_model_with_what_to_do(site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /")
    for refused, url, words in [
        (open_page_tool(), site.url(), "is not on the public internet (loopback), so it was not opened. Only public"),
        (tool(site), site.url(), "lets no programs read this page (its robots.txt says so). Use another source."),
        (tool(site, respect_robots=False), site.url(), "has no such page (status 404). Check the address, or search"),
    ]:
        with pytest.raises(WebError) as caught:
            refused.invoke({"url": url})
        assert words in str(caught.value)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_in_a_run(site: Site, way: str) -> None:
    site.page("/hours", ARTICLE)
    calls = [call("open_page", {"url": "http://169.254.169.254/"}), call("open_page", {"url": site.url("/hours")})]
    model = ScriptedModel(replies=[*(AIMessage("", tool_calls=[each]) for each in calls), "At five."])
    graph = create_react_graph(model, [tool(site)])
    asked = {"messages": [("user", "When does it close?")]}
    result = graph.invoke(asked) if way == "invoke" else asyncio.run(graph.ainvoke(asked))
    refused, read = (message for message in result["messages"] if message.type == "tool")
    assert (refused.status, "not on the public internet" in refused.content) == ("error", True)
    assert (read.status, "It closes at five." in read.content) == ("success", True)
    assert (result["answer"], result["stop"]["reason"]) == ("At five.", "final")


def test_several_pages_at_once(site: Site) -> None:
    reader = tool(site)
    for number in range(4):
        site.page(f"/{number}", f"page {number}", type="text/plain")
    texts = reader.batch([{"url": site.url(f"/{number}")} for number in range(4)])
    assert [text.splitlines()[-1] for text in texts] == [f"page {number}" for number in range(4)]
    assert site.paths.count("/robots.txt") == 1


def test_the_worked_example_is_what_the_tool_returns(site: Site) -> None:
    (example,) = policy_of(open_page_tool()).examples
    url = example.args["url"].replace("https:", "http:")
    title, _, _, text = example.observation.split("\n")
    site.page("/visit", f"<html><head><title>{title}</title></head><body><p>{text}</p></body></html>")
    made = open_page_tool(resolve=Names([PUBLIC]), network=Network(site))
    assert opened(made, url).replace("http:", "https:") == example.observation


def test_what_the_tool_says_of_itself() -> None:
    made = open_page_tool()
    policy = policy_of(made)
    assert (made.name, policy.effects, policy.trusted) == ("open_page", "none", False)
    assert policy.timeout is not None
    assert policy.timeout > 20
    assert 'open_page(url="https://' in made.description
    assert all(argument["description"] for argument in made.args.values())
    assert [each.name for each in load("open_page")] == ["open_page"]
    assert available()["open_page"].ready
    assert "open_page" not in {each.name for each in default_tools()}


# --- the process that reads


def fetched(body: bytes, content_type: str = "text/html") -> Fetched:
    return Fetched("https://example.org/x", content_type, body)


def test_a_page_that_takes_too_long_to_read() -> None:
    slow = "<p " + " ".join(f"a{number}=1" for number in range(60_000)) + ">x"
    began = time.monotonic()
    with pytest.raises(WebError, match="was not read within 1 s") as caught:
        read_page(fetched(slow.encode()), 1.0)
    assert caught.value.kind == "unreadable"
    assert time.monotonic() - began < 5


def test_the_reading_process_gets_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def run(command: list[str], **more: Any) -> Any:
        seen.update(more["env"])
        return real(command, **more)

    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdef0123456789")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy.example")
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)  # and takes no code from where it happens to run
    assert read_page(fetched(b"plain", "text/plain"), 20.0).text == "plain"
    assert "sk-abcdef0123456789" not in json.dumps(seen)
    assert set(seen) <= {*web_text._KEPT, "PYTHONPATH", "PYTHONUTF8"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_reading_process_is_held_to_its_memory() -> None:
    code = (
        "from taograph.tools.engines import web_reader as r; r._MEMORY = 400_000_000; r._hold_back(20)\n"
        "try: bytearray(900_000_000); print('had it')\nexcept MemoryError: print('held')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "held", done.stderr


def test_a_reading_process_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false" if os.name == "posix" else "no-such")
    with pytest.raises(WebError, match="can't be read"):
        read_page(fetched(b"x"), 5.0)


# --- text from bytes


def text_of(body: bytes | str, content_type: str = "text/html") -> str:
    return read(body.encode() if isinstance(body, str) else body, content_type, "https://example.org/x").text


RUSSIAN = "Библиотека открыта с девяти до пяти. В субботу она открыта с десяти. В воскресенье закрыта."
JAPANESE = "図書館は九時に開きます。土曜日は十時に開きます。日曜日は休みです。"


@pytest.mark.parametrize(
    ("text", "encoding", "content_type", "head"),
    [
        (RUSSIAN, "utf-8", "text/html", ""),
        (RUSSIAN, "windows-1251", "text/html; charset=windows-1251", ""),
        (RUSSIAN, "koi8-r", 'text/html; charset="KOI8-R"', '<meta charset="utf-8">'),
        (RUSSIAN, "windows-1251", "text/html", "<meta charset=windows-1251>"),
        (RUSSIAN, "cp1251", "text/html", "<meta http-equiv=content-type content='text/html; charset=cp1251'>"),
        (RUSSIAN, "cp1251", "text/html", ""),
        (RUSSIAN, "utf-16", "text/html; charset=utf-8", ""),
        (RUSSIAN, "utf-8-sig", "text/html; charset=iso-8859-1", ""),
        (JAPANESE, "shift_jis", "text/html; charset=Shift_JIS", ""),
        (JAPANESE, "euc_jp", "text/html", "<meta charset='euc-jp'>"),
        (JAPANESE, "gb18030", "text/html;charset=gb18030", ""),
        ("Café “Zoë” – 5 €, all day long", "cp1252", "text/html; charset=ISO-8859-1", ""),
        ("Café crème, all day long", "latin-1", "text/html; charset=no-such-charset", ""),
        ("Plain words and more of them", "ascii", "text/html; charset=punycode", ""),
        ("Plain words and more of them", "ascii", "text/html; charset=zlib", ""),
    ],
)
def test_encodings(text: str, encoding: str, content_type: str, head: str) -> None:
    page = f"<html><head>{head}</head><body><p>{text}</p></body></html>"
    assert text in text_of(page.encode(encoding), content_type)


def test_encodings_of_xml() -> None:
    page = f"<?xml version='1.0' encoding='koi8-r'?><feed>{RUSSIAN}</feed>"
    assert RUSSIAN in text_of(page.encode("koi8-r"), "application/xml")
    page = f"<?xml version='1.0' encoding='koi8-r'?><html><body><p>{RUSSIAN}</p></body></html>"
    assert RUSSIAN in text_of(page.encode("koi8-r"), "application/xhtml+xml")


def test_what_is_text_is_left_as_it_is() -> None:
    assert text_of('{"a": [1, 2]}', "application/json") == '{"a": [1, 2]}'
    assert text_of("# Title\n\n<b>not a tag</b>", "text/markdown") == "# Title\n\n<b>not a tag</b>"
    assert text_of("<!doctype html><p>shown as text", "text/plain") == "<!doctype html><p>shown as text"
    assert text_of("a,b\r\n1,2\r\n", "") == "a,b\n1,2"
    assert "hidden" in text_of("<!DOCTYPE HTML><p>not hidden by a missing type", "")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ""), (bytes(range(256)) * 9, "text/plain"), (b"\0" * 999, "text/html")],
)
def test_what_only_calls_itself_text(body: bytes, content_type: str) -> None:
    with pytest.raises(Unreadable, match="it is no text"):
        read(body, content_type, "https://example.org/x")


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        ("<html><body><script>render()</script><div id=app></div></body></html>", "text/html", "runs its scripts"),
        ("", "text/html", "runs its scripts"),
        (" \n ", "text/plain", "no text in it"),
        ("%PDF-1.4 nothing more", "application/pdf", "damaged"),
        (
            "PK nothing more",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "damaged",
        ),
    ],
)
def test_pages_without_text(body: str, content_type: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(body.encode(), content_type, "https://example.org/x")


def test_dates_are_those_that_a_page_gives_itself() -> None:
    for head, date in [
        ("", ""),
        ('<meta property="article:published_time" content="2023-02-01T08:00:00Z">', "2023-02-01"),
        (
            '<script type="application/ld+json">{"@type": "Article", "datePublished": "2022-03-04"}</script>',
            "2022-03-04",
        ),
    ]:
        body = "<p>The library will be closed on 24 December 2021.</p><time datetime=2020-01-01>then</time> © 2019"
        page = f"<html><head><title>News</title>{head}</head><body>{body}</body></html>"
        assert read(page.encode(), "text/html", "https://example.org/x").date == date


def test_a_very_long_page_is_read_without_looking_for_its_article() -> None:
    row = "<tr><td>Harbour</td><td>12,000</td></tr>"
    began = time.monotonic()
    page = read(f"<title>All harbours</title><table>{row * 60_000}".encode(), "text/html", "https://example.org/x")
    assert (page.title, page.text.count("12,000")) == ("All harbours", 60_000)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "page",
    [
        "<title>Home</title><p>Closed today",
        "<!DOCTYPE html>\n<title>Home</title>\n<article><p>Closed today</article>",
        "<html><head><title>Home</title></head><body>Closed today</body></html>",
    ],
)
def test_little_text_is_read_too(page: str) -> None:
    found = read(page.encode(), "text/html", "https://example.org/x")
    assert (found.title, found.text) == ("Home", "Closed today")


def test_scripts_and_styles_are_no_text() -> None:
    text = text_of("<body><style>p{color:red}</style><p>Seen words</p><script>var hidden=1</script></body>")
    assert "Seen words" in text
    assert "hidden" not in text
    assert "color" not in text


def test_a_text_that_is_too_long_is_cut_and_said_to_be() -> None:
    page = read(b"word " * 500_000, "text/plain", "https://example.org/x")
    assert (page.cut, len(page.text)) == (True, 2_000_000)
    assert read(b"word", "text/plain", "https://example.org/x") == PageText("", "", "word", False)


def test_control_characters_and_marks_are_left_out() -> None:
    assert decode(b"a\x1b[31mb", "utf-8", markup=False) == "a\x1b[31mb"
    assert text_of(b"a\x1b[31mb\x7f\xef\xbb\xbfc", "text/plain; charset=utf-8") == "a[31mbc"

"""robots.txt: what a site lets programs read, against local servers."""

import gzip
import time
from collections.abc import Iterator

import pytest
from fake_site import Site
from visiting import fetcher, get, refusal

from taograph.background import run_async
from taograph.tools.engines.web_errors import WebError


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def test_robots_are_kept_to_and_asked_once(site: Site) -> None:
    site.page(
        "/robots.txt", "User-agent: *\nDisallow: /private\nAllow: /private/but*.html$\n\nUser-agent: other\nDisallow: /"
    )
    for path in ("/", "/private/but-this.html", "/private/x"):
        site.page(path, "text")
    visitor = fetcher(site, robots=True)
    assert run_async(visitor.get(site.url())).body == b"text"
    assert run_async(visitor.get(site.url("/private/but-this.html"))).body == b"text"
    with pytest.raises(WebError, match=r"robots\.txt says so") as caught:
        run_async(visitor.get(site.url("/private/x")))
    assert caught.value.kind == "robots"
    assert site.paths == ["/robots.txt", "/", "/private/but-this.html"]


@pytest.mark.parametrize(
    ("robots", "allowed"),
    [
        ("User-agent: taograph\nDisallow: /\n\nUser-agent: *\nDisallow:", False),
        ("User-agent: TaoGraph/0.1 # us\nDisallow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: taograph\nAllow: /", True),
        ("User-agent: other\nUser-agent: taograph\nDisallow: /\n", False),
        ("User-agent: other\nUser-agent: another\nDisallow: /", True),
        ("User-agent: *\nDisallow:\n\nUser-agent: other\nDisallow: /", True),
        ("User-agent: tao\nDisallow: /", True),
        ("\ufeffuser-agent:*\r\ndisallow:/", False),
        ("<!doctype html><title>Not found</title>", True),
        ("", True),
    ],
)
def test_robots_rules(site: Site, robots: str, allowed: bool) -> None:
    site.page("/robots.txt", robots)
    site.page("/", "text")
    if allowed:
        assert get(site.url(), site, robots=True).body == b"text"
    else:
        assert refusal(site.url(), site, robots=True).kind == "robots"


def test_robots_of_a_redirect(site: Site) -> None:
    with Site() as strict:
        strict.page("/robots.txt", "User-agent: *\nDisallow: /")
        site.redirect("/", strict.url())
        assert refusal(site.url(), site, strict, robots=True).kind == "robots"
        assert strict.paths == ["/robots.txt"]


@pytest.mark.parametrize(("status", "allowed"), [(401, True), (403, True), (404, True), (429, False), (503, False)])
def test_robots_that_are_not_there(site: Site, status: int, allowed: bool) -> None:
    """RFC 9309, 2.3.1: unavailable allows everything, out of order nothing."""
    site.page("/robots.txt", status=status, retry_after="3600")
    site.page("/", "text")
    if allowed:
        assert get(site.url(), site, robots=True).body == b"text"
    else:
        error = refusal(site.url(), site, robots=True)
        assert (error.kind, error.status, "out of order" in str(error)) == ("robots", status, True)


def test_robots_that_redirect(site: Site) -> None:
    site.redirect("/robots.txt", "/rules")
    site.page("/rules", "User-agent: *\nDisallow: /")
    assert refusal(site.url(), site, robots=True).kind == "robots"
    with Site() as endless:
        endless.redirect("/robots.txt", "/robots.txt")
        endless.page("/", "text")
        assert get(endless.url(), endless, robots=True).body == b"text"
    with Site() as inward:
        inward.redirect("/robots.txt", "http://169.254.169.254/")
        assert refusal(inward.url(), inward, robots=True).kind == "address"


def test_robots_that_are_huge_or_made_to_be_slow(site: Site) -> None:
    agents = "".join(f"User-agent: a{number}\n" for number in range(10_000))
    rules = "".join(f"Disallow: /{number}\n" for number in range(15_000))
    site.page(
        "/robots.txt",
        gzip.compress(f"User-agent: *\nDisallow: /x\n{agents}{rules}{'#' * 9_000_000}".encode()),
        content_encoding="gzip",
    )
    site.page("/y", "text")
    site.page("/x", "text")
    began = time.monotonic()
    assert refusal(site.url("/x"), site, robots=True, within=10).kind == "robots"
    assert get(site.url("/y"), site, robots=True).body == b"text"
    assert time.monotonic() - began < 10

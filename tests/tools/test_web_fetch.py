"""Getting pages: connections, redirects, sizes, times, robots.txt and certificates, against local servers.

Nothing here leaves the machine: where a test needs a public address, the network it is connected through is a
fake one that notes the address and leads to a local server.
"""

import datetime as dt
import gc
import gzip
import socket
import ssl
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_site import Site
from visiting import PUBLIC, Names, Network, get, refusal

from taograph.background import run_async
from taograph.tools.engines.web_addresses import AddressRules
from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_fetch import Fetched, Fetcher


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


# --- what is sent and what comes back


def test_a_page_and_what_was_sent(site: Site) -> None:
    site.page("/a?b=c", "<p>Hello", type="text/html; charset=utf-8")
    assert get(site.url("/a?b=c#part"), site) == Fetched(site.url("/a?b=c"), "text/html; charset=utf-8", b"<p>Hello")
    path, headers = site.seen[0]
    assert (path, headers["host"]) == ("/a?b=c", site.host)
    assert headers["user-agent"].startswith("taograph/")
    assert not {"authorization", "cookie"} & set(headers)


def test_another_name_in_the_user_agent(site: Site) -> None:
    site.page("/")
    get(site.url(), site, agent="library-bot/2 (+https://example.org/bot)")
    assert site.seen[0][1]["user-agent"] == "library-bot/2 (+https://example.org/bot)"


def test_proxies_and_credentials_of_the_environment_are_not_used(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    site.page("/", "here")
    assert get(site.url(), site).body == b"here"
    assert "authorization" not in site.seen[0][1]


# --- addresses


def test_the_address_that_was_checked_is_the_one_connected_to(site: Site) -> None:
    site.page("/", "public")
    names, network = Names([PUBLIC], ["127.0.0.1"]), Network(site)
    page = get("http://rebinding.example/", resolve=names, network=network)
    assert (page.body, network.asked, names.asked) == (b"public", [(PUBLIC, 80)], ["rebinding.example"])
    assert site.seen[0][1]["host"] == "rebinding.example"


def test_a_second_answer_that_is_private_is_not_connected_to(site: Site) -> None:
    site.redirect("/", "/again")
    names, network = Names([PUBLIC], ["127.0.0.1"]), Network(site)
    assert refusal("http://rebinding.example/", resolve=names, network=network).kind == "address"
    assert (site.paths, network.asked) == (["/"], [(PUBLIC, 80)])


def test_robots_and_page_are_held_to_the_rules_alike(site: Site) -> None:
    site.page("/", "public")
    names, network = Names([PUBLIC], ["10.0.0.1"]), Network(site)
    assert refusal("http://rebinding.example/", resolve=names, network=network, robots=True).kind == "address"
    assert site.paths == ["/robots.txt"]


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["::1"], [PUBLIC, "10.0.0.1"], ["::ffff:10.0.0.1"], ["fe80::1%lo"]])
def test_names_of_private_addresses(site: Site, answer: list[str]) -> None:
    network = Network(site)
    assert refusal("http://inside.example/", resolve=Names(answer), network=network).kind == "address"
    assert network.asked == site.seen == []


def test_the_socket_decides_last(site: Site) -> None:
    network = Network(site, peer=lambda _: "10.0.0.1")
    assert refusal("http://public.example/", resolve=Names([PUBLIC]), network=network).kind == "address"
    assert site.seen == []


def test_a_connection_of_this_machine_to_itself(site: Site) -> None:
    network = Network(site, own=PUBLIC)
    assert "(this machine)" in str(refusal("http://own.example/", resolve=Names([PUBLIC]), network=network))
    assert site.seen == []


def test_a_name_that_nobody_has(site: Site) -> None:
    def nobody(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    error = refusal("http://nowhere.example/", resolve=nobody, network=Network(site))
    assert (error.kind, str(error)[:37]) == ("name", "There is no host named nowhere.exampl")
    assert refusal("http://nowhere.example/", resolve=Names([]), network=Network(site)).kind == "name"


def test_a_look_up_that_hangs(site: Site) -> None:
    def hang(host: str, port: int) -> list[str]:
        time.sleep(1.5)
        return [PUBLIC]

    assert refusal("http://slow.example/", resolve=hang, network=Network(site), seconds=0.3, within=1.2).kind == "time"


def test_nobody_listens() -> None:
    with Site() as gone:
        pass
    assert refusal(gone.url(), gone).kind == "connection"


# --- redirects


def test_redirects_are_followed(site: Site) -> None:
    site.redirect("/", "/b?c", status=301)
    site.redirect("/b?c", f"//{site.host}/d#e", status=308)
    site.page("/d", "there")
    assert get(site.url(), site) == Fetched(site.url("/d"), "text/html", b"there")


def test_a_cookie_set_on_the_way_is_kept_for_it(site: Site) -> None:
    site.page("/", status=302, location="/in", set_cookie="seen=1")
    site.page("/in", "in")
    assert get(site.url(), site).body == b"in"
    assert site.seen[1][1]["cookie"] == "seen=1"


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("http://127.0.0.1:1/", "address"),
        ("http://169.254.169.254/latest/meta-data/", "address"),
        ("http://[::1]/", "address"),
        ("http://[::ffff:7f00:1]/", "address"),
        ("//10.0.0.1/", "address"),
        ("http://198.41.0.4:25/", "port"),
        ("http://[::ffff:127.0.0.1]/", "redirects"),
        ("http://0/", "redirects"),
        ("http://2130706433/", "redirects"),
        ("http://user:pass@127.0.0.1/", "redirects"),
        ("file:///etc/passwd", "redirects"),
        ("gopher://127.0.0.1:70/", "redirects"),
        ("http://[", "redirects"),
        ("/", "redirects"),
    ],
)
def test_redirects_that_are_not_followed(site: Site, target: str, kind: str) -> None:
    site.redirect("/", target)
    assert refusal(site.url(), site).kind == kind
    assert site.paths == ["/"]


def test_no_more_than_five_redirects(site: Site) -> None:
    for number in range(9):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.page("/9", "end")
    assert refusal(site.url("/3"), site).kind == "redirects"
    assert get(site.url("/4"), site).body == b"end"


# --- sizes, times and what is damaged


def packed(how: str, data: bytes) -> bytes:
    if how == "zstd":
        return bytes(pytest.importorskip("zstandard").compress(data))
    if how == "br":
        return bytes(pytest.importorskip("brotli").compress(data, quality=1))
    return {
        "gzip": lambda: gzip.compress(data),
        "x-gzip": lambda: gzip.compress(data[:5]) + gzip.compress(data[5:]) + b"\0" * 9,
        "deflate": lambda: zlib.compress(data),
        "Deflate": lambda: zlib.compress(data)[2:-4],  # without its wrapping, as some servers send it
        "identity": lambda: data,
    }[how]()


@pytest.mark.parametrize("how", ["gzip", "x-gzip", "deflate", "Deflate", "zstd", "br", "identity"])
def test_packed_pages(site: Site, how: str) -> None:
    text = b"one page, " * 999
    site.page("/", packed(how, text), content_encoding=how)
    site.page("/bomb", packed(how, b"\0" * 30_000_000), content_encoding=how)
    assert get(site.url(), site).body == text
    error = refusal(site.url("/bomb"), site)
    assert (error.kind, "larger than 100000 bytes" in str(error)) == ("size", True)


@pytest.mark.parametrize("how", ["gzip, gzip", "gzip, identity, deflate", "compress", "gzip;q=1", "aes128gcm"])
def test_packed_in_ways_that_are_not_read(site: Site, how: str) -> None:
    site.page("/", gzip.compress(gzip.compress(b"\0" * 99)), content_encoding=how)
    assert refusal(site.url(), site).kind == "encoding"


@pytest.mark.parametrize("how", ["gzip", "deflate", "zstd"])
def test_packed_and_damaged(site: Site, how: str) -> None:
    site.page("/", b"this was never packed", content_encoding=how)
    assert refusal(site.url(), site).kind == "encoding"


def test_thousands_of_empty_parts(site: Site) -> None:
    site.page("/", gzip.compress(b"") * 50_000, content_encoding="gzip")
    assert refusal(site.url(), site, max_bytes=2_000_000).kind == "encoding"


def test_sizes(site: Site) -> None:
    site.page("/fits", b"x" * 100_000)
    site.page("/said", b"x" * 100_001)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    site.raw("/unsaid", head, *[b"4000\r\n" + b"x" * 0x4000 + b"\r\n"] * 50)
    assert len(get(site.url("/fits"), site).body) == 100_000
    assert refusal(site.url("/said"), site).kind == refusal(site.url("/unsaid"), site).kind == "size"


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [OK + b"content-length: 9999\r\n\r\n", *[b"x"] * 99],
        [OK, *[b"a: b\r\n"] * 99],
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 99,
        [OK + b"transfer-encoding: chunked\r\n\r\n", *[b"1;a=b\r\nx\r\n"] * 99],
    ],
    ids=["body", "head", "informational", "chunks"],
)
def test_slow_drips(site: Site, parts: list[bytes]) -> None:
    site.raw("/", *parts, gap=0.05)
    error = refusal(site.url(), site, seconds=0.6, within=2.0)
    assert (error.kind, "within 0.6 s" in str(error)) == ("time", True)


def test_a_silence(site: Site) -> None:
    site.raw("/", OK, gap=10.0)
    assert refusal(site.url(), site, seconds=0.5, within=2.0).kind == "time"


def test_an_answer_that_breaks_off_is_asked_for_once_more(site: Site) -> None:
    half = OK + b"content-length: 9\r\n\r\nhalf"
    site.raw("/once", half)
    site.page("/once", "whole")
    site.raw("/always", half)
    assert get(site.url("/once"), site).body == b"whole"
    error = refusal(site.url("/always"), site)
    assert (error.kind, site.paths.count("/always")) == ("connection", 2)


@pytest.mark.parametrize(
    "sent", [b"SSH-2.0-OpenSSH_9.6\r\n", b"+PONG\r\n", b"", OK + b"a" * 200_000, OK + b"content-length: -1\r\n\r\n"]
)
def test_what_is_no_answer(site: Site, sent: bytes) -> None:
    site.raw("/", sent)
    assert refusal(site.url(), site).kind == "connection"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_asked_once_more(site: Site, status: int) -> None:
    site.page("/", status=status, retry_after="0")
    site.page("/", "after all")
    assert get(site.url(), site).body == b"after all"


@pytest.mark.parametrize(
    ("status", "asked", "said"),
    [
        (403, 1, "does not let this page be read"),
        (404, 1, "has no such page"),
        (429, 1, "asks to wait 3600 s"),
        (503, 1, "out of order"),
        (418, 1, "did not send the page (status 418)"),
        (204, 1, "did not send the page (status 204)"),
    ],
)
def test_statuses(site: Site, status: int, asked: int, said: str) -> None:
    site.page("/", status=status, retry_after="3600", content_length="0")
    error = refusal(site.url(), site)
    assert (error.kind, error.status, site.paths) == ("status", status, ["/"] * asked)
    assert said in str(error)


@pytest.mark.parametrize("type", ["image/png", "video/mp4", "application/zip", "Audio/Mpeg; x=y"])
def test_what_is_no_text_is_not_loaded(site: Site, type: str) -> None:
    site.raw("/", OK + f"content-type: {type}\r\ncontent-length: 99999999\r\n\r\n".encode(), gap=0.01)
    assert refusal(site.url(), site).kind == "type"


# --- certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own for pages.example, with its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography to make a certificate")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "pages.example")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("pages.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path: Path = tmp_path_factory.mktemp("tls") / "pages.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_a_server_is_held_to_the_name_in_the_url(certificate: Path) -> None:
    asked: list[str | None] = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    server.sni_callback = lambda _, name, __: asked.append(name)
    trusted = ssl.create_default_context(cafile=str(certificate))
    with Site(tls=server) as site:
        site.page("/", "safe")
        rules = AddressRules([f"pages.example:{site.port}", f"other.example:{site.port}"])
        more: dict[str, Any] = {"robots": None, "seconds": 5.0, "max_bytes": 999, "resolve": Names(["127.0.0.1"])}
        visitor = Fetcher(rules, certificates=trusted, **more)
        assert run_async(visitor.get(f"https://pages.example:{site.port}/")).body == b"safe"
        assert asked == ["pages.example"]
        for stranger, host in ((visitor, "other.example"), (Fetcher(rules, **more), "pages.example")):
            with pytest.raises(WebError, match="no valid certificate") as caught:
                run_async(stranger.get(f"https://{host}:{site.port}/"))
            assert caught.value.kind == "certificate"
        assert len(site.seen) == 1


def test_a_handshake_that_never_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        visitor = Fetcher(AddressRules([host]), robots=None, seconds=0.4, max_bytes=999)
        with pytest.raises(WebError, match=r"within 0\.4 s"):
            run_async(visitor.get(f"https://{host}/"))
        accepted, _ = silent.accept()
        with accepted:
            accepted.settimeout(2)
            while accepted.recv(65536):  # our greeting
                pass
        gc.collect()  # a connection left open would be warned of here

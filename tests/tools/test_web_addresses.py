"""Which addresses a page may be read from, in every notation there is."""

import ipaddress
import random
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taograph.tools.engines.web_addresses import PORTS, Address, AddressRules, Allowed, check_url, not_public
from taograph.tools.engines.web_errors import WebError

PRIVATE_V4 = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
    "240.0.0.0/4", "255.255.255.255/32", "169.254.169.254/32", "168.63.129.16/32",
]  # fmt: skip
PRIVATE_V6 = [
    "::/128", "::1/128", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "100::/64", "2001::/32",
    "2001:2::/48", "2001:10::/28", "2002::/16", "64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0/96", "::/96", "5f00::/16",
    "3fff::/20", "4000::/3", "fd00:ec2::254/128",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1",
    "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001:82a::200e", "2001:4860:4860::8888", "2001:200::1",
]  # fmt: skip

private_v4 = st.sampled_from(PRIVATE_V4).flatmap(lambda network: st.ip_addresses(network=network))
private_v6 = st.sampled_from(PRIVATE_V6).flatmap(lambda network: st.ip_addresses(network=network))


def refused(url: str) -> bool:
    """Whether a URL whose host needs no look-up is refused, by its form or by its address."""
    try:
        host = check_url(url).raw_host.decode()
        AddressRules().check(host, 80, [ipaddress.ip_address(host)])
    except WebError as error:
        return error.kind in ("url", "address")
    return False


@given(private_v4 | private_v6)
def test_no_special_address_is_public(address: Address) -> None:
    assert not_public(address) is not None


@given(st.ip_addresses())
def test_what_python_knows_to_be_special_is_refused(address: Address) -> None:
    if not_public(address) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_private, address.is_reserved, address.is_unspecified))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert not_public(ipaddress.ip_address(address)) is None
    assert not refused(f"http://[{address}]/" if ":" in address else f"http://{address}/")


@given(address=private_v4, parts=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_a_private_address_in_other_digits(address: IPv4Address, parts: int, seed: int) -> None:
    """Decimal, octal and hexadecimal, in one to four parts: what the system's own parser takes for the address."""
    chosen = random.Random(seed)
    numbers = [*address.packed[: parts - 1], int.from_bytes(address.packed[parts - 1 :], "big")]
    host = ".".join(chosen.choice([str, hex, lambda n: f"0{n:o}", lambda n: f"0X{n:04X}"])(n) for n in numbers)
    assert socket.inet_aton(host) == address.packed
    assert refused(f"http://{host}/")
    assert refused(f"https://{host}.:8080/x?y#z")


@given(address=private_v4, wrapped=st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "2001::{}"]))
def test_a_private_address_inside_another(address: IPv4Address, wrapped: str) -> None:
    inside = IPv6Address(wrapped.format(address))
    sixtofour = IPv6Address((0x2002 << 112) | (int(address) << 80) | 1)
    for each in (inside, sixtofour):
        assert not_public(each) is not None
        assert refused(f"http://[{each}]/")
        assert refused(f"http://[{each.exploded}]/")
    assert refused(f"http://[{wrapped.format(address)}]/")


@given(public=st.lists(st.sampled_from(PUBLIC), max_size=3), bad=private_v4 | private_v6, seed=st.integers(0, 99))
def test_one_private_address_among_public_ones_refuses_all(public: list[str], bad: Address, seed: int) -> None:
    found = [*map(ipaddress.ip_address, public), bad]
    random.Random(seed).shuffle(found)
    with pytest.raises(WebError) as caught:
        AddressRules().check("example.org", 443, found)
    assert caught.value.kind == "address"


def test_an_address_of_this_link_only_is_refused_however_it_looks() -> None:
    assert not_public(IPv6Address("2606:4700:4700::1111%eth0")) is not None


def test_a_public_address_of_this_machine_is_its_own() -> None:
    with pytest.raises(WebError, match="this machine"):
        AddressRules().check("example.org", 443, [IPv4Address("1.1.1.1")], own=True)
    AddressRules(["1.1.1.1"]).check("example.org", 443, [IPv4Address("1.1.1.1")], own=True)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("example.org/page", "https://example.org/page"),
        ("  https://Example.ORG:443/a?b=c#d ", "https://example.org/a?b=c"),
        ("http://münchen.example/", "http://xn--mnchen-3ya.example/"),
        ("http://[2606:4700::1]:8080/", "http://[2606:4700::1]:8080/"),
        ("http://@example.org/", "http://example.org/"),
        ("http://example.org./", "http://example.org./"),
        ("http://example.org/@b:c", "http://example.org/@b:c"),
    ],
)
def test_urls_that_are_read(url: str, host: str) -> None:
    assert str(check_url(url)) == host


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "/page", "//example.org/", "ftp://example.org/", "file:///etc/passwd", "gopher://example.org:25/x",
        "javascript:alert(1)", "data:text/html,x", "unix:///run/x.sock", "http://", "http:///x", "http://user@example.org/",
        "http://:pass@example.org/", "http://example.org\\@127.0.0.1/", "http://a b/", "http://a..b/",
        "http://./", "http://example.org:0/", "http://example.org:65536/", "http://example.org:x/", "http://127.0.0.1%00.example/",
        "http://[::1%25lo]/", "http://[fe80::1%eth0]/", "http://１２７.0.0.1/", "http://①②⑦.0.0.1/", "http://ⓛocalhost/",
        "http://localhost\r\nX: y/", "http://exa\tmple.org/", "http://[::1", "http://1.2.3/", "http://0x/", "http://999999999999/",
        "http://a.0x7f/", "http://xn--/", f"http://{'a.' * 130}org/", "http://127%2e0.0.1/", "http://" + "a" * 5000,
    ],
)  # fmt: skip
def test_urls_that_are_not_read(url: str) -> None:
    with pytest.raises(WebError) as caught:
        check_url(url)
    assert caught.value.kind == "url"
    assert str(caught.value).endswith(".")


def test_a_dot_of_another_script_hides_nothing() -> None:
    assert refused("http://127。0。0。1/")


@pytest.mark.parametrize("port", [22, 25, 3306, 6379, 11211, 1, 65535])
def test_ports_where_no_pages_are(port: int) -> None:
    public = IPv4Address("1.1.1.1")
    with pytest.raises(WebError, match="80, 443, 8080, 8443"):
        AddressRules().check("example.org", port, [public])
    AddressRules([f"example.org:{port}"]).check("example.org", port, [public])
    for usual in PORTS:
        AddressRules().check("example.org", usual, [public])


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("Wiki.Example", Allowed("wiki.example", None, None)),
        ("localhost:8000", Allowed("localhost", None, 8000)),
        ("10.1.0.0/16", Allowed(None, IPv4Network("10.1.0.0/16"), None)),
        ("127.0.0.1:8000", Allowed(None, IPv4Network("127.0.0.1"), 8000)),
        ("fd00::/8", Allowed(None, IPv6Network("fd00::/8"), None)),
        ("::1", Allowed(None, IPv6Network("::1"), None)),
        ("[::1]:8000", Allowed(None, IPv6Network("::1"), 8000)),
        ("[fd00::]/8:81", Allowed(None, IPv6Network("fd00::/8"), 81)),
    ],
)
def test_what_a_user_may_allow(entry: str, allowed: Allowed) -> None:
    assert Allowed.parse(entry) == allowed


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "*",
        "http://wiki.example",
        "10.1.0.1/16",
        "wiki.example:0",
        "wiki.example:99999",
        "a b",
        "1.2",
        "2130706433x!",
        ":80",
        "[::1",
    ],
)
def test_what_no_user_can_mean(entry: str) -> None:
    with pytest.raises(ValueError, match=r"^allow_private: .* Write for example"):
        AddressRules([entry])


def test_one_host_is_no_list_of_hosts() -> None:
    with pytest.raises(ValueError, match=r"give a list of hosts, such as \['localhost'\]"):
        AddressRules("localhost")


def test_what_is_allowed_is_no_more_than_that() -> None:
    rules = AddressRules(["127.0.0.1:8000", "wiki.example", "10.1.0.0/16"])
    loopback, inside, outside = IPv4Address("127.0.0.1"), IPv4Address("10.1.2.3"), IPv4Address("10.2.0.1")
    rules.check("127.0.0.1", 8000, [loopback])
    rules.check("WIKI.example.", 80, [outside])
    rules.check("any.example", 443, [inside])
    for host, port, address in [
        ("127.0.0.1", 8001, loopback),
        ("127.0.0.1", 80, loopback),
        ("127.0.0.2", 8000, IPv4Address("127.0.0.2")),
        ("wiki.example", 8000, outside),
        ("sub.wiki.example", 80, outside),
        ("any.example", 80, outside),
        ("any.example", 22, inside),
        ("mapped.example", 8000, IPv6Address("::ffff:127.0.0.1")),
    ]:
        with pytest.raises(WebError):
            rules.check(host, port, [address])

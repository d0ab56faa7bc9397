"""Which addresses of the network a page may be read from: public ones, and those the user allows.

A model follows links that strangers wrote, so without this a page could have it read what only this machine
can reach: services on it, the network around it, the metadata of a cloud.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import httpx

from taograph.tools.engines.web_errors import WebError

Address = IPv4Address | IPv6Address

PORTS = (80, 443, 8080, 8443)
"""Ports that web pages are served at. At others a request may reach something that takes it for commands."""
_MAX_URL = 4000

# The special-purpose registries of IANA (RFC 6890 and its successors), named rather than left to `is_global`,
# whose answers differ between versions of Python.
_SPECIAL_V4 = {
    IPv4Network(network): what
    for network, what in {
        "0.0.0.0/8": "unspecified",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "private, carrier-grade NAT",
        "127.0.0.0/8": "loopback",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "reserved",
        "192.88.99.0/24": "a 6to4 relay",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "reserved",
        "198.51.100.0/24": "reserved",
        "203.0.113.0/24": "reserved",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "168.63.129.16/32": "a cloud's service for its own machines",  # Azure's is at a public-looking address
    }.items()
}
_SPECIAL_V6 = {
    IPv6Network(network): what
    for network, what in {
        "::/128": "unspecified",
        "::1/128": "loopback",
        "::ffff:0:0/96": "an IPv4 address in IPv6 form",
        "::/96": "an IPv4 address in IPv6 form",
        "64:ff9b::/96": "NAT64",
        "64:ff9b:1::/48": "NAT64",
        "2001::/32": "Teredo",
        "2001::/23": "reserved",
        "2001:db8::/32": "reserved",
        "2002::/16": "6to4",
        "3fff::/20": "reserved",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "private",
        "ff00::/8": "multicast",
    }.items()
}
_UNICAST_V6 = IPv6Network("2000::/3")


def not_public(address: Address) -> str | None:
    """What keeps an address from being one of the public internet; None where nothing does.

    An IPv6 address that carries an IPv4 one is refused whatever it carries: where it leads is decided by a
    gateway that can't be asked.
    """
    if isinstance(address, IPv4Address):
        return next((what for network, what in _SPECIAL_V4.items() if address in network), None)
    if address.scope_id is not None:
        return "link-local"
    special = next((what for network, what in _SPECIAL_V6.items() if address in network), None)
    return special or (None if address in _UNICAST_V6 else "reserved")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a user lets be read beside the public internet.

    Attributes:
        host: A name, as it stands in URLs; None where a network is given.
        network: A network; one address is a network of its own. None where a name is given.
        port: The only port; None for the usual ones.
    """

    host: str | None
    network: IPv4Network | IPv6Network | None
    port: int | None

    @classmethod
    def parse(cls, entry: str) -> Allowed:
        """Read ``"wiki.example"``, ``"10.1.0.0/16"`` or ``"[::1]"``, each with ``":port"`` or without.

        Raises:
            ValueError: It is none of those; the message says how to write it.
        """
        text = entry.strip().lower() if isinstance(entry, str) else ""
        # An IPv6 address without brackets has colons of its own, and so no port.
        found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\](/\d{1,3})?|([^:\[\]]*))(?::(\d{1,5}))?", text)
        bracketed, length, plain, number = found.groups() if found else (None, None, text, None)
        name = f"{bracketed}{length or ''}" if bracketed else plain or ""
        port = int(number) if number else None
        if port is None or 0 < port < 65536:
            try:
                return cls(None, ipaddress.ip_network(name), port)
            except ValueError:
                name = name.removesuffix(".")
                if re.fullmatch(r"(?=.*[a-z])[a-z0-9_-]+(\.[a-z0-9_-]+)*", name) and not _odd_number(name):
                    return cls(name, None, port)
        raise ValueError(
            f"allow_private: {entry!r} is no host or network. Write for example "
            '"wiki.example", "10.1.0.0/16", "127.0.0.1:8000" or "[::1]:8000"'
        )

    def admits(self, host: str, address: Address, port: int) -> bool:
        """Whether this entry lets a host be read that is found at an address and a port."""
        if port != self.port and not (self.port is None and port in PORTS):
            return False
        if self.network is None:
            return host == self.host
        scoped = isinstance(address, IPv6Address) and address.scope_id is not None
        return not scoped and address.version == self.network.version and address in self.network


class AddressRules:
    """Where requests may go.

    Args:
        allow_private: Names and networks to allow beside the public internet; see :meth:`Allowed.parse`.

    Raises:
        ValueError: An entry can't be read.
    """

    def __init__(self, allow_private: Iterable[str] = ()) -> None:
        if isinstance(allow_private, str):
            raise ValueError(f"allow_private: give a list of hosts, such as [{allow_private!r}]")
        self._allowed = tuple(Allowed.parse(entry) for entry in allow_private)

    def check(self, host: str, port: int, addresses: Iterable[Address], *, own: bool = False) -> None:
        """Refuse a host unless every address that it was found at may be read from.

        Every one: with a mixed answer, which of them is connected to could be the attacker's choice.

        Args:
            host: As in the URL.
            port: Likewise.
            addresses: What the host was resolved to.
            own: They are this machine's own, however public they look.

        Raises:
            WebError: At least one of them may not, or there is none.
        """
        name = host.lower().removesuffix(".")
        found = tuple(addresses)
        if not found:
            raise WebError("name", f"There is no host named {host}. Check the address, or search for the page.")
        for address in found:
            if any(entry.admits(name, address, port) for entry in self._allowed):
                continue
            what = not_public(address) or ("this machine" if own else None)
            if what is not None:
                raise WebError(
                    "address",
                    f"{host} is not on the public internet ({what}), so it was not opened. "
                    "Only public pages can be read; use another source.",
                )
            if port not in PORTS:
                raise WebError(
                    "port",
                    f"Port {port} of {host} was not opened: pages are read at the ports "
                    f"{', '.join(map(str, PORTS))} only. Use another source.",
                )


def check_url(text: str) -> httpx.URL:
    """Read a URL that a model or a page gave, and refuse what is wrong with it before anything is looked up.

    Raises:
        WebError: It is no http(s) URL, names a user, or hides an address in another notation.
    """
    text = text.strip()
    if re.match(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?:[/?#]|$)", text, re.IGNORECASE):
        text = f"https://{text}"  # as people write it
    if len(text) > _MAX_URL:
        raise WebError("url", f"The URL has more than {_MAX_URL} characters. Give a shorter one.")
    try:
        url = httpx.URL(text)
        host = url.host and url.raw_host.decode("ascii")  # the first decodes a name of other scripts, or fails to
    except (httpx.InvalidURL, ValueError) as error:
        raise WebError("url", "That is not a valid URL. Give one like https://example.org/page.") from error
    if url.scheme not in ("http", "https"):
        raise WebError("url", "Only http:// and https:// URLs can be opened. Give one like https://example.org/page.")
    if url.userinfo:
        raise WebError("url", "A URL with a user name or password in it is not opened. Leave out what is before the @.")
    if not host:
        raise WebError("url", "The URL names no host. Give one like https://example.org/page.")
    if url.port is not None and not 0 < url.port < 65536:
        raise WebError("url", f"There is no port {url.port}. Leave it out of the URL.")
    if len(host) > 255:
        raise WebError("url", "The host is longer than a name can be. Give a URL like https://example.org/page.")
    if "%" in host:
        raise WebError("url", "A host with a percent sign in it is not opened. Write the host plainly.")
    if _odd_number(host) or (":" not in host and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", host)):
        raise WebError("url", "The host is written in a way that is not opened. Write its name, such as example.org.")
    return url.copy_with(fragment=None)


def _odd_number(host: str) -> bool:
    """Whether a host would be taken for an IPv4 address without being written as one: 2130706433, 0x7f.1, 127.1.

    The rule is the URL standard's: the last part is a number.
    """
    last = host.removesuffix(".").rpartition(".")[2]
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last):
        return False
    try:
        IPv4Address(host)  # which takes no leading zeros, so no octal
    except ValueError:
        return True
    return False

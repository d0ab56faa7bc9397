"""The servers of an ``mcp.json``: read, checked, with the environment's values in place of ``${NAME}``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, urlsplit

from taograph.tools.engines.mcp_secrets import Secrets
from taograph.tools.policy import ToolPolicy

Transport = Literal["stdio", "http", "sse"]

# Long enough for a first `npx` or `uvx`, which fetches the server.
START_SECONDS = 60.0
_OWN = "taograph"
_NAME_LENGTH = 64
_POLICY = ("effects", "timeout", "max_chars", "approve", "trusted")
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|credential|auth|cookie|dsn|(?:^|_)(?:pat|pwd|sig)(?:$|_)", re.IGNORECASE
)
_OPEN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent", "cache-control"})


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server: how it is reached, and how calls of its tools are treated.

    What may hold a secret is left out of the ``repr``.

    Attributes:
        name: Its name in the file.
        transport: How it is spoken to.
        command: The program to start, for ``stdio``.
        args: Its arguments.
        env: What is added to the few variables that a server inherits.
        cwd: The folder it is started in, or None for this process's.
        url: The address, for ``http`` and ``sse``.
        headers: What is sent with every request there.
        secrets: What must not be seen of the above.
        start_seconds: How long it may take to start and to say which tools it has.
        images: Whether the model is shown pictures; without, it is told that there is one.
        only: The tools that are wanted, by the server's own names; None for all.
        policy: Fields of ``ToolPolicy`` for all of its tools.
        tools: The same for single tools, by the server's own names.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    start_seconds: float = START_SECONDS
    images: bool = False
    only: tuple[str, ...] | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where the server is, without what could be secret: paths and queries of addresses hold keys."""
        if self.transport == "stdio":
            return self.command
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


class MissingSettingError(ValueError):
    """A server's settings lack something that the environment has to supply."""


def read_config(config: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, ServerSpec | MissingSettingError]:
    """The servers of a file or of what such a file holds, by name.

    Args:
        config: ``{"mcpServers": {name: {"command", "args", "env"} | {"url", "headers"}}}``, or the path of a file
            with that. ``servers`` is taken for ``mcpServers`` too.

    Returns:
        What is to be known of each server, or why it can't be used here. A disabled server is left out.

    Raises:
        ValueError: It is not of that form; the message names the field.
    """
    where, data = ("mcp", config) if isinstance(config, Mapping) else _read(Path(config))
    servers = data.get("mcpServers", data.get("servers")) if isinstance(data, Mapping) else None
    if not isinstance(servers, Mapping):
        raise ValueError(f'{where}: write {{"mcpServers": {{"name": {{"command": …}} or {{"url": …}}}}}}')
    found: dict[str, ServerSpec | MissingSettingError] = {}
    for name, settings in servers.items():
        if not isinstance(settings, Mapping):
            raise ValueError(f'{where}: mcpServers.{name}: write {{"command": …}} or {{"url": …}}')
        if settings.get("disabled"):
            continue
        try:
            found[name] = _Reader(f"{where}: mcpServers.{name}").server(name, settings)
        except MissingSettingError as problem:
            found[name] = problem
    return found


def full_name(server: str, tool: str) -> str:
    """The name that a model calls a tool by: of the characters and the length that every provider takes."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{server}_{tool}")
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _read(path: Path) -> tuple[str, Any]:
    try:
        return str(path), json.loads(path.expanduser().read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror or type(error).__name__}") from None
    except ValueError as error:
        # A position alone: the text around it may be a secret.
        at = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path} is not JSON{at}") from None


class _Reader:
    """Reads the settings of one server and collects what in them is secret."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._secrets: set[str] = set()

    def server(self, name: str, settings: Mapping[str, Any]) -> ServerSpec:
        if ("command" in settings) == ("url" in settings):
            raise self._wrong("", "give either a command to start or a url to connect to")
        said = settings.get("type", settings.get("transport", "http" if "url" in settings else "stdio"))
        transport = _TRANSPORTS.get(str(said))
        if transport is None or (transport == "stdio") != ("command" in settings):
            fits = '"http" or "sse"' if "url" in settings else '"stdio"'
            raise self._wrong("type", f"{said!r} does not fit: use {fits}, or leave it out")
        own = self._own(settings.get(_OWN, {}))
        reached = self._stdio(settings) if transport == "stdio" else self._remote(settings)
        return ServerSpec(name, transport, secrets=Secrets(self._secrets), **reached, **own)

    def _stdio(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        args = settings.get("args", [])
        if not isinstance(args, list):
            raise self._wrong("args", "write a list of texts")
        cwd = settings.get("cwd")
        return {
            "command": os.path.expanduser(self._text("command", settings["command"])),
            "args": tuple(self._text(f"args[{number}]", arg) for number, arg in enumerate(args)),
            "env": self._texts("env", settings.get("env")),
            "cwd": os.path.expanduser(self._text("cwd", cwd)) if cwd is not None else None,
        }

    def _remote(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        url = self._text("url", settings["url"])
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._wrong("url", "write an address that starts with http:// or https://")
        self._hide(parts.password or "", *(value for key, value in parse_qsl(parts.query) if _SECRET_NAME.search(key)))
        return {"url": url, "headers": self._texts("headers", settings.get("headers"))}

    def _texts(self, key: str, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._wrong(key, 'write {"name": "value"}')
        made = {str(name): self._text(f"{key}.{name}", text) for name, text in value.items()}
        for name, text in made.items():
            if key == "headers" and name.lower() not in _OPEN_HEADERS:
                self._hide(text, text.rpartition(" ")[2])  # "Bearer …"
            elif _SECRET_NAME.search(name):
                self._hide(text)
        return made

    def _text(self, key: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong(key, "write a text")
        return _REFERENCE.sub(lambda found: self._value(key, found[1]), str(value))

    def _value(self, key: str, reference: str) -> str:
        parsed = _VARIABLE.fullmatch(reference)
        if parsed is None:
            raise self._lacking(key, f"${{{reference}}} is nothing that can be filled in here: use ${{VARIABLE}}")
        name, otherwise = parsed[1], parsed[2]
        value = os.environ.get(name) or otherwise
        if value is None:
            raise self._lacking(key, f"the environment has no {name}: set it, or write ${{{name}:-otherwise}}")
        if _SECRET_NAME.search(name):
            self._hide(value)
        return value

    def _own(self, own: Any) -> dict[str, Any]:
        """The settings that are ours, of a key that other programs pass over."""
        if not isinstance(own, Mapping):
            raise self._wrong(_OWN, "write an object")
        known = (*_POLICY, "start_seconds", "images", "only", "tools")
        self._known(_OWN, own, known)
        only = own.get("only")
        if only is not None and not (isinstance(only, list) and all(isinstance(name, str) for name in only)):
            raise self._wrong(f"{_OWN}.only", "write a list of the server's tools")
        seconds = own.get("start_seconds", START_SECONDS)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            raise self._wrong(f"{_OWN}.start_seconds", "write seconds above 0")
        tools = own.get("tools", {})
        if not isinstance(tools, Mapping):
            raise self._wrong(f"{_OWN}.tools", 'write {"tool": {"effects": …}}')
        return {
            "start_seconds": float(seconds),
            "images": own.get("images") is True,
            "only": None if only is None else tuple(only),
            "policy": self._policy(_OWN, {key: own[key] for key in _POLICY if key in own}),
            "tools": {str(name): self._policy(f"{_OWN}.tools.{name}", fields) for name, fields in tools.items()},
        }

    def _policy(self, key: str, fields: Any) -> Mapping[str, Any]:
        if not isinstance(fields, Mapping):
            raise self._wrong(key, 'write {"effects": …, "timeout": …}')
        self._known(key, fields, _POLICY)
        try:
            ToolPolicy(**cast("Mapping[str, Any]", fields))
        except ValueError as error:
            raise self._wrong(key, str(error)) from None
        except TypeError:
            raise self._wrong(key, "timeout and max_chars are numbers, or null for no limit") from None
        return fields

    def _known(self, key: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise self._wrong(f"{key}.{unknown[0]}", f"there is no such setting; there are {', '.join(known)}")

    def _hide(self, *values: str) -> None:
        self._secrets.update(values)

    def _wrong(self, key: str, fix: str) -> ValueError:
        return ValueError(f"{self._where}{'.' if key else ''}{key}: {fix}")

    def _lacking(self, key: str, fix: str) -> MissingSettingError:
        return MissingSettingError(f"{key}: {fix}")

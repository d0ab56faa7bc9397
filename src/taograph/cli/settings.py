"""What a run is given on the command line, and what its thread remembers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from taograph.cli.errors import CommandError
from taograph.redaction import redact

METADATA = "tao"
"""The key in the metadata of a thread's checkpoints under which the settings stand, as JSON."""
DEFAULT_GRAPH = "react"
_WITHHELD = "[secret]"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is given; None is what was not said.

    Attributes:
        graph: The strategy's name.
        model: The model as the person named it.
        tools: Names of tools, with commas.
        docs: The folder of documents.
        mcp: The file that names MCP servers.
        approve: Names of tools that need approval, with commas; "all" or "none".
        system: The system prompt.
        limits: Fields of ``Limits``.
    """

    graph: str | None = None
    model: str | None = None
    tools: str | None = None
    docs: Path | None = None
    mcp: Path | None = None
    approve: str | None = None
    system: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def over(self, earlier: Self) -> Self:
        """These settings where something was said, else earlier ones."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        merged = {name: getattr(earlier, name) if value is None else value for name, value in said.items()}
        return type(self)(**{**merged, "limits": {**earlier.limits, **self.limits}})

    def to_dict(self) -> dict[str, Any]:
        """What was said, for JSON."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in said.items()}
        return {name: value for name, value in plain.items() if value not in (None, {})}

    def to_metadata(self) -> dict[str, str]:
        """What is stored with a thread: names, and no secret; what holds one is not remembered.

        Paths are stored so that they are found from any folder.
        """
        kept = self.to_dict()
        for name in _PATHS:
            if name in kept:
                kept[name] = str(Path(kept[name]).absolute())
        if "tools" in kept:
            kept["tools"] = ",".join(map(_from_anywhere, kept["tools"].split(",")))
        hidden = {name: _WITHHELD for name, value in kept.items() if isinstance(value, str) and redact(value) != value}
        return {METADATA: json.dumps({**kept, **hidden})}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """What a thread remembers; nothing where the command did not make it."""
        try:
            kept = json.loads(metadata.get(METADATA) or "{}")
        except (TypeError, ValueError):
            return cls()
        if not isinstance(kept, dict):
            return cls()
        known: dict[str, Any] = {name: kept[name] for name in _TEXTS if isinstance(kept.get(name), str)}
        known |= {name: Path(kept[name]) for name in _PATHS if isinstance(kept.get(name), str)}
        limits = kept.get("limits")
        if isinstance(limits, dict):
            known["limits"] = {name: limits[name] for name in LIMITS if limits.get(name)}
        return cls(**known)

    def check(self) -> None:
        """Refuse to go on without what was not remembered.

        Raises:
            CommandError: A setting held a secret and was not given again.
        """
        for each in fields(self):
            if str(getattr(self, each.name)) == _WITHHELD:
                raise CommandError(
                    f"--{each.name} of this thread had a secret in it, and was not remembered",
                    fixes=(f"give it again: --{each.name} …",),
                )


LIMITS = ("steps", "tool_calls", "seconds", "tokens", "cost")
_PATHS = ("docs", "mcp")
_TEXTS = ("graph", "model", "tools", "approve", "system")


def _from_anywhere(tool: str) -> str:
    """The name of a tool in a file, with the whole path of that."""
    where, colon, name = tool.strip().rpartition(":")
    return f"{Path(where).expanduser().absolute()}:{name}" if colon and where.endswith(".py") else tool.strip()

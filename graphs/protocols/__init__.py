"""How a step is asked for and read: native function calls, and the text protocol."""

from __future__ import annotations

from taograph.graphs.protocols.parser import parse_step
from taograph.graphs.protocols.step import ParsedStep

__all__ = ["ParsedStep", "parse_step"]

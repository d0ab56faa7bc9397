"""Worked uses of the document tools. A test runs the tools and holds each observation to what they return."""

from __future__ import annotations

from taograph.tools.policy import ToolExample

CORPUS_SEARCH: tuple[ToolExample, ...] = ()
CORPUS_OPEN: tuple[ToolExample, ...] = ()
FOLDER_SEARCH: tuple[ToolExample, ...] = ()
FOLDER_OPEN: tuple[ToolExample, ...] = ()

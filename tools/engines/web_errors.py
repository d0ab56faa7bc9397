"""Why a page was not read, as a value and in words for the model."""

from __future__ import annotations

from typing import Literal

from taograph.tools.policy import ToolError

WebErrorKind = Literal[
    "url", "address", "port", "name", "connection", "certificate", "redirects", "robots", "status", "size", "time",
    "encoding", "type", "unreadable", "page",
]  # fmt: skip


class WebError(ToolError):
    """Raised where a page can't or may not be read; the text is meant for the model and says what to do.

    Attributes:
        kind: What was in the way.
        status: The HTTP status, where there was one.
    """

    def __init__(self, kind: WebErrorKind, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status

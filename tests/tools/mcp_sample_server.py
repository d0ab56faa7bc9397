"""A real MCP server whose tools do what servers do on good and on bad days. ``python FILE [http|sse PORT]``."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import AnyUrl, BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = FastMCP("sample", log_level="WARNING")
reads = ToolAnnotations(readOnlyHint=True)
counted: list[None] = []


@server.tool(annotations=reads)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(annotations=reads)
def process() -> str:
    """The number of this process."""
    return str(os.getpid())


@server.tool()
def book(what: str) -> str:
    """Book something; not to be repeated."""
    if log := os.environ.get("BOOKINGS"):
        with Path(log).open("a") as file:
            file.write(f"{what}\n")
    return f"booked {what}"


@server.tool(annotations=ToolAnnotations(idempotentHint=True))
def remember() -> str:
    """Count the calls of this tool."""
    counted.append(None)
    return f"call {len(counted)}"


@server.tool(annotations=reads)
def fail(secret: bool = False) -> str:
    """Fail."""
    raise ValueError("no such order" if not secret else f"bad key {os.environ.get('SAMPLE_TOKEN')}")


@server.tool(annotations=reads)
def reveal(name: str) -> dict[str, str]:
    """Show an environment variable."""
    return {name: os.environ.get(name, "")}


@server.tool(annotations=reads)
async def headers(context: Context[Any, Any, Any]) -> str:
    """Show what the client sent."""
    request = context.request_context.request
    return str(request.headers.get("authorization")) if request else "none"


@server.tool(annotations=reads)
async def hang(seconds: float = 600.0) -> str:
    """Answer late, while other calls are served; say whether the call was taken back."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if log := os.environ.get("BOOKINGS"):
            Path(log).write_text("taken back")  # noqa: ASYNC240 - what it is asked to do last
        raise
    return "late"


@server.tool(annotations=reads)
def block(seconds: float = 600.0) -> str:
    """Answer late, and nothing else meanwhile."""
    time.sleep(seconds)
    return "late"


@server.tool()
def die() -> str:
    """End in the middle of a call."""
    if log := os.environ.get("BOOKINGS"):
        with Path(log).open("a") as file:
            file.write("died\n")
    os._exit(3)


@server.tool(annotations=reads)
def die_once(marker: str) -> str:
    """End in the middle of the first call only."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(3)
    return "survived"


class Place(BaseModel):
    """A place."""

    name: str
    people: int


@server.tool(annotations=reads)
def place() -> Place:
    """A structured result."""
    return Place(name="Tarn", people=2**70)


@server.tool(annotations=reads, structured_output=False)
def picture() -> list[Any]:
    """A picture with a caption."""
    return ["A pixel.", Image(data=PIXEL, format="png")]


@server.tool(annotations=reads, structured_output=False)
def mixed() -> list[Any]:
    """Every other kind of content."""
    return [
        AudioContent(type="audio", data=base64.b64encode(b"la" * 50).decode(), mimeType="audio/wav"),
        ResourceLink(type="resource_link", name="guide", uri=AnyUrl("https://a.example/guide"), description="How."),
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri=AnyUrl("file:///a.txt"), text="text within", mimeType="text/plain"),
        ),
        EmbeddedResource(
            type="resource",
            resource=BlobResourceContents(uri=AnyUrl("file:///a.zip"), blob=base64.b64encode(b"zip").decode()),
        ),
        TextContent(type="text", text="the end"),
    ]


@server.tool(annotations=reads, structured_output=False)
def huge(characters: int) -> str:
    """A long text."""
    return "word " * (characters // 5)


@server.tool(annotations=reads, structured_output=False)
def nothing() -> None:
    """No result at all."""


@server.tool(annotations=reads)
def odd_names(config: dict[str, int], run_manager: str, runtime: str, callbacks: str = "none") -> str:
    """Arguments whose names LangChain has a use for."""
    return f"{config} {run_manager} {runtime} {callbacks}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.settings.port = int(sys.argv[2])
        server.run("streamable-http" if sys.argv[1] == "http" else "sse")
    else:
        server.run()

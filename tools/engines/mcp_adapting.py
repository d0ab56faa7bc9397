"""The tools of an MCP server as tools of ours: names, schemas and policies that hold, results as text."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
)
from pydantic import PrivateAttr

from taograph.tools.engines.mcp_config import full_name
from taograph.tools.engines.mcp_link import Lost
from taograph.tools.engines.mcp_server import Server, on_their_loop, wait_for
from taograph.tools.policy import Effects, ToolError, ToolPolicy, policy_of, with_policy
from taograph.tools.schemas import fault_of

_MOST_DESCRIPTION = 4000
# What is kept of one result, in characters: a checkpoint holds it for as long as the thread lives.
_MOST_TEXT = 2_000_000
_MOST_MEDIA = 8_000_000
_MOST_ERROR = 2000
# Providers refuse a schema of arguments that has these at its top.
_NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "$schema", "$id")

_Content = str | list[str | dict[str, Any]]
_Answer = tuple[_Content, dict[str, Any] | None]


class McpTool(StructuredTool):
    """A tool of an MCP server. Its arguments may have any names, also those that LangChain has a use for."""

    _server: Server = PrivateAttr()

    @property
    def server(self) -> Server:
        """The server it belongs to."""
        return self._server

    async def _arun(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        return await self._ask(arguments)

    def _run(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        return wait_for(self._ask(arguments))

    def _ask(self, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, _Answer]:
        ask = cast("Callable[..., Coroutine[Any, Any, _Answer]]", self.coroutine)
        return ask(arguments, policy_of(self))


async def tools_of(server: Server) -> list[McpTool]:
    """The tools of a server that are wanted; on the loop of the connections only.

    Raises:
        Lost: The server can't be started, or doesn't say what it has.
        ValueError: It has none of a name that its settings give.
    """
    spec = server.spec
    link = await server.link()
    try:
        async with asyncio.timeout(spec.start_seconds):
            offered = await load_mcp_tools(await link.session(), tool_interceptors=[partial(_through, server)])
    except TimeoutError:
        link.stop()
        raise Lost(f"it did not list its tools within {spec.start_seconds:g} s", sent=True) from None
    except Lost:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the server answered, it is not a list of tools
        link.stop()
        raise Lost(f"it does not list its tools ({type(error).__name__})", sent=True) from None
    names = [tool.name for tool in offered]
    unknown = [name for name in (*(spec.only or ()), *spec.tools) if name not in names]
    if unknown:
        raise ValueError(f"mcpServers.{spec.name}.taograph: it has no tool {unknown[0]!r}; it has {', '.join(names)}")
    return [_ours(server, tool) for tool in offered if spec.only is None or tool.name in spec.only]


def effects_of(hints: Mapping[str, Any]) -> Effects:
    """What a server's annotations say of a tool's effects; they are hints, and silence means the worst."""
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
        return "none"
    return "idempotent" if hints.get("idempotentHint") is True else "once"


def sound_schema(schema: Any) -> dict[str, Any]:
    """A schema of arguments that can be checked and sent to any provider.

    One that is invalid, or refers to what would have to be fetched, is reduced to the names and kinds of the
    arguments; the server checks them anyway.
    """
    given = dict(schema) if isinstance(schema, Mapping) else {}
    made = {key: value for key, value in given.items() if key not in _NOT_AT_TOP}
    properties = made.get("properties")
    made |= {"type": "object", "properties": properties if isinstance(properties, dict) else {}}
    with contextlib.suppress(RecursionError):
        if fault_of(made) is None:
            return made
    required = made.get("required")
    return {
        "type": "object",
        "properties": {str(name): _plain(about) for name, about in made["properties"].items()},
        "required": [name for name in required if isinstance(name, str)] if isinstance(required, list) else [],
    }


def _ours(server: Server, theirs: BaseTool) -> McpTool:
    spec, name = server.spec, theirs.name
    policy = {
        "effects": effects_of(theirs.metadata or {}),
        "trusted": False,
        **spec.policy,
        **spec.tools.get(name, {}),
    }
    description = theirs.description.strip() or f"The tool {name} of the MCP server {spec.name}."
    made = McpTool(
        name=full_name(spec.name, name),
        description=description[:_MOST_DESCRIPTION],
        args_schema=sound_schema(theirs.args_schema),
        coroutine=_asking(server, cast("StructuredTool", theirs)),
        response_format="content_and_artifact",
        metadata=theirs.metadata,
    )
    made._server = server
    return cast("McpTool", with_policy(made, ToolPolicy(**policy)))


def _asking(server: Server, theirs: StructuredTool) -> Callable[..., Coroutine[Any, Any, _Answer]]:
    """What makes the calls of a tool, on whatever loop the caller is."""
    call = cast("Callable[..., Coroutine[Any, Any, Any]]", theirs.coroutine)

    # A function, since LangGraph looks for what a tool asks of it in the annotations.
    async def ask(arguments: Mapping[str, Any], policy: ToolPolicy) -> _Answer:
        problem = ""
        try:
            blocks, artifact = await call(given=arguments, repeatable=policy.effects != "once")
            return _shown(blocks, artifact, images=server.spec.images)
        except ToolError:
            raise
        except ToolException as error:  # the tool itself says that it failed
            problem = str(error)[:_MOST_ERROR]
        raise ToolError(problem)

    return ask


async def _through(server: Server, request: MCPToolCallRequest, _: Any) -> CallToolResult:
    """Stands in for the adapters' own way of making a call, which begins a connection for each."""
    call = server.call(request.name, request.args["given"], repeatable=bool(request.args["repeatable"]))
    result = await on_their_loop(call)
    secrets = server.spec.secrets
    content = [_readable(block) for block in result.content]
    texts = [b.model_copy(update={"text": secrets.hide(b.text)}) if isinstance(b, TextContent) else b for b in content]
    return result.model_copy(update={"content": texts, "structuredContent": secrets.hide_in(result.structuredContent)})


def _readable(block: ContentBlock) -> ContentBlock:
    """A part of a result, as text where the adapters know no way to say it or lose what it says."""
    if isinstance(block, AudioContent):
        return TextContent(type="text", text=_unseen(block.mimeType, block.data, "not shown"))
    if isinstance(block, ResourceLink):
        about = f": {block.description}" if block.description else ""
        return TextContent(type="text", text=f"[{block.title or block.name} at {block.uri}{about}]")
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, BlobResourceContents):
        kind = block.resource.mimeType or "application/octet-stream"
        return block.model_copy(update={"resource": block.resource.model_copy(update={"mimeType": kind})})
    return block


def _shown(blocks: Sequence[Mapping[str, Any]], artifact: Mapping[str, Any] | None, *, images: bool) -> _Answer:
    """A result as what a model is shown, and what stands beside it.

    Files, and pictures unless they are asked for, are told of: most providers refuse them in the result of a call.
    """
    texts: list[str] = []
    seen: list[str | dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    for block in blocks:
        data = block.get("base64")
        if block["type"] == "text":
            texts.append(str(block["text"]))
        elif data is None:
            texts.append(f"[{block.get('mime_type') or 'a file'} at {block.get('url')}]")
        elif sum(len(each["base64"]) for each in media) + len(data) > _MOST_MEDIA:
            texts.append(_unseen(block.get("mime_type"), data, "too large to be kept"))
        else:
            media.append(dict(block))
            if images and block["type"] == "image":
                seen.append(dict(block))
            else:
                texts.append(_unseen(block.get("mime_type"), data, "not shown"))
    structured = (artifact or {}).get("structured_content")
    written = "" if structured is None else json.dumps(structured, ensure_ascii=False)
    text = "\n".join(texts) if texts or seen else written
    if len(text) > _MOST_TEXT:
        text = f"{text[:_MOST_TEXT]}\n[The result had {len(text)} characters; the rest was dropped.]"
    if seen:
        return [{"type": "text", "text": text}, *seen] if text else seen, None
    beside: dict[str, Any] = {}
    if structured is not None and len(written) <= _MOST_TEXT:
        beside["structured_content"] = structured
    if media:
        beside["media"] = media
    return text, beside or None


def _unseen(kind: str | None, data: str, why: str) -> str:
    return f"[{kind or 'a file'}, {len(data) * 3 // 4} bytes, {why}]"


def _plain(about: Any) -> dict[str, Any]:
    if not isinstance(about, Mapping):
        return {}
    kinds = ("string", "number", "integer", "boolean", "object", "array", "null")
    kept: dict[str, Any] = {"type": about["type"]} if about.get("type") in kinds else {}
    if isinstance(about.get("description"), str):
        kept["description"] = about["description"]
    return kept

"""Standing in for models and tools, whatever graph they are in; nothing leaves the machine meanwhile.

A graph holds its models and tools where nobody can reach them: in closures, in bound runnables. So what answers is
put where all of LangChain's models and tools pass: ``BaseChatModel``'s own generation, behind its callbacks, and
``BaseTool.run``. LangChain has no public place for that; what is private of it is in this module alone. Both are put
back when no replay is left, and a context variable tells the calls of a replay from those beside it.

A hook of the interpreter refuses connections and processes to whatever else runs in a replay: a node of the user's
own, or a check of the answer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langsmith.run_helpers import tracing_context
from pydantic import ConfigDict

from taograph.graphs.loop.clock import ELAPSED
from taograph.tools.running import STAND_IN
from taograph.trace.replays.player import Player

_player: ContextVar[Player | None] = ContextVar("taograph_player", default=None)
_lock = threading.Lock()
_kept: dict[tuple[type, str], Any] = {}
_running: list[Player] = []
# fmt: off
_OUTWARD = frozenset((
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile",
))
# fmt: on


@contextmanager
def instead(player: Player) -> Iterator[None]:
    """What is called in this block, in this context, is answered by a player."""
    _refuse_ways_out()
    _install(player)
    ours, tools, clock = _player.set(player), STAND_IN.set(player.result), ELAPSED.set(player.elapsed)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        _player.reset(ours)
        STAND_IN.reset(tools)
        ELAPSED.reset(clock)
        _uninstall(player)


def _result(player: Player, run_manager: Any) -> ChatResult:
    # The id is what LangChain would have given it: of this call, and no other's.
    message = player.reply(run_manager.run_id).model_copy(update={"id": f"lc_run--{run_manager.run_id}-0"})
    return ChatResult(generations=[ChatGeneration(message=message)])


class _Stand(BaseTool):
    """Stands in for one call of a tool; LangChain's callbacks see the tool."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    description: str = ""
    args_schema: Any = None
    given: Any = None

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {}

    def _run(self) -> Any:
        return self.given

    async def _arun(self) -> Any:
        return self.given


def _stand_in_for(tool: BaseTool, player: Player, tool_input: Any, options: Mapping[str, Any]) -> BaseTool:
    callbacks = options.get("callbacks") or (options.get("config") or {}).get("callbacks")
    task = player.watch.task_of(getattr(callbacks, "parent_run_id", None))
    id = options.get("tool_call_id")
    args = tool._filter_injected_args(tool_input) if isinstance(tool_input, dict) else None
    told = player.observed(task, tool.name, id, args)
    text, status = str(told["text"]), told["status"]
    given: Any = text if id is None else ToolMessage(text, tool_call_id=id, name=tool.name, status=status)
    return _Stand(name=tool.name, description=tool.description, given=given)


def _install(player: Player) -> None:
    with _lock:
        _running.append(player)
        if len(_running) > 1:
            return
        generate, agenerate = BaseChatModel._generate_with_cache, BaseChatModel._agenerate_with_cache
        streams, run, arun = BaseChatModel._should_stream, BaseTool.run, BaseTool.arun

        @wraps(generate)
        def _generate(
            self: BaseChatModel, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
        ) -> ChatResult:
            player = _player.get()
            if player is None:
                return generate(self, messages, stop=stop, run_manager=run_manager, **options)
            return _result(player, run_manager)

        @wraps(agenerate)
        async def _agenerate(
            self: BaseChatModel, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
        ) -> ChatResult:
            player = _player.get()
            if player is None:
                return await agenerate(self, messages, stop=stop, run_manager=run_manager, **options)
            return _result(player, run_manager)

        @wraps(streams)
        def _streams(self: BaseChatModel, **options: Any) -> bool:
            return streams(self, **options) if _player.get() is None else False

        @wraps(run)
        def _run(self: BaseTool, tool_input: Any, *args: Any, **options: Any) -> Any:
            player = _player.get()
            stand = self if player is None else _stand_in_for(self, player, tool_input, options)
            return run(stand, tool_input, *args, **options)

        @wraps(arun)
        async def _arun(self: BaseTool, tool_input: Any, *args: Any, **options: Any) -> Any:
            player = _player.get()
            stand = self if player is None else _stand_in_for(self, player, tool_input, options)
            return await arun(stand, tool_input, *args, **options)

        _replace(BaseChatModel, "_generate_with_cache", _generate)
        _replace(BaseChatModel, "_agenerate_with_cache", _agenerate)
        _replace(BaseChatModel, "_should_stream", _streams)
        _replace(BaseTool, "run", _run)
        _replace(BaseTool, "arun", _arun)


def _replace(owner: type, name: str, by: Any) -> None:
    _kept[owner, name] = getattr(owner, name)
    setattr(owner, name, by)


def _uninstall(player: Player) -> None:
    with _lock:
        _running.remove(player)
        if _running:
            return
        for (owner, name), own in _kept.items():
            setattr(owner, name, own)
        _kept.clear()


@cache
def _refuse_ways_out() -> None:
    """Once for the process: such a hook stays."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _OUTWARD and (player := _player.get()) is not None:
            player.refused.append(event)
            raise PermissionError(f"a replay neither connects nor starts anything: {event} is refused")

    sys.addaudithook(hook)

"""A tool as the loop calls it does what LangChain's own does, and is as the tool is now."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForToolRun, Callbacks
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from pydantic import BaseModel, Field, PrivateAttr

from taograph.tools.ready import PlainTool, ready


class Heard(BaseCallbackHandler):
    """All that is told of a tool."""

    run_inline = True

    def __init__(self) -> None:
        self.all: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
        more = {key: repr(value) for key, value in more.items() if key not in ("run_id", "parent_run_id")}
        self.all.append(("start", serialized, input_str, more))

    def on_tool_end(self, output: Any, **more: Any) -> None:
        self.all.append(("end", repr(output)))

    def on_tool_error(self, error: BaseException, **more: Any) -> None:
        self.all.append(("error", repr(error)))


class Point(BaseModel):
    x: int = 3
    y: list[str] = Field(default_factory=list)


class Named(BaseModel):
    start: int = Field(1, alias="from")


class Open(BaseModel, extra="allow"):
    a: int = 1


class Odd(BaseModel):
    a: int = 1
    config: str = "the model's"


def plain(a: int = 1, b: str | None = None, *, c: float = 2.0) -> str:
    return repr((a, b, c))


def starred(a: int = 1, *args: int, **kwargs: int) -> str:
    return repr((a, args, sorted(kwargs.items())))


def takes_models(p: Point, q: Point | None = None) -> str:
    return repr((p, q))


def named(**given: Any) -> str:
    return repr(sorted(given.items()))


def wants_config(a: int, config: RunnableConfig) -> str:
    return repr((a, config.get("tags")))


def may_want_config(a: int, cfg: Optional[RunnableConfig] = None) -> str:  # noqa: UP045 - as it is often written
    return repr((a, (cfg or {}).get("tags")))


def has_a_config_of_its_own(config: str = "x") -> str:
    return config


def wants_callbacks(a: int, callbacks: Callbacks = None) -> str:
    return repr((a, type(callbacks).__name__))


def wants_a_manager(a: int, run_manager: CallbackManagerForToolRun | None = None) -> str:
    return repr((a, type(run_manager).__name__))


def wants_its_call(a: int, call: Annotated[str, InjectedToolCallId] = "") -> str:
    return repr((a, call))


def is_given_something(a: int, z: Annotated[str | None, InjectedToolArg] = None) -> str:
    return repr((a, z))


def says_self(self: int = 0, a: int = 1) -> str:
    return repr((self, a))


def refuses(a: int = 1) -> str:
    raise ToolException(f"not {a}")


def breaks(a: int = 1) -> str:
    raise ValueError(f"not {a}")


def gives_two(a: int = 1) -> tuple[str, Any]:
    return f"t{a}", {"x": a}


def gives_a_message(a: int = 1) -> ToolMessage:
    return ToolMessage("hi", tool_call_id="mine", artifact=a)


class Method:
    def method(self, a: int = 1) -> str:
        return f"m{a}"


TOOLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (plain, {}),
    (plain, {"tags": ["t"], "metadata": {"m": 1}, "return_direct": True}),
    (plain, {"handle_validation_error": "wrong"}),
    (starred, {}),
    (takes_models, {}),
    (named, {"args_schema": Named}),
    (named, {"args_schema": Open}),
    (named, {"args_schema": Odd}),
    (named, {"args_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}),
    (wants_config, {}),
    (may_want_config, {}),
    (has_a_config_of_its_own, {}),
    (wants_callbacks, {}),
    (wants_a_manager, {}),
    (wants_its_call, {}),
    (is_given_something, {}),
    (says_self, {}),
    (refuses, {}),
    (refuses, {"handle_tool_error": True}),
    (breaks, {}),
    (gives_two, {"response_format": "content_and_artifact"}),
    (plain, {"response_format": "content_and_artifact"}),
    (gives_a_message, {}),
    (Method().method, {}),
]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"a": "7", "b": "x", "c": "3.5"},
    {"a": "none"},
    {"a": 1, "config": "theirs", "run_manager": "theirs", "callbacks": "theirs", "call": "theirs", "z": "theirs"},
    {"a": 1, "args": [2, 3], "kwargs": {"k": 4}},
    {"p": {"x": "4", "y": ["z"]}, "q": None},
    {"p": {"x": "none"}},
    {"from": 4},
    {"self": 5, "a": 2},
]


def made(function: Callable[..., Any], options: dict[str, Any], *, of: str) -> StructuredTool:
    async def later(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    later.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    later.__annotations__ = function.__annotations__
    options = {"name": "it", "description": "It.", **options}
    sync, other = (function if of != "async" else None), (later if of != "sync" else None)
    return StructuredTool.from_function(sync, other, **options)


def outcome(tool: StructuredTool, args: dict[str, Any], way: str) -> tuple[str, list[Any]]:
    heard = Heard()
    call = {"name": tool.name, "args": copy.deepcopy(args), "id": "c1", "type": "tool_call"}
    config: RunnableConfig = {"callbacks": [heard], "tags": ["x"], "metadata": {"k": 1}}
    try:
        result = tool.invoke(call, config) if way == "invoke" else asyncio.run(tool.ainvoke(call, config))
    except Exception as error:
        result = error
    return repr(result), heard.all


@pytest.mark.parametrize("of", ["sync", "async", "both"])
@pytest.mark.parametrize("number", range(len(TOOLS)))
def test_a_tool_does_as_langchains_own(number: int, of: str) -> None:
    function, options = TOOLS[number]
    theirs, ours = made(function, options, of=of), ready(made(function, options, of=of))
    for args in ARGUMENTS:
        for way in ("invoke", "ainvoke"):
            assert outcome(ours, args, way) == outcome(theirs, args, way)


def test_most_functions_are_plain() -> None:
    assert isinstance(ready(made(plain, {}, of="both")), PlainTool)
    assert isinstance(ready(made(takes_models, {}, of="sync")), PlainTool)
    assert not isinstance(ready(made(wants_config, {}, of="sync")), PlainTool)


def test_what_is_changed_later_holds() -> None:
    tool = made(plain, {"tags": ["one"], "metadata": {"m": 1}}, of="sync")
    first = ready(tool)
    assert ready(tool) is first
    assert tool.tags is not None
    assert tool.metadata is not None
    tool.tags.append("two")
    tool.metadata["n"] = 2
    assert outcome(ready(tool), {}, "invoke") == outcome(tool, {}, "invoke"), "what it holds was changed"
    tool.description = "Another."
    tool.func = lambda a, b=None, c=0.0: "other"
    assert outcome(ready(tool), {}, "invoke")[0].startswith("ToolMessage(content='other'")
    assert ready(tool).description == "Another."
    assert first.description == "It.", "what is being called is left alone"


class Counts(StructuredTool):
    """A tool of the user's own class, which keeps something of each call."""

    _calls: int = PrivateAttr(default=0)

    def _run(self, *args: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        self._calls += 1
        return super()._run(*args, config=config, **kwargs)


def test_what_a_tool_keeps_of_its_calls_is_kept_by_it() -> None:
    tool = Counts.from_function(plain, name="it", description="It.")
    assert isinstance(tool, Counts)
    for _ in range(3):
        ready(tool).invoke({"a": 1})
    assert tool._calls == 3


def test_copies_are_tools_of_their_own() -> None:
    tool = StructuredTool.from_function(named, name="it", description="It.", args_schema=Named)
    as_it_was = tool.model_dump_json(), repr(tool)
    ready(tool)
    other = tool.model_copy(update={"name": "other"})
    assert [ready(one).name for one in (tool, other)] == ["it", "other"]
    for copied in (pickle.loads(pickle.dumps(tool)), copy.deepcopy(tool)):
        assert ready(copied) is not ready(tool)
        assert outcome(ready(copied), {"from": 2}, "invoke") == outcome(tool, {"from": 2}, "invoke")
    assert (tool.model_dump_json(), repr(tool)) == as_it_was


def test_a_tool_that_nobody_has_any_more_is_gone() -> None:
    """Its function may hold it, as one does that calls itself, or a method of who has it."""

    class Has:
        def method(self, a: int = 1) -> str:
            return f"{self.tool.name}{a}"

        tool: StructuredTool

    has = Has()
    has.tool = made(has.method, {}, of="both")
    assert ready(has.tool).invoke({"a": 2}) == "it2"
    left = weakref.ref(has), weakref.ref(has.tool)
    del has
    gc.collect()
    assert [one() for one in left] == [None, None]

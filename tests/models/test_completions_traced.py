"""What stands in the place of the client's functions, a mock or what traces calls, sees each call."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any
from unittest import mock

import openai
import pytest
from openai.resources.chat import AsyncCompletions, Completions
from wire_support import HISTORY, Recorder, at_once, by_name, on_a_loop, own


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with Recorder() as made:
        yield made


@pytest.mark.parametrize("made", [own, by_name])
@pytest.mark.parametrize("kind", [Completions, AsyncCompletions])
def test_what_stands_in_the_place_of_create_is_called(server: Recorder, made: Any, kind: Any) -> None:
    own_create, seen = kind.create, []

    def counted(self: Any, **asked: Any) -> Any:
        seen.append(list(asked["messages"]))
        return own_create(self, **asked)

    model, ask = made(server), at_once if kind is Completions else on_a_loop
    with mock.patch.object(kind, "create", counted):
        assert ask(model, HISTORY).text == "Hello."
    assert len(seen[0]) == 4
    resource = (model.root_client if kind is Completions else model.root_async_client).chat.completions
    with mock.patch.object(resource, "create", lambda **asked: counted(resource, **asked)):
        assert ask(model, HISTORY).text == "Hello."
    assert len(seen) == 2
    assert ask(model, HISTORY).text == "Hello."
    assert len(seen) == 2


@pytest.mark.parametrize("made", [own, by_name])
@pytest.mark.parametrize("ask", [at_once, on_a_loop])
@pytest.mark.parametrize("name", ["create", "request"])
def test_what_traces_calls_sees_them_as_langchain_makes_them(server: Recorder, made: Any, ask: Any, name: str) -> None:
    seen: list[Any] = []

    class Tracing:
        """Stands in a function's place as wrapt's do, with which tracers are made: it passes for it everywhere."""

        def __init__(self, function: Any, instance: Any = None) -> None:
            self.function, self.instance = function, instance

        def __get__(self, instance: Any, owner: Any) -> Tracing:
            return Tracing(self.function, instance)

        def __getattr__(self, asked: str) -> Any:
            return getattr(self.function, asked)

        @property
        def __class__(self) -> Any:
            return FunctionType

        def __eq__(self, other: object) -> bool:
            return bool(self.function == other)

        def __hash__(self) -> int:
            return hash(self.function)

        def __call__(self, *args: Any, **asked: Any) -> Any:
            body = asked if name == "create" else args[1].json_data
            seen.append(type(body["messages"]))
            return self.function(self.instance, *args, **asked)

    model = made(server)
    assert ask(model, HISTORY).text == "Hello."
    kinds = {"create": (Completions, AsyncCompletions)}.get(name, (openai.OpenAI, openai.AsyncOpenAI))
    kind = kinds[0] if ask is at_once else kinds[1]
    with mock.patch.object(kind, name, Tracing(getattr(kind, name))):
        assert ask(model, HISTORY).text == "Hello."
    assert seen == [list]
    client = model.root_client if ask is at_once else model.root_async_client
    on = client.chat.completions if name == "create" else client
    with mock.patch.object(on, name, Tracing(getattr(kind, name), on)):
        assert ask(model, HISTORY).text == "Hello."
    assert seen == [list, list]
    assert ask(model, HISTORY).text == "Hello."
    assert len(seen) == 2
    first, *others = [asked.said for asked in server.take()]
    assert all(said == first for said in others)

"""With a key, nothing that was said or passed along stands in clear, in any file and in any table."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any

import pytest
from checkpoint_support import Stored
from langchain_core.messages import AIMessage
from langchain_core.tools import tool as lc_tool
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from taograph import checkpoints, create_react_graph
from taograph.checkpoints.encryption import Unreadable
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person

KEY = "0123456789abcdef0123456789abcdef"
SECRET = "tangerine"
# In the order in which they are passed: question, configurable, metadata, arguments, result, artifact, …
PLACES = (
    "asked",
    "option",
    "meta",
    "args",
    "result",
    "artifact",
    "question",
    "answer",
    "final",
    "field",
    "edit",
    "boom",
)


def secret(place: str) -> str:
    return f"{SECRET}-{place}"


def config(thread: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "configurable": {"thread_id": thread, "note": secret("option"), **more},
        "metadata": {"purpose": secret("meta")},
    }


@lc_tool(response_format="content_and_artifact")
def fetch(what: str) -> tuple[str, dict[str, str]]:
    """Fetch something.

    Args:
        what: What to fetch.
    """
    return secret("result"), {"whole": secret("artifact")}


class Reply(BaseModel):
    """An answer."""

    field: str


def run_everything(saver: Any) -> Any:
    """Runs with a secret in every place there is; returns the graph."""
    model = ScriptedModel(
        replies=[
            AIMessage("", tool_calls=[call("fetch", {"what": secret("args")})]),
            AIMessage("", tool_calls=[call("ask_person", {"question": secret("question")})]),
            secret("final"),
            AIMessage("", tool_calls=[call("Reply", {"field": secret("field")})]),
        ]
    )
    graph = create_react_graph(model, [fetch, ask_person], response_format=Reply, checkpointer=saver)
    stopped = graph.invoke({"messages": [("user", secret("asked"))]}, config())
    graph.invoke(Command(resume=secret("answer")), config())
    graph.update_state(config(), {"messages": [("user", secret("edit"))], "answer": secret("edit")})
    assert stopped["__interrupt__"]

    class State(TypedDict):
        text: str
        number: int
        shout: bool

    def fail(state: State) -> State:
        interrupt({"ask": secret("question")}) if state["number"] < 0 else None
        raise RuntimeError(secret("boom"))

    failing = (
        StateGraph(State)
        .add_node("child", StateGraph(State).add_node("fail", fail).add_edge(START, "fail").compile())
        .add_edge(START, "child")
        .add_edge("child", END)
        .compile(checkpointer=saver)
    )
    for durability in ("sync", "exit"):
        with pytest.raises(RuntimeError):
            failing.invoke({"text": secret("edit"), "number": 7}, config(durability), durability=durability)  # type: ignore[call-overload]
    failing.invoke({"text": secret("edit"), "number": -7}, config("asks"))
    return graph


def told_in_clear(data: bytes) -> set[str]:
    found = {place for place in PLACES if secret(place).encode() in data}
    coded = [base64.b64encode(b" " * shift + SECRET.encode())[4:-4] for shift in range(3)]
    return (
        found
        | {"coded" for piece in coded if piece in data}
        | {"utf-16" for _ in [0] if SECRET.encode("utf-16-le") in data}
    )


def test_without_a_key_a_secret_is_found_in_all_places(url: str, stored: Stored) -> None:
    """What the next test looks for can be found at all."""
    with checkpoints.open(url) as saver:
        run_everything(saver)
        assert told_in_clear(stored()) == set(PLACES)


@pytest.mark.parametrize("length", [16, 24, 32])
def test_with_a_key_nothing_is_found(url: str, stored: Stored, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY[:length])
    with checkpoints.open(url) as saver:
        graph = run_everything(saver)
        assert told_in_clear(stored()) == set()
        state = graph.get_state(config())
        messages = " ".join(
            f"{m.text} {getattr(m, 'tool_calls', '')} {getattr(m, 'artifact', '')}" for m in state.values["messages"]
        )
        for place in ("asked", "args", "result", "artifact", "question", "answer", "edit"):
            assert secret(place) in messages
        assert state.values["structured"] == {"field": secret("field")}
        assert state.values["answer"] == secret("edit")
        assert state.metadata["purpose"] == secret("meta")
        assert state.metadata["note"] == secret("option")
    assert told_in_clear(stored()) == set()
    assert KEY[:16].encode() not in stored()
    with checkpoints.open(url) as saver:
        again = create_react_graph(ScriptedModel(replies=["More."]), [], checkpointer=saver)
        assert again.get_state(config()).values == state.values
        assert again.invoke({"messages": [("user", "And?")]}, config())["answer"] == "More."


async def test_the_async_way_is_the_same(url: str, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    async with checkpoints.aopen(url) as saver:
        model = ScriptedModel(
            replies=[AIMessage("", tool_calls=[call("fetch", {"what": secret("args")})]), secret("final")]
        )
        graph = create_react_graph(model, [fetch], checkpointer=saver)
        await graph.ainvoke({"messages": [("user", secret("asked"))]}, config())
        found = [
            state async for state in graph.aget_state_history(config(), filter={"purpose": secret("meta")}, limit=2)
        ]
        assert len(found) == 2
        assert found[0].values["answer"] == secret("final")
    assert told_in_clear(stored()) == set()


def test_what_a_filter_finds_is_the_same_with_and_without(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for key in (None, KEY):
        if key:
            monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
        with checkpoints.open(url) as saver:
            where = config(f"thread {key}")
            of_thread = {"configurable": {"thread_id": f"thread {key}"}}
            graph = create_react_graph(ScriptedModel(replies=["One.", "Two."]), [], checkpointer=saver)
            graph.invoke({"messages": [("user", "Hi")]}, where)
            graph.invoke({"messages": [("user", "Hi")]}, {**where, "metadata": {"purpose": "another"}})
            for wanted, limit in (
                ({"purpose": secret("meta")}, None),
                ({"purpose": "another", "source": "loop"}, None),
                ({"purpose": "another"}, 1),
                ({"source": "input"}, None),
                ({"step": 1}, None),
                ({"purpose": "nothing"}, None),
                ({"nothing": "at all"}, None),
                ({}, 3),
            ):
                listed = list(saver.list(of_thread, filter=wanted, limit=limit))
                found.append((str(wanted), limit, [(t.metadata["source"], t.metadata["step"]) for t in listed]))
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert [len(rows) for _, _, rows in found[:half]] != [0] * half


def test_keys_of_apis_in_configurable_are_never_stored(url: str, stored: Stored) -> None:
    with checkpoints.open(url) as saver:
        graph = create_react_graph(ScriptedModel(replies=["Hello."]), [], checkpointer=saver)
        where = config(api_key=secret("key"), OPENAI_API_KEY=secret("key"), password=secret("key"), max_tokens=7)
        where["metadata"]["says"] = "sk-proj-abcdefghijklmnop1234"
        graph.invoke({"messages": [("user", "Hi")]}, where)
        metadata = graph.get_state(config()).metadata
    assert secret("key").encode() not in stored()
    assert b"abcdefghijklmnop1234" not in stored()
    assert metadata["api_key"] == "[secret]"
    assert metadata["max_tokens"] == 7


def other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY[::-1])


def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGGRAPH_AES_KEY")


@pytest.mark.parametrize("change", [no_key, other_key])
def test_a_thread_that_can_not_be_read_says_why(
    url: str, change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    model = ScriptedModel(replies=["Hello."] * 3)
    with checkpoints.open(url) as saver:
        create_react_graph(model, [], checkpointer=saver).invoke({"messages": [("user", "Hi")]}, config())
    change(monkeypatch)
    with checkpoints.open(url) as saver:
        graph = create_react_graph(model, [], checkpointer=saver)
        with pytest.raises(Unreadable, match="LANGGRAPH_AES_KEY") as told:
            graph.invoke({"messages": [("user", "Hi")]}, config())
        assert KEY not in str(told.value)
        (listed,) = checkpoints.threads(saver)
        assert (listed.id, listed.state) == ("t1", "encrypted")
        graph.invoke({"messages": [("user", "Hi")]}, config("t2"))  # others are not hindered
        assert checkpoints.delete(saver, "t1"), "nobody needs a key to delete"
    assert len(model.requests) == 2


def test_a_thread_from_before_the_key_is_gone_on_with(
    url: str, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    with checkpoints.open(url) as saver:
        graph = create_react_graph(ScriptedModel(replies=["Before."]), [], checkpointer=saver)
        graph.invoke({"messages": [("user", "Hi")]}, config())
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with checkpoints.open(url) as saver:
        graph = create_react_graph(ScriptedModel(replies=[secret("final")]), [], checkpointer=saver)
        graph.invoke({"messages": [("user", secret("asked"))]}, config())
        said = [m.text for m in graph.get_state(config()).values["messages"]]
        assert said == ["Hi", "Before.", secret("asked"), secret("final")]
    assert told_in_clear(stored()) <= {"option", "meta"}, "what was passed along before the key"


def test_it_is_langgraphs_own_format(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with checkpoints.open(url) as saver:
        graph = create_react_graph(ScriptedModel(replies=["Hello."]), [], checkpointer=saver)
        graph.invoke({"messages": [("user", "Hi")]}, config())
        theirs = EncryptedSerializer.from_pycryptodome_aes()
        assert theirs.loads_typed(saver.serde.dumps_typed({"a": 1})) == {"a": 1}
        assert saver.serde.loads_typed(theirs.dumps_typed([1, "x"])) == [1, "x"]


@pytest.mark.parametrize("key", ["", "short", "x" * 33, "ä" * 17])
def test_a_key_that_is_none_is_refused_and_not_shown(url: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    with pytest.raises(ValueError, match="16, 24 or 32 bytes") as told, checkpoints.open(url):
        pass
    assert not key or key not in str(told.value)


def test_what_encrypts_is_named_where_it_is_missing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    monkeypatch.setitem(sys.modules, "Crypto", None)
    with pytest.raises(ValueError, match=r"not installed: pip install 'taograph\[encryption\]'"), checkpoints.open(url):
        pass


def test_the_key_is_in_no_words_about_the_saver(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with checkpoints.open(url) as saver:
        assert KEY not in repr(saver) + repr(saver.serde) + repr(saver.serde.cipher)


def test_what_a_column_of_json_does_not_take_is_stored_all_the_same(url: str) -> None:
    """A NUL or half of a surrogate pair in an answer would end the run on PostgreSQL."""
    texts = ["a\x00b", "a\ud800b", "\x02taograph sealed:", "plain"]
    with checkpoints.open(url) as saver:
        for number, text in enumerate(texts):
            graph = create_react_graph(ScriptedModel(replies=[text]), [], checkpointer=saver)
            where = {**config(str(number)), "metadata": {"odd": text}}
            graph.invoke({"messages": [("user", "Hi")]}, where)
            kept = graph.get_state(where).values["answer"]
            assert kept.replace("?", "\ud800") == text

"""Replies and usage as the wire brings them, streamed or not; and connections, which belong to an event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fake_openai_server import Reply
from http_support import Made, assert_concluded, both_models, by_address, by_chat_openai
from support import Counting, lookup, question

from taograph import Limits, create_react_graph, stream_steps


@both_models
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_broken_arguments_are_the_same_streamed_or_not(serve: Any, made: Made, streamed: bool, finish: str) -> None:
    counting = Counting()
    server = serve(Reply(calls=[("count", '{"what": "half of what')], finish=finish), "Done.")
    graph = create_react_graph(made(server), [counting.tool])
    if streamed:
        events = list(stream_steps(graph, question()))
        assert [e["status"] for e in events if e["type"] == "observation"] == ["error"]
    else:
        assert_concluded(graph.invoke(question()), "final", server)
    assert counting.calls == []
    sent = server.requests[1]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool"]
    json.loads(sent[1]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("streamed", [False, True])
def test_ids_that_are_missing_or_used_twice(serve: Any, streamed: bool) -> None:
    two = [("lookup", {"name": "Ada"}), ("lookup", {"name": "Bo"})]
    server = serve(Reply(calls=two, ids=["x", "x"]), Reply(calls=two, ids=[None, ""]), "Done.")
    graph = create_react_graph(by_address(server), [lookup])
    if streamed:
        assert list(stream_steps(graph, question()))[-1]["text"] == "Done."
    else:
        assert_concluded(graph.invoke(question()), "final", server)
    ids = [c["id"] for m in server.requests[2]["messages"] if m["role"] == "assistant" for c in m["tool_calls"]]
    assert len(ids) == len(set(ids)) == 4
    assert all(ids)
    assert [m["tool_call_id"] for m in server.requests[2]["messages"] if m["role"] == "tool"] == ids


@pytest.mark.parametrize("streamed", [False, True])
def test_reasoning_content_is_a_thought(serve: Any, streamed: bool) -> None:
    server = serve(Reply("I look.", calls=[("lookup", {"name": "Ada"})], reasoning="Ada comes first."), "Page 3.")
    graph = create_react_graph(by_address(server), [lookup])
    if not streamed:
        result = graph.invoke(question())
        assert result["messages"][1].additional_kwargs["reasoning_content"] == "Ada comes first."
        return
    events = list(stream_steps(graph, question()))
    assert next(e for e in events if e["type"] == "thought")["text"] == "Ada comes first.\nI look."
    deltas = [e for e in events if e["type"] == "thought_delta"]
    assert "".join(e["text"] for e in deltas if e["kind"] == "reasoning") == "Ada comes first."
    assert "".join(e["text"] for e in deltas if e["kind"] == "text" and e["step"] == 1) == "I look."
    assert events[-1]["text"] == "Page 3."


@both_models
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "reply",
    [Reply(refusal="I can't do that."), Reply("I can't do that.", finish="content_filter")],
    ids=["field", "filter"],
)
def test_a_refusal(serve: Any, made: Made, streamed: bool, reply: Reply) -> None:
    server = serve(default=reply)
    graph = create_react_graph(made(server), [lookup])
    if streamed:
        stop, answer = list(stream_steps(graph, question()))[-2:]
        if made is by_chat_openai and reply.refusal:  # it drops the field in streams, so nothing is left to see
            assert stop["reason"] == "empty_output"
            return
        assert stop["reason"] == "refusal"
        assert "I can't do that." in answer["text"]
    else:
        assert_concluded(graph.invoke(question()), "refusal", server)


# --- what was spent ----------------------------------------------------------------------------------------


def _calls_for_ever(usage: tuple[int, ...] | None) -> Callable[[dict[str, Any]], Reply]:
    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("So far.", usage=usage)
        return Reply(calls=[("lookup", {"name": f"n{len(body['messages'])}"})], usage=usage)

    return answer


@pytest.mark.parametrize("streamed", [False, True])
def test_a_token_limit_sees_the_usage_of_streams(serve: Any, streamed: bool) -> None:
    server = serve(default=_calls_for_ever((1000, 50, 400)))
    graph = create_react_graph(by_address(server), [lookup], limits=Limits(tokens=5000))
    if streamed:
        *_, stop, answer = stream_steps(graph, question())
        reason, spent = stop["reason"], answer["spent"]
    else:
        result = graph.invoke(question())
        reason, spent = result["stop"]["reason"], result["spent"]
    assert reason == "token_limit"
    assert spent["input_tokens"] + spent["output_tokens"] <= 5000
    assert spent["input_tokens"] == 1000 * len(server.requests)
    assert spent["cached_tokens"] == 400 * len(server.requests)
    assert all(not r.get("stream") or r["stream_options"] == {"include_usage": True} for r in server.requests)


@both_models
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("usage", [None, (0, 0)], ids=["none", "zero"])
def test_a_token_limit_holds_where_nothing_is_reported(
    serve: Any, made: Made, streamed: bool, usage: tuple[int, ...] | None
) -> None:
    server = serve(default=_calls_for_ever(usage))
    graph = create_react_graph(made(server), [lookup], limits=Limits(tokens=1000, steps=50))
    if streamed:
        *_, stop, answer = stream_steps(graph, question())
        reason, spent = stop["reason"], answer["spent"]
    else:
        result = graph.invoke(question())
        reason, spent = result["stop"]["reason"], result["spent"]
    assert reason == "token_limit"
    assert 400 < spent["input_tokens"] + spent["output_tokens"] < 1200, "an estimate, but one that ends the run"


# --- one model, many event loops ---------------------------------------------------------------------------


@both_models
def test_a_graph_outlives_its_event_loops(serve: Any, made: Made) -> None:
    """Kept connections belong to a loop: with one client for all, every other run was paid and lost."""
    server = serve(default="Page 3.")
    graph = create_react_graph(made(server), [lookup])
    for _ in range(4):
        result = asyncio.run(graph.ainvoke(question()))
        assert result["stop"]["reason"] == "final", result["stop"]
        assert result["spent"]["model_calls"] == 1
    assert len(server.requests) == 4


@both_models
def test_event_loops_at_once(serve: Any, made: Made) -> None:
    server = serve(default="Page 3.")
    graph = create_react_graph(made(server), [lookup])

    async def several() -> list[dict[str, Any]]:
        return [r for _ in range(2) for r in await asyncio.gather(*(graph.ainvoke(question()) for _ in range(3)))]

    with ThreadPoolExecutor(3) as threads:
        results = [r for rs in threads.map(lambda _: asyncio.run(several()), range(3)) for r in rs]
    assert [r["stop"]["reason"] for r in results] == ["final"] * 18


async def test_connections_are_kept_within_a_loop(serve: Any) -> None:
    server = serve(default="Page 3.")
    graph = create_react_graph(by_address(server), [lookup])
    await graph.ainvoke(question())
    opened = server.connections
    for _ in range(3):
        await graph.ainvoke(question())
    assert server.connections == opened

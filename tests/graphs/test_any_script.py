"""Whatever a model says, and whatever the limits: a run ends with an answer, a true reason and a sound history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError, ModelRefusalError
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from support import assert_acceptable, broken, lookup, question, thread

from taograph import Limits, create_react_graph, stream_steps
from taograph.graphs.loop import session
from taograph.models import FlatPrice, ScriptedModel, call, set_price

REASONS = {
    "final", "step_limit", "tool_call_limit", "deadline", "token_limit", "cost_limit", "repeated_action",
    "tool_errors", "malformed_output", "empty_output", "refusal", "model_error", "cancelled",
}  # fmt: skip


class Place(BaseModel):
    """Where somebody is."""

    page: int


_ids = st.sampled_from([None, "a", "b", "", "odd id"])
_calls = st.one_of(
    st.builds(lambda n, i: call("lookup", {"name": n}, id=i), st.sampled_from(["Ada", "Bo", "Cy"]), _ids),
    st.builds(lambda i: call("lookup", {"nam": "Ada"}, id=i), _ids),
    st.builds(lambda i: call("broken", {"name": "x"}, id=i), _ids),
    st.builds(lambda n, i: call(n, {}, id=i), st.sampled_from(["search", "", "look up"]), _ids),
    st.builds(lambda i: call("lookup", {"name": 10**30}, id=i), _ids),
    st.builds(lambda i: call("Place", {"page": 3}, id=i), _ids),
)
_broken = st.builds(
    lambda a, i: invalid_tool_call(name="lookup", args=a, id=i, error=None),
    st.sampled_from(["{", '{"name": "Ad', "[1]", ""]),
    _ids,
)
_texts = st.sampled_from(
    [
        "",
        " ",
        "Page 3.",
        "<think>Hm.</think>",
        "<think>Hm.</think>Page 3.",
        '{"page": 3}',
        '{"page": "x"}',
        '{"name": "lookup", "arguments": {"name": "Ada"}}',
    ]
)
_meta = st.sampled_from([{}, {}, {}, {"finish_reason": "length"}, {"finish_reason": "content_filter"}])
_extra = st.sampled_from([{}, {}, {}, {"refusal": "No."}, {"reasoning_content": "Hm."}])
_messages = st.builds(
    lambda text, calls, wrong, meta, extra: AIMessage(
        text, tool_calls=calls, invalid_tool_calls=wrong, response_metadata=meta, additional_kwargs=extra
    ),
    _texts,
    st.lists(_calls, max_size=3),
    st.lists(_broken, max_size=1),
    _meta,
    _extra,
)
_errors = st.sampled_from(
    [
        ValueError("bad"),
        ModelRateLimitError("slow"),
        ModelRefusalError("No."),
        ContextOverflowError("long"),
        RuntimeError("failed to parse tool call"),
    ]
)
_replies = st.one_of(_messages, _messages, _messages, _texts, _errors)
_limits = st.builds(
    Limits,
    steps=st.integers(1, 6),
    tool_calls=st.sampled_from([None, None, 0, 1, 3]),
    tokens=st.sampled_from([None, None, 1, 300, 900]),
    cost=st.sampled_from([None, None, 0.0003]),
    repeats=st.integers(2, 3),
    errors=st.integers(1, 3),
    malformed=st.integers(0, 2),
    model_retries=st.integers(0, 1),
)
_settings = st.fixed_dictionaries(
    {},
    optional={
        "require": st.just(("lookup",)),
        "verify": st.sampled_from([lambda a, t: None, lambda a, t: "wrong", lambda a, t: 1 / 0]),
        "response_format": st.just(Place),
        "system_prompt": st.just("Be brief."),
    },
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.0)
    set_price("any-script", FlatPrice(1.0, 1.0))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(_replies, min_size=1, max_size=8),
    limits=_limits,
    options=_settings,
    recursion_limit=st.sampled_from([None, None, 2, 3, 4, 5, 8]),
    way=st.sampled_from(["invoke", "ainvoke", "stream", "thread"]),
)
def test_any_script_ends(
    script: list[Any], limits: Limits, options: dict[str, Any], recursion_limit: int | None, way: str
) -> None:
    usage = (100, 10) if len(script) % 2 else None
    model = ScriptedModel(replies=script, repeat=True, usage=usage, model_name="any-script")
    saver = InMemorySaver() if way in ("stream", "thread") else None
    graph = create_react_graph(model, [lookup, broken], limits=limits, checkpointer=saver, **options)
    config: dict[str, Any] = thread()
    if recursion_limit is not None:
        config["recursion_limit"] = recursion_limit

    if way == "ainvoke":
        result = asyncio.run(graph.ainvoke(question(), config))
    elif way == "stream":
        events = list(stream_steps(graph, question(), config))
        result = graph.get_state(config).values
        assert [e["type"] for e in events[-2:]] == ["stop", "answer"]
        assert events[-2]["reason"] == result["stop"]["reason"]
        assert events[-1]["text"] == result["answer"]
        calls = [e["id"] for e in events if e["type"] == "action"]
        assert calls == list(dict.fromkeys(calls)), "each call is told once"
        assert sorted(calls) == sorted(e["id"] for e in events if e["type"] == "observation")
    else:
        result = graph.invoke(question(), config)

    check(result, model, limits)
    if way == "thread":
        first = len(model.requests)
        check(graph.invoke(question("And now?"), config), model, limits, asked_before=first)


def check(result: dict[str, Any], model: ScriptedModel, limits: Limits, asked_before: int = 0) -> None:
    stop, spent = result["stop"], result["spent"]
    assert stop["reason"] in REASONS
    assert stop["detail"].strip()
    assert isinstance(result["answer"], str)
    assert result["answer"].strip()
    assert_acceptable(result["messages"])
    assert isinstance(result["messages"][-1], AIMessage)
    assert spent["model_calls"] == len(model.requests) - asked_before
    for request in model.requests[asked_before:]:
        assert_acceptable(request.messages)
    assert stop["step"] <= limits.steps  # type: ignore[operator]
    if limits.tool_calls is not None:
        assert spent["tool_calls"] <= limits.tool_calls
    if "structured" in result:
        assert result["structured"] is not None or stop["reason"] != "final", "a None is never silent"

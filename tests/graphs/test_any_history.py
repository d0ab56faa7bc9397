"""Histories made up at random: each is made acceptable, keeps every text, and is left alone from then on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from support import asks, assert_acceptable, assert_ended, lookup, texts

from taograph import create_react_graph
from taograph.graphs.loop.repair import is_sound, repair
from taograph.models import ScriptedModel

_ids = st.sampled_from(["a", "b", "c", "d e", "", "x" * 70])
_texts = st.sampled_from(["", " ", "one", "two\nlines", "drei – ünï"])
_blocks = st.one_of(
    _texts.map(lambda t: {"type": "text", "text": t}),
    st.just({"type": "reasoning", "reasoning": "hm"}),
    st.just({"type": "refusal", "refusal": "no"}),
    _ids.map(lambda i: {"type": "tool_use", "id": i, "name": "lookup", "input": {}}),
    st.just({"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}),
)
_content = st.one_of(_texts, st.lists(_blocks, max_size=3))
_calls = st.builds(
    lambda name, args, i: {"name": name, "args": args, "id": i, "type": "tool_call"},
    st.sampled_from(["lookup", "", "look it up", "x.y", "n" * 80]),
    st.dictionaries(st.sampled_from("ab"), st.one_of(st.integers(), st.text(max_size=3), st.none()), max_size=2),
    st.one_of(st.none(), _ids),
)
_broken = st.builds(
    lambda name, i: invalid_tool_call(name=name, args="{", id=i, error="broken"),
    st.sampled_from([None, "lookup", "x y"]),
    st.one_of(st.none(), _ids),
)
_extras = st.sampled_from([{}, {"refusal": "no"}, {"function_call": {"name": "f", "arguments": "{}"}}])
_replies = st.builds(
    lambda content, calls, broken, extra: AIMessage(
        content=content, tool_calls=calls, invalid_tool_calls=broken, additional_kwargs=extra
    ),
    _content,
    st.lists(_calls, max_size=3),
    st.lists(_broken, max_size=1),
    _extras,
)
_results = st.builds(
    lambda content, i, status: ToolMessage(content, tool_call_id=i, name="lookup", status=status),
    _texts,
    _ids,
    st.sampled_from(["success", "error"]),
)
_histories = st.lists(
    st.one_of(_content.map(HumanMessage), _replies, _replies, _results, _results, _texts.map(SystemMessage)),
    max_size=10,
)


@settings(max_examples=400, deadline=None)
@given(_histories)
def test_any_history_is_made_acceptable_and_says_what_it_said(messages: list[AnyMessage]) -> None:
    before = [m.model_copy(deep=True) for m in messages]
    made = repair(messages, {"lookup"})
    assert messages == before
    assert_acceptable(made)
    assert is_sound(made, {"lookup"})
    sent = "\n".join(texts(made))
    for text in filter(None, (t.strip() for t in texts(messages))):
        assert text in sent
    assert repair(made, {"lookup"}) == made


@settings(max_examples=400, deadline=None)
@given(_histories)
def test_sound_means_acceptable(messages: list[AnyMessage]) -> None:
    if is_sound(messages):
        assert_acceptable(messages)
        assert repair(messages) == messages
    else:
        assert repair(messages) != messages, "what is refused is also changed"


@settings(max_examples=60, deadline=None)
@given(_histories)
def test_a_run_on_any_history_ends_with_an_answer(messages: list[AnyMessage]) -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 3."])
    graph = create_react_graph(model, [lookup])
    result = graph.invoke({"messages": [*messages, HumanMessage("Where is Ada?")]})
    assert_ended(result, "final", model)
    assert result["spent"]["model_calls"] == 2

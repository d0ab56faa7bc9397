"""Replies without usable words: empty, cut off, refused; and thoughts, which never become the answer."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from support import Counting, Way, asks, assert_acceptable, assert_ended, both_ways, lookup, question, run, thread

from taograph import Limits, create_react_graph, stream_steps
from taograph.models import ScriptedModel, call

CUT = {"finish_reason": "length"}


def said(content: Any = "", **fields: Any) -> AIMessage:
    return AIMessage(content=content, **fields)


def hints(result: dict[str, Any]) -> list[str]:
    """What the loop itself told the model."""
    return [str(m.content) for m in result["messages"][1:] if isinstance(m, HumanMessage)]


EMPTY = {
    "nothing": said(""),
    "whitespace": said(" \n\t"),
    "no blocks": said([]),
    "an empty block": said([{"type": "text", "text": "  "}]),
    "only reasoning": said([{"type": "reasoning", "reasoning": "Let me think."}]),
    "only thinking": said([{"type": "thinking", "thinking": "Let me think.", "signature": "x"}]),
    "only reasoning_content": said("", additional_kwargs={"reasoning_content": "Let me think."}),
    "only a think part": said("<think>Let me think.</think>"),
    "an unclosed think part": said("<think>Let me think. I will call"),
    "malformed by its provider": said("", response_metadata={"finish_reason": "MALFORMED_FUNCTION_CALL"}),
}


@pytest.mark.parametrize("reply", EMPTY.values(), ids=EMPTY.keys())
def test_a_reply_that_says_nothing_is_asked_for_again(reply: AIMessage) -> None:
    model = ScriptedModel(replies=[asks("Ada"), reply, "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    (hint,) = hints(result)
    assert "empty" in hint
    assert "observations" in hint


@pytest.mark.parametrize("reply", EMPTY.values(), ids=EMPTY.keys())
def test_nothing_for_ever_is_empty_output_with_what_was_found(reply: AIMessage) -> None:
    model = ScriptedModel(replies=[asks("Ada"), reply], repeat=True)
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "empty_output", model)
    assert "page 3" in result["answer"], "composed from the observations"
    assert "empty reply" in result["stop"]["detail"]
    assert "Let me think" not in result["answer"]
    assert len(model.requests) == 1 + 3 + 1


@both_ways
def test_empty_output_is_concluded_by_the_model_where_it_can(way: Way) -> None:
    model = ScriptedModel(replies=["", "", "", "All I know is page 3."])
    result = run(way, create_react_graph(model, [lookup]), question())
    assert_ended(result, "empty_output", model)
    assert result["answer"] == "All I know is page 3."


def test_an_empty_reply_is_told() -> None:
    model = ScriptedModel(replies=["", "Page 3."])
    events = list(stream_steps(create_react_graph(model, [lookup]), question()))
    assert [(e["reason"], e["step"]) for e in events if e["type"] == "retry"] == [("empty_output", 1)]


def test_a_reply_of_nothing_but_a_thought_has_its_thought_told() -> None:
    model = ScriptedModel(replies=[EMPTY["only reasoning"], EMPTY["only a think part"], "Page 3."])
    events = list(stream_steps(create_react_graph(model, [lookup]), question()))
    assert [e["text"] for e in events if e["type"] == "thought"] == ["Let me think."] * 2


def test_empty_replies_with_work_between_do_not_add_up() -> None:
    replies = ["", "", asks("Ada"), "", "", asks("Bo"), "", "Done."]
    model = ScriptedModel(replies=replies)
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)


# --- cut off -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meta",
    [
        CUT,
        {"stop_reason": "max_tokens"},
        {"finish_reason": "MAX_TOKENS"},
        {"done_reason": "length"},
        {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"},
    ],
)
def test_a_text_cut_off_is_not_an_answer(meta: dict[str, Any]) -> None:
    model = ScriptedModel(replies=[said("The answer is page", response_metadata=meta), "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    (hint,) = hints(result)
    assert "length limit" in hint
    assert "The answer is page" in [m.content for m in model.requests[1].messages], "it sees what it had written"


def test_cut_off_for_ever_is_malformed_output() -> None:
    model = ScriptedModel(replies=[*[said("And so on and", response_metadata=CUT)] * 3, "In short: page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "malformed_output", model)
    assert "length limit" in result["stop"]["detail"]
    assert result["answer"] == "In short: page 3."


def test_calls_of_a_reply_cut_off_are_not_run() -> None:
    counting = Counting()
    cut = asks(call("count", {"what": "half of what was m"}), response_metadata=CUT)
    model = ScriptedModel(replies=[cut, asks(call("count", {"what": "all"})), "Done."])
    result = create_react_graph(model, [counting.tool]).invoke(question())
    assert_ended(result, "final", model)
    assert counting.calls == ["all"]
    first = next(m for m in result["messages"] if isinstance(m, ToolMessage))
    assert first.status == "error"
    assert "cut off" in str(first.content)


def test_a_streamed_call_cut_off_is_not_run_even_where_its_json_can_be_completed() -> None:
    from langchain_core.messages.tool import invalid_tool_call

    counting = Counting()
    half = said(
        "",
        invalid_tool_calls=[invalid_tool_call(name="count", args='{"what": "half of what was m', id="c1", error=None)],
        response_metadata=CUT,
    )
    model = ScriptedModel(replies=[half, "Done."])
    events = list(stream_steps(create_react_graph(model, [counting.tool]), question()))
    assert counting.calls == []
    (seen,) = [e for e in events if e["type"] == "observation"]
    assert seen["status"] == "error"
    assert events[-1]["text"] == "Done."


@pytest.mark.parametrize("finish", ["tool_calls", "stop", None])
def test_a_streamed_call_that_breaks_off_is_not_run_whatever_its_end_says(finish: str | None) -> None:
    from langchain_core.messages.tool import invalid_tool_call

    counting = Counting()
    half = said(
        "",
        tool_calls=[call("count", {"what": "whole"}, id="c0")],
        invalid_tool_calls=[invalid_tool_call(name="count", args='{"what": "half of wh', id="c1", error=None)],
        response_metadata={"finish_reason": finish} if finish else {},
    )
    model = ScriptedModel(replies=[half, "Done."])
    events = list(stream_steps(create_react_graph(model, [counting.tool]), question()))
    assert counting.calls == ["whole"]
    assert {e["id"]: e["status"] for e in events if e["type"] == "observation"} == {"c0": "success", "c1": "error"}


def test_cut_off_within_its_thinking() -> None:
    model = ScriptedModel(replies=[said("<think>Long, long", response_metadata=CUT), "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert "length limit" in hints(result)[0]


# --- refusals ----------------------------------------------------------------------------------------------

REFUSALS = {
    "provider field": said("", additional_kwargs={"refusal": "I can't help with that."}),
    "block": said([{"type": "refusal", "refusal": "I can't help with that."}]),
    "block beside reasoning": said(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "refusal", "refusal": "I can't help with that."}]
    ),
    "field beside reasoning": said(
        "", additional_kwargs={"refusal": "I can't help with that.", "reasoning_content": "Hm."}
    ),
    "filter": said("I can't help with that.", response_metadata={"finish_reason": "content_filter"}),
    "stop reason": said("I can't help with that.", response_metadata={"stop_reason": "refusal"}),
    "error": ModelRefusalError("I can't help with that."),
    "field beside a call": said("", additional_kwargs={"refusal": "I can't help with that."}, tool_calls=[]),
}


@pytest.mark.parametrize("reply", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_ends_the_run_with_the_models_words(reply: Any) -> None:
    model = ScriptedModel(replies=[reply])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = graph.invoke(question(), thread())
    assert_ended(result, "refusal", model)
    assert "I can't help with that." in result["answer"]
    assert "I can't help with that." in result["stop"]["detail"]
    assert len(model.requests) == 1, "with nothing observed it is not asked again"
    model.replies = [*model.replies, "Glad to."]
    again = graph.invoke(question("Something else, then?"), thread())
    assert again["answer"] == "Glad to."
    assert_acceptable(again["messages"])


def test_a_filtered_reply_without_words() -> None:
    model = ScriptedModel(replies=[said("", response_metadata={"finish_reason": "content_filter"})])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "refusal", model)


def test_a_refusal_with_calls_does_not_run_them() -> None:
    counting = Counting()
    reply = asks(call("count", {"what": "x"}), additional_kwargs={"refusal": "No."})
    model = ScriptedModel(replies=[reply])
    result = create_react_graph(model, [counting.tool]).invoke(question())
    assert_ended(result, "refusal", model)
    assert counting.calls == []


def test_a_refusal_after_work_is_concluded_from_the_observations() -> None:
    model = ScriptedModel(replies=[asks("Ada"), REFUSALS["provider field"], "Ada is on page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "refusal", model)
    assert result["answer"] == "Ada is on page 3."


def test_a_refusal_of_the_closing_answer_too() -> None:
    model = ScriptedModel(replies=[asks("Ada"), REFUSALS["provider field"]], repeat=True)
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "refusal", model)
    assert "page 3" in result["answer"]


# --- thoughts ----------------------------------------------------------------------------------------------

THOUGHTS = {
    "reasoning block": said([{"type": "reasoning", "reasoning": "Ada comes first."}, {"type": "text", "text": "P3."}]),
    "reasoning summary": said(
        [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ada comes first."}]},
            {"type": "text", "text": "P3."},
        ]
    ),
    "reasoning content": said(
        [
            {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Ada comes first."}]},
            {"type": "text", "text": "P3."},
        ]
    ),
    "thinking block": said(
        [{"type": "thinking", "thinking": "Ada comes first.", "signature": "s"}, {"type": "text", "text": "P3."}]
    ),
    "bedrock block": said(
        [
            {"type": "reasoning_content", "reasoning_content": {"text": "Ada comes first.", "signature": "s"}},
            {"type": "text", "text": "P3."},
        ]
    ),
    "reasoning_content": said("P3.", additional_kwargs={"reasoning_content": "Ada comes first."}),
    "reasoning field": said(
        "P3.", additional_kwargs={"reasoning": {"summary": [{"type": "summary_text", "text": "Ada comes first."}]}}
    ),
    "think part": said("<think>\nAda comes first.\n</think>\n\nP3."),
    "two think parts": said("<think>Ada comes</think>\n<think>first.</think> P3."),
    "only its end": said("Ada comes first.\n</think>\n\nP3."),
    "its end, and another part": said("Ada comes first.</think><think></think>P3."),
    "in blocks": said([{"type": "text", "text": "<think>Ada comes first.</think>"}, {"type": "text", "text": "P3."}]),
}


@pytest.mark.parametrize("reply", THOUGHTS.values(), ids=THOUGHTS.keys())
def test_a_thought_is_told_and_kept_out_of_the_answer(reply: AIMessage) -> None:
    model = ScriptedModel(replies=[reply])
    events = list(stream_steps(create_react_graph(model, [lookup]), question()))
    answer = events[-1]
    assert answer["type"] == "answer"
    assert answer["text"] == "P3."
    (thought,) = [e for e in events if e["type"] == "thought"]
    assert "Ada comes" in thought["text"]
    assert "first." in thought["text"]
    assert "P3." not in thought["text"]


@pytest.mark.parametrize("reply", THOUGHTS.values(), ids=THOUGHTS.keys())
def test_a_thought_beside_calls(reply: AIMessage) -> None:
    acting = reply.model_copy(update={"tool_calls": [call("lookup", {"name": "Ada"})]})
    model = ScriptedModel(replies=[acting, "Page 3."])
    graph = create_react_graph(model, [lookup])
    events = list(stream_steps(graph, question()))
    (thought,) = [e for e in events if e["type"] == "thought"]
    assert "Ada comes" in thought["text"]
    assert "P3." in thought["text"], "the text beside calls belongs to the thought"
    assert_acceptable(model.requests[1].messages)


def test_an_answer_that_mentions_the_tag_keeps_its_words() -> None:
    text = "Wrap it in <think> and </think>."
    result = create_react_graph(ScriptedModel(replies=[text]), [lookup]).invoke(question())
    assert result["answer"] == text


def test_tool_use_blocks_stay_with_their_calls() -> None:
    """Anthropic's form: the call stands in a block, too."""
    blocks = [
        {"type": "thinking", "thinking": "Ada first.", "signature": "s"},
        {"type": "text", "text": "I look it up."},
        {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"name": "Ada"}},
    ]
    acting = said(blocks, tool_calls=[call("lookup", {"name": "Ada"}, id="toolu_1")])
    model = ScriptedModel(replies=[acting, "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert result["messages"][1].content == blocks, "the signature and its order are needed by the next request"


def test_a_block_that_contradicts_the_calls_is_dropped() -> None:
    blocks = [{"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"name": "Ada"}}]
    acting = said(blocks, tool_calls=[call("lookup", {"name": n}, id="toolu_1") for n in ("Ada", "Bo")])
    model = ScriptedModel(replies=[acting, said([*blocks, {"type": "text", "text": "Page 3."}])])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert result["messages"][-1].content == [{"type": "text", "text": "Page 3."}]


def test_a_closing_answer_that_is_a_call_written_as_text_is_no_answer() -> None:
    text = '{"name": "lookup", "arguments": {"name": "Cy"}}'
    model = ScriptedModel(replies=[asks("Ada"), text])
    result = create_react_graph(model, [lookup], limits=Limits(steps=1)).invoke(question())
    assert_ended(result, "step_limit", model)
    assert text not in result["answer"]
    assert "page 3" in result["answer"]

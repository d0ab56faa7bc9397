"""The parts of the context window by themselves: counting, condensing, planning, for any history."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool
from support import asks, assert_acceptable, run
from window_support import search

from taograph import Context, Limits, create_react_graph
from taograph.graphs.loop.condensing import condensed, cut_down
from taograph.graphs.loop.counting import fixed_tokens, message_tokens, text_tokens, tool_tokens
from taograph.graphs.loop.planning import Room, draft, question_of, round_starts, with_digest
from taograph.graphs.loop.repair import is_sound
from taograph.graphs.loop.summarizing import Record, digest
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.loop.window import COMPOSED, Plan, body, digest_of, reach, request, shown
from taograph.models import ScriptedModel, call
from taograph.models.text_react import TextReAct
from taograph.tools.results import frame, keep_whole


def result(text: str, id: str = "c1", name: str = "search", **more: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=id, name=name, **more)


# --- counting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("word " * 1000, 800, 1300),
        ("".join(str(n) for n in range(1000)), 2500, 3500),
        (json.dumps([{"id": n, "price": n * 1.5} for n in range(100)]), 1200, 2600),
        ("重要的是，语言模型会根据上下文来决定下一步的行动。" * 40, 450, 1100),
        ("", 0, 0),
        ("\ud800 half a pair", 1, 8),
    ],
)
def test_a_text_is_counted_by_what_it_is_made_of(text: str, least: int, most: int) -> None:
    assert least <= text_tokens(text) <= most


def test_a_message_counts_with_its_calls_and_pictures() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    assert 500 < message_tokens(HumanMessage([{"type": "text", "text": "Look"}, picture])) < 3000
    small, large = asks(call("search", {"query": "x"})), asks(call("search", {"query": "x " * 1000}))
    assert message_tokens(large) > message_tokens(small) + 300
    thinking = AIMessage([{"type": "thinking", "thinking": "hm " * 400, "signature": "A" * 9000}])
    assert 200 < message_tokens(thinking) < 500
    twice = AIMessage(
        [{"type": "tool_use", "id": "c", "name": "search", "input": {"query": "x " * 1000}}],
        tool_calls=large.tool_calls,
    )
    assert message_tokens(twice) == pytest.approx(message_tokens(large), rel=0.01)


def test_tools_and_instructions_count_before_the_conversation() -> None:
    schema = convert_to_openai_tool(search)
    bound = ScriptedModel().bind_tools([search])
    assert tool_tokens([schema]) > 20
    system = message_tokens(SystemMessage("Be brief."))
    assert fixed_tokens(bound, "Be brief.", []) == pytest.approx(tool_tokens([schema]) + system)
    assert fixed_tokens(ScriptedModel(), None, []) == 0
    text = TextReAct(ScriptedModel()).bind_tools([search])
    assert fixed_tokens(text, "Be brief.", []) > 300, "the text protocol tells the tools in its instructions"


# --- condensing ---------------------------------------------------------------------------------------------

LINES = "\n".join(f"line {n}" for n in range(500))


def test_a_long_observation_becomes_its_first_lines_and_a_way_to_read_on() -> None:
    short = condensed(result(LINES)).text
    head, note = short.rsplit("\n", 1)
    assert LINES.startswith(head + "\n"), "it ends with a line"
    start = len(head)
    left = len(LINES) - start
    assert note == (
        f"[Condensed: {left} of {len(LINES)} characters left out. "
        f'Read on with read_result(handle="c1", start={start}).]'
    )
    assert "read_result" not in condensed(result(LINES), read_on=False).text
    whole = result("short")
    assert condensed(whole) is whole


def test_what_was_cut_already_is_condensed_from_the_whole() -> None:
    cut = keep_whole(result(frame("HEAD … TAIL " + "x" * 2000, "search")), LINES)
    short = condensed(cut).text
    assert short.startswith(frame("line 0\nline 1\n", "search")), "what is data stays marked as data"
    assert f"of {len(LINES)} characters" in short


def test_a_page_of_read_result_is_read_again_by_its_own_handle() -> None:
    asked = call("read_result", {"handle": "c7", "start": 6000}, id="c9")
    short = condensed(result(LINES, "c9", "read_result"), asked).text
    assert 'read_result(handle="c7", start=' in short
    assert 6000 < int(short.split("start=")[1].split(")")[0]) < 6500


def test_cutting_shortens_thoughts_arguments_and_results_and_nothing_a_person_said() -> None:
    args = {"text": "z" * 9000, "list": list(range(1000)), "deep": {"text": "y" * 9000}, "number": 7}
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "t" * 9000, "signature": "s"},
        {"type": "text", "text": "x" * 9000},
    ]
    cut = cut_down(AIMessage(blocks, tool_calls=[call("search", args, id="c1")]), 240)
    assert isinstance(cut, AIMessage)
    assert isinstance(cut.content, list)
    assert cut.content[0] == blocks[0], "what is signed stays as it is"
    assert len(str(cut.content[1])) < 400
    shorter = cut.tool_calls[0]["args"]
    assert len(json.dumps(shorter)) < 1000
    assert shorter["number"] == 7
    assert shorter["list"][:2] == [0, 1]
    assert len(cut_down(result(LINES), 120).text) < 300
    said = HumanMessage("w" * 9000)
    assert cut_down(said, 120) is said
    told = feedback("v" * 9000, "structure")
    assert cut_down(told, 120) is told


def test_the_original_is_left_as_it_was() -> None:
    message = AIMessage("x" * 9000, tool_calls=[call("search", {"query": "y" * 9000}, id="c1")])
    before = message.model_dump_json()
    cut_down(message, 120)
    assert message.model_dump_json() == before


# --- requests by a plan -------------------------------------------------------------------------------------


def _history() -> list[AnyMessage]:
    made: list[AnyMessage] = [SystemMessage("Own."), HumanMessage("Old?"), AIMessage("Old."), HumanMessage("New?")]
    for n in range(6):
        made += [asks(call("search", {"query": f"q{n}"}, id=f"c{n}")), result(LINES, f"c{n}")]
    return [m.model_copy(update={"id": f"m{n}"}) for n, m in enumerate(made)]


def test_a_request_by_a_plan() -> None:
    history = _history()
    plan = Plan(through=8, question=[3, 4], summary="In short.", by="model", condensed=12)
    made = request("System.", [], history, plan)
    assert [m.type for m in made] == ["system", "human", "human", *["ai", "tool"] * 4]
    assert made[0].text == "System.\n\nOwn."
    assert made[1].text == "New?"
    assert "In short." in made[2].text
    assert ["Condensed" in m.text for m in made if isinstance(m, ToolMessage)] == [True, True, False, False]
    assert is_sound(made)
    assert request("System.", [], history, Plan()) == [made[0], *history[1:]]


def test_an_answer_that_the_loop_composed_is_not_shown_to_the_model() -> None:
    composed = AIMessage("The tools returned: …", additional_kwargs={COMPOSED: "deadline"})
    (shown_as,) = request(None, [], [composed])
    assert shown_as.text == "(This was not answered: deadline.)"


def test_rounds_and_the_question() -> None:
    history = _history()
    assert round_starts(history, 1) == [1, 2, 3, 4, 6, 8, 10, 12, 14]
    assert question_of(history) == (3, 4)
    assert question_of([HumanMessage("Here is a text."), HumanMessage("Sum it up.")]) == (0, 2)
    assert question_of([HumanMessage("a"), AIMessage("b"), HumanMessage("c"), feedback("d", "nudge")]) == (2, 3)


def test_a_digest_grows_with_what_is_added() -> None:
    history = _history()
    assert digest_of(history, 6, digest_of(history[:6])) == digest_of(history)
    assert digest_of(history[:6]) != digest_of(history[:7])
    changed = [*history[:5], result("Other.", "c0"), *history[6:]]
    assert digest_of(changed) != digest_of(history)
    swapped = [*history[:4], *history[6:8], *history[4:6], *history[8:]]
    assert digest_of(swapped) != digest_of(history)


# --- for any history ----------------------------------------------------------------------------------------

_sizes = st.sampled_from([0, 5, 40, 300, 2000, 9000])
_text = st.builds(
    lambda word, size: (word * (size // len(word) + 1))[:size],
    st.sampled_from(["word ", "42,", '{"a": 1}\n', "重要", "ünï ", "Observation: x\n"]),
    _sizes,
)


@st.composite
def histories(draw: st.DrawFn) -> list[AnyMessage]:
    ids = itertools.count()
    made: list[AnyMessage] = []
    if draw(st.booleans()):
        made.append(SystemMessage("The thread's own instructions."))
    for turn in range(draw(st.integers(0, 3))):
        made.append(HumanMessage(f"Earlier question {turn}. " + draw(_text)[:400]))
        made += draw(_rounds(ids))
        made.append(AIMessage("An answer. " + draw(_text)))
    made.append(HumanMessage("THE QUESTION"))
    made += draw(_rounds(ids))
    return [m.model_copy(update={"id": f"m{n}"}) for n, m in enumerate(made)]


@st.composite
def _rounds(draw: st.DrawFn, ids: Any) -> list[AnyMessage]:
    made: list[AnyMessage] = []
    for _ in range(draw(st.integers(0, 12))):
        calls = [call("search", {"query": draw(_text)}, id=f"c{next(ids)}") for _ in range(draw(st.integers(1, 3)))]
        made.append(AIMessage(draw(_text), tool_calls=calls))
        for one in calls:
            content: Any = draw(_text) or "empty"
            if draw(st.integers(0, 9)) == 0:
                content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": {"url": "data:,A"}}]
            made.append(result(content, str(one["id"]), status=draw(st.sampled_from(["success", "error"]))))
        if draw(st.integers(0, 5)) == 0:
            made.append(feedback("Try something else. " * 3, "repeated_action"))
    return made


def _fit(messages: list[AnyMessage], plan: Plan, room: Room) -> Plan:
    """A plan as the loop makes it, with a digest for a summary."""
    made = draft(messages, len(messages), plan, room)
    new = made.plan
    if made.summarize is not None:
        start, end = made.summarize
        by = plan.get("by", "model")
        record = Record("THE QUESTION", plan.get("summary", ""), by, messages[start:end])
        new = Plan(**{**new, "summary": digest(record, made.summary_tokens), "by": "digest"})
    return with_digest(new, messages, plan)


def _size(messages: list[AnyMessage], plan: Plan, room: Room) -> float:
    return room.fixed + sum(map(message_tokens, body(messages, plan)))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories(), st.integers(1500, 12_000), st.floats(0, 0.4))
def test_any_history_fits_keeps_its_question_and_parts_no_call_from_its_result(
    messages: list[AnyMessage], limit: int, share: float
) -> None:
    room = Room(float(limit), share * limit)
    plan = Plan()
    # The history comes bit by bit, as it does in a run, and the plan is made whenever it is too long.
    starts = round_starts(messages, 0)
    first = question_of(messages)[0]
    for end in [*(at for at in starts if at > first), len(messages)]:
        held = messages[:end]
        if _size(held, plan, room) <= room.limit:
            continue
        plan = _fit(held, plan, room)
        sent = request("SYSTEM", [], held, plan)
        assert is_sound(sent), "a provider would refuse it"
        assert_acceptable(sent)
        assert sent[0].text.startswith("SYSTEM")
        assert [m.text for m in sent].count("THE QUESTION") == 1
        assert _size(held, plan, room) <= room.limit
        assert plan["digest"] == digest_of(held[: reach(plan)])
        assert not ({"through", "condensed"} & plan.keys() and reach(plan) > end)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories(), st.integers(1500, 6000))
def test_a_plan_shows_the_last_messages_one_for_one(messages: list[AnyMessage], limit: int) -> None:
    room = Room(float(limit), 0.0)
    if _size(messages, Plan(), room) <= limit:
        return
    plan = _fit(messages, Plan(), room)
    through = plan.get("through", 0)
    told = list(shown(messages, plan, through, len(messages)))
    assert [m.id for m in told] == [m.id for m in messages[through:]]
    assert [m.type for m in told] == [m.type for m in messages[through:]]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories(), st.sampled_from([1024, 2048, 8192]))
def test_any_history_in_a_run(messages: list[AnyMessage], window: int) -> None:
    model = ScriptedModel(replies=["Fine."], repeat=True)
    # A history of nothing but failures would rightly end the run before the model is asked.
    limits = Limits(errors=10_000, repeats=10_000)
    graph = create_react_graph(model, [search], system_prompt="SYSTEM", limits=limits)
    done = run("invoke", graph, {"messages": messages}, context=Context(window=window))
    assert done["stop"]["reason"] == "final"
    assert [m.content for m in done["messages"][: len(messages)]] == [m.content for m in messages]
    sent = model.requests[-1].messages
    assert_acceptable(sent)
    assert sent[0].text.startswith("SYSTEM")
    assert "THE QUESTION" in [m.text for m in sent]
    if window > 1024:  # the last round alone may have a hundred parts
        assert count_tokens_approximately(sent) <= window

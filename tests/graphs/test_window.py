"""Runs that outgrow the model's window: what requests carry, what stays, and what becomes of the rest."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from support import Way, asks, assert_acceptable, assert_ended, both_ways, closes_or, question, run, thread
from window_support import SUMMARIZE, Endpoint, long_search, search, shared_share, wire

from taograph import Context, Limits, create_react_graph, stream_steps, tool
from taograph.calls import drive
from taograph.graphs.loop.summarizing import Record, summarize
from taograph.models import ScriptedModel, call
from taograph.models.prices import FlatPrice
from taograph.models.text_react import TextReAct

ENDLESS = Limits(steps=None, seconds=None)
TASK = "Which of the ITEMS is the odd one out?"
FAR = {"recursion_limit": 100_000}


def _made(endpoint: Endpoint, *tools: Any, **options: Any) -> Any:
    return create_react_graph(endpoint.model, [*(tools or (search,))], **{"limits": ENDLESS, **options})


def _events(graph: Any, given: Any, config: Any = None, **options: Any) -> list[dict[str, Any]]:
    return [e for e in stream_steps(graph, given, {**FAR, **(config or {})}, **options) if e["type"] == "retry"]


def _result(id: str, text: str, **more: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=id, name="search", **more)


def _texts(messages: list[BaseMessage]) -> str:
    return "\n".join(str(message.text) for message in messages)


# --- a run of a thousand steps ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thousand() -> tuple[Endpoint, dict[str, Any]]:
    endpoint = Endpoint(1000, 8192)
    graph = _made(endpoint, system_prompt="You work for the ARCHIVE.")
    return endpoint, run("ainvoke", graph, question(TASK), FAR, context=Context(window=8192))


@pytest.mark.timeout(900)
def test_a_thousand_steps_stay_within_the_window_keep_their_task_and_end(
    thousand: tuple[Endpoint, dict[str, Any]],
) -> None:
    endpoint, result = thousand
    assert_ended(result, "final")
    assert result["stop"]["step"] == 1001
    assert result["spent"]["tool_calls"] == 1000
    assert result["spent"]["model_calls"] == len(endpoint.model.requests)
    assert endpoint.refusals == 0
    assert len(endpoint.sent) == 1001
    for request in endpoint.model.requests:
        assert endpoint.size(request.messages) <= 8192
        assert count_tokens_approximately(request.messages) <= 8192
    for messages in endpoint.sent:
        assert_acceptable(messages)
        assert messages[0].text == "You work for the ARCHIVE."
        assert [m.text for m in messages if TASK in m.text] == [TASK], "the question stays, as it was asked"
    assert len(result["messages"]) == 2002, "the history is left as it is"
    assert all("left out" not in m.text for m in result["messages"])


@pytest.mark.timeout(900)
def test_requests_share_their_beginning_with_the_one_before(thousand: tuple[Endpoint, dict[str, Any]]) -> None:
    endpoint, _ = thousand
    assert shared_share(endpoint.sent) >= 0.95
    texts = [wire(messages) for messages in endpoint.sent]
    breaks = [at for at, (a, b) in enumerate(pairwise(texts), 1) if not b.startswith(a)]
    assert len(breaks) == len(endpoint.summaries), "nothing changes but where a summary is extended"
    assert len(breaks) < len(texts) / 20


@pytest.mark.timeout(900)
def test_a_summary_is_extended_with_what_was_in_it_before(thousand: tuple[Endpoint, dict[str, Any]]) -> None:
    endpoint, _ = thousand
    first, second = endpoint.summaries[:2]
    assert first.tools == [], "it has no tools"
    asked = first.messages[-1].text
    assert TASK in asked
    assert "item 1:" in asked
    assert "quick brown fox" in asked
    assert 'search({"query": "item 1"})' in asked
    again = second.messages[-1].text
    assert "Foxes were found, all of them quick and brown." in again
    assert '"item 1"' not in again, "each round is summarized once"


# --- what is left out, in which order -----------------------------------------------------------------------


@both_ways
def test_old_observations_are_condensed_first_and_can_be_read_again(way: Way) -> None:
    def reads_again(turn: int, said: AIMessage) -> AIMessage:
        if turn != 12:
            return said
        told = next(m for m in endpoint.model.requests[-1].messages if isinstance(m, ToolMessage))
        start = int(told.text.split("start=")[1].split(")")[0])
        return asks(call("read_result", {"handle": told.tool_call_id, "start": start}))

    endpoint = Endpoint(12, 8192, tool_name="long_search", wrap=reads_again)
    result = run(way, _made(endpoint, long_search), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    assert endpoint.summaries == []
    tools = [m for m in endpoint.sent[-1] if isinstance(m, ToolMessage)]
    assert tools[0].text.startswith("Entry for item 1.\n0: the quick brown fox")
    assert "Read on with read_result(handle=" in tools[0].text
    assert len(tools[0].text) < 600
    assert "59: the quick" in tools[-2].text, "the last ones are whole"
    assert "59: the quick" in tools[-1].text, "what was left out was read"
    assert tools[-1].text.startswith("[Data") or ": the quick" in tools[-1].text[:60]


def test_what_happens_is_told_with_numbers() -> None:
    endpoint = Endpoint(60, tool_name="long_search")
    told = _events(_made(endpoint, long_search), question(TASK), context=Context(window=8192))
    assert {e["reason"] for e in told} == {"condensed", "summarized"}
    for event in told:
        assert event["numbers"]["tokens_after"] < event["numbers"]["tokens_before"]
        assert str(event["numbers"]["tokens_after"]) in event["detail"]
    first = next(e for e in told if e["reason"] == "summarized")
    assert first["numbers"]["rounds"] > 3
    assert f"{first['numbers']['rounds']} rounds" in first["detail"]


def test_the_summary_is_paid_for_and_stays_out_of_the_streams() -> None:
    endpoint = Endpoint(80, summary="SECRETLY SUMMED UP")
    graph = _made(endpoint)
    parts: list[Any] = []
    result: Any = None
    for mode, part in graph.stream(
        question(TASK), FAR, context=Context(window=4096), stream_mode=["messages", "values"]
    ):
        if mode == "messages":
            parts.append(part[0])
        else:
            result = part
    assert endpoint.summaries
    assert result["spent"]["model_calls"] == len(endpoint.model.requests)
    sizes = [endpoint.size(r.messages) for r in endpoint.model.requests]
    assert result["spent"]["input_tokens"] == sum(sizes)
    assert "SECRETLY" not in "".join(str(part.text) for part in parts)
    assert "SECRETLY" in _texts(endpoint.sent[-1])
    assert "SECRETLY" not in _texts(result["messages"])


def test_last_rounds_that_do_not_fit_by_themselves_are_cut() -> None:
    @tool(effects="none", trusted=True, max_chars=None)
    def flood(query: str) -> str:
        """Say very much.

        Args:
            query: Of what.
        """
        return f"{query} begins. " + "water and more water " * 5000

    endpoint = Endpoint(4, 8192, tool_name="flood")
    result = run("invoke", _made(endpoint, flood, search), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    assert "item 4 begins." in _texts(endpoint.sent[-1])
    assert len(result["messages"][2].text) > 100_000


def test_arguments_and_thoughts_that_do_not_fit_are_cut() -> None:
    def writes(turn: int, said: AIMessage) -> AIMessage:
        return AIMessage(
            "I think and think. " * 1000,
            tool_calls=[call("search", {"query": f"novel {turn} " + "once upon a time " * 2000})],
        )

    endpoint = Endpoint(3, 8192, wrap=writes)
    result = run("invoke", _made(endpoint), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    for messages in endpoint.sent:
        assert_acceptable(messages)
    sent = [m.tool_calls[0]["args"]["query"] for m in endpoint.sent[-1] if isinstance(m, AIMessage)]
    assert sent
    assert sent[-1].startswith("novel 3 once upon")
    assert "left out" in sent[-1]


def test_the_loops_own_words_go_with_their_round() -> None:
    def stutters(turn: int, said: AIMessage) -> AIMessage:
        return AIMessage("") if turn % 5 == 0 else said

    endpoint = Endpoint(150, 4096, wrap=stutters)
    result = run("invoke", _made(endpoint), question(TASK), FAR, context=Context(window=4096))
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    assert len(endpoint.summaries) > 1
    for messages in endpoint.sent:
        assert_acceptable(messages)
        own = [m for m in messages if isinstance(m, HumanMessage) and m.additional_kwargs]
        assert len(own) < 30, "those of rounds that are summarized are gone"


def test_worked_examples_and_the_threads_own_instructions_stay() -> None:
    examples = [
        HumanMessage("EXAMPLE question"),
        asks(call("search", {"query": "EXAMPLE"}, id="ex1")),
        ToolMessage("EXAMPLE entry", tool_call_id="ex1", name="search"),
        AIMessage("EXAMPLE answer"),
    ]
    endpoint = Endpoint(100, 4096)
    graph = _made(endpoint, examples=[examples], system_prompt="Be PRECISE.")
    given = {"messages": [SystemMessage("Speak SOFTLY."), HumanMessage(TASK)]}
    result = run("invoke", graph, given, FAR, context=Context(window=4096))
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    assert endpoint.summaries
    for messages in endpoint.sent:
        assert messages[0].text == "Be PRECISE.\n\nSpeak SOFTLY."
        assert [m.text for m in messages[1:5]] == [m.text for m in examples]
        assert TASK in [m.text for m in messages]


def test_pictures_of_old_observations_are_left_out() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 40_000}}

    @tool(effects="none", trusted=True)
    def look(query: str) -> list[Any]:
        """Look.

        Args:
            query: At what.
        """
        return [{"type": "text", "text": f"A picture of {query}."}, picture]

    endpoint = Endpoint(20, tool_name="look", reports=False)
    result = run("invoke", _made(endpoint, look), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    pictures = [wire(messages).count("image/png") for messages in endpoint.sent]
    assert max(pictures) <= 7, "a picture counts as a thousand tokens, not as its letters"
    assert "A picture of item 1.\n[Condensed: 1 picture or the like left out.]" in _texts(endpoint.sent[8])


# --- where no summary can be had ----------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("failure", [RuntimeError("the model is ill"), AIMessage(""), asks("nothing")], ids=str)
def test_without_a_summary_there_is_a_digest(way: Way, failure: Any) -> None:
    endpoint = Endpoint(120, 4096, summary=failure)
    graph = _made(endpoint)
    told: list[dict[str, Any]] = []
    if way == "invoke":
        told = _events(graph, question(TASK), context=Context(window=4096))
    else:
        assert_ended(run(way, graph, question(TASK), FAR, context=Context(window=4096)), "final")
    assert endpoint.refusals == 0
    text = _texts(endpoint.sent[-1])
    assert '- search({"query": "item' in text
    assert "Entry for item" in text
    assert "earlier entries left out)" in text
    assert text.count("earlier entries left out)") == 1
    for event in told:
        assert "put together without the model" in event["detail"]
    if told and isinstance(failure, RuntimeError):
        assert "the model is ill" in told[0]["detail"]


def test_a_summary_that_takes_too_long_is_given_up_and_the_run_goes_on() -> None:
    import time

    def slow(messages: list[BaseMessage]) -> str:
        time.sleep(30)
        return "too late"

    endpoint = Endpoint(60, 4096, summary=slow)
    graph = _made(endpoint, limits=Limits(steps=None, seconds=6.0, closing=False))
    began = time.monotonic()
    told = _events(graph, question(TASK), context=Context(window=4096))
    assert time.monotonic() - began < 25
    assert "the model took too long" in next(e["detail"] for e in told if e["reason"] == "summarized")


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(tokens=1000), "what is left of the budget does not reach"),
        (Limits(cost=0.001), "what is left of the budget does not reach"),
        (Limits(), ""),
    ],
    ids=str,
)
def test_a_budget_that_does_not_reach_is_kept_for_the_turns(limits: Limits, why: str) -> None:
    asked: list[Any] = []

    def ask(model: Any, request: Any, **options: Any) -> Any:
        asked.append(request)
        assert options["quiet"]
        return AIMessage("In short.")
        yield

    spent = {"input_tokens": 400, "output_tokens": 0, "cost": 0.0005}
    bound = SimpleNamespace(model=None, price=FlatPrice(1.0, 1.0))
    session: Any = SimpleNamespace(limits=limits, spent=spent, bound=bound, seconds_left=lambda: None, ask=ask)
    record = Record("Task", "", "model", [asks(call("search", {"query": "x"}, id="c")), _result("c", "Found x.")])
    said = drive(summarize(session, record, tokens=200, limit=4000, scale=1.0))
    assert said.why == why
    assert len(asked) == (not why)
    assert said.text == ('- search({"query": "x"}): Found x.' if why else "In short.")


# --- the window, from whoever knows it ----------------------------------------------------------------------


def test_a_window_is_learned_from_the_refusal_that_names_it() -> None:
    endpoint = Endpoint(150, 4096)
    told = _events(_made(endpoint), question(TASK))
    assert endpoint.refusals == 1
    assert [e["reason"] for e in told][:2] == ["context_overflow", "summarized"]
    assert "context_overflow" not in [e["reason"] for e in told][1:]


def test_a_window_that_nobody_names_is_found() -> None:
    endpoint = Endpoint(150, 4096, says_window=False)
    result = run("invoke", _made(endpoint), question(TASK), FAR)
    assert_ended(result, "final")
    assert 1 <= endpoint.refusals <= 5


def test_what_was_learned_holds_for_the_next_question_of_the_thread() -> None:
    endpoint = Endpoint(60, 4096)
    graph = _made(endpoint, checkpointer=InMemorySaver())
    run("invoke", graph, question(TASK), thread(**FAR))
    assert endpoint.refusals == 1
    endpoint.turn = 0
    result = run("invoke", graph, question("And which is the EVEN one?"), thread(**FAR))
    assert_ended(result, "final")
    assert endpoint.refusals == 1


def test_the_models_profile_names_the_window() -> None:
    endpoint = Endpoint(100, 4096)
    endpoint.model.profile = {"max_input_tokens": 4096}
    result = run("invoke", _made(endpoint), question(TASK), FAR)
    assert_ended(result, "final")
    assert endpoint.refusals == 0
    assert endpoint.summaries


def test_without_a_window_nothing_is_left_out() -> None:
    endpoint = Endpoint(60, tool_name="long_search")
    result = run("invoke", _made(endpoint, long_search), question(TASK), FAR)
    assert_ended(result, "final")
    assert endpoint.sent[-1] == result["messages"][:-1]


@pytest.mark.parametrize("window", [0, -1, 511, True, "8192", 8192.0])
def test_a_window_that_cannot_be_is_refused(window: Any) -> None:
    model = ScriptedModel(replies=["Never."])
    with pytest.raises(ValueError, match=r"context\.window=.*in tokens, 512 or more"):
        create_react_graph(model, []).invoke(question(), context=Context(window=window))
    assert model.requests == []


def test_an_endpoint_that_reports_the_same_for_every_request_is_not_believed() -> None:
    endpoint = Endpoint(120, 8192, reports=False, per_token=4.0)
    endpoint.model.usage = (100, 10)
    result = run("invoke", _made(endpoint), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    assert endpoint.refusals == 0


def test_an_endpoint_that_counts_more_than_we_do_is_followed() -> None:
    endpoint = Endpoint(120, 8192, per_token=1.2)
    result = run("invoke", _made(endpoint), question(TASK), FAR, context=Context(window=8192))
    assert_ended(result, "final")
    assert endpoint.refusals == 0


# --- on a thread: what stands, and what falls with the history it spoke of ----------------------------------


def _asked(endpoint: Endpoint, graph: Any, text: str, steps: int) -> list[BaseMessage]:
    endpoint.turn, endpoint.steps = 0, steps
    result = run("invoke", graph, question(text), thread(**FAR), context=Context(window=4096))
    assert_ended(result, "final")
    return endpoint.sent[-1]


def test_a_summary_is_used_again_by_the_next_question_and_after_a_restart() -> None:
    saver = InMemorySaver()
    endpoint = Endpoint(60, 4096)
    _asked(endpoint, _made(endpoint, checkpointer=saver), TASK, 60)
    made = len(endpoint.summaries)
    last = endpoint.sent[-1]
    graph = _made(endpoint, checkpointer=saver)
    sent = _asked(endpoint, graph, "And the SECOND one?", 1)
    assert len(endpoint.summaries) == made
    assert wire(sent).startswith(wire(last)), "the beginning is the same, byte by byte"
    assert "And the SECOND one?" in [m.text for m in sent]
    for number in range(4):
        sent = _asked(endpoint, graph, f"Question NUMBER {number}", 15)
        assert f"Question NUMBER {number}" in [m.text for m in sent]
        assert_acceptable(sent)
    assert TASK not in [m.text for m in sent], "a question that was answered is history, too"
    assert TASK in "".join(r.messages[-1].text for r in endpoint.summaries)


@pytest.mark.parametrize("how", ["one", "all", "changed"])
def test_a_summary_goes_with_the_history_that_it_told(how: str) -> None:
    saver = InMemorySaver()
    endpoint = Endpoint(60, 4096, summary="SUMMED UP")
    graph = _made(endpoint, checkpointer=saver)
    _asked(endpoint, graph, TASK, 60)
    assert "SUMMED UP" in _texts(endpoint.sent[-1])
    messages = graph.get_state(thread()).values["messages"]
    if how == "all":
        change: list[Any] = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("Hello?"), AIMessage("Hello.")]
    elif how == "one":
        change = [RemoveMessage(messages[1].id), RemoveMessage(messages[2].id)]
    else:
        change = [messages[2].model_copy(update={"content": "Entry for item 1: there is NONE."})]
    graph.update_state(thread(), {"messages": change}, as_node="finish")
    endpoint.summary = "SUMMED UP ANEW"
    before = len(endpoint.summaries)
    sent = _asked(endpoint, graph, "And now?", 1)
    if how == "all":
        assert len(endpoint.summaries) == before
        assert "SUMMED UP" not in _texts(sent)
    else:
        assert "SUMMED UP ANEW" in _texts(sent)
        told = endpoint.summaries[before].messages[-1].text
        assert "SUMMED UP" not in told
        assert '"item 1"' not in told or how == "changed"


def test_a_fork_from_before_a_summary_has_none() -> None:
    saver = InMemorySaver()
    endpoint = Endpoint(60, 4096, summary="SUMMED UP")
    graph = _made(endpoint, checkpointer=saver)
    _asked(endpoint, graph, TASK, 60)
    early = next(s for s in graph.get_state_history(thread()) if len(s.values.get("messages", [])) == 5)
    assert not early.values.get("window")
    endpoint.turn = endpoint.steps = 0
    result = graph.invoke(None, {**early.config, **FAR}, context=Context(window=4096))
    assert result["answer"] == "The answer."
    assert "SUMMED UP" not in _texts(endpoint.sent[-1])


def test_a_plan_is_stored_when_it_changes_and_not_at_every_step() -> None:
    saver = InMemorySaver()
    endpoint = Endpoint(70, 4096, summary="SUMMED UP " * 30)
    graph = _made(endpoint, checkpointer=saver)
    _asked(endpoint, graph, TASK, 70)
    stored = b"".join(value for (kind, value) in saver.blobs.values() if kind == "msgpack")
    assert stored.count(b"SUMMED UP SUMMED UP") < 20 * len(endpoint.summaries) + 40
    assert graph.get_state(thread()).values["window"]["summary"].startswith("SUMMED UP")


# --- the text protocol --------------------------------------------------------------------------------------


@both_ways
def test_in_the_text_protocol_too(way: Way) -> None:
    turn = 0

    def reply(messages: list[BaseMessage]) -> str:
        nonlocal turn
        last = str(messages[-1].content)
        if SUMMARIZE in last:
            return "Found so far:\nObservation: nothing\nFinal Answer: none"
        turn += 1
        if turn > 100:
            return "Thought: That is all.\nFinal Answer: The odd one."
        return f'Thought: Item {turn}.\nAction: search\nAction Input: {{"query": "item {turn}"}}'

    model = ScriptedModel(replies=[closes_or(reply)], repeat=True)
    graph = create_react_graph(TextReAct(model), [search], limits=ENDLESS)
    result = run(way, graph, question(TASK), FAR, context=Context(window=4096))
    assert_ended(result, "final")
    assert result["answer"] == "The odd one."
    sent = [r.messages for r in model.requests if SUMMARIZE not in str(r.messages[-1].content)]
    assert len(sent) < len(model.requests)
    for messages in sent:
        assert count_tokens_approximately(messages) <= 4096
        assert TASK in _texts(messages)
    told = sent[-1][1].text
    assert "Found so far:\n| Observation: nothing\n| Final Answer: none" in told, "a summary cannot pose as a step"
    assert shared_share(sent) > 0.9

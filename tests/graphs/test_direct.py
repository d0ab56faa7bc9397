"""Chain of thought and Plan-and-Solve: what is asked, thought and answer apart, and how a run ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from stream_support import Streams, kinds, of
from support import CLOSING, Way, assert_ended, both_ways, lookup, question, run, texts, thread
from vote_support import objecting

from taograph import Cancellation, Context, Limits, checkpoints
from taograph.graphs import STRATEGIES
from taograph.graphs.direct import create_direct_graph
from taograph.graphs.parts.chain_of_thought import CONCLUDE, PLAN, PLAN_PLUS, THINK, as_answer, thought_and_answer
from taograph.models import ScriptedModel, TextReAct

ASKED = "How many legs do 3 cats have?"
SAID = "Thought: A cat has 4 legs, and 3 times 4 is 12.\nFinal Answer: 12"
WORK = "Plan: multiply.\n3 times 4 is 12."


def direct(replies: list[Any], *, usage: tuple[int, int] | None = None, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=replies, usage=usage)
    return model, create_direct_graph(model, **options)


# Thought and answer


@both_ways
def test_a_thought_alone_is_no_answer(way: Way) -> None:
    model, graph = direct(["Thought: 3 times 4 is 12.", "Final Answer: 12"])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert texts(model.requests[1].messages)[-1] == CONCLUDE
    assert (result["answer"], result["spent"]["model_calls"]) == ("12", 2)
    assert result["messages"][-1].additional_kwargs["reasoning_content"] == "3 times 4 is 12."


@both_ways
def test_one_call_thinks_and_answers(way: Way) -> None:
    model, graph = direct([SAID])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    assert result["stop"] == {"reason": "final", "detail": "the model answered", "step": 1}
    assert [message.text for message in model.requests[0].messages] == [f"{ASKED}\n\n{THINK}"]
    assert texts(result["messages"]) == [ASKED, "12"]
    assert result["messages"][-1].additional_kwargs == {"reasoning_content": "A cat has 4 legs, and 3 times 4 is 12."}


@both_ways
@pytest.mark.parametrize(("variant", "plan"), [(True, PLAN), ("plus", PLAN_PLUS)])
def test_plan_and_solve_takes_two_calls(way: Way, variant: Any, plan: str) -> None:
    model, graph = direct([WORK, "Final Answer: 12"], plan_and_solve=variant)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    assert result["stop"]["step"] == len(model.requests) == 2
    assert texts(model.requests[0].messages) == [f"{ASKED}\n\n{plan}"]
    assert texts(model.requests[1].messages) == [f"{ASKED}\n\n{plan}", WORK, CONCLUDE]
    assert texts(result["messages"]) == [ASKED, "12"]
    assert result["messages"][-1].additional_kwargs["reasoning_content"] == WORK


@pytest.mark.parametrize(
    ("reply", "thought", "answer"),
    [
        (AIMessage(SAID), "A cat has 4 legs, and 3 times 4 is 12.", "12"),
        (AIMessage("12"), "", "12"),
        (AIMessage("**Thought:** 3 times 4.\n**Final Answer:** 12 legs"), "3 times 4.", "12 legs"),
        (AIMessage("<think>Hm.</think>12"), "Hm.", "12"),
        (AIMessage("Final Answer: 12", additional_kwargs={"reasoning_content": "Hm."}), "Hm.", "12"),
        (AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "12"}]), "Hm.", "12"),
        (AIMessage("First 3.\nThen 4.\nFinal Answer: 12"), "First 3.\nThen 4.", "12"),
        (AIMessage("思考：3 乘 4。\n最终答案：12"), "3 乘 4。", "12"),
        (AIMessage("Thought: I have no answer."), "", "I have no answer."),
    ],
)
def test_thought_and_answer_are_told_apart(reply: AIMessage, thought: str, answer: str) -> None:
    assert thought_and_answer(reply) == (thought, answer)
    model, graph = direct([reply])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == answer
    assert result["messages"][-1].text == answer
    assert result["messages"][-1].additional_kwargs.get("reasoning_content", "") == thought


def test_what_else_a_reply_says_is_kept() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    reply = AIMessage(SAID, id="r1", usage_metadata=usage, response_metadata={"model": "m"})
    kept = as_answer(reply, "so", "12")
    assert (kept.id, kept.usage_metadata, kept.response_metadata["model"]) == ("r1", usage, "m")


def test_tools_are_taken_and_not_called() -> None:
    model = ScriptedModel(replies=[SAID])
    result = create_direct_graph(model, [lookup]).invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert model.requests[0].tools == []


@both_ways
@pytest.mark.parametrize("variant", [False, True])
def test_a_model_in_the_text_protocol_is_asked_alike(way: Way, variant: bool) -> None:
    replies = [WORK, "Final Answer: 12"] if variant else [SAID]
    model = ScriptedModel(replies=replies)
    result = run(way, create_direct_graph(TextReAct(model), plan_and_solve=variant), question(ASKED))
    assert_ended(result, "final")
    assert result["answer"] == "12"
    assert model.requests[0].messages[0].text.startswith(ASKED)


def test_a_completion_model_answers_too() -> None:
    result = create_direct_graph(FakeListLLM(responses=[SAID])).invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["answer"] == "12"


def test_an_image_in_the_question_is_sent_with_it() -> None:
    model, graph = direct([SAID])
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    graph.invoke({"messages": [("user", [{"type": "text", "text": "What is it?"}, image])]})
    content = model.requests[0].messages[0].content
    assert content == [{"type": "text", "text": "What is it?"}, image, {"type": "text", "text": THINK}]


# Replies that cannot be used


@both_ways
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("", "empty_output"),
        (AIMessage("Thought: A cat", response_metadata={"finish_reason": "length"}), "malformed_output"),
        (AIMessage("", tool_calls=[{"name": "lookup", "args": {}, "id": "c1"}]), "malformed_output"),
    ],
)
def test_a_reply_that_cannot_be_used_is_asked_for_again(way: Way, broken: Any, reason: str) -> None:
    model, graph = direct([broken, SAID])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    assert result["stop"]["step"] == 2

    model, graph = direct([broken, broken, broken, "So far: a few."])
    result = run(way, graph, question(ASKED))
    assert_ended(result, reason, model)
    assert result["answer"] == "So far: a few."
    assert "3 times in a row" in result["stop"]["detail"]


@both_ways
def test_a_refusal_ends_the_run(way: Way) -> None:
    model, graph = direct([AIMessage("", additional_kwargs={"refusal": "I cannot help with cats."})])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "refusal", model)
    assert "I cannot help with cats." in result["stop"]["detail"]


@both_ways
def test_an_endpoint_that_fails_ends_the_run(way: Way) -> None:
    model, graph = direct([ValueError("bad key")])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "model_error", model)
    assert "How many legs" in result["answer"]


def test_a_failure_that_passes_is_tried_again(steps: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.graphs.loop.session._FIRST_PAUSE", 0.0)
    _, graph = direct([ConnectionError("lost"), SAID])
    events = steps(graph, question(ASKED))
    assert [event["reason"] for event in of(events, "retry")] == ["model_error"]
    assert of(events, "answer")[0]["text"] == "12"


def test_a_conversation_that_is_too_long_is_shortened() -> None:
    talk = [message for n in range(20) for message in (("user", f"{n} " + "word " * 99), ("ai", "well " * 99))]

    def reply(messages: list[BaseMessage]) -> str:
        if THINK not in messages[-1].text:
            return "They spoke of many things."
        if len(messages) > 20:
            raise ContextOverflowError("too long")
        return SAID

    model = ScriptedModel(replies=[reply], repeat=True)
    result = create_direct_graph(model).invoke({"messages": [*talk, ("user", ASKED)]})
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    assert len(result["messages"]) == 42


# Limits


def test_plan_and_solve_keeps_to_the_steps() -> None:
    model, graph = direct([WORK, "12, by the work above."], plan_and_solve=True, limits=Limits(steps=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit", model)
    assert result["stop"]["step"] == 1
    assert CLOSING in model.requests[1].messages[-1].text
    assert WORK in texts(model.requests[1].messages)  # what was paid for is of use
    assert result["answer"] == "12, by the work above."


def test_plan_and_solve_keeps_to_the_tokens() -> None:
    model, graph = direct([WORK, "12"], plan_and_solve=True, limits=Limits(tokens=40), usage=(10, 10))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "token_limit", model)
    assert result["answer"] == "12"


def test_a_reply_that_is_asked_for_again_counts_as_a_step() -> None:
    model, graph = direct(["", "", "So far: a few."], limits=Limits(steps=2))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "empty_output", model)
    assert result["stop"]["step"] == 2


@both_ways
def test_at_the_deadline_the_call_is_cut(way: Way) -> None:
    release = threading.Event()

    class Slow(ScriptedModel):
        def _generate(self, *given: Any, **options: Any) -> Any:
            release.wait(20)
            return super()._generate(*given, **options)

        async def _agenerate(self, *given: Any, **options: Any) -> Any:
            await asyncio.sleep(20)
            raise AssertionError("it was not cut")

    graph = create_direct_graph(Slow(replies=[SAID], repeat=True), limits=Limits(seconds=0.2, reserve_seconds=0.1))
    try:
        result = run(way, graph, question(ASKED))
    finally:
        release.set()
    assert_ended(result, "deadline")


def test_a_cancelled_run_says_so() -> None:
    cancel = Cancellation()

    def stops(messages: list[BaseMessage]) -> str:
        cancel.request("enough")
        return WORK

    model, graph = direct([stops, "12"], plan_and_solve=True)
    with cancel:
        result = graph.invoke(question(ASKED))
    assert_ended(result, "cancelled")
    assert "enough" in result["stop"]["detail"]
    assert len(model.requests) == 1


@both_ways
@pytest.mark.parametrize("variant", [False, True])
@pytest.mark.parametrize("limit", range(2, 6))
def test_no_recursion_limit_raises(way: Way, variant: bool, limit: int) -> None:
    model, graph = direct([SAID, SAID], plan_and_solve=variant)
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert_ended(result, "final" if result["stop"]["reason"] == "final" else "step_limit", model)


def test_a_recursion_limit_that_holds_no_run_is_refused_before_a_model_is_paid() -> None:
    model, graph = direct([SAID])
    with pytest.raises(Exception, match="recursion"):
        graph.invoke(question(ASKED), {"recursion_limit": 1})
    assert model.requests == []


# Checks and forms


@both_ways
@pytest.mark.parametrize("variant", [False, True])
def test_an_objection_is_told_and_it_is_solved_again(way: Way, variant: bool) -> None:
    first = [WORK, "Final Answer: 11"] if variant else ["Thought: hm\nFinal Answer: 11"]
    then = [WORK, "Final Answer: 12"] if variant else [SAID]
    model, graph = direct([*first, *then], plan_and_solve=variant, verify=objecting("11 is odd."))
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    asked = texts(model.requests[len(first)].messages)
    assert asked[1] == "11"
    assert "11 is odd." in asked[2]


def test_an_objection_is_bounded() -> None:
    model, graph = direct([SAID] * 3, verify=objecting("no", "no", "no"))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert "verify still objects: no" in result["stop"]["detail"]


@both_ways
def test_the_answer_in_a_form(way: Way) -> None:
    form = {"title": "Legs", "type": "object", "properties": {"legs": {"type": "integer"}}, "required": ["legs"]}
    model, graph = direct([SAID, '{"legs": 12}'], response_format=form)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["structured"] == {"legs": 12}
    assert result["answer"] == "12"


# Threads


@both_ways
def test_another_question_on_the_thread(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'direct.db'}") as saver:
        model, graph = direct([SAID, "Thought: 2 each.\nFinal Answer: 6"], checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        result = graph.invoke(question("And how many ears?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "6"
    assert result["stop"]["step"] == 1
    assert result["spent"]["model_calls"] == 1
    assert texts(model.requests[1].messages) == [ASKED, "12", f"And how many ears?\n\n{THINK}"]


def test_a_run_that_a_limit_ended_goes_on_from_its_work(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'direct.db'}") as saver:
        replies = [WORK, "So far: a few.", "Final Answer: 12"]
        model, graph = direct(replies, plan_and_solve=True, limits=Limits(steps=1), checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        with pytest.raises(ValueError, match="the limit is the same"):
            graph.invoke({"messages": []}, thread())
        result = graph.invoke({"messages": []}, thread(), context=Context(steps=4))
    assert_ended(result, "final", model)
    assert texts(model.requests[2].messages) == [f"{ASKED}\n\n{PLAN}", WORK, CONCLUDE]
    assert texts(result["messages"]) == [ASKED, "12"]
    assert result["messages"][-1].additional_kwargs["reasoning_content"] == WORK


@pytest.mark.parametrize("variant", [False, True])
def test_after_a_crash_what_was_paid_for_is_not_asked_again(tmp_path: Path, variant: bool) -> None:
    class Crash(BaseException):
        pass

    crashed: list[str] = []

    def check(answer: str, trajectory: Any) -> None:
        if not crashed:
            crashed.append(answer)
            raise Crash

    replies = [WORK, "Final Answer: 12"] if variant else [SAID]
    with checkpoints.open(f"sqlite:///{tmp_path / 'direct.db'}") as saver:
        model, graph = direct(replies, plan_and_solve=variant, verify=check, checkpointer=saver)
        with pytest.raises(Crash):
            graph.invoke(question(ASKED), thread())
        result = graph.invoke(None, thread())
    assert_ended(result, "final", model)
    assert result["answer"] == "12"
    assert len(model.requests) == len(replies)


# Streams and building


def test_what_is_told(steps: Streams) -> None:
    _, graph = direct([SAID])
    events = steps(graph, question(ASKED))
    assert kinds(events) == ["run_started", "budget", "thought", "stop", "answer"]
    assert of(events, "run_started")[0]["tools"] == []
    assert of(events, "thought")[0]["text"] == "A cat has 4 legs, and 3 times 4 is 12."
    assert "".join(event["text"] for event in of(events, "thought_delta")) == SAID
    assert of(events, "answer")[0]["text"] == "12"
    assert all(event["step"] == 1 for event in events if event["type"] != "run_started")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"plan_and_solve": "minus"}, "plan_and_solve"),
        ({"require": ["lookup"]}, "require"),
        ({"limits": 3}, "limits"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        create_direct_graph(ScriptedModel(), **options)


def test_a_model_may_come_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(replies=[SAID])
    monkeypatch.setattr("taograph.graphs.loop.agent.resolve", lambda name: model)
    result = create_direct_graph(None).invoke(question(ASKED), context=Context(model="openai:any"))
    assert_ended(result, "final", model)


def test_it_stands_among_the_strategies_and_in_other_graphs() -> None:
    assert STRATEGIES["direct"] is create_direct_graph
    _, graph = direct([SAID])
    builder = StateGraph(MessagesState).add_node("think", graph).add_edge(START, "think").add_edge("think", END)
    result = builder.compile().invoke(question(ASKED))
    assert texts(result["messages"]) == [ASKED, "12"]

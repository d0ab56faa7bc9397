"""The loop without thoughts: what the model is told, what is kept, in both protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gbnf import Grammar
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from prompt_support import WITH_EXAMPLES
from stream_support import Streams, of
from support import (
    CLOSING,
    Way,
    asks,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    pending,
    question,
    run,
    thread,
)
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from taograph import Cancellation, Context, Limits, checkpoints, create_react_graph
from taograph.graphs import STRATEGIES
from taograph.graphs.act_only import create_act_only_graph
from taograph.graphs.protocols import parse_step
from taograph.graphs.protocols.paper import CLAIMS
from taograph.graphs.protocols.prompts import ONLY_ACT
from taograph.graphs.protocols.step_grammar import step_grammar
from taograph.graphs.protocols.step_schema import json_note, step_schema
from taograph.graphs.protocols.text_labels import labels
from taograph.graphs.protocols.text_prompts import offered_tool, retry_hint, system_text
from taograph.graphs.protocols.text_words import WORDS
from taograph.models import ScriptedModel, TextReAct

LANGUAGES = sorted(WORDS)
ACTS = 'Action: lookup\nAction Input: {"name": "a"}'


class Text(SingleFileSnapshotExtension):
    """A text file for each prompt."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def acting(replies: list[Any], **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=replies)
    return model, create_act_only_graph(model, [lookup], **options)


def sent(model: ScriptedModel) -> str:
    """All that the model was sent, in one text."""
    return "\n".join(str(message.text) for request in model.requests for message in request.messages)


# Native calls


@both_ways
def test_it_acts_and_answers_as_the_loop_does(way: Way) -> None:
    model, graph = acting([asks("a"), "Page 1."])
    result = run(way, graph, question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 1."
    assert result["stop"]["step"] == 2
    assert result["spent"]["tool_calls"] == 1


def test_the_model_is_told_to_act_without_explaining() -> None:
    model, graph = acting(["No."], system_prompt="Be exact.")
    graph.invoke(question())
    assert model.requests[0].messages[0].text == f"Be exact.\n\n{ONLY_ACT}"
    plain = ScriptedModel(replies=["No."])
    create_react_graph(plain, [lookup]).invoke(question())
    assert ONLY_ACT not in sent(plain)


THOUGHTS = [
    asks("a", text="I should look it up."),
    asks("a", additional_kwargs={"reasoning_content": "I should look it up."}),
    asks("a", text="<think>I should look it up.</think>"),
    AIMessage(
        [
            {"type": "thinking", "thinking": "I should look it up.", "signature": "x"},
            {"type": "text", "text": "I should look it up."},
            {"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"name": "a"}},
        ],
        tool_calls=[{"name": "lookup", "args": {"name": "a"}, "id": "call_1"}],
    ),
    AIMessage(
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "I should look it up."}], "id": "rs_1"}],
        tool_calls=[{"name": "lookup", "args": {"name": "a"}, "id": "call_1"}],
    ),
]


@both_ways
@pytest.mark.parametrize("acts", THOUGHTS, ids=["text", "reasoning", "think", "thinking block", "reasoning block"])
def test_what_is_thought_beside_a_call_is_neither_kept_nor_sent_again(way: Way, acts: AIMessage) -> None:
    model, graph = acting([acts, "Page 1."])
    result = run(way, graph, question())
    assert_ended(result, "final", model)
    assert "look it up" not in str(result["messages"])
    assert "look it up" not in str(model.requests[1].messages)
    assert result["messages"][1].tool_calls[0]["args"] == {"name": "a"}


@pytest.mark.parametrize(
    "answer",
    [
        AIMessage("Page 1.", additional_kwargs={"reasoning_content": "It says so."}),
        AIMessage("<think>It says so.</think>\nPage 1."),
        AIMessage([{"type": "thinking", "thinking": "It says so."}, {"type": "text", "text": "Page 1."}]),
    ],
)
def test_what_is_thought_before_the_answer_is_not_kept(answer: AIMessage) -> None:
    model, graph = acting([asks("a"), answer])
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 1."
    assert "It says so" not in str(result["messages"])


def test_no_thought_is_told(steps: Streams) -> None:
    _, graph = acting([asks("a", text="I should."), AIMessage("1", additional_kwargs={"reasoning_content": "So."})])
    events = steps(graph, question())
    assert of(events, "thought") == []
    assert [event["tool"] for event in of(events, "action")] == ["lookup"]


def test_worked_examples_are_shown_without_their_thoughts() -> None:
    shown = [
        HumanMessage("b?"),
        asks("b", text="I should look."),
        ToolMessage("page 1", tool_call_id="x"),
        AIMessage("1"),
    ]
    shown[1].tool_calls[0]["id"] = "x"  # type: ignore[union-attr]
    model, graph = acting(["No."], examples=shown)
    graph.invoke(question())
    assert "I should look" not in sent(model)
    assert model.requests[0].messages[2].tool_calls[0]["args"] == {"name": "b"}


# The text protocol


@both_ways
def test_in_text_it_acts_without_a_thought(way: Way) -> None:
    model, graph = acting([ACTS, "Final Answer: Page 1."], protocol="text")
    result = run(way, graph, question())
    assert_ended(result, "final")
    assert result["answer"] == "Page 1."
    assert "Thought" not in sent(model)
    assert model.requests[1].messages[-2].text == ACTS
    assert ONLY_ACT not in sent(model)


def test_in_text_a_thought_that_comes_all_the_same_goes() -> None:
    model, graph = acting([f"Thought: I should.\n{ACTS}", "Thought: It says so.\nFinal Answer: 1"], protocol="text")
    result = graph.invoke(question())
    assert_ended(result, "final")
    assert "I should" not in str(result["messages"])
    assert "It says so" not in str(result["messages"])
    assert "I should" not in sent(model)


def test_in_text_a_step_that_cannot_be_read_is_asked_for_again_without_a_word_of_thoughts() -> None:
    model, graph = acting(["Action: lookup", ACTS, "Final Answer: 1"], protocol="text")
    assert_ended(graph.invoke(question()), "final")
    assert "Thought" not in sent(model)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_prompt_without_thoughts(language: str, snapshot: SnapshotAssertion) -> None:
    tools = [offered_tool(tool) for tool in WITH_EXAMPLES]
    text = system_text(tools, language=language, thoughts=False)
    assert labels(language).thought not in text
    for code in ("missing_action", "bad_arguments", "incomplete"):
        step = parse_step(
            {"missing_action": "hm", "bad_arguments": "Action: a\nAction Input: {'", "incomplete": "<think>"}[code],
            strict=True,
        )
        assert labels(language).thought not in retry_hint(step, language, thoughts=False)
    assert text == snapshot.use_extension(Text)


def test_the_paper_form_without_thoughts_is_its_act_prompt() -> None:
    model = ScriptedModel(replies=["Lookup[a]", "Finish[Page 1.]"])
    result = create_act_only_graph(TextReAct(model, dialect=CLAIMS), [lookup]).invoke(question("A is on page 1."))
    assert_ended(result, "final")
    assert result["answer"] == "Page 1."
    last = str(model.requests[1].messages[-1].text)
    assert last.endswith(
        "Claim: A is on page 1.\nAction 1: Lookup[a]\nObservation 1: a is in the book on page 1.\nAction 2:"
    )
    assert "Thought" not in last
    assert "thought" not in last


def test_the_paper_form_asks_again_for_what_is_no_action() -> None:
    model = ScriptedModel(replies=["", "I think it is a.", "Lookup[a]", "Finish[1]"])
    result = create_act_only_graph(TextReAct(model, dialect="paper"), [lookup]).invoke(question())
    assert_ended(result, "final")
    assert len(model.requests) == 4


def test_a_completion_model_goes_on_before_any_label() -> None:
    model = TextReAct(FakeListLLM(responses=[ACTS, "Final Answer: 1"]), thoughts=False)
    bound: Any = model.bind_tools([lookup])
    written = model.written([HumanMessage("a?")], **bound.kwargs)
    assert isinstance(written, str)
    assert written.endswith("[You get]\nQuestion: a?\n\n[You write]\n")
    result = create_act_only_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "1"


def test_the_wrapper_alone_does_without_thoughts() -> None:
    model = ScriptedModel(replies=[ACTS, ACTS])
    thoughtful = [
        HumanMessage("a?"),
        asks("a", text="I should look."),
        ToolMessage("1", tool_call_id="x"),
        HumanMessage("b?"),
    ]
    thoughtful[1].tool_calls[0]["id"] = "x"  # type: ignore[union-attr]
    TextReAct(model, thoughts=False).bind_tools([lookup]).invoke(thoughtful)
    assert "Thought" not in sent(model)
    TextReAct(model).bind_tools([lookup]).invoke(thoughtful)
    assert "Thought: I should look." in str(model.requests[1].messages)


@pytest.mark.parametrize("choice", [None, "any", "none", "lookup"])
@pytest.mark.parametrize("one_line", [False, True])
def test_a_grammar_without_thoughts_holds_to_a_step(choice: str | None, one_line: bool) -> None:
    grammar = Grammar(step_grammar([offered_tool(lookup)], choice, one_line=one_line, thoughts=False))
    kinds = set()
    for _ in range(40):
        text = grammar.sample()
        step = parse_step(text, tools=["lookup"], strict=True)
        kinds.add(step.kind)
        assert not step.thought, text
        assert step.tool in (None, "lookup"), text
    assert kinds == {None: {"action", "final"}, "none": {"final"}}.get(choice, {"action"})


def test_a_schema_without_thoughts_has_none() -> None:
    schema = step_schema([offered_tool(lookup)], thoughts=False)
    assert list(schema["properties"]) == ["step"]
    assert schema["required"] == ["step"]
    assert "thought" not in json_note(None, "en", thoughts=False)
    step = parse_step('{"step": {"action": "lookup", "action_input": {"name": "a"}}}'.replace('{"step": ', "")[:-1])
    assert step.tool == "lookup"


# The same loop


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=2), "step_limit"),
        (Limits(tool_calls=1), "tool_call_limit"),
    ],
)
@both_ways
def test_limits_hold(way: Way, limits: Limits, reason: str) -> None:
    model = asks_for_ever(text="I go on.")
    result = run(way, create_act_only_graph(model, [lookup], limits=limits), question())
    assert_ended(result, reason, model)
    assert result["answer"] == "So far: …"
    assert "I go on" not in str(result["messages"])


@pytest.mark.parametrize("limit", range(2, 8))
def test_no_recursion_limit_raises(limit: int) -> None:
    model = asks_for_ever(text="I go on.")
    result = create_act_only_graph(model, [lookup]).invoke(question(), {"recursion_limit": limit})
    assert_ended(result, "step_limit", model)


def test_the_same_action_again_is_seen_without_thoughts() -> None:
    def reply(messages: list[BaseMessage]) -> Any:
        return "So far." if CLOSING in str(messages[-1].text) else asks("a", text=f"Try {len(messages)}.")

    model = ScriptedModel(replies=[reply], repeat=True)
    result = create_act_only_graph(model, [lookup]).invoke(question())
    assert_ended(result, "repeated_action", model)


def test_a_cancelled_run_says_so() -> None:
    model, graph = acting([asks("a")])
    with Cancellation() as cancel:
        cancel.request("enough")
        assert_ended(graph.invoke(question()), "cancelled", model)


def test_a_person_approves_and_the_run_goes_on(tmp_path: Path) -> None:
    from langgraph.types import Command

    with checkpoints.open(f"sqlite:///{tmp_path / 'act.db'}") as saver:
        model, graph = acting([asks("a", text="I should."), "Page 1."], approve=["lookup"], checkpointer=saver)
        waits = graph.invoke(question(), thread())
        (asked,) = pending(waits)
        result = graph.invoke(Command(resume={asked.id: "approve"}), thread())
        assert_ended(result, "final", model)
        model.replies = [*model.replies, "Again."]
        again = graph.invoke(question("And now?"), thread())
    assert again["answer"] == "Again."
    assert_acceptable(again["messages"])


def test_verify_and_require_send_it_on() -> None:
    model, graph = acting(["1.", asks("a"), "2."], require=["lookup"])
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "2."


def test_the_answer_in_a_form() -> None:
    form = {"title": "Page", "type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    model, graph = acting([asks("a"), "Page 1.", '{"page": 1}'], response_format=form)
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["structured"] == {"page": 1}


def test_it_stands_among_the_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STRATEGIES["act_only"] is create_act_only_graph
    model = ScriptedModel(replies=["No."])
    monkeypatch.setattr("taograph.graphs.loop.agent.resolve", lambda name: model)
    graph = create_act_only_graph(None)
    assert graph.name == "act_only"
    assert_ended(graph.invoke(question(), context=Context(model="openai:any")), "final", model)
    with pytest.raises(TypeError, match="colour"):
        create_act_only_graph(model, colour="red")  # type: ignore[call-arg]

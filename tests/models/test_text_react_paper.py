"""``TextReAct`` in the paper's format: what the model behind is asked, and what becomes of its replies."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import LLM
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from pydantic import Field

from taograph import Limits, create_react_graph, tool
from taograph.graphs.protocols.paper import ANY_ACTION, CLAIMS, PaperDialect
from taograph.models import ScriptedModel
from taograph.models.text_react import MalformedStepError, TextReAct


class Completions(LLM):
    """A completion model that plays a list of replies and keeps what it was asked."""

    replies: list[str]
    asked: list[tuple[str, list[str] | None]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "completions"

    def _call(self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> str:
        self.asked.append((prompt, stop))
        return self.replies[len(self.asked) - 1]

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.asked]


@tool(effects="none")
def search(query: str) -> str:
    """Look a page up.

    Args:
        query: Its title.
    """
    return f"The page of {query}."


@tool(effects="none")
def book(city: str, days: int) -> str:
    """Book a stay.

    Args:
        city: Where.
        days: How long.
    """
    return f"{days} days in {city}."


@tool(effects="none", name=ANY_ACTION)
def anything(action: str) -> str:
    """Any other action.

    Args:
        action: As it was written.
    """
    return f"Nothing happens: {action}."


def asked(*replies: str, **options: Any) -> tuple[TextReAct, Completions]:
    behind = Completions(replies=list(replies))
    return TextReAct(behind, **{"dialect": "paper", **options}), behind


def test_an_action_and_an_answer() -> None:
    model, behind = asked(" I look.\nAction 1: Search[Ur]", " I know.\nAction 2: Finish[A city.]", template="")
    bound = model.bind_tools([search])
    question = HumanMessage("What is Ur?")
    acted = bound.invoke([SystemMessage("Be brief."), question])
    assert acted.content == "I look."
    assert [(call["name"], call["args"]) for call in acted.tool_calls] == [("search", {"query": "Ur"})]
    assert acted.response_metadata["protocol"] == "text"
    result = ToolMessage("A city in Sumer.", tool_call_id=acted.tool_calls[0]["id"])
    answered = bound.invoke([SystemMessage("Be brief."), question, acted, result])
    assert (answered.content, answered.additional_kwargs["reasoning_content"]) == ("A city.", "I know.")
    assert behind.asked == [
        ("Be brief.\n\nQuestion: What is Ur?\nThought 1:", ["\nObservation 1:"]),
        (
            "Be brief.\n\nQuestion: What is Ur?\nThought 1: I look.\nAction 1: Search[Ur]\n"
            "Observation 1: A city in Sumer.\nThought 2:",
            ["\nObservation 2:"],
        ),
    ]


@pytest.mark.parametrize("strict", [False, True])
def test_an_action_that_is_missing_is_asked_for_alone(strict: bool) -> None:
    model, behind = asked(" I look.\nAction 1", " Search[Ur]\n", template="", strict_original=strict)
    said = model.bind_tools([search]).invoke("What is Ur?")
    assert (said.content, said.tool_calls[0]["args"]) == ("I look.", {"query": "Ur"})
    assert behind.asked[1] == ("Question: What is Ur?\nThought 1: I look.\nAction 1:", ["\n"])
    assert len(behind.asked) == 2


def test_the_tools_are_told_and_the_template_may_say_more() -> None:
    model, behind = asked(" t\nAction 1: Finish[x]")
    model.bind_tools([search]).invoke("q")
    assert behind.prompts[0].startswith("Solve the task in rounds of a thought, an action and its observation.")
    assert "\nSearch[query]: Look a page up.\n" in behind.prompts[0]
    model, behind = asked(" t\nAction 1: Finish[x]", template="Play by these rules.\n{tools}\nGo!")
    model.bind_tools([search]).invoke("q")
    assert behind.prompts[0].startswith("Play by these rules.\nSolve the task in rounds")
    assert "\nGo!\n\nQuestion: q\n" in behind.prompts[0]


def test_a_hint_speaks_of_this_format_and_stands_where_an_observation_does() -> None:
    model, behind = asked(" I look.\nAction 1: look it up", " Now.\nAction 2: Search[Ur]", template="")
    said = model.bind_tools([search]).invoke("q")
    assert said.tool_calls[0]["args"] == {"query": "Ur"}
    assert behind.prompts[1] == (
        "Question: q\nThought 1: I look.\n| Action 1: look it up\nObservation 1: This is no action: look it up\n"
        "Write the action as Name[input] on a line of its own, or Finish[answer] to answer.\nThought 2:"
    )


def test_a_reply_that_stays_broken() -> None:
    model, behind = asked(*[" I look.\nAction 1: look it up"] * 2, retries=1)
    with pytest.raises(MalformedStepError, match="This is no action: look it up"):
        model.bind_tools([search]).invoke("q")
    assert len(behind.asked) == 2
    model, behind = asked(" I look.\nAction 1: look it up", on_malformed="return")
    said = model.bind_tools([search]).invoke("q")
    assert (said.response_metadata["error"], said.tool_calls) == ("bad_arguments", [])
    assert "Final Answer" not in said.response_metadata["error_hint"]


@pytest.mark.parametrize(
    ("action", "name", "args"),
    [
        ("Search[]", "search", {"query": ""}),
        ('Search[{"a": 1}]', "search", {"query": '{"a": 1}'}),
        ('Search[{"query": "Ur"}]', "search", {"query": "Ur"}),
        ('Book[{"city": "Ur", "days": 3}]', "book", {"city": "Ur", "days": 3}),
        ("Fly[Ur]", "fly", {"input": "Ur"}),
        ("Wait", "wait", {}),
    ],
)
def test_the_argument_stands_under_its_parameter(action: str, name: str, args: dict[str, Any]) -> None:
    model, _ = asked(f" t\nAction 1: {action}")
    said = model.bind_tools([search, book]).invoke("q")
    assert [(call["name"], call["args"]) for call in said.tool_calls] == [(name, args)]


def test_a_text_for_several_parameters_is_sent_back() -> None:
    model, behind = asked(" t\nAction 1: Book[Ur]", ' t\nAction 1: Book[{"city": "Ur", "days": 1}]')
    assert model.bind_tools([book]).invoke("q").tool_calls[0]["args"] == {"city": "Ur", "days": 1}
    assert "days" in behind.prompts[1].partition("\nObservation 1: ")[2]


def test_what_is_no_tools_call_goes_to_the_tool_for_any_action() -> None:
    for action in ("look it up", "Fly[Ur]"):
        model, _ = asked(f" t\nAction 1: {action}")
        said = model.bind_tools([search, anything]).invoke("q")
        assert [(call["name"], call["args"]) for call in said.tool_calls] == [(ANY_ACTION, {"action": action})]


@pytest.mark.parametrize(
    ("choice", "first", "second", "told"),
    [
        ("any", "Finish[x]", "Search[x]", "The next action must not be Finish."),
        ("book", "Search[x]", 'Book[{"city": "Ur", "days": 1}]', "The next action must be Book."),
        ("none", "Search[x]", "Finish[x]", "The next action must be Finish[answer], from what is known by now."),
    ],
)
def test_what_has_to_come_next_is_told_and_held(choice: str, first: str, second: str, told: str) -> None:
    model, behind = asked(f" t\nAction 1: {first}", f" t\nAction 2: {second}")
    said = model.bind_tools([search, book], tool_choice=choice).invoke("q")
    assert bool(said.tool_calls) == (choice != "none")
    assert len(behind.asked) == 2
    assert f"Question: q\n{told}\nThought 1:" in behind.prompts[0]
    assert told in behind.prompts[1].partition("Thought 1: t")[2]


def test_a_chat_model_is_sent_the_prompt_as_one_message() -> None:
    behind = ScriptedModel(replies=["Thought 1: I look.\nAction 1: Search[Ur]\nObservation 1: made up"])
    said = TextReAct(behind, dialect="paper", template="").bind_tools([search]).invoke("q")
    assert (said.content, said.tool_calls[0]["args"]) == ("I look.", {"query": "Ur"})
    assert said.response_metadata["truncated"]
    assert [message.content for message in behind.requests[0].messages] == ["Question: q\nThought 1:"]


@pytest.mark.parametrize("strict", [False, True])
async def test_streams_come_to_the_same_message(strict: bool) -> None:
    for reply in (" I look.\nAction 1: Search[Ur]", " I know it.\nAction 1: Finish[A city.]"):
        said = {}
        for way in ("invoke", "stream", "astream"):
            behind = ScriptedModel(replies=[reply])
            bound = TextReAct(behind, dialect="paper", strict_original=strict).bind_tools([search])
            if way == "invoke":
                said[way] = bound.invoke("q")
                continue
            chunks = list(bound.stream("q")) if way == "stream" else [chunk async for chunk in bound.astream("q")]
            whole = chunks[0]
            for chunk in chunks[1:]:
                whole += chunk
            assert isinstance(whole, AIMessageChunk)
            said[way] = whole
        texts = {way: (m.text, [(c["name"], c["args"]) for c in m.tool_calls]) for way, m in said.items()}
        assert texts["stream"] == texts["astream"] == texts["invoke"]
        assert said["stream"].response_metadata["paper_action"]["text"] == reply.partition("Action 1: ")[2]


@pytest.mark.parametrize("strict", [False, True])
def test_a_whole_run(strict: bool) -> None:
    replies = [
        " I look.\nAction 1:  Search[Ur]",
        " I look.\nAction 2: Search[Eridu]",
        " It is.\nAction 3: Finish[SUPPORTS]",
    ]
    model, behind = asked(*replies, dialect=CLAIMS, strict_original=strict, template="")
    graph = create_react_graph(model, [search, anything], system_prompt="Check.", limits=Limits(steps=3))
    result = graph.invoke({"messages": [("user", "Ur is a city.")]})
    assert (result["answer"], result["stop"]["reason"]) == ("SUPPORTS", "final")
    assert result["spent"]["model_calls"] == 3
    # The published code does not know an action behind an extra blank.
    first = "Nothing happens:  Search[Ur]." if strict else "The page of Ur."
    assert behind.prompts[2] == (
        "Check.\n\nClaim: Ur is a city.\n"
        f"Thought 1: I look.\nAction 1:  Search[Ur]\nObservation 1: {first}\n"
        "Thought 2: I look.\nAction 2: Search[Eridu]\nObservation 2: The page of Eridu.\nThought 3:"
    )


def test_a_run_that_is_out_of_steps_asks_for_the_answer() -> None:
    model, behind = asked(" I look.\nAction 1: Search[Ur]", " So it is.\nAction 2: Finish[A city.]", template="")
    graph = create_react_graph(model, [search], limits=Limits(steps=1))
    result = graph.invoke({"messages": [("user", "What is Ur?")]})
    assert (result["answer"], result["stop"]["reason"]) == ("A city.", "step_limit")
    assert behind.prompts[1].startswith(
        "Question: What is Ur?\nThought 1: I look.\nAction 1: Search[Ur]\nObservation 1: The page of Ur.\nThe run ends"
    )
    assert behind.prompts[1].endswith("\nThought 2:")


def test_acting_without_thoughts_as_in_a_household() -> None:
    dialect = PaperDialect(head="", numbered=False)
    model, behind = asked(" go to the desk", " Finish[done]", dialect=dialect, template="")
    graph = create_react_graph(model, [anything])
    result = graph.invoke({"messages": [("user", "You are in a room.")]})
    assert (result["answer"], result["stop"]["reason"]) == ("done", "final")
    assert behind.prompts[1] == (
        "You are in a room.\n\nAction: go to the desk\nObservation: Nothing happens: go to the desk.\n\nAction:"
    )


def test_a_question_without_tools_is_answered() -> None:
    model, behind = asked(" I know.\nAction 1: Finish[A city.]")
    said = model.invoke("What is Ur?")
    assert (type(said), said.content) == (AIMessage, "A city.")
    assert behind.prompts == ["Question: What is Ur?\nThought 1:"]

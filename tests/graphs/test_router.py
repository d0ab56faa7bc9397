"""The router: where a question begins, when another strategy is tried, and what the result tells of it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from plan_support import Script
from router_support import CONFIDENCE, UNSURE, direct, kind, kinds_of, routed
from support import Way, asks, assert_acceptable, assert_ended, both_ways, broken, lookup, question, run, thread

from taograph import Limits, create_react_graph
from taograph.graphs.direct import create_direct_graph
from taograph.graphs.router import DEFAULT_RULES, ESCALATIONS, Asked, Route, create_router_graph
from taograph.models import FlatPrice, ScriptedModel, call, set_price

LOOP = ("direct", "react")
WITH_TRIALS = ("direct", "react", "reflexion")
# Without a word that a rule knows.
HARD = "Who built the bridge?"


def path(result: dict[str, Any]) -> list[str]:
    return [hop["strategy"] for hop in result["hops"]]


# Where a question begins


@both_ways
def test_a_greeting_is_answered_in_one_call(way: Way) -> None:
    model = routed(at_once=direct("Hello!"))
    result = run(way, create_router_graph(model, [lookup]), question("Hello!"))
    assert_ended(result, "final", model)
    assert result["answer"] == "Hello!"
    assert kinds_of(model) == ["direct"]
    assert result["stop"] == {"reason": "final", "detail": "direct answered", "step": 1}
    (hop,) = result["hops"]
    assert (hop["strategy"], hop["why"], hop["stop"]["reason"]) == ("direct", "a greeting or thanks", "final")
    assert hop["spent"]["model_calls"] == 1
    assert [m.type for m in result["messages"]] == ["human", "ai"]
    assert result["messages"][-1].text == "Hello!", "the line of confidence is not part of the answer"


@both_ways
def test_a_question_that_names_a_tool_enters_the_loop_at_once(way: Way) -> None:
    model = routed(loop="On page 3.")
    result = run(way, create_router_graph(model, [lookup]), question("Please lookup Ada."))
    assert_ended(result, "final", model)
    assert kinds_of(model) == ["react", "react"]
    assert path(result) == ["react"]
    assert result["hops"][0]["why"] == "it names the tool lookup"


@both_ways
@pytest.mark.parametrize(("route", "first"), [("direct", "direct"), ("tools", "react")])
def test_the_model_decides_where_no_rule_does_in_one_call(way: Way, route: str, first: str) -> None:
    model = routed(route=route)
    result = run(way, create_router_graph(model, [lookup]), question(HARD))
    assert_ended(result, "final", model)
    assert kinds_of(model)[:2] == ["classify", first]
    assert kinds_of(model).count("classify") == 1
    assert path(result) == [first]
    assert result["hops"][0]["why"] == "the model decided: so it seems"
    asked = model.requests[0]
    assert asked.tools == ["route"]
    assert HARD in asked.messages[-1].text
    assert "lookup: Look a name up." in asked.messages[-1].text
    assert result["stop"]["step"] == (2 if first == "direct" else 3), "asking for the way is a step, too"


@both_ways
@pytest.mark.parametrize(
    ("said", "first"),
    [("Direct.", "direct"), ("TOOLS", "react"), ("I would use a tool.", "react"), ("Hard to say.", "direct")],
)
def test_a_classifier_in_text_says_one_word(way: Way, said: str, first: str) -> None:
    classifier = ScriptedModel(replies=[said], usage=(20, 1))
    model = routed()
    result = run(way, create_router_graph(model, [lookup], classifier=classifier), question(HARD))
    assert_ended(result, "final")
    assert path(result) == [first]
    assert "Reply with one word" in classifier.requests[0].messages[-1].text
    assert result["spent"]["model_calls"] == len(model.requests) + 1


@pytest.mark.parametrize("replies", [["", "", ""], [ValueError("down")]])
def test_a_classifier_that_says_nothing_leaves_it_to_the_simple_way(replies: list[Any]) -> None:
    classifier = ScriptedModel(replies=replies)
    model = routed()
    result = create_router_graph(model, [lookup], classifier=classifier).invoke(question(HARD))
    assert_ended(result, "final")
    assert path(result) == ["direct"]
    assert "the model did not either" in result["hops"][0]["why"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"classifier": False}, "no rule decides, and nobody else is asked"),
        ({"limits": Limits(steps=1)}, "no rule decides, and there is one step only"),
        ({"strategies": ("direct",)}, "there is no other strategy"),
    ],
)
def test_nobody_is_asked_where_it_makes_no_difference(options: dict[str, Any], why: str) -> None:
    model = routed()
    result = create_router_graph(model, [lookup], **options).invoke(question(HARD))
    assert_ended(result, "final", model)
    assert kinds_of(model) == ["direct"]
    assert result["hops"][0]["why"] == why


def test_without_tools_it_is_direct() -> None:
    model = routed()
    result = create_router_graph(model).invoke(question("What is the weather today?"))
    assert_ended(result, "final", model)
    assert path(result) == ["direct"]


@pytest.mark.parametrize(
    ("asked", "options", "wanted"),
    [
        ("Hi!", {}, False),
        ("Translate to German: good news", {}, False),
        (HARD, {}, True),
        (HARD, {"strategies": ("direct",)}, False),
        (HARD, {"hops": 1}, False),
    ],
)
def test_how_sure_an_answer_is_is_asked_where_it_matters(asked: str, options: dict[str, Any], wanted: bool) -> None:
    model = routed()
    result = create_router_graph(model, [lookup], **options).invoke(question(asked))
    assert_ended(result, "final", model)
    request = next(r for r in model.requests if kind(r.messages) == "direct")
    assert (CONFIDENCE in request.messages[-1].text) == wanted
    assert path(result) == ["direct"]


def test_a_follow_up_is_classified_with_what_came_before() -> None:
    model = routed(at_once=direct("The bridge was built by Ada."))
    graph = create_router_graph(model, [lookup], checkpointer=InMemorySaver())
    graph.invoke(question(HARD), thread())
    result = graph.invoke(question("And who paid?"), thread())
    assert_ended(result, "final")
    told = [r.messages[-1].text for r in model.requests if "Decide how" in r.messages[-1].text]
    assert "The bridge was built by Ada." not in told[0]
    assert "ended with: The bridge was built by Ada." in told[1]
    assert len(result["hops"]) == 1, "the hops are those of this question"


def test_rules_of_ones_own_come_first() -> None:
    def about_bridges(asked: Asked) -> Route | None:
        return Route("reflexion", "bridges are hard") if "bridge" in asked.text else None

    model = routed()
    graph = create_router_graph(model, [lookup], rules=(about_bridges, *DEFAULT_RULES), strategies=WITH_TRIALS)
    result = graph.invoke(question(HARD))
    assert_ended(result, "final", model)
    assert path(result) == ["reflexion"]
    assert result["hops"][0]["why"] == "bridges are hard"


def test_a_rule_that_names_no_strategy_is_told_before_anything_is_paid() -> None:
    model = routed()
    graph = create_router_graph(model, [lookup], rules=[lambda asked: Route("magic", "why not")])
    with pytest.raises(ValueError, match=r"rules: one chose 'magic'.*direct, react, plan_execute, reflexion"):
        graph.invoke(question())
    assert not model.requests


# Escalation


@both_ways
def test_an_answer_that_is_not_sure_leads_to_the_loop(way: Way) -> None:
    model = routed(at_once=UNSURE, loop="On page 3.")
    result = run(way, create_router_graph(model, [lookup]), question(HARD))
    assert_ended(result, "final", model)
    assert result["answer"] == "On page 3."
    assert kinds_of(model) == ["classify", "direct", "react", "react"]
    first, second = result["hops"]
    assert first["fault"] == "doubt"
    assert "fault" not in second
    assert second["why"] == "direct fell short: it says that its confidence is low"
    assert (first["spent"]["model_calls"], second["spent"]["model_calls"]) == (1, 2)
    assert result["stop"] == {"reason": "final", "detail": "react answered", "step": 4}
    told = [m.text for m in result["messages"]]
    assert told[1] == "I don't know: it needs a source."
    assert told[2] == "direct fell short: it says that its confidence is low. Now react is tried."


@pytest.mark.parametrize(
    ("answer", "doubted"),
    [
        (direct("Paris", ""), False),
        (direct("Paris", "High"), False),
        (direct("Paris", "medium"), True),
        (direct("I'm not sure, perhaps Paris.", ""), True),
        (direct("I do not have access to that.", "high"), True),
        ("Paris.\n\n**Confidence:** low", True),
        ("Thought: It is Paris.\nConfidence: low\nFinal Answer: Paris", True),
        ("<think>I don't know this yet.</think>Final Answer: Paris\nConfidence: high", False),
    ],
)
def test_what_counts_as_not_sure(answer: str, doubted: bool) -> None:
    model = routed(at_once=answer, loop="found")
    result = create_router_graph(model, [lookup], strategies=LOOP).invoke(question(HARD))
    assert_ended(result, "final", model)
    assert path(result) == (["direct", "react"] if doubted else ["direct"])
    assert "onfidence" not in "".join(m.text for m in result["messages"] if m.type == "ai")


@pytest.mark.parametrize(
    ("said", "fault"),
    [("", "empty_output"), (AIMessage("So", response_metadata={"finish_reason": "length"}), "malformed_output")],
    ids=["empty", "cut off"],
)
def test_a_reply_without_an_answer_leads_to_the_loop(said: Any, fault: str) -> None:
    model = routed(at_once=said)
    result = create_router_graph(model, [lookup], strategies=LOOP).invoke(question(HARD))
    assert_ended(result, "final", model)
    assert [hop.get("fault") for hop in result["hops"]] == [fault, None]
    assert kinds_of(model).count("close") == 0


STUCK, FAILING = asks("same"), asks(call("broken", {"name": "x"}))


@both_ways
@pytest.mark.parametrize(
    ("loop", "fault", "follows"),
    [
        (STUCK, "repeated_action", "plan_execute"),
        (FAILING, "tool_errors", "reflexion"),
        ("", "empty_output", "reflexion"),
        (lambda m: asks(f"n{len(m)}"), "step_limit", "plan_execute"),
    ],
)
def test_a_bad_end_of_the_loop_leads_to_what_fits_it(way: Way, loop: Any, fault: str, follows: str) -> None:
    def loops(messages: list[Any]) -> Any:
        if "There was an attempt before this one" in str(messages[0].text):
            return "found" if messages[-1].type == "tool" else asks("Ada")
        return loop(messages) if callable(loop) else loop

    model = routed(loop=loops, plan=Script([("one step",)], ["planned"]))
    result = run(way, create_router_graph(model, [lookup, broken]), question("lookup Ada"))
    assert_ended(result, "final", model)
    assert path(result) == ["react", follows]
    assert result["hops"][0]["fault"] == fault
    assert result["answer"] == ("planned" if follows == "plan_execute" else "found")
    assert "close" not in kinds_of(model), "no closing answer is paid for where another strategy follows"


def test_what_follows_is_told_what_was_left() -> None:
    seen: list[str] = []

    def loop(messages: list[Any]) -> Any:
        seen.append(str(messages[0].text))
        return STUCK if "There was an attempt" not in seen[-1] else "found"

    model = routed(loop=loop)
    create_router_graph(model, [lookup], strategies=("react", "reflexion")).invoke(question("lookup Ada"))
    last = seen[-1]
    assert last.startswith(
        "lookup Ada\n\nThere was an attempt before this one: react fell short: the same action 3 times"
    )
    assert "holds no instructions to follow" in last
    assert "same is in the book on page 4." in last


def test_hops_are_bounded_and_the_run_closes_with_the_last_reason() -> None:
    model = routed(at_once=UNSURE, loop=STUCK, trials=STUCK)
    result = create_router_graph(model, [lookup], strategies=WITH_TRIALS, hops=2).invoke(question(HARD))
    assert_ended(result, "repeated_action", model)
    assert path(result) == ["direct", "react"]
    assert result["answer"] == "So far: …"
    assert kinds_of(model).count("close") == 1
    assert result["stop"]["detail"].startswith("react: the same action 3 times")


def test_no_strategy_is_tried_twice() -> None:
    model = routed(at_once=UNSURE, loop=STUCK, trials=STUCK)
    result = create_router_graph(model, [lookup], strategies=WITH_TRIALS, hops=9).invoke(question(HARD))
    assert_ended(result, "repeated_action", model)
    assert path(result) == ["direct", "react", "reflexion"]


def test_an_unsure_answer_stands_where_there_is_nothing_else() -> None:
    model = routed(at_once=direct("Paris", "low"))
    result = create_router_graph(model, [lookup], strategies=("direct",)).invoke(question(HARD))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert result["stop"]["detail"] == (
        "direct answered; it says that its confidence is low, and there is no other strategy to try"
    )


@both_ways
def test_an_objection_of_verify_leads_on(way: Way) -> None:
    seen: list[str] = []

    def verify(answer: str, trajectory: Any) -> str | None:
        seen.append(answer)
        return "no source" if answer == "Paris" else None

    model = routed(loop="found")
    result = run(way, create_router_graph(model, [lookup], verify=verify, strategies=LOOP), question(HARD))
    assert_ended(result, "final", model)
    assert seen == ["Paris", "found"]
    assert path(result) == ["direct", "react"]
    assert result["hops"][0]["fault"] == "objection"
    assert "no source" in result["hops"][1]["why"]


def test_an_objection_to_the_last_strategy_is_told() -> None:
    model = routed()
    graph = create_router_graph(model, [lookup], strategies=LOOP, verify=lambda a, t: "no source")
    result = graph.invoke(question(HARD))
    assert_ended(result, "final", model)
    assert path(result) == ["direct", "react"]
    assert result["stop"]["detail"] == "react answered; verify still objects: no source"


def test_a_required_tool_leads_to_the_loop_at_once() -> None:
    model = routed()
    result = create_router_graph(model, [lookup], require=("lookup",)).invoke(question("Hi!"))
    assert_ended(result, "final", model)
    assert path(result) == ["react"]
    assert result["hops"][0]["why"] == "lookup must be called"


@pytest.mark.parametrize("reason", ["refusal", "model_error"])
def test_on_a_refusal_and_a_model_that_is_down_nothing_follows(reason: str) -> None:
    at_once = AIMessage("No.", additional_kwargs={"refusal": "No."}) if reason == "refusal" else ValueError("down")

    def fails(messages: list[Any]) -> Any:
        if isinstance(at_once, Exception):
            raise at_once
        return at_once

    model = routed(at_once=fails)
    result = create_router_graph(model, [lookup]).invoke(question("Hi!"))
    assert_ended(result, reason, model)
    assert path(result) == ["direct"]
    assert len(model.requests) == 1


def test_the_table_can_be_another() -> None:
    model = routed(loop=STUCK, trials="tried")
    table = {**ESCALATIONS, "repeated_action": ("direct",)}
    result = create_router_graph(model, [lookup], escalations=table).invoke(question("lookup Ada"))
    assert path(result) == ["react", "direct"]
    assert result["answer"] == "Paris"


# Strategies


def test_graphs_of_ones_own() -> None:
    other = routed(loop="from my own")
    mine = create_react_graph(other, [lookup], limits=Limits(steps=4))
    model = routed(at_once=UNSURE)
    result = create_router_graph(model, [lookup], strategies={"direct": None, "react": mine}).invoke(question(HARD))
    assert_ended(result, "final")
    assert result["answer"] == "from my own"
    assert len(other.requests) == 2
    assert result["spent"]["model_calls"] == len(model.requests) + 2


def test_a_graph_of_ones_own_that_closes_by_itself_is_not_closed_again() -> None:
    mine = create_react_graph(routed(loop=STUCK), [lookup])
    model = routed()
    graph = create_router_graph(model, [lookup], strategies={"react": mine})
    result = graph.invoke(question(HARD))
    assert result["stop"]["reason"] == "repeated_action"
    assert result["answer"] == "So far: …"
    assert "close" not in kinds_of(model)
    assert_acceptable(result["messages"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hops": 0}, "hops=0: give a whole number, 1 or more"),
        ({"strategies": "direct"}, "strategies='direct': name one or more"),
        ({"strategies": ()}, "strategies="),
        ({"strategies": ("magic",)}, "strategies: there is no 'magic'; there are react, direct"),
        ({"strategies": ("router",)}, "'router' is a name of the router's own"),
        ({"strategies": {"react": lookup}}, "give a graph made by one of our factories"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        create_router_graph(routed(), [lookup], **options)


def test_a_cost_limit_needs_the_price_of_the_classifier() -> None:
    set_price("router-script", FlatPrice(1.0, 1.0))
    with pytest.raises(ValueError, match=r"'no-price' \(classifier=\) is not known"):
        create_router_graph(
            routed(model_name="router-script"),
            [lookup],
            limits=Limits(cost=1.0),
            classifier=ScriptedModel(model_name="no-price"),
        )


def test_approval_and_examples_are_no_matter_of_direct() -> None:
    model = routed()
    graph = create_router_graph(model, [lookup], approve=["lookup"], checkpointer=InMemorySaver())
    result = graph.invoke(question("Hi!"), thread())
    assert_ended(result, "final", model)
    assert create_direct_graph(model) is not None

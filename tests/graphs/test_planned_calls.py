"""The pure parts of planned calls: plans in the papers' forms, references, circles. For any input, in linear time."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taograph.graphs.parts.evidence import PlanError, linked_plan, parse_plan
from taograph.graphs.parts.joining import Joined, read_join
from taograph.graphs.parts.planned import Plan, Result, call_of, is_settled, planned
from taograph.graphs.parts.references import EVIDENCE, TASK, filled_in, references
from taograph.graphs.parts.tasks import PlanReader, read_plan

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PARAMETERS: dict[str, Any] = {
    name: {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]} for name in ("search", "look")
}
WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)


def one(text: str) -> Any:
    (step,) = parse_plan(text)
    return step["input"]


@pytest.mark.parametrize(
    ("written", "input"),
    [
        ("#E1 = search[plain]", "plain"),
        ("#E1 = search[a [nested] b]", "a [nested] b"),
        ('#E1 = search[what is "a]" now]', 'what is "a]" now'),
        ('#E1 = search["[x"]', "[x"),
        ("#E1 = search[a ] b]", "a ] b"),
        ("#E1 = search[it's [ok] \"]", "it's [ok] \""),
        ("#E1 = search[foo] (see [1])", "foo"),
        ("#E1 = search[x]\nThat will do.", "x"),
        ("#E1 = search[x].", "x"),
        ("#E1 = search[line one\nline two]", "line one\nline two"),
        ("#E1 = search[]", ""),
        ('#E1 = search["quoted"]', "quoted"),
        ('#E1 = search[{"q": "a]}\\nPlan: b\\n#E2 = look[c]"}]', {"q": "a]}\nPlan: b\n#E2 = look[c]"}),
        ('#E1 = search[{"q": "raw\n#E2 = look[c]"}]', {"q": "raw\n#E2 = look[c]"}),
        ('#E1 = search[{"q": #E1, "n": [1, "#E2"]}]', {"q": "#E1", "n": [1, "#E2"]}),
        ("#E1 = search[{'q': 'python'}]", {"q": "python"}),
        ('#E1 = search{"q": "x"}', {"q": "x"}),
        ("#E1 = search(x (y))", "x (y)"),
        ("**Plan 1:** go\n- `#E1 = search[x]`", "x"),
        ("E1 = search[x]", "x"),
        ("#E1 = search[{not json}]", "{not json}"),
    ],
)
def test_an_input_as_it_was_meant(written: str, input: Any) -> None:
    assert one(written) == input


def test_the_words_of_each_step() -> None:
    read = parse_plan("Plan: first\nstill first\n#E1 = search[a]\n#E2 = search[b]\n计划：third\n#E12 = look[#E1]")
    assert [(s["id"], s["plan"], s["tool"], s["input"]) for s in read] == [
        (1, "first\nstill first", "search", "a"),
        (2, "", "search", "b"),
        (12, "third", "look", "#E1"),
    ]


@pytest.mark.parametrize(
    "text", ["Plan: none", "Plan: I know it.", "none", "No tools are needed.", "", "```\nPlan: -\n```"]
)
def test_a_plan_without_steps(text: str) -> None:
    assert parse_plan(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Let us see.", "no step"),
        ("#E1 = search[open", "missing"),
        ("#E1 = what", r"no tool\[input\]"),
        ("#E1 = search{open", "no JSON object"),
        ("\n".join(f"#E{n} = search[x]" for n in range(1, 200)), "100 steps at most"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse_plan(text)


@UNHURRIED
@given(st.lists(st.tuples(st.integers(1, 300), st.dictionaries(WORDS, VALUES, max_size=4)), max_size=6))
def test_json_arguments_come_back_as_they_were(steps: list[tuple[int, dict[str, Any]]]) -> None:
    text = "\n".join(f"Plan: p\n#E{id} = search[{json.dumps(value)}]" for id, value in steps)
    if steps:
        assert [(s["id"], s["input"]) for s in parse_plan(text)] == steps


@UNHURRIED
@given(st.lists(st.text(alphabet="abc ü[]'()#E1{}", min_size=1, max_size=30), min_size=1, max_size=5))
def test_free_text_with_pairs_of_brackets_comes_back(texts: list[str]) -> None:
    inner = [f"x{text.strip()}x" for text in texts if _in_pairs(text)]
    plan = "\n".join(f"#E{n} = search[{text}]" for n, text in enumerate(inner, 1))
    if inner:
        assert [step["input"] for step in parse_plan(plan)] == inner


def _in_pairs(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return False
    return depth == 0


PIECES = st.lists(
    st.sampled_from(
        ["#E1 = ", "#E2=", "search[", "]", "[", "{", '{"q": "', '"', "\\", "\n", "Plan: ", "#E1", " ", "x", "}", "("]
    ),
    max_size=60,
)


@settings(UNHURRIED, max_examples=300)
@given(PIECES)
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    try:
        steps = parse_plan("".join(pieces))
    except PlanError:
        return
    json.dumps(steps)
    made = linked_plan(steps, Plan(turn="t", round=0, tasks=[]), [], PARAMETERS)["tasks"]
    assert len({task["call"] for task in made}) == len(made)


@pytest.mark.parametrize(
    "piece",
    [
        "#E1 = search[{",
        '#E1 = search[{"a": "\n',
        "#E1 = search[[\n",
        "Plan: x\n",
        '#E1 = s["a\n',
        "[",
        "  \n",
        "`",
        '#E1 = s[{"a":"\\"\n',
    ],
)
def test_the_time_grows_with_the_length(piece: str) -> None:
    def seconds(times: int) -> float:
        text = "#E1 = search[x]\n" + piece * times
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            with contextlib.suppress(PlanError):
                parse_plan(text)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(20_000) < 100 * max(seconds(2_000), 0.001)


@UNHURRIED
@given(VALUES, st.sampled_from([EVIDENCE, TASK]))
def test_filling_in_nothing_changes_nothing(value: Any, sign: Any) -> None:
    assert filled_in(value, sign, {}) == value


@UNHURRIED
@given(st.lists(st.integers(1, 130), max_size=8))
def test_each_reference_is_read_as_a_whole(numbers: list[int]) -> None:
    for sign in (EVIDENCE, TASK):
        text = " and ".join(sign.of(n) for n in numbers)
        assert references({"x": [text]}, sign) == list(dict.fromkeys(numbers))
        results = {n: f"<{sign.of(n + 1)}>" for n in numbers}
        assert filled_in([text], sign, results) == [" and ".join(results[n] for n in numbers)]


def test_how_a_task_is_referred_to() -> None:
    assert references("${12} $3, $3x and $$4 {$5}", TASK) == [12, 3, 4, 5]
    assert filled_in({"a": ["$1", {"b": "x${1}y$12"}], "$1": 1}, TASK, {1: "one"}) == {
        "a": ["one", {"b": "xoney$12"}],
        "$1": 1,
    }


@UNHURRIED
@given(st.dictionaries(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=3), max_size=9))
def test_every_call_can_be_made_or_says_why_not(needs: dict[int, list[int]]) -> None:
    steps = [planned(n, "search", " ".join(f"#E{m}" for m in of)) for n, of in needs.items()]
    tasks = linked_plan(steps, Plan(turn="t", round=0, tasks=[]), [], PARAMETERS)["tasks"]
    results: dict[str, Result] = {}
    for _ in tasks:
        for task in tasks:
            if is_settled(task, results):
                refused = call_of(task, results, EVIDENCE, PARAMETERS)[1]
                results.setdefault(task["call"], Result(refused, bool(refused)))
    assert results.keys() == {task["call"] for task in tasks}
    fine = {id for id, of in needs.items() if not of}
    for _ in needs:
        fine |= {id for id, of in needs.items() if set(of) <= fine}
    assert {task["id"] for task in tasks if not results[task["call"]].failed} == fine


TASK_PARAMETERS: dict[str, Any] = {
    "search": {"type": "object", "properties": {"query": {"type": "string"}, "most": {}}},
    "look": {"type": "object", "properties": {}},
}
LINES = st.lists(
    st.sampled_from(
        ['1. search("a")', "2. search(", '"b\n', "$1", '")', "\n", "3. look()", "Thought: x", ", most=", "[1, {", "}]",
         "'", "join()", "<think>", "</think>", "\\", " ", "x", "12. nope(1)", "(", ")", "```"],
    ),
    max_size=40,
)  # fmt: skip


@settings(UNHURRIED, max_examples=300)
@given(LINES, st.lists(st.integers(0, 200), max_size=8))
def test_a_plan_is_the_same_in_whatever_pieces_it_comes(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    whole, reader = read_plan(text, TASK_PARAMETERS)
    other = PlanReader(TASK_PARAMETERS)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    read = [task for start, end in itertools.pairwise(places) for task in other.feed(text[start:end])]
    assert [*read, *other.end()] == whole
    assert other.joined == reader.joined
    json.dumps(whole)


@UNHURRIED
@given(st.lists(st.tuples(st.integers(1, 300), WORDS, VALUES), max_size=6), st.booleans())
def test_arguments_come_back_as_they_were(tasks: list[tuple[int, str, Any]], by_name: bool) -> None:
    named = "query={}, most={}" if by_name else "{}, {}"
    lines = [f"{id}. search({named.format(json.dumps(text), json.dumps(value))})" for id, text, value in tasks]
    read, reader = read_plan("\n".join([*lines, "9. join()"]), TASK_PARAMETERS)
    assert reader.joined
    assert [(task["id"], task["input"]) for task in read] == [
        (id, {"query": text, "most": value}) for id, text, value in tasks
    ]


@UNHURRIED
@given(WORDS.filter(lambda text: "\\" not in text and text.isprintable()))
def test_a_text_as_python_writes_it(text: str) -> None:
    (task,) = read_plan(f"1. search({text!r})", TASK_PARAMETERS)[0]
    assert task["input"] == {"query": text}


@pytest.mark.parametrize(
    "piece", ['1. search("a")\n', "1. search(\n", "x\n", '"', "1. search('\n", "(", "Thought: x\n"]
)
def test_the_time_of_reading_tasks_grows_with_the_length(piece: str) -> None:
    def seconds(times: int) -> float:
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            reader = PlanReader(TASK_PARAMETERS)
            for _ in range(times):
                reader.feed(piece)
            reader.end()
            best = min(best, time.process_time() - began)
        return best

    assert seconds(20_000) < 100 * max(seconds(2_000), 0.001)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Thought: x\nAction: Finish(42 (or so) items)", Joined(False, "x", "42 (or so) items")),
        ('Action: Replan("more")', Joined(True, "", "more")),
        ('Thought: a\nb\nAction: Finish("it\'s")', Joined(False, "a\nb", "it's")),
        ("Because so.\nFinish(a)\n", Joined(False, "Because so.", "a")),
        ("**Action:** Finish: 4", Joined(False, "", "4")),
        ("Thought: t\nAction: Finish()", Joined(False, "t", "t")),
        ("Action: Finish(two\nlines (yes))", Joined(False, "", "two\nlines (yes)")),
        ("To finish (as planned) it is 4.", Joined(False, "", "")),
        # As in the loop: the reply is read as its answers are.
        ("Thought: a\nFinal Answer: 5 (five)", Joined(False, "", "")),
    ],
)
def test_what_the_joiner_decides(said: str, read: Joined) -> None:
    assert read_join(said, may_replan=True) == read
    if read.replan:
        with pytest.raises(ValueError, match="no other plan"):
            read_join(said, may_replan=False)

"""Plans as values: lists read from whatever a model writes, and what makes a plan sound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taograph.graphs.loop.structure import WrongForm
from taograph.graphs.parts.plan_lists import is_labelled, needed_numbers, read_steps
from taograph.graphs.parts.plans import Listed, PlanStep, Standing, checked, is_same, merge_plan, normalized, told_plan

Written = tuple[int | None, str, tuple[int, ...] | None]

LISTS: dict[str, tuple[str, list[Written]]] = {
    "plain": ("1. a\n2. b (needs: 1)", [(1, "a", None), (2, "b", (1,))]),
    "needs none": (
        "1. a (needs: none)\n2. b (needs: -)",
        [(1, "a", ()), (2, "b", ())],
    ),
    "brackets": ("1) a [needs 1]\n2) b (depends on steps 1 and 2).", [(1, "a", (1,)), (2, "b.", (1, 2))]),
    "needs behind": ("1. a; needs: 0\n2. b - depends on: 1", [(1, "a", (0,)), (2, "b", (1,))]),
    "needs below": ("1. a\n2. b\n   Needs: 1", [(1, "a", None), (2, "b", (1,))]),
    "needs something else": ("1. open the box (needs a key)", [(1, "open the box (needs a key)", None)]),
    "steps in bold": (
        "**Plan**\n\n- **Step 1:** Find *it*\n- **Step 2:** Weigh it (after step 1)\n\nThat is all.",
        [(1, "Find *it*", None), (2, "Weigh it", (1,))],
    ),
    "headings": ("### Step 1\nDo this\n### Step 2: Do that", [(1, "Do this", None), (2, "Do that", None)]),
    "dashes": ("Step 1 - look\nStep 2 – see", [(1, "look", None), (2, "see", None)]),
    "chinese": ("第1步：查找\n第2步：比较 (needs: 1)", [(1, "查找", None), (2, "比较", (1,))]),
    "full width": ("1、查找\n2．比较", [(1, "查找", None), (2, "比较", None)]),
    "bullets": ("Plan:\n- a\n* b", [(None, "a", None), (None, "b", None)]),
    "boxes": ("- [ ] 1. a\n- [x] 2. b", [(1, "a", None), (2, "b", None)]),
    "below a step": (
        "1. a\n   - so\n   1. and so\n2. b\nand on",
        [(1, "a - so 1. and so", None), (2, "b and on", None)],
    ),
    "markdown's ones": ("1. a\n1. b", [(1, "a", None), (1, "b", None)]),
    "around it": (
        "Thought: two things.\n\n1. a\n2. b\n\nLet me begin.\nFinal Answer: 3",
        [(1, "a", None), (2, "b", None)],
    ),
    "an answer right behind": ("1. a\nFinal Answer: 3", [(1, "a", None)]),
    "powers": ("1. compute 2**3 + 4**5", [(1, "compute 2**3 + 4**5", None)]),
    "decimals and years": ("1.5 is one\n2020. was a year", []),
    "prose": ("I would look it up.", []),
    "nothing": ("", []),
    "json": (
        '```json\n{"steps": [{"id": 1, "task": "a", "needs": []}, {"id": "2", "task": "b", "needs": ["step 1"]}]}\n```',
        [(1, "a", ()), (2, "b", (1,))],
    ),
    "json, other names": (
        'Here it is:\n[{"step": 1, "description": "a"}, {"step": 2, "title": "b", "dependencies": "#E1"}]',
        [(1, "a", None), (2, "b", (1,))],
    ),
    "json of texts": ('{"plan": ["1. a", "b (needs: 1)"]}', [(1, "a", None), (None, "b", (1,))]),
    "broken json, then a list": ('{"steps": [\n1. a\n2. b', [(1, "a", None), (2, "b", None)]),
}


@pytest.mark.parametrize(("text", "steps"), LISTS.values(), ids=LISTS.keys())
def test_a_plan_is_read_from_a_text(text: str, steps: list[Written]) -> None:
    assert [(one.id, one.task, one.needs) for one in read_steps(text)] == steps
    assert [(one.id, one.task, one.needs) for one in read_steps(text.replace("\n", "\r\n"))] == steps


@given(st.text(alphabet="1.) -*#[](){}\"':,\n\tneds Step一步", max_size=200))
def test_any_text_is_read(text: str) -> None:
    for one in read_steps(text):
        assert one.id is None or one.id >= 0
    assert is_labelled(text) in (True, False)


@pytest.mark.parametrize(
    ("piece", "steps"),
    [
        ("1. ", 1),
        ("(needs ", 0),
        ("[{", 0),
        ("**a", 0),
        (" ", 0),
        ("needs: ", 0),
        ("1. x (needs: 1)\n", 6250),
        ("- ", 1),
    ],
)
def test_a_long_text_is_read_in_a_time_that_grows_with_its_length(piece: str, steps: int) -> None:
    """What is repeated a hundred thousand times would take minutes if the time grew with the square."""
    assert len(read_steps(piece * (100_000 // len(piece)))) == steps


def test_what_says_that_it_is_a_plan() -> None:
    assert is_labelled("Plan:\n1. a")
    assert is_labelled("so then\n**New plan:**\n- a")
    assert is_labelled('["a", "b"]')
    assert not is_labelled("1. a\n2. b")
    assert not is_labelled("The plan: none")


@pytest.mark.parametrize(
    ("written", "needs"),
    [
        ([1, "2", "step 3"], [1, 2, 3]),
        ("1, 2", [1, 2]),
        ("none", []),
        (None, []),
        (4, [4]),
        (["find A"], [-1]),
        ("find A", [-1]),
    ],
)
def test_what_a_step_needs_is_read(written: Any, needs: list[int]) -> None:
    assert needed_numbers(written) == needs


# What makes a plan sound


def listed(*steps: Any) -> list[Listed]:
    return [Listed(*step) for step in steps]


def sound(*steps: Any, done: dict[int, str] | None = None, first: int = 1) -> list[tuple[int, str, list[int]]]:
    made = checked(listed(*steps), done or {}, first)
    return [(s["id"], s["task"], s["needs"]) for s in made.steps]


def test_a_list_that_says_nothing_of_needs_is_meant_in_its_order() -> None:
    assert sound((1, "a", None), (2, "b", None), (3, "c", None)) == [(1, "a", []), (2, "b", [1]), (3, "c", [1, 2])]
    assert sound((4, "a", None), (5, "b", None), first=4) == [(4, "a", []), (5, "b", [4])]


def test_where_one_step_says_what_it_needs_the_others_need_nothing() -> None:
    assert sound((1, "a", None), (2, "b", None), (3, "c", (1, 2))) == [(1, "a", []), (2, "b", []), (3, "c", [1, 2])]


def test_a_step_may_need_a_later_one() -> None:
    assert sound((1, "a", (2,)), (2, "b", ())) == [(1, "a", [2]), (2, "b", [])]


def test_new_steps_may_need_done_ones() -> None:
    assert sound((3, "c", (1,)), (4, "d", (3, 2)), done={1: "a", 2: "b"}, first=3) == [(3, "c", [1]), (4, "d", [2, 3])]


def test_a_new_plan_that_counts_from_one_is_understood() -> None:
    assert sound((1, "c", ()), (2, "d", (1,)), done={1: "a", 2: "b"}, first=3) == [(3, "c", []), (4, "d", [3])]


def test_a_step_that_is_done_is_left_out_and_its_result_is_used() -> None:
    made = checked(listed((5, "A!", ()), (6, "c", (5,))), {1: "a"}, 2)
    assert [(s["id"], s["task"], s["needs"]) for s in made.steps] == [(2, "c", [1])]
    assert made.repairs == ("step 5 is done already (step 1) and was left out",)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([], "no step"),
        ([(1, "a", ())], "done already"),
        ([(1, "b", (2,)), (2, "c", (3,)), (3, "d", (1,))], "1, 2, 3 need each other in a circle"),
        ([(1, "b", (9,))], "step 1 needs step 9"),
        ([(2, "b", ()), (2, "c", ()), (3, "d", (2,))], "several steps have the number 2"),
        ([(n, f"t{n}", ()) for n in range(2, 23)], "21 steps, and 20 are the most"),
    ],
)
def test_what_cannot_be_carried_out_is_said(steps: list[Any], problem: str) -> None:
    with pytest.raises(WrongForm, match=problem):
        checked(listed(*steps), {1: "a"} if steps == [(1, "a", ())] else {}, 1)


@given(
    st.lists(
        st.builds(
            Listed,
            st.one_of(st.none(), st.integers(0, 6)),
            st.sampled_from(["a", "b", "c", "", "d e"]),
            st.one_of(st.none(), st.lists(st.integers(0, 7), max_size=3).map(tuple)),
        ),
        max_size=6,
    )
)
def test_what_is_taken_can_be_carried_out(steps: list[Listed]) -> None:
    try:
        made = checked(steps, {1: "c"}, 2).steps
    except WrongForm:
        return
    standing = Standing([PlanStep(id=1, task="c", needs=[], status="done", result=""), *made], 2)
    for _ in range(len(made)):
        assert standing.ready, "something can always be begun"
        finished = [PlanStep(**{**s, "status": "done"}) for s in standing.ready]
        standing = Standing(merge_plan(standing.steps, finished), 2)
        if not standing.left:
            break
    assert standing.left == []
    assert [s["id"] for s in made] == list(range(2, 2 + len(made)))


def test_a_plan_is_written_as_it_is_read() -> None:
    made = checked(listed((1, "a", ()), (2, "b", ()), (3, "c", (1, 2))), {}, 1).steps
    again = checked(read_steps(told_plan(made)), {}, 1).steps
    assert again == made


def test_tasks_are_the_same_but_for_case_and_punctuation() -> None:
    assert normalized("Find  the CEO!") == normalized("find the ceo")
    assert normalized("找 CEO") != normalized("找 CFO")
    assert normalized("?") != normalized("!")


def steps_of(*tasks: str) -> list[PlanStep]:
    return [PlanStep(id=n, task=t, needs=[], status="pending", result="") for n, t in enumerate(tasks, 1)]


def test_plans_are_the_same_whatever_their_order() -> None:
    assert is_same(steps_of("a", "b"), steps_of("B.", "A"))
    assert not is_same(steps_of("a", "b"), steps_of("a"))
    assert not is_same(steps_of("a", "a"), steps_of("a", "b"))


def test_what_became_of_steps_is_put_in_their_places() -> None:
    plan = steps_of("a", "b")
    done = PlanStep(**{**plan[1], "status": "done"})
    assert merge_plan(plan, [done]) == [plan[0], done]
    assert merge_plan(None, plan) == plan
    assert plan[1]["status"] == "pending"

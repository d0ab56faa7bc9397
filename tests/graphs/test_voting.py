"""When answers are the same, and how many samples could settle a vote."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taograph.graphs.parts.answers import answer_key, normalize_answer, told_answer
from taograph.graphs.parts.voting import Sample, Standing, affordable, is_settled, next_wave


@pytest.mark.parametrize(
    "same",
    [
        ("1,000", "1000.0", "1000", "$1,000", "1000.", " 01000 ", "1000.00"),
        ("The Eiffel Tower.", "eiffel tower", "An Eiffel   Tower!"),
        ("-5", "\u22125.0", "-$5"),
        ("about 1,000 km", "About 1000.0 km."),
        ("0", "-0", "0.00"),
        ("Yes", "yes."),
        ("437", "The answer is 437.", "\\boxed{437}", "**437**", "The final answer to 23 * 19 is: **437.0**"),
    ],
)
def test_answers_that_say_the_same_are_one(same: tuple[str, ...]) -> None:
    assert len({answer_key(answer) for answer in same}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "-5"),
        ("3.5", "35"),
        ("1,000", "1,00"),
        ("1.0.0", "1.0"),
        ("version 2.10", "version 2.1.0"),
        ("1000", "10000"),
        ("A", "B"),
        ("-", "--"),
        ("100000000000000000000000000000001", "100000000000000000000000000000002"),
    ],
)
def test_answers_that_say_different_things_are_two(one: str, other: str) -> None:
    assert answer_key(one) != answer_key(other)


def test_an_answer_of_which_nothing_is_left_is_kept_as_it_is() -> None:
    assert normalize_answer("The") == ""
    assert answer_key("The") == "the"
    assert answer_key(" ! ") == "!"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("23 times 19 is 437.", ""),
        ("First 20.\nSo the answer is 437. I am sure.", "437"),
        ("The answer is 10.\nNo: the final answer is \\(\\boxed{437}\\).", "437"),
        ("\\boxed{10} is wrong. \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("The answer is 3.5 m.", "3.5 m"),
        ('The answer to "23 * 19" is 437', "437"),
        ("答案是：437。", "437"),
        ("\\boxed{437", ""),
        ("The answer is", ""),
        ("An answer. It is 5.", ""),
    ],
)
def test_what_a_text_comes_to(text: str, answer: str) -> None:
    assert told_answer(text) == answer


def test_looking_for_the_answer_takes_linear_time() -> None:
    texts = {
        "answer " * 40_000: 279_999,
        "\\boxed{" * 20_000: 100_000,
        "1," * 50_000: 50_000,
        "answer is " * 20_000: 199_989,
    }
    for text, long in texts.items():
        assert len(answer_key(text)) == long  # what is not linear takes minutes here


def sample(number: int, answer: str | None, ballot: int = 0) -> Sample:
    fault = None if answer is not None else "model_error"
    return Sample(number=number, ballot=ballot, answer=answer or "", thought="", fault=fault, detail="", plain=False)


def test_votes_are_counted_in_the_order_of_the_samples() -> None:
    came = [sample(4, "rome"), sample(2, "The Rome"), sample(1, "Paris"), sample(3, "paris!"), sample(5, None)]
    standing = Standing.of(came)
    assert standing.counts == (2, 2)
    assert standing.leader is not None
    assert standing.leader["number"] == 1  # a tie goes to the first seen
    votes = standing.votes(came, 21)
    assert votes == {
        "answer": "Paris",
        "count": 2,
        "of": 4,
        "share": 0.5,
        "table": [{"answer": "Paris", "count": 2}, {"answer": "The Rome", "count": 2}],
        "drawn": 5,
        "failed": 1,
        "samples": 21,
    }
    empty = Standing.of([sample(1, None)])
    assert empty.leader is None
    assert empty.votes([sample(1, None)], 3)["share"] == 0.0


@pytest.mark.parametrize(
    ("counts", "left", "quorum", "wave"),
    [
        ((), 21, 0, 11),  # eleven that agree are the majority of 21
        ((), 20, 0, 10),  # ten of twenty, seen first: a tie is theirs
        ((), 1, 0, 1),
        ((11,), 10, 0, 0),
        ((6, 5), 10, 0, 5),
        ((5, 6), 10, 0, 5),
        ((10,), 11, 0, 1),
        ((10, 9), 1, 0, 0),  # the other could only draw level
        ((9, 10), 1, 0, 1),
        ((2, 1), 0, 0, 0),
        ((), 21, 11, 11),
        ((1,) * 11, 10, 11, 1),  # one more that agrees with none, and no answer can have eleven
        ((1,) * 12, 9, 11, 0),
        ((10,), 11, 11, 1),
        ((10, 8), 3, 11, 1),
    ],
)
def test_a_wave_is_the_smallest_that_could_settle_the_vote(
    counts: tuple[int, ...], left: int, quorum: int, wave: int
) -> None:
    assert next_wave(counts, left, quorum) == wave


def outcomes(counts: tuple[int, ...], left: int) -> set[tuple[int, ...]]:
    """Whatever can become of a vote, votes of the answers in the order in which they were seen."""
    found = {counts}
    for _ in range(left):
        found = {
            (*one[:at], one[at] + 1, *one[at + 1 :]) if at < len(one) else (*one, 1)
            for one in found
            for at in range(len(one) + 1)
        }
    return found


def decision(counts: tuple[int, ...], quorum: int) -> int:
    """The place of the answer that wins; -1 where it has too few votes."""
    best = max(range(len(counts)), key=lambda at: (counts[at], -at))
    return best if counts[best] >= quorum else -1


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 5), st.integers(0, 8))
def test_a_vote_is_settled_where_nothing_that_can_come_changes_it(given: list[int], left: int, quorum: int) -> None:
    counts = tuple(given)
    ends = {decision(end, quorum) for end in outcomes(counts, left)}
    assert is_settled(counts, left, quorum) == (len(ends) == 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 4), max_size=3), st.integers(1, 5), st.integers(0, 8))
def test_no_smaller_wave_could_settle_it(given: list[int], left: int, quorum: int) -> None:
    counts = tuple(given)
    size = next_wave(counts, left, quorum)
    if is_settled(counts, left, quorum):
        assert size == 0
        return
    settles = [
        size
        for size in range(1, left + 1)
        if any(is_settled(end, left - size, quorum) for end in outcomes(counts, size))
    ]
    assert size == settles[0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=25))
def test_stopping_early_never_changes_the_answer(said: list[int]) -> None:
    came = [sample(number, str(answer)) for number, answer in enumerate(said, 1)]
    whole = Standing.of(came).leader
    drawn: list[Sample] = []
    while size := next_wave(Standing.of(drawn).counts, len(came) - len(drawn)):
        drawn = came[: len(drawn) + size]
    early = Standing.of(drawn).leader
    assert whole is not None
    assert early is not None
    assert early["answer"] == whole["answer"]


def test_what_can_be_paid() -> None:
    assert affordable(11, 0, 15, None) == 11
    assert affordable(11, 0, 15, 100) == 6
    assert affordable(11, 95, 15, 100) == 1  # whether there is anything left is the stop policy's to say
    assert affordable(11, 0, 0, 100) == 11


def test_waves_of_twenty_one_that_never_agree() -> None:
    """The worst case of the defaults: each wave is about half of what is left."""
    counts: tuple[int, ...] = ()
    waves = []
    while size := next_wave(counts, 21 - len(counts)):
        waves.append(size)
        counts = (*counts, *itertools.repeat(1, size))
    assert waves == [11, 5, 3, 1, 1]

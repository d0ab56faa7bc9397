"""The replayed model: what was recorded for this very prompt, or an error that says what was asked."""

from __future__ import annotations

import pytest

from taograph.models.replay import NotRecordedError, ReplayLLM

RECORD = {"Claim: a\nThought 1:": " I know.", "Claim: b\nThought 1:": ""}


def test_it_says_what_was_recorded() -> None:
    model = ReplayLLM(record=RECORD)
    assert model.invoke("Claim: a\nThought 1:") == " I know."
    assert model.invoke("Claim: b\nThought 1:") == ""


async def test_it_says_the_same_asked_otherwise() -> None:
    model = ReplayLLM(record=RECORD)
    assert await model.ainvoke("Claim: a\nThought 1:") == " I know."
    assert "".join(model.stream("Claim: a\nThought 1:")) == " I know."
    assert model.batch(list(RECORD)) == list(RECORD.values())


def test_a_prompt_that_differs_by_a_blank_is_not_recorded() -> None:
    with pytest.raises(NotRecordedError) as caught:
        ReplayLLM(record=RECORD).invoke("Claim: a\nThought  1:")
    assert caught.value.asked == "Claim: a\nThought  1:"
    assert caught.value.taograph_fatal
    said = str(caught.value)
    assert "not in the record of 2 calls" in said
    assert repr("Claim: a\nThought  1:") in said
    assert "as recorded up to character 17 of 20; then it has ' 1:' where the record has '1:'" in said
    for asked, end in (("Claim: a", "then it ends where the record has"), (f"{next(iter(RECORD))} x", "record ends")):
        with pytest.raises(NotRecordedError, match=end):
            ReplayLLM(record=RECORD).invoke(asked)


def test_nothing_is_made_up_where_nothing_is_like_it() -> None:
    with pytest.raises(NotRecordedError, match=r"The prompt ends: 'zzz'$"):
        ReplayLLM(record=RECORD).invoke("zzz")
    with pytest.raises(NotRecordedError, match="record of 0 calls"):
        ReplayLLM(record={}).invoke("Claim: a")

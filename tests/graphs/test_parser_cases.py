"""Replies as models write them, and what the parser of the text protocol makes of each.

Two files in one format (``parser_cases.json`` beside this one, and a shared one that is not part of the
repository): ``input``, ``mode`` (any, strict, lenient), ``tools``, and ``expected``, of which null is not asserted.
How long a case takes is the benchmark's business (``bench/parser.py``).
"""

from __future__ import annotations

import json

import pytest
from parser_support import OWN_CASES, SHARED_CASES, Case, differences, read_cases

from taograph.graphs.protocols import parse_step

_shared = read_cases(SHARED_CASES)
_shared_params = (
    [pytest.param(case, id=case.name) for case in _shared]
    if _shared
    else [pytest.param(None, marks=pytest.mark.skip(reason=f"no {SHARED_CASES.name} in ../shared/cases"))]
)


def _check(case: Case) -> None:
    step = parse_step(case.text, tools=case.tools, strict=case.strict)
    wrong = differences(step, case.expected)
    assert not wrong, f"{case.note or case.name}\n{case.text[:400]!r}\n" + "\n".join(wrong)
    _check_whole(case, step.kind)


def _check_whole(case: Case, kind: str) -> None:
    """What holds of every step: the fields that belong to its kind are there, the others are not."""
    step = parse_step(case.text, tools=case.tools, strict=case.strict)
    assert step.kind == kind, "the same text was read in two ways"
    assert (step.tool is not None) == (kind == "action")
    assert (step.answer is not None) == (kind == "final")
    assert (step.error is not None) == (kind == "error")
    assert kind != "action" or step.args is not None
    assert kind != "error" or step.detail, "an error says what is wrong"


@pytest.mark.parametrize("case", _shared_params)
def test_shared_case(case: Case) -> None:
    _check(case)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in read_cases(OWN_CASES)])
def test_own_case(case: Case) -> None:
    _check(case)


def test_own_cases_are_well_formed() -> None:
    entries = json.loads(OWN_CASES.read_text(encoding="utf-8"))
    ids = [entry["id"] for entry in entries]
    assert len(ids) == len(set(ids))
    for entry in entries:
        assert {"id", "input", "expected", "mode", "source"} <= entry.keys() <= {
            "id", "input", "expected", "mode", "source", "note", "tools", "max_seconds",
        }, entry["id"]  # fmt: skip
        assert entry["expected"]["kind"] == "error" or "code" not in entry["expected"], entry["id"]


def test_strict_and_lenient_are_both_covered() -> None:
    own = read_cases(OWN_CASES)
    assert {case.strict for case in own} == {True, False}
    assert {case.expected["kind"] for case in own} == {"action", "final", "error"}
    assert {case.expected["code"] for case in own if "code" in case.expected} == {
        "empty", "missing_action", "missing_action_input", "empty_tool", "no_action", "action_and_answer",
        "bad_arguments", "incomplete",
    }  # fmt: skip

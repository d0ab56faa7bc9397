"""The speed benchmark: the page is made from what was measured, and the check of two revisions can count."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# Behind the rest: some files there have names of the standard library.
sys.path.append(str(Path(__file__).parents[1] / "bench"))

import speed
import speed_check
from speed_check import Check, Compared, Side, Unmeasurable
from speed_cpu import tables_endpoint
from speed_profile import by_group

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


@pytest.mark.parametrize("part", sorted(speed.PARTS))
def test_the_page_shows_what_was_measured(part: str) -> None:
    """Nobody writes a figure into the page by hand, and a new measurement is not forgotten there."""
    begin, end = f"<!-- speed, {part}: begin -->\n", f"<!-- speed, {part}: end -->"
    shown = PAGE.split(begin)[1].split(end)[0].strip()
    measured = speed.kept()
    assert shown == (speed.section(part, measured[part]).strip() if part in measured else "")


def test_a_goal_that_is_not_reached_says_so() -> None:
    others = {"create_agent": 80.0, "raw_openai_loop": 72.0}
    met = {"10": {"taograph": 5.0, **others}, "200": {"taograph": 9.0, **others}}
    missed = {"10": {"taograph": 5.0, **others}, "200": {"taograph": 9.5, **others}}
    assert "missed" not in tables_endpoint({"ms": met})
    lines = [line for line in tables_endpoint({"ms": missed}).splitlines() if "missed" in line]
    assert len(lines) == 1
    assert "raw_openai_loop" in lines[0]


def test_what_was_measured_is_kept_and_read(tmp_path: Path) -> None:
    path = tmp_path / "results" / "speed.json"
    assert speed.kept(path) == {}
    speed.keep({"tools": {"about": "here", "found": {"a": {"taograph": 1.5}}}}, path)
    assert speed.kept(path)["tools"]["found"] == {"a": {"taograph": 1.5}}


def test_the_standard_library_counts_for_who_calls_it() -> None:
    ours, theirs = ("/x/graphs/a.py", 1, "a"), ("/y/site-packages/openai/b.py", 1, "b")
    deep, built_in = ("/python/copy.py", 1, "copy"), ("~", 0, "<len>")
    stats: Any = SimpleNamespace(
        stats={
            ours: (1, 1, 1.0, 9.0, {}),
            theirs: (1, 1, 2.0, 9.0, {}),
            deep: (4, 4, 4.0, 6.0, {ours: (1, 1, 1.0, 1.5), theirs: (3, 3, 3.0, 4.5), deep: (9, 9, 0.0, 9.0)}),
            built_in: (2, 2, 2.0, 2.0, {deep: (2, 2, 2.0, 2.0)}),
        }
    )
    taken = by_group(stats, ("/x/graphs", "/x/src"))
    assert taken == pytest.approx({"taograph.graphs": 2.5, "openai": 6.5})


NOISE = [1.02, 0.97, 1.01, 0.99, 1.03, 0.98, 1.0, 0.99]


def compared(times: float) -> Compared:
    """Two sides, the second so many times as slow, whose pairs are noisy."""
    return Compared(base=list(NOISE), head=[times * one * noise for one, noise in zip(NOISE, NOISE[::-1], strict=True)])


@pytest.mark.parametrize(("times", "verdict"), [(1.1, "**slower**"), (1.0, "not slower"), (0.9, "faster")])
def test_a_difference_is_seen_through_noise(times: float, verdict: str) -> None:
    assert compared(times).verdict(0.03) == verdict


def test_a_wide_interval_proves_nothing() -> None:
    assert Compared(base=[1.0] * 6, head=[0.9, 1.3, 0.95, 1.25, 1.0, 1.2]).verdict(0.03) == "not clear"


def test_a_workload_that_fails_on_the_head_alone_counts(tmp_path: Path) -> None:
    base, head = (Side(name, tmp_path / name, "cpu") for name in ("base", "head"))
    check = Check(base, head, {"a": {}, "b": {}, "c": {}}, str(tmp_path), "none of the commands")
    check.found = {
        "a": Compared(failed={"head": "no"}),
        "b": Compared(failed={"base": "not there yet"}),
        "c": compared(1.0),
    }
    assert check.slower(0.03) == ["a"]
    assert "fails on head" in speed_check.shown(check, 0.03)


def test_what_cannot_be_compared_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_check, "ROOT", tmp_path)
    with pytest.raises(Unmeasurable, match="no git checkout"):
        speed_check.commit("main")
    monkeypatch.setattr(sys, "argv", ["bench/check", "main"])
    assert speed_check.main() == 2
    assert "no git checkout" in capsys.readouterr().err

"""Events as they are told to a person, to a pipe and to a program."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from taograph.cli.endings import exit_code
from taograph.cli.render import JsonRenderer, PlainRenderer, Renderer
from taograph.cli.terminal import TerminalRenderer
from taograph.cli.words import STOPPED, budget_line, cost_line, limits_line
from taograph.graphs.loop.stopping import StopReason

ATTACK = (
    "[bold red]x[/] :smile: \x1b[31mred\x1b[0m\x1b]0;title\x07\x1b]8;;http://e.vil\x1b\\link"
    " \x9b2J\x07\x08\r\nAnswer: no\u202e"
)
LIMITS = {"steps": 15, "seconds": 300.0, "tokens": None, "cost": None, "tool_calls": None}
SPENT = {
    "model_calls": 2,
    "tool_calls": 1,
    "input_tokens": 2000,
    "output_tokens": 340,
    "cached_tokens": 1500,
    "cost": 0.0,
    "seconds": 4.25,
}


def told(kind: str, /, **fields: Any) -> Any:
    header = {"step": 1, "thread": "t", "run": "r", "time": "2026-01-01T00:00:00.000+00:00", "path": []}
    return {"type": kind, **header, **fields}


def observation(text: str, **fields: Any) -> Any:
    whole = {"id": "c1", "tool": "add", "status": "success", "seconds": 0.01, "size": len(text), "handle": None}
    return told("observation", text=text, **{**whole, **fields})


def a_run(observed: str = "4", thought: str = "I add.", answer: str = "It is 4.") -> Iterator[Any]:
    yield told("run_started", question="What is 2+2?", limits=LIMITS, tools=["add"], model="fake")
    yield told("thought_delta", text="I ", kind="text")
    yield told("thought_delta", text="add.", kind="text")
    yield told("thought", text=thought)
    yield told("action", id="c1", tool="add", args={"a": 2, "b": "zwei"})
    yield observation(observed)
    yield told("budget", steps=1, limits=LIMITS, spent=SPENT)
    yield told("retry", reason="empty_output", detail="the reply was empty")
    yield told("stop", reason="final", detail="the model answered")
    yield told("answer", text=answer, spent=SPENT)


def plain(events: Any, *, verbose: bool = False) -> str:
    out = io.StringIO()
    with PlainRenderer(out, verbose=verbose) as renderer:
        for event in events:
            renderer.event(event)
    return out.getvalue()


def terminal(events: Any, *, verbose: bool = False, width: int = 100) -> str:
    """All that reaches a terminal, control sequences of ours included."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=30, color_system="truecolor")
    with TerminalRenderer(console, verbose=verbose) as renderer:
        for event in events:
            renderer.event(event)
    return out.getvalue()


def test_plain_tells_a_run_line_by_line() -> None:
    assert plain(a_run()).splitlines() == [
        "Question: What is 2+2?",
        "Model: fake",
        "Tools: add",
        "Limits: 15 steps, 300 s",
        "Thought: I add.",
        'Action: add(a=2, b="zwei")',
        "Observation: 4",
        "Budget: step 1/15 · 2,340 tokens · 4.2/300 s",
        "Again: empty output: the reply was empty",
        "Answer: It is 4.",
        "Stop: final answer at step 1",
        "Cost: 2 model calls · 1 tool call · 2,340 tokens (2,000 in, 1,500 of them cached; 340 out) · $0.00 · 4.2 s",
    ]


def test_each_plain_line_is_flushed() -> None:
    class Out(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    out = Out()
    renderer = PlainRenderer(out)
    for event in a_run():
        renderer.event(event)
        assert out.flushed == out.getvalue()


def test_texts_cannot_pass_for_lines_of_ours_or_control_the_terminal() -> None:
    shown = plain(a_run(ATTACK, ATTACK, ATTACK))
    assert not [char for char in shown if ord(char) < 32 and char != "\n"]
    assert not set(shown) & {"\x7f", "\x9b", "\u202e"}
    assert "[bold red]x[/] :smile: redlink" in shown
    assert len([line for line in shown.splitlines() if line.startswith("Answer:")]) == 1
    assert "\n    Answer: no" in shown


def test_terminal_reads_no_markup_and_passes_no_sequence_through() -> None:
    shown = terminal(a_run(ATTACK, ATTACK, ATTACK))
    assert shown.count("[bold red]x[/] :smile: redlink") == 3
    for sequence in ("\x1b[31m", "\x1b]", "\x07", "\x08", "\x9b", "\u202e", "http://e.vil"):
        assert sequence not in shown


def test_markup_in_names_and_arguments_is_data_too() -> None:
    events = [
        told("run_started", question="[b]q", limits=LIMITS, tools=["[red]t"], model="[x]m"),
        told("action", id="c", tool="[red]t", args={"a": "[/]\x1b[2J", "b": ["[b]"]}),
        told("retry", reason="[b]r", detail="[/]d"),
        told("plan", plan=[{"task": "[b]do", "status": "[i]"}, {"other": 1}]),
        told("stop", reason="[b]", detail="[/]"),
        told("answer", text="[b]", spent=SPENT, structured={"a": "[/]"}),
    ]
    for shown in (plain(events), terminal(events)):
        for text in ("[b]q", "[red]t", "[x]m", '[red]t(a="[/]\\u001b[2J", b=["[b]"])', "[b]r: [/]d", "[b]do"):
            assert text in shown


def test_long_observations_are_shortened_with_the_size_said_and_whole_with_verbose() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 501))
    for show in (plain, terminal):
        shown = show([observation(text)])
        assert "line 10" in shown
        assert "line 11" not in shown
        assert f"{len(text):,} characters in all" in shown
        assert "line 500" in show([observation(text)], verbose=True)
    one_line = plain([observation("x" * 5000, size=90_000, handle="c1", seconds=2.34)])
    assert one_line.count("x") < 800
    assert "the model was shown a part of 90,000 characters; 2.3 s" in one_line


def test_failed_and_empty_observations_say_so() -> None:
    assert "Observation (error): no such tool" in plain([observation("no such tool", status="error")])
    assert "(nothing)" in terminal([observation("")])
    assert plain([observation("")]).startswith("Observation:")


def test_json_is_every_event_unchanged_one_a_line_in_ascii() -> None:
    out = io.StringIO()
    renderer = JsonRenderer(out)
    events = [*a_run(ATTACK + "é\ud800" + "z" * 5000), told("approval", id="i", value={"type": "question"})]
    for event in events:
        renderer.event(event)
    lines = out.getvalue().splitlines()
    assert [json.loads(line) for line in lines] == events
    assert out.getvalue().isascii()
    assert not [char for char in out.getvalue() if ord(char) < 32 and char != "\n"]
    assert renderer.last_stop == "final"


@pytest.mark.parametrize("make", [plain, terminal])
def test_child_events_carry_their_path_and_do_not_end_the_run(make: Any) -> None:
    inner = [*a_run()]
    events = [told("child", path=["plan", "react"], event={**event, "path": ["plan", "react"]}) for event in inner]
    shown = make(
        [*events, told("stop", reason="step_limit", detail="1 of 1"), told("answer", text="outer", spent=SPENT)]
    )
    assert "plan > react > " in shown
    assert "It is 4." in shown
    assert "stopped by the step limit at step 1: 1 of 1" in shown


@pytest.mark.parametrize("make", [plain, terminal])
def test_of_a_nested_run_what_it_is_to_do_is_shown_which_stands_last(make: Any) -> None:
    asked = "Who is older?\n\n[Long words about how a step is carried out.]\nYour step: look \x1b[31mAda up."
    started = told("run_started", question=asked, limits={**LIMITS, "seconds": 299.98765}, tools=["t"], model="m")
    shown = make([told("child", path=["step"], event={**started, "path": ["step"]})])
    assert "Your step: look " in shown
    assert "Ada up." in shown
    assert "\x1b[31m" not in shown
    assert "Long words" not in shown
    assert "299.98765" not in shown
    assert "Long words" in make([started]), "the question of the run is shown whole"


def test_a_part_of_a_plan_without_words_is_shown_as_its_call() -> None:
    part = {"id": "$1", "task": "", "tool": "add", "input": {"a": 2}, "needs": [], "status": "done"}
    assert "$1. [done] add(a=2)\n" in plain([told("plan", plan=[part])])
    assert "$1. [done] add()\n" in plain([told("plan", plan=[{**part, "input": "not read"}])])


def test_a_childs_stop_is_not_the_runs() -> None:
    renderer = PlainRenderer(io.StringIO())
    renderer.event(told("child", path=["x"], event=told("stop", reason="deadline", detail="")))
    assert renderer.last_stop is None


def test_unknown_event_types_are_passed_over() -> None:
    assert plain([told("telepathy", text="?")]) == ""
    assert "telepathy" not in terminal([told("telepathy", text="?"), told("event"), told("paused")])


def test_streamed_text_is_shown_live_and_replaced_by_what_it_was() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=30, color_system=None)
    with TerminalRenderer(console) as renderer:
        assert renderer._live is not None
        renderer.event(told("run_started", question="q", limits=LIMITS, tools=["add"], model="m"))
        renderer.event(told("thought_delta", text="Let me see \x1b[31m" + "word " * 400 + "last", kind="text"))
        renderer._live.refresh()
        drawn = out.getvalue()
        assert "last" in drawn
        assert drawn.count("word") < 100, "only the tail is drawn"
        assert "\x1b[31m" not in drawn
        assert "step 1/15" in drawn
        assert "of 300 s" in drawn
        renderer.event(told("action", id="c1", tool="add", args={}))
        renderer.event(told("action", id="c2", tool="multiply", args={}))
        renderer._live.refresh()
        assert "running add, multiply" in out.getvalue()
        renderer.event(observation("4"))
        renderer._live.refresh()
        assert "running multiply" in out.getvalue()
        renderer.event(told("budget", steps=1, limits=LIMITS, spent=SPENT))
        renderer._live.refresh()
        assert "2,340 tokens" in out.getvalue()
        renderer.stopping("ending the run")
        renderer._live.refresh()
        assert "ending the run" in out.getvalue()


@pytest.mark.parametrize("size", [(1, 1), (8, 3), (20, 5)])
def test_tiny_terminals_do_not_break_it(size: tuple[int, int]) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=size[0], height=size[1])
    with TerminalRenderer(console) as renderer:
        for event in a_run():
            renderer.event(event)
        assert renderer._live is not None
        renderer._live.refresh()


def test_secrets_in_details_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-4711-very-secret")
    events = [
        told("retry", reason="model_error", detail="Incorrect API key provided: key-4711-very-secret"),
        told("stop", reason="model_error", detail="401: key-4711-very-secret"),
        told("answer", text="?", spent=SPENT),
    ]
    for shown in (plain(events), terminal(events)):
        assert "4711" not in shown
        assert "Incorrect API key" in shown


def test_every_stop_reason_has_words_and_an_exit_status() -> None:
    assert set(STOPPED) == set(StopReason.__args__)  # type: ignore[attr-defined]
    statuses = {reason: exit_code(reason) for reason in STOPPED}
    assert statuses.pop("final") == 0
    assert statuses.pop("model_error") == 1
    assert set(statuses.values()) == {3}


def test_limits_and_budgets_in_words() -> None:
    limits = {"steps": 1, "seconds": 2.5, "tokens": 5000, "cost": 0.05, "tool_calls": 0}
    assert limits_line(limits) == "1 step, 2.5 s, 0 tool calls, 5,000 tokens, $0.05"
    assert limits_line(dict.fromkeys(limits)) == "no step limit, no time limit"
    spent = {**SPENT, "cost": 0.00123}
    assert (
        budget_line(1, limits, spent) == "step 1/1 · 1/0 tool calls · 2,340/5,000 tokens · 4.2/2.5 s · $0.00123/$0.05"
    )
    assert budget_line(2, dict.fromkeys(limits), SPENT) == "step 2 · 2,340 tokens · 4.2 s"
    assert cost_line({**spent, "cost": 1.5, "seconds": 125.2}).endswith("$1.50 · 2 min 05 s")
    assert cost_line(spent, priced=False).endswith("price unknown · 4.2 s")


def test_votes_are_one_line() -> None:
    table = [{"answer": "[b]Paris\n", "count": 6}, *({"answer": str(n), "count": 1} for n in range(5))]
    votes = {"table": table, "drawn": 12, "failed": 1, "samples": 21}
    for shown in (plain([told("vote", votes=votes)]), terminal([told("vote", votes=votes)])):
        assert "6 for [b]Paris, 1 for 0, 1 for 1, 1 for 2, 2 other answers, of 12 samples (1 failed); 21 at most" in (
            " ".join(shown.split())
        )
    empty = {"table": [], "drawn": 3, "failed": 3, "samples": 21}
    assert "Votes: none, of 3 samples (3 failed); 21 at most" in plain([told("vote", votes=empty)])


def test_renderers_share_the_vocabulary() -> None:
    for kind in ("plan", "vote", "child", "approval", "thought_delta"):
        assert callable(getattr(Renderer, kind))

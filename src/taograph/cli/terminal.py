"""The view on a terminal: the log above, and at the bottom what is going on right now."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from taograph.cli.render import (
    OBSERVATION_CHARS,
    PlainRenderer,
    approved_text,
    nested_question,
    observation_text,
    plan_lines,
    rejected_text,
    retry_text,
    vote_text,
)
from taograph.cli.text import clean, one_line, shorten
from taograph.cli.words import call_line, cost_line, limits_line, seconds, stop_line
from taograph.redaction import redact

if TYPE_CHECKING:
    from taograph.graphs.loop.events import Event

_LABEL_WIDTH = 12
# Lines of the model's text that are shown while it comes.
_TAIL_LINES = 6


class TerminalRenderer(PlainRenderer):
    """Colored, with the model's text as it comes and a status line that counts the seconds.

    Text that is still coming can't be told from an answer, so it stands above the status line, dimmed, and
    is replaced by the thought or the answer once that is known.

    Args:
        console: The terminal.
        verbose: Show observations whole.
    """

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        super().__init__(verbose=verbose)
        self._console = console
        self._bottom = _Bottom()
        self._live: Live | None = None
        self._left = self._bottom.since

    def __enter__(self) -> Self:
        """Show the status line; the time since it was last shown was a person's, not the run's."""
        self._bottom.since += time.monotonic() - self._left
        self._live = Live(
            self._bottom, console=self._console, transient=True, refresh_per_second=10, vertical_overflow="crop"
        )
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the status line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._left = time.monotonic()

    def stopping(self, said: str) -> None:
        """The status line says it at its next refresh."""
        self._bottom.stopping = said

    def _say(self, label: str, text: str, style: str = "", *, label_style: str = "bold cyan") -> None:
        row = Table.grid(padding=(0, 1), pad_edge=False)
        row.add_column(width=_LABEL_WIDTH, no_wrap=True)
        row.add_column(ratio=1, overflow="fold")
        body = Text(clean(self._path + text).strip("\n"), style=style)
        row.add_row(Text(label, style=label_style), body)
        self._console.print(row, markup=False, highlight=False)

    def event(self, event: Event) -> None:
        """Tell one event, and follow the step at the bottom."""
        if event["type"] in ("thought_delta", "thought", "action"):
            self._bottom.step = event["step"]
        super().event(event)

    def line(self, label: str, text: str) -> None:
        """As in plain lines, dimmed."""
        self._say(label, text, "dim")

    def told(self, event: Any) -> None:
        """As in plain lines; questions and answers stand out."""
        match event["type"]:
            case "question":
                self._console.print()
                self._say("Question", event["text"], "bold")
            case "answer":
                self._say("Answer", event["text"], "bold", label_style="bold green")
            case _:
                super().told(event)

    def run_started(self, event: Any) -> None:
        """The question, and under it what it runs with; of a nested run, what it is to do."""
        if self._path:
            self._say("Question", nested_question(event["question"]))
            self._bottom.doing = self.waiting_for
            return
        self._say("Question", event["question"], "bold")
        tools = ", ".join(one_line(name, 60) for name in event["tools"]) or "no tools"
        model = one_line(redact(event["model"]), 200) or "unnamed model"
        self._say("", f"{model} · {tools} · {limits_line(event['limits'])}", "dim")
        self._bottom.limits = event["limits"]
        self._bottom.doing = self.waiting_for

    def going_on(self, what: Any) -> None:
        """As :meth:`run_started`, from the step that the run is at."""
        super().going_on(what)
        self._bottom.step = what["steps"] or 1

    def thought_delta(self, event: Any) -> None:
        """Show the text as it comes."""
        self._bottom.text += event["text"]
        self._bottom.doing = "thinking" if event["kind"] == "reasoning" else "writing"

    def thought(self, event: Any) -> None:
        """The thought takes the place of its pieces."""
        self._settle()
        self._say("Thought", event["text"], "italic")

    def action(self, event: Any) -> None:
        """The call, and that it runs."""
        self._settle()
        self._bottom.running[event["id"]] = one_line(event["tool"], 40)
        if not self._is_new(event):
            return
        call, cut = shorten(call_line(event["tool"], event["args"]), chars=self._most(), lines=10**6)
        self._say("Action", call + (" …" if cut else ""), label_style="bold yellow")

    def observation(self, event: Any) -> None:
        """The result, shortened unless verbose, with the size of the whole."""
        self._bottom.running.pop(event["id"], None)
        shown, note = observation_text(event, verbose=self._verbose)
        good = event["status"] == "success"
        if shown:
            style = "bold green" if good else "bold red"
            self._say("Observation", shown, "" if good else "red", label_style=style)
        if note or not shown:
            self._say("" if shown else "Observation", note or "(nothing)", "dim")

    def approval(self, event: Any) -> None:
        """The run waits: nothing is running."""
        self._bottom.running.clear()

    def approved(self, event: Any) -> None:
        """A person let a call run, perhaps with other arguments."""
        self._say("Approved", approved_text(event), label_style="bold green")

    def rejected(self, event: Any) -> None:
        """A person did not let a call run."""
        self._say("Rejected", rejected_text(event), label_style="bold red")

    def retry(self, event: Any) -> None:
        """Why a turn is asked for again."""
        self._settle()
        self._say("Again", retry_text(event), "yellow", label_style="bold yellow")

    def budget(self, event: Any) -> None:
        """The figures go to the bottom now, into the log when the step is over."""
        super().budget(event)
        if not self._path:
            self._bottom.counted(event["spent"])

    def _say_budget(self, line: str) -> None:
        self._say("", line, "dim")

    def plan(self, event: Any) -> None:
        """The plan."""
        self._settle()
        self._say("Plan", "\n".join(plan_lines(event["plan"])), label_style="bold magenta")

    def vote(self, event: Any) -> None:
        """The answers with their votes."""
        self._settle()
        self._say("Votes", vote_text(event["votes"]), label_style="bold magenta")

    def stop(self, event: Any) -> None:
        """The reason is kept for the line under the answer."""
        self._settle()
        self._stop = stop_line(event["reason"], redact(event["detail"]), event["step"])
        if self._path:
            self._say("Stop", self._stop, "dim")

    def answer(self, event: Any) -> None:
        """The answer, why it ended, what it cost."""
        self._settle()
        if self._path:
            self._say("Answer", event["text"], "dim", label_style="bold")
            return
        self._console.print()
        self._say("Answer", event["text"], "bold", label_style="bold green")
        if "structured" in event:
            import json

            self._say("Structured", json.dumps(event["structured"], ensure_ascii=False, default=str))
        final = self.last_stop == "final"
        self._console.print()
        self._say("", f"{'✓' if final else '■'} {self._stop}", "green" if final else "bold yellow")
        self._say("", cost_line(event["spent"], priced=self.priced), "dim")

    def _settle(self) -> None:
        """What came so far is now told in the log."""
        self._bottom.text = ""
        self._bottom.doing = "thinking"

    def _most(self) -> int:
        return 10**9 if self._verbose else OBSERVATION_CHARS


class _Bottom:
    """What stands below the log. It is drawn by the refresh thread, so it only reads plain attributes."""

    def __init__(self) -> None:
        self.text = ""
        self.doing = "starting"
        self.stopping = ""
        self.running: dict[str, str] = {}
        self.since = time.monotonic()
        self.limits: dict[str, Any] = {}
        self.step = 1
        self._counted = ""
        self._spinner = Spinner("dots", style="cyan")

    def counted(self, spent: Any) -> None:
        """Take over the figures of a budget event."""
        tokens = spent["input_tokens"] + spent["output_tokens"]
        self._counted = f"{tokens:,} tokens"
        self.since = time.monotonic() - spent["seconds"]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, min(_TAIL_LINES, console.height - 4))
        width = options.max_width - _LABEL_WIDTH - 1
        if self.text and width > 0:
            # A bounded tail: wrapping the whole of a long text ten times a second would be felt.
            tail = Text(clean(self.text[-room * width :]).strip("\n"), style="dim italic")
            for line in tail.wrap(console, width, overflow="fold")[-room:]:
                yield Text(" " * (_LABEL_WIDTH + 1)).append_text(line)
        yield Text(self.line(), style="cyan", no_wrap=True, overflow="ellipsis", end="")

    def line(self) -> str:
        """The status line."""
        running = ", ".join(list(self.running.values()))
        doing = self.stopping or (f"running {running}" if running else self.doing)
        steps, most = self.limits.get("steps"), self.limits.get("seconds")
        passed = time.monotonic() - self.since
        parts = [
            f"{self._spinner.render(time.monotonic())} {doing}",
            f"step {self.step}/{steps}" if steps else "",
            f"{seconds(passed)} of {most:g} s" if most else seconds(passed),
            self._counted,
            "" if self.stopping else "Ctrl-C ends",
        ]
        return " · ".join(filter(None, parts))

"""What redaction finds, what it takes by mistake and how long it takes.

    python bench/redaction.py                             the tables
    python bench/redaction.py --write                     into docs/benchmarks.md
    python bench/redaction.py --presidio VENV/bin/python  Presidio beside it: a Python that has presidio-analyzer

The labelled sentences are bench/data/pii_sentences.jsonl (made by bench/pii_sentences.py); patterns were tuned on one
half of them, the other is held out. A value is found where no character of it stays; a find is right where it is of
the kind of the value that it covers. Presidio runs in its own environment, with the same sentences
(bench/presidio_peer.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from parser import machine, write
from pii_values import VALIDATED, digits
from redaction_shapes import MADE, ROWS, USUAL

from taograph.trace.redaction import Redactor

Spans = Callable[[str, str], list[tuple[int, int, str]]]
HALVES = ("tuned on", "held out")
LABELLED = {"UK_NHS": "NHS no. {}", "NL_BSN": "BSN {}", "CZ_RC": "rodné číslo {}"}
SENTENCES = ("{} is what it says.", "Bitte prüfen: {}", '{{"v": "{}"}}', "值为{}，共3个")
KB = 1000


class Counts:
    """Marked values, those that were found, finds, and those that are right."""

    def __init__(self) -> None:
        self.marked = self.found = self.finds = self.right = 0

    @property
    def recall(self) -> str:
        return f"{self.found / self.marked:.0%}" if self.marked else "–"

    @property
    def precision(self) -> str:
        return f"{self.right / self.finds:.0%}" if self.finds else "–"


def count(rows: Iterable[dict[str, Any]], spans: Spans, without: tuple[str, ...] = ("PERSON",)) -> dict[str, Counts]:
    """By kind, by language, and for "all"."""
    counts: dict[str, Counts] = defaultdict(Counts)
    for row in rows:
        marked = [span for span in row["spans"] if span["kind"] not in without]
        found = spans(row["text"], row["language"])
        for span in marked:
            covered = any(start <= span["start"] and end >= span["end"] for start, end, _ in found)
            for name in (span["kind"], row["language"], "all"):
                counts[name].marked += 1
                counts[name].found += covered
        for start, end, kind in found:
            right = any(start < s["end"] and end > s["start"] and kind == s["kind"] for s in marked)
            for name in (kind, row["language"], "all"):
                counts[name].finds += 1
                counts[name].right += right
    return counts


def ours(text: str, language: str) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.kind) for span in REDACTOR.spans(text)]


REDACTOR = Redactor()


def kinds_table() -> list[str]:
    halves = [count((row for row in ROWS if row["split"] == half), ours) for half in HALVES]
    lines = [
        "| | marked | recall | precision | marked, held out | recall | precision |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    names = sorted({name for half in halves for name in half if name.isupper()})
    for name in [*names, "en", "de", "pl", "zh", "all"]:
        cells = [(half[name].marked, half[name].recall, half[name].precision) for half in halves]
        bold = "**" if name == "all" else ""
        lines.append(f"| {bold}{name}{bold} | " + " | ".join(str(c) for cell in cells for c in cell) + " |")
    untouched = [row for row in ROWS if not row["spans"]]
    for half in HALVES:
        rows = [row for row in untouched if row["split"] == half]
        wrong = [row for row in rows if ours(row["text"], "")]
        lines.append("") if half == HALVES[0] else None
        lines.append(
            f"- Sentences without personal data, {half}: {len(rows) - len(wrong)} of {len(rows)} left as they are."
        )
    return lines


def validated(each: int) -> list[str]:
    """Generated values of the kinds that have something to check, in sentences without a word for them."""
    lines = ["| kind | made | missed |", "|---|---:|---:|"]
    random, missed_in_all = Random(11), 0
    for kind, make in VALIDATED.items():
        missed = 0
        for number in range(each):
            value = make(random)
            text = SENTENCES[number % len(SENTENCES)].format(LABELLED.get(kind, "{}").format(value))
            missed += value in REDACTOR.text(text)
        missed_in_all += missed
        lines.append(f"| {kind} | {each} | {missed} |")
    return [*lines, f"| **all** | {each * len(VALIDATED)} | {missed_in_all} |"]


def arbitrary(each: int) -> list[str]:
    """How many numbers that mean nothing are taken for somebody's."""
    random = Random(5)
    strict = Redactor(threshold=0.3)
    lines = ["| digits | taken | with threshold=0.3 |", "|---:|---:|---:|"]
    for length in range(6, 21):
        numbers = [random.choice("123456789") + digits(random, length - 1) for _ in range(each)]
        taken = [sum(bool(r.spans(f"see {n} there")) for n in numbers) / each for r in (REDACTOR, strict)]
        lines.append(f"| {length} | {taken[0]:.1%} | {taken[1]:.1%} |")
    return lines


def times(least: int) -> list[str]:
    sizes = [KB * 2**power for power in range(0, 11, 2)]
    heads = [f"{size // KB} kB" for size in sizes]
    lines = [f"| ms | {' | '.join(heads)} | ms/kB | growth |", "|---|" + "---:|" * (len(heads) + 2)]
    for group, shapes in (("Usual", USUAL), ("Made to be slow", MADE)):
        lines.append(f"| **{group}** |" + " |" * (len(heads) + 2))
        for name, shape in shapes.items():
            taken = []
            for size in sizes:
                text = shape(size)
                repeats = least if size <= 16 * KB else 1
                taken.append(min(timed(text) for _ in range(repeats)))
            growth = taken[-1] / taken[-2] / (sizes[-1] / sizes[-2])
            shown = " | ".join(f"{one:.2f}" if one < 100 else f"{one:.0f}" for one in taken)
            lines.append(f"| {name} | {shown} | {taken[-1] / sizes[-1] * KB:.2f} | {growth:.1f} |")
    return lines


def timed(text: str) -> float:
    begun = time.process_time()
    REDACTOR.text(text)
    return (time.process_time() - begun) * 1e3


def peers(python: str) -> list[str]:
    """Presidio on the same sentences, in an environment of its own."""
    told = subprocess.run(
        [python, str(Path(__file__).parent / "presidio_peer.py")], capture_output=True, text=True, check=True
    )
    peer = json.loads(told.stdout.splitlines()[-1])
    lines = ["| | recall | precision | en | de | pl | zh | load | ms a sentence | names found |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    own = {"load": load(), "milliseconds": sum(timed(row["text"]) for row in ROWS) / len(ROWS)}
    own["spans"] = {row["id"]: ours(row["text"], "") for row in ROWS}
    for name, one in {"taograph": own, **peer["engines"]}.items():
        lines.append(peer_line(name, one))
    return [f"Presidio {peer['version']}, {peer['megabytes']} MB installed.", "", *lines]


def peer_line(name: str, one: dict[str, Any]) -> str:
    found = {row["text"]: one["spans"][row["id"]] for row in ROWS}
    counts = count(ROWS, lambda text, _: [span for span in found[text] if span[2] != "PERSON"])
    names = count(ROWS, lambda text, _: found[text], ())["PERSON"]
    cells = [counts["all"].recall, counts["all"].precision, *(counts[code].recall for code in ("en", "de", "pl", "zh"))]
    people = f"{names.found} of {names.marked}" if names.finds else "none: no model"
    return f"| {name} | {' | '.join(cells)} | {one['load']:.2f} s | {one['milliseconds']:.2f} | {people} |"


def load() -> float:
    """Seconds until a text is redacted, less those of Python with langchain-core, which is there in any case."""
    code = (
        "import time, taograph.trace; begun = time.perf_counter(); from taograph.trace.redaction import Redactor; "
        "Redactor().text('tel. 512 345 678'); print(time.perf_counter() - begun)"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--each", type=int, default=1000, help="generated values of each kind")
    parser.add_argument("--presidio", metavar="PYTHON", help="a Python that has presidio-analyzer")
    options = parser.parse_args()
    versions = {name: version(name) for name in ("python-stdnum", "phonenumberslite")}
    parts = {
        "redaction, found": kinds_table(),
        "redaction, validated": [*validated(options.each), "", *arbitrary(options.each)],
        "redaction, time": times(3),
    }
    if options.presidio:
        parts["redaction, Presidio"] = peers(options.presidio)
    for name, lines in parts.items():
        text = "\n".join([machine(versions), "", *lines])
        print(text, end="\n\n")
        if options.write:
            write(name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

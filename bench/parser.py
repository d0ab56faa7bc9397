"""The parser of the text protocol: its time over doubling sizes, beside other frameworks' parsers on the same replies.

    python bench/parser.py                    ours alone: time, linearity, cases
    python bench/parser.py --rivals           LangChain classic, LlamaIndex and crewAI too (in environments it makes)
    python bench/parser.py --rivals --write   and into docs/benchmarks.md
    python bench/parser.py --only fence       the shapes whose name contains a word
    python bench/parser.py --rivals --results bench/results/parser_rivals.json    the rivals' figures are kept there

Exit status 1 where one of our times grows more than ``--growth``-fold from half the largest size to the largest, is
above what the cases allow (scaled linearly with the size), or is not there within ``--timeout`` CPU seconds. A figure
that fails is measured again before it counts: the machine may have been busy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parser_rivals import (
    OURS,
    ROOT,
    Worker,
    environments,
    passed_by_ours,
    passed_by_rival,
    read_cases,
)
from parser_shapes import SHAPES, SHARED_WITH_RIVALS, SIZES, Shape

PAGE = ROOT / "docs" / "benchmarks.md"
_TRIES = 4

Cases = dict[str, list[dict[str, Any]]]
Times = dict[int, float | None]
"""Size → CPU seconds; None where there was no answer in time (larger sizes are then not asked)."""


def measure(worker: Worker, shape: Shape, sizes: list[int]) -> Times:
    """The seconds of one parser on one shape, size by size, up to the first that is not answered in time."""
    times: Times = {}
    for size in sizes:
        answer = worker.ask({"shape": shape.name, "size": size})
        times[size] = None if answer is None else answer.get("seconds")
        if times[size] is None:
            break
    return times


def measure_ours(worker: Worker, shape: Shape, sizes: list[int], growth: float) -> tuple[Times, list[str]]:
    """As :func:`measure`, with what is wrong; the two largest sizes are measured again while something is."""
    times = measure(worker, shape, sizes)
    wrong = complaints(shape, times, sizes, growth)
    for _ in range(_TRIES - 1):
        if not wrong:
            break
        for size, seconds in measure(worker, shape, sizes[-2:]).items():
            before = times.get(size)
            times[size] = seconds if before is None else before if seconds is None else min(before, seconds)
        wrong = complaints(shape, times, sizes, growth)
    return times, wrong


def complaints(shape: Shape, times: Times, sizes: list[int], growth: float) -> list[str]:
    """Why a shape's times are not linear, in words."""
    wrong: list[str] = []
    for size in sizes:
        seconds = times.get(size)
        if seconds is None:
            return [*wrong, f"no answer in time at {kilo(size)}"]
        if seconds > shape.allowed(size):
            wrong.append(f"{seconds:.3f} s at {kilo(size)}, {shape.allowed(size):.3f} s are allowed")
    if grown(times, sizes) > growth:
        wrong.append(f"{grown(times, sizes):.1f}-fold from {kilo(sizes[-2])} to {kilo(sizes[-1])}")
    return wrong


def grown(times: Times, sizes: list[int]) -> float:
    """How many times longer the largest size took than the one before it."""
    if len(sizes) < 2:
        return 1.0
    before, after = times.get(sizes[-2]), times.get(sizes[-1])
    return after / max(before, 1e-6) if before is not None and after is not None else float("inf")


def kilo(size: int) -> str:
    """A size in kB or MB of 1,024."""
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} kB"


def row(*cells: str) -> str:
    """One line of a markdown table."""
    return "| " + " | ".join(cells) + " |\n"


def head(*cells: str) -> str:
    """The first two lines of a markdown table."""
    return row(*cells) + "|" + "---|" * len(cells) + "\n"


def escaped(name: str) -> str:
    """A shape's name, safe in a table."""
    return re.sub(r"([|<>*`\\_])", r"\\\1", name)


def milliseconds(seconds: float | None) -> str:
    """A time for a table."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.2f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


def linear_table(ours: dict[str, Times], sizes: list[int]) -> str:
    """Our times: for each shape and size the slower of the two modes."""
    kinds = [("Plain", True), ("Adversarial", False)]
    text = head("Shape", *(kilo(size) for size in sizes), "growth")
    for title, plain in kinds:
        shapes = [shape for shape in SHAPES if shape.plain == plain and shape.name in ours]
        if shapes:
            text += row(f"**{title}**", *[""] * (len(sizes) + 1))
        for shape in shapes:
            times = ours[shape.name]
            cells = [milliseconds(times.get(size)) for size in sizes]
            text += row(escaped(shape.name), *cells, f"{grown(times, sizes):.1f}")
    return text


def linear_summary(ours: dict[str, Times], sizes: list[int], timeout: float) -> str:
    """The extremes of :func:`linear_table`, in words."""
    last = sizes[-1]
    at_last = {name: times[last] for name, times in ours.items() if times.get(last) is not None}
    missing = [name for name in ours if name not in at_last]
    lines = []
    if at_last:
        slowest = max(at_last, key=lambda name: at_last[name] or 0.0)
        steepest = max(at_last, key=lambda name: grown(ours[name], sizes))
        middle = statistics.median(value for value in at_last.values() if value is not None)
        factor = f"{grown(ours[steepest], sizes):.1f}-fold"
        lines = [
            f"- {len(ours)} shapes. At {kilo(last)}: median {milliseconds(middle)} ms, slowest "
            f"{milliseconds(at_last[slowest])} ms ({escaped(slowest)}).",
            f"- Steepest from {kilo(last // 2)} to {kilo(last)}: {factor} ({escaped(steepest)}).",
        ]
    if missing:
        lines.append(f"- Not within {timeout:g} s at {kilo(last)}: {', '.join(map(escaped, missing))}.")
    return "\n".join(lines) + "\n"


def rival_cell(times: Times, sizes: list[int], timeout: float) -> str:
    """The time at the largest size, or the size at which it became too long."""
    for size in sizes:
        if size in times and times[size] is None:
            return f"> {timeout:g} s at {kilo(size)}"
    return milliseconds(times.get(sizes[-1]))


def rival_tables(all_times: dict[str, dict[str, Times]], sizes: list[int], timeout: float) -> str:
    """A summary for each parser, and every shape at the largest size."""
    last = sizes[-1]
    text = head(
        "Parser", f"plain shapes at {kilo(last)}, median ms", f"shapes over {timeout:g} s", "smallest reply that was"
    )
    asked = {shape for times in all_times.values() for shape in times if all(shape in t for t in all_times.values())}
    for name, of_all in all_times.items():
        times = {shape: of for shape, of in of_all.items() if shape in asked}
        over = {s: min(z for z, v in t.items() if v is None) for s, t in times.items() if None in t.values()}
        plain = [times[s.name].get(last) for s in SHAPES if s.plain and s.name in times]
        known = [value if value is not None else float("inf") for value in plain]
        middle = statistics.median(known) if known else float("nan")
        worst = min(over, key=lambda shape: over[shape]) if over else ""
        text += row(
            name,
            milliseconds(middle) if middle != float("inf") else f"> {timeout * 1000:g}",
            f"{len(over)} of {len(times)}",
            f"{kilo(over[worst])} ({escaped(worst)})" if worst else "none",
        )
    text += f"\n<details><summary>Every shape that all were asked at {kilo(last)}, milliseconds</summary>\n\n"
    text += head("Shape", *all_times)
    for shape in SHAPES:
        if shape.name in asked:
            cells = [rival_cell(times[shape.name], sizes, timeout) for times in all_times.values()]
            text += row(escaped(shape.name), *cells)
    return text + "\n</details>\n"


def case_table(passed: dict[str, dict[str, list[str]]], totals: dict[str, int]) -> str:
    """How many cases each parser meets."""
    text = head("Parser", *(f"{which} cases ({totals[which]})" for which in totals))
    for name, by_file in passed.items():
        text += row(name, *(str(len(by_file[which])) for which in totals))
    return text


def machine(versions: dict[str, str]) -> str:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = found.group(1).strip() if found else model
    packages = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} shared cores of {model}, {platform.system()}, "
        f"Python {platform.python_version()}; {packages}.\n"
    )


def write(section: str, text: str, path: Path = PAGE) -> None:
    """Puts a text between its two markers on a page."""
    page = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->"
    if begin not in page or end not in page:
        raise SystemExit(f"{path.name} has no markers for {section}")
    before, rest = page.split(begin, 1)
    path.write_text(before + begin + "\n" + text.strip() + "\n\n" + end + rest.split(end, 1)[1], encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", action="store_true", help="measure the other frameworks' parsers too")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--only", default="", metavar="WORD", help="only shapes whose name contains this")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="N", help="largest size in characters")
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS", help="CPU time of one call (default 10)"
    )
    parser.add_argument("--growth", type=float, default=3.0, metavar="TIMES", help="allowed growth (default 3)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="the rivals' figures are kept here, and taken")
    parser.add_argument("--venvs", type=Path, default=None, metavar="DIR", help="where the rivals' environments go")
    return parser.parse_args()


@dataclass
class Results:
    """What was measured of parsers.

    Attributes:
        times: Parser → shape → size → CPU seconds.
        passed: Parser → file of cases → the ids that it meets.
        versions: Package → version.
    """

    times: dict[str, dict[str, Times]] = field(default_factory=dict)
    passed: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write them as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what :meth:`save` wrote."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        times = {
            parser: {shape: {int(size): s for size, s in sizes.items()} for shape, sizes in shapes.items()}
            for parser, shapes in kept.pop("times").items()
        }
        return cls(times=times, **kept)


def measure_rivals(options: argparse.Namespace, shapes: list[Shape], sizes: list[int], cases: Cases) -> Results:
    """The figures of the other frameworks' parsers; those that were kept are not measured again."""
    kept: Path | None = options.results
    found = Results.load(kept) if kept and kept.exists() else Results()
    for name, python in environments(options.venvs).items():
        worker = Worker(name, python, options.timeout)
        times = found.times.setdefault(name, {})
        for shape in progress(name, [s for s in shapes if s.name in SHARED_WITH_RIVALS and s.name not in times]):
            times[shape.name] = measure(worker, shape, sizes)
            if kept:
                found.save(kept)
        if name not in found.passed:
            found.passed[name] = {which: passed_by_rival(worker, entries) for which, entries in cases.items()}
        found.versions |= worker.versions
        worker.close()
        if kept:
            found.save(kept)
    return found


def measure_us(
    options: argparse.Namespace, shapes: list[Shape], sizes: list[int], cases: Cases
) -> tuple[Results, list[str]]:
    """All figures of our parser in its two modes, and what is wrong with them."""
    found, failed = Results(), []
    workers = {mode: Worker(name, Path(sys.executable), options.timeout) for mode, name in OURS.items()}
    for worker in workers.values():
        found.times[worker.name] = {}
        for shape in progress(worker.name, shapes):
            times, wrong = measure_ours(worker, shape, sizes, options.growth)
            found.times[worker.name][shape.name] = times
            if wrong:
                failed.append(f"{worker.name}, {shape.name}: {'; '.join(wrong)}")
    found.passed["taograph"] = {which: passed_by_ours(workers, entries) for which, entries in cases.items()}
    for worker in workers.values():
        found.versions |= worker.versions
        worker.close()
    return found, failed


def progress(name: str, shapes: list[Shape]) -> Iterator[Shape]:
    """The shapes, said on standard error as they come."""
    for number, shape in enumerate(shapes, 1):
        print(f"\r{name}: {number}/{len(shapes)} {shape.name:50.50}", end="", file=sys.stderr, flush=True)
        yield shape
    print(file=sys.stderr)


def main() -> int:
    options = arguments()
    sizes = [size for size in SIZES if size <= options.largest]
    shapes = [shape for shape in SHAPES if options.only.lower() in shape.name.lower()]
    if not shapes or not sizes:
        raise SystemExit("no shape or no size is left")
    cases = {which: entries for which in ("shared", "own") if (entries := read_cases(which))}
    ours, failed = measure_us(options, shapes, sizes, cases)
    rivals = measure_rivals(options, shapes, sizes, cases) if options.rivals else Results()
    one, other = (ours.times[name] for name in OURS.values())
    slower = {
        shape.name: {size: _slower(one[shape.name].get(size), other[shape.name].get(size)) for size in sizes}
        for shape in shapes
    }
    about = machine(ours.versions | rivals.versions)
    linear = linear_summary(slower, sizes, options.timeout)
    table = linear_table(slower, sizes)
    scores = case_table(ours.passed | rivals.passed, {which: len(entries) for which, entries in cases.items()})
    beside = rival_tables(ours.times | rivals.times, sizes, options.timeout) if options.rivals else ""
    print("\n".join((about, linear, table, beside, scores)))
    if options.write:
        details = "<details><summary>Every shape and size, milliseconds</summary>\n\n" + table + "\n</details>"
        write("parser, ours", about + "\n" + linear + "\n" + details)
        if options.rivals:
            write("parser, rivals", beside)
            write("parser, cases", scores)
    for reason in failed:
        print("FAILED", reason)
    return 1 if failed else 0


def _slower(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


if __name__ == "__main__":
    sys.exit(main())

"""How fast the loop is, beside other frameworks on the same work; a quarter of an hour.

    python bench/speed.py                     everything; the figures are kept in bench/results/speed.json
    python bench/speed.py --write             and the tables of docs/benchmarks.md are made from them
    python bench/speed.py --only loop tools   some parts
    python bench/speed.py --only --write      measure nothing: the page from what is kept
    python bench/speed.py --quick             fewer rounds and smaller sizes, to see that it works; nothing is kept

The rivals are installed in environments of their own at first. The endpoint they are asked over, and what runs them,
is in ``../shared/bench`` beside the repository, or where ``--shared`` says. Ctrl-C ends it; the parts that were done
are kept. Figures of one part were taken in turn, so compare those; nothing else should run beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import speed_cpu
import speed_load
import speed_process
from parser import machine, write
from parser_rivals import HERE
from speed_session import SHARED, Part, Session, say

PARTS: dict[str, Part] = {part.name: part for part in (*speed_cpu.PARTS, *speed_load.PARTS, *speed_process.PARTS)}
KEPT = HERE / "results" / "speed.json"

Results = dict[str, dict[str, Any]]
"""Part → "about" (when, where, with which versions) and "found"."""


def kept(path: Path = KEPT) -> Results:
    """What was measured before."""
    results: Results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return results


def keep(results: Results, path: Path = KEPT) -> None:
    """Write it down."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def section(name: str, one: dict[str, Any]) -> str:
    """What the page says of a part."""
    return f"{one['about']}\n{PARTS[name].tables(one['found'])}"


def publish(results: Results) -> None:
    """Put every part that was measured on the page."""
    for name, one in results.items():
        write(f"speed, {name}", section(name, one))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the tables of docs/benchmarks.md")
    parser.add_argument("--only", nargs="*", metavar="PART", choices=PARTS, help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a look whether everything works; nothing is kept")
    parser.add_argument("--shared", type=Path, default=SHARED, metavar="DIR", help="has fake_openai.py and peer.py")
    parser.add_argument("--venvs", type=Path, metavar="DIR", help="where the rivals' environments go")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick measures too little to be written")
    results = {} if options.quick else kept()
    try:
        for name in PARTS if options.only is None else options.only:
            session = Session(options.shared.resolve(), options.venvs, options.quick)
            say(f"{name} …")
            begun = time.monotonic()
            found = PARTS[name].measure(session)
            results[name] = {"about": machine(session.versions), "found": found}
            if not options.quick:
                keep(results)
            say(f"{name}: {time.monotonic() - begun:.0f} s")
            print(section(name, results[name]) + "\n", flush=True)
    except KeyboardInterrupt:
        say("ended; what was measured is kept")
        return 130
    finally:
        if options.write:
            publish(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fuzzing the parser of the text protocol for a given time, and saying what was found.

    python bench/fuzz_parser.py                       10 minutes, with atheris where it can be installed
    python bench/fuzz_parser.py --minutes 1 --engine random --seed 7
    nice -n 19 python bench/fuzz_parser.py --write    and into docs/benchmarks.md

atheris (libFuzzer, guided by the branches that the parser takes) goes into an environment of its own; where it cannot
be had, replies are put together at random from cases and pieces of the format. Either way each text is checked for
the promises of ``tests/graphs/parser_properties.py`` and for its time, and one in 50 has a part of it repeated to
20,000 characters first. Exit status 1 where a promise is broken or a text takes too long when it is timed again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "graphs")]

ATHERIS = "atheris==3.0.0"
PUMPED = 20_000
ALLOWED = 0.01, 20e-6
"""CPU seconds that reading a text in both modes may take: so much, and so much for each character (as the shared
cases, which are read in one)."""
_KEPT_SLOW, _MOST_FINDINGS, _PUMP_EVERY = 10, 50, 50


Promises = Callable[..., list[str]]


class Journal:
    """What a run found, written as it is found: the fuzzer ends its process without a word."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = 0
        self.findings: dict[str, dict[str, Any]] = {}
        self.slow: list[tuple[float, str]] = []
        self._written = 0.0

    def check(self, text: str, broken_promises: Promises) -> None:
        """Read a text, or one made long from it, and note what is wrong."""
        self.runs += 1
        if self.runs % _PUMP_EVERY == 0:
            text = pumped(text, random.Random(self.runs))
        spent: list[float] = []
        for what in broken_promises(text, (), spent):
            kind = signature(what)
            known = self.findings.get(kind)
            if (known is None and len(self.findings) < _MOST_FINDINGS) or (known and len(text) < len(known["text"])):
                self.findings[kind] = {"what": what, "text": text}
        rate = sum(spent) / (ALLOWED[0] + ALLOWED[1] * len(text))
        if len(self.slow) < _KEPT_SLOW or rate > self.slow[-1][0]:
            self.slow = sorted([*self.slow, (rate, text)], reverse=True)[:_KEPT_SLOW]
        if time.monotonic() - self._written > 2:
            self.save()

    def save(self) -> None:
        """Writes what there is so far, whole or not at all."""
        self._written = time.monotonic()
        found = {"runs": self.runs, "findings": self.findings, "slow": self.slow}
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(found))
        temporary.replace(self.path)


def signature(what: str) -> str:
    """What kind of failure this is: the words without what is quoted."""
    return re.sub(r"\d+", "0", re.sub(r"(['\"]).*\1", "…", what, flags=re.DOTALL))[:80]


def pumped(text: str, rng: random.Random) -> str:
    """A text with one part of it repeated until it is long."""
    if not text:
        return text
    left = rng.randrange(len(text))
    part = text[left : left + rng.choice((1, 2, 5, 12, 40, 200))]
    return text[:left] + part * (PUMPED // len(part)) + text[left + len(part) :]


def seeds() -> list[str]:
    """The inputs of all cases there are."""
    from parser_rivals import read_cases

    return [case["input"] for which in ("shared", "own") for case in read_cases(which)]


def run_random(journal: Journal, seconds: float, seed: int) -> None:
    """Texts put together from cases and pieces of the format."""
    from parser_properties import PIECES, broken_promises

    rng, cases = random.Random(seed), seeds()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        text = rng.choice(cases)[:3_000] if rng.random() < 0.7 else ""
        for _ in range(rng.randint(1, 8)):
            left = rng.randint(0, len(text))
            right = min(len(text), left + rng.choice((0, 0, 1, 4, 30)))
            new = rng.choice((rng.choice(PIECES), text[left:right] * 2, chr(rng.randrange(0x3100)), "", "\n"))
            text = text[:left] + new + text[right:]
        journal.check(text, broken_promises)
    journal.save()


def run_atheris(journal: Journal, seconds: float, seed: int, packages: str) -> None:
    """libFuzzer over the bytes of a text. Does not return."""
    import site

    site.addsitedir(packages)  # ours are not installed beside atheris
    import atheris

    with atheris.instrument_imports(include=["taograph.graphs.protocols"]):
        from parser_properties import PIECES, broken_promises

    corpus = Path(tempfile.mkdtemp(prefix="taograph-fuzz-"))
    for number, text in enumerate(seeds()):
        (corpus / f"case{number}").write_bytes(text.encode("utf-8", "surrogatepass"))
    words = corpus.with_suffix(".dict")
    encoded = {piece.encode("utf-8", "surrogatepass") for piece in PIECES}
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in sorted(encoded))
    words.write_text("".join(f'"{word}"\n' for word in escaped))

    def one(data: bytes) -> None:
        journal.check(data.decode("utf-8", "surrogateescape"), broken_promises)

    flags = [f"-max_total_time={int(seconds)}", f"-dict={words}", "-max_len=4096", f"-seed={seed}", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *flags, "-print_final_stats=1", "-timeout=60", str(corpus)], one)
    atheris.Fuzz()


def atheris_python() -> Path | None:
    """The Python of an environment that has atheris, made if need be; None, with the reason printed, where there is
    none for this Python."""
    from parser_rivals import install
    from platformdirs import user_cache_path

    home = user_cache_path("taograph") / "bench" / f"{ATHERIS.replace('==', '-')}-py{sys.version_info.minor}"
    python, done = home / "bin" / "python", home / "installed"
    try:
        if not done.exists():
            print(f"making an environment with {ATHERIS} …", file=sys.stderr, flush=True)
            install(home, python, ATHERIS)
            done.write_text(ATHERIS)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"no atheris for this Python ({error}); texts are made at random", file=sys.stderr)
        return None
    return python


def smallest(text: str, kind: str, broken_promises: Promises) -> str:
    """A shorter text that breaks the same promise: parts are left out while it does."""

    def breaks(candidate: str) -> bool:
        return any(signature(what) == kind for what in broken_promises(candidate))

    size = max(1, len(text) // 2)
    deadline = time.monotonic() + 20
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            if breaks(shorter):
                text = shorter
            else:
                at += size
        size //= 2
    return text


def report(found: dict[str, Any], engine: str, minutes: float, seed: int) -> tuple[str, bool]:
    """What was found, in words, and whether all was well; slow texts are timed again, without the fuzzer."""
    from parser_properties import broken_promises

    lines = []
    for kind, finding in found["findings"].items():
        text = smallest(finding["text"], kind, broken_promises)
        again = next((what for what in broken_promises(text) if signature(what) == kind), finding["what"])
        lines.append(f"- {again[:300]}\n  Reply: `{text[:300]!r}`")
    slowest, slow_text = 0.0, ""
    for _, text in found["slow"]:
        spent: list[float] = []
        for _ in range(3):
            broken_promises(text, (), spent)
        best = min(spent, default=0.0)
        if len(text) > 500 and best / len(text) > slowest:
            slowest, slow_text = best / len(text), text
        if best > ALLOWED[0] + ALLOWED[1] * len(text):
            lines.append(f"- {best:.3f} s for {len(text):,} characters: `{text[:200]!r}`")
    summary = f"{engine}, {minutes:g} minutes, seed {seed}: {found['runs']:,} texts. " + (
        f"{len(lines)} findings:\n" if lines else "No promise was broken, and no text took too long.\n"
    )
    if slow_text:
        summary += (
            f"Of the texts that seemed slow, the slowest takes {slowest * 1e6:.2f} µs a character when timed alone "
            f"({len(slow_text):,} characters, read in both modes).\n"
        )
    return summary + "\n".join(lines) + ("\n" if lines else ""), not lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--engine", choices=("auto", "atheris", "random"), default="auto")
    parser.add_argument("--seed", type=int, default=1, help="of the engine (default 1)")
    parser.add_argument("--write", action="store_true", help="write the result into docs/benchmarks.md")
    parser.add_argument("--journal", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--packages", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    seconds = options.minutes * 60
    if options.packages:  # the fuzzer's own process
        run_atheris(Journal(options.journal), seconds, options.seed, options.packages)
    path = options.journal or Path(tempfile.mkdtemp(prefix="taograph-fuzz-")) / "found.json"
    python = None if options.engine == "random" else atheris_python()
    if python is None and options.engine == "atheris":
        return 2
    if python is not None:
        packages = sysconfig.get_path("purelib")
        own = [str(Path(__file__)), "--minutes", str(options.minutes), "--seed", str(options.seed)]
        command = [str(python), *own, "--journal", str(path), "--packages", packages]
        ended = subprocess.run(command, env={**os.environ, "PYTHONWARNINGS": "ignore"}, check=False)
        if ended.returncode or not path.exists():
            print(f"the fuzzer ended with status {ended.returncode}", file=sys.stderr)
            return 2
    else:
        run_random(Journal(path), seconds, options.seed)
    engine = ATHERIS.replace("==", " ") if python else "random texts"
    text, well = report(json.loads(path.read_text()), engine, options.minutes, options.seed)
    print(text)
    if options.write:
        from parser import machine, write

        from taograph import __version__

        write("parser, fuzz", machine({"taograph": __version__}) + "\n" + text)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())

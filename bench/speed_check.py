"""Is it slower than before? Two revisions on the same small workloads, in turn; some minutes.

    bench/check                    the last tag (else origin/main, else HEAD~1) and the working tree
    bench/check v0.1.0             that revision and the working tree
    bench/check main~5 main        two revisions
    bench/check --only sqlite      the workloads whose name contains a word

Both run in this environment, with the packages that are installed here, and on this checkout's workloads; of a revision
comes the package alone. In each pair both get new processes, which are asked in turn; the ratio of a workload is that
of the lower quarters of both sides, with a 95 % interval from resampling the pairs. Instructions are counted where the
processor and the system let us; otherwise it is CPU time. What looks slower is measured once more before it counts.

Exit status 0: nothing is slower; 1: something is, by more than ``--threshold`` percent with all of its interval, or a
workload fails on HEAD alone; 2: it can't be measured, and why.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import speed_meter
from parser_rivals import HERE, ROOT, Worker
from speed_process import homes, run
from speed_session import OURS, SHARED, Session, say, table

TREE = "the working tree"
LOOP = {"work": "loop", "way": "ainvoke", "url": ""}
WORKLOADS: dict[str, dict[str, Any]] = {
    "loop, 10 steps": {**LOOP, "store": "none", "steps": 10, "runs": 3},
    "loop, 200 steps": {**LOOP, "store": "none", "steps": 200},
    "loop, 50 steps, invoke": {**LOOP, "way": "invoke", "store": "none", "steps": 50},
    "SQLite, 10 steps": {**LOOP, "store": "sqlite", "steps": 10, "runs": 2},
    "SQLite, 30 steps": {**LOOP, "store": "sqlite", "steps": 30},
    "trace, 50 steps": {"work": "traced", "steps": 50},
}
OVER_HTTP: dict[str, dict[str, Any]] = {
    "endpoint, 10 steps": {"work": "endpoint", "steps": 10, "runs": 2},
    "endpoint, 100 steps": {"work": "endpoint", "steps": 100, "runs": 1},
}
COMMANDS = {
    "import taograph": ["-c", "import taograph"],
    "import create_react_graph": ["-c", "from taograph import create_react_graph"],
    "tao --help": ["-c", "from taograph.cli import main; main()", "--help"],
}
_CALL_SECONDS = 120.0
_LOOKS, _LOOKS_AT_COMMANDS = 5, 2  # how often something is measured in a pair; the least counts
_RESAMPLED = 5_000


class Unmeasurable(Exception):  # noqa: N818 - it names what is
    """Why two revisions can't be compared."""


@dataclass(frozen=True)
class Side:
    """A revision that is measured.

    Attributes:
        name: As it was given, and its commit.
        path: The folder whose ``taograph`` is its package.
        meter: What is counted.
    """

    name: str
    path: Path
    meter: str

    def environment(self, seed: int) -> dict[str, str]:
        """Variables of its processes; the order of sets differs from pair to pair, not within one."""
        return {"PYTHONPATH": str(self.path), "PYTHONHASHSEED": str(seed), speed_meter.VARIABLE: self.meter}


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Of the lower quarter of each side: what other programs do only adds, and a process can be unlucky as a whole."""
    some = max(2, len(pairs) // 4)
    base, head = (sum(sorted(pair[side] for pair in pairs)[:some]) for side in (0, 1))
    return head / base


@dataclass
class Compared:
    """What came of one workload: a figure of each side, pair by pair; or why there is none."""

    base: list[float] = field(default_factory=list)
    head: list[float] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def interval(self) -> tuple[float, float, float]:
        """The ratio of head to base, and the ends of its 95 % interval."""
        pairs = list(zip(self.base, self.head, strict=True))
        draw = random.Random(0)
        drawn = sorted(ratio(draw.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLED))
        edge = _RESAMPLED // 40
        return ratio(pairs), drawn[edge], drawn[-edge - 1]

    def verdict(self, threshold: float) -> str:
        """In a word or two."""
        if self.failed:
            return "; ".join(f"fails on {side}" for side in self.failed)
        _, low, high = self.interval()
        if low > 1 + threshold:
            return "**slower**"
        if high < 1 - threshold:
            return "faster"
        return "not slower" if high <= 1 + threshold else "not clear"


def git(*words: str) -> bytes:
    """What git says."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    except OSError as error:
        raise Unmeasurable(f"git can't be run ({error}); revisions are taken from its history") from error
    if done.returncode:
        raise Unmeasurable(done.stderr.decode(errors="replace").strip())
    return done.stdout


def commit(revision: str) -> str:
    """The commit that a revision names."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    except Unmeasurable as error:
        if not (ROOT / ".git").exists():
            raise Unmeasurable(f"{ROOT.name} is no git checkout: there is no other revision to compare") from error
        shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
        fix = "this clone has a part of the history only: git fetch --unshallow --tags" if shallow else "see git log"
        raise Unmeasurable(f"there is no revision {revision!r}; {fix}") from error


def before() -> str:
    """What is compared with where nothing is named."""
    try:
        return git("describe", "--tags", "--abbrev=0").decode().strip()
    except Unmeasurable:
        for revision in ("origin/main", "HEAD~1"):
            try:
                commit(revision)
            except Unmeasurable:
                continue
            return revision
    return commit("HEAD~1")  # says what is wrong


@contextmanager
def side(revision: str, meter: str) -> Iterator[Side]:
    """The package of a revision, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="taograph-check-") as folder:
        tree, path, name = ROOT, Path(folder, "path"), revision
        if revision != TREE:
            tree, found = Path(folder, "tree"), commit(revision)
            name = f"{revision} ({found[:9]})"
            archive = git("archive", "--format=tar", found, "src", "graphs", "tools")
            with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
                packed.extractall(tree, filter="data")
        package = path / "taograph"
        package.mkdir(parents=True)
        # As setup.py puts it together.
        for one in (*(tree / "src" / "taograph").iterdir(), tree / "graphs", tree / "tools"):
            (package / one.name).symlink_to(one)
        yield Side(name, path, meter)


def workloads(stack: ExitStack, word: str) -> dict[str, dict[str, Any]]:
    """What the workers are asked, by name."""
    chosen = {name: about for name, about in WORKLOADS.items() if word in name.lower()}
    http = {name: about for name, about in OVER_HTTP.items() if word in name.lower()}
    if http and (SHARED / "peer.py").exists():
        server = stack.enter_context(Session().endpoint())
        chosen |= {name: {**about, "peers": str(SHARED / "peer.py"), "url": server.url} for name, about in http.items()}
    elif http:
        say(f"left out, there is no {SHARED}: {', '.join(http)}")
    return chosen


def command(side: Side, words: list[str], seed: int, count: Callable[[], float] | None) -> float:
    """What a command takes."""
    begun = count() if count else 0.0
    cpu = run([sys.executable, *words], **side.environment(seed))["cpu"]
    return (count() - begun) / 1e9 if count else cpu


class Check:
    """Two revisions, measured pair by pair."""

    def __init__(self, base: Side, head: Side, asked: dict[str, dict[str, Any]], home: str, word: str) -> None:
        self.sides = (base, head)
        self.asked = asked
        self.commands = {name: words for name, words in COMMANDS.items() if word in name.lower()}
        self.home = homes(home)
        self.found = {name: Compared() for name in (*asked, *self.commands)}
        self._count = speed_meter.counter() if head.meter == speed_meter.INSTRUCTIONS else None
        self._seed = 0

    def pair(self, names: list[str], *, counts: bool = True) -> None:
        """Measure once on each side: in turn, and each first as often as the other."""
        self._seed += 1
        sides = self.sides if self._seed % 2 else self.sides[::-1]
        script = HERE / "speed_worker.py"
        workers = {
            side.path: Worker(OURS, Path(sys.executable), _CALL_SECONDS, script, side.environment(self._seed))
            for side in sides
        }
        try:
            for name in names:
                least: dict[Path, float] = {}
                for look in range(_LOOKS_AT_COMMANDS if name in self.commands else _LOOKS):
                    for one in sides[:: -1 if look % 2 else 1]:
                        value = self._figure(name, one, workers[one.path])
                        if value is not None:
                            least[one.path] = min(value, least.get(one.path, value))
                if counts and len(least) == len(sides):
                    base, head = self.sides
                    self.found[name].base.append(least[base.path])
                    self.found[name].head.append(least[head.path])
        finally:
            for worker in workers.values():
                worker.close()

    def _figure(self, name: str, side: Side, worker: Worker) -> float | None:
        if side.name in self.found[name].failed:
            return None
        if name in self.commands:
            try:
                return command(side, self.commands[name], self._seed, self._count)
            except SystemExit as error:
                self.found[name].failed[side.name] = str(error)
                return None
        file = (worker.ask({"work": "where"}) or {}).get("file")
        if not file or not Path(file).is_relative_to(side.path):
            raise Unmeasurable(f"the package of {side.name} is not what Python imports, but {file}")
        answer = worker.ask(dict(self.asked[name])) or {"failed": "it took too long"}
        if "ms" not in answer:
            self.found[name].failed[side.name] = answer.get("failed", "its process died")
            return None
        return float(answer["ms"])

    def slower(self, threshold: float) -> list[str]:
        """The workloads that got slower, or that fail on the head alone."""
        base, head = self.sides
        return [
            name
            for name, one in self.found.items()
            if one.verdict(threshold) == "**slower**" or (head.name in one.failed and base.name not in one.failed)
        ]


def shown(check: Check, threshold: float) -> str:
    """A table of what came of it."""
    rows = []
    for name, one in check.found.items():
        cells = ["–"] * 4
        if not one.failed:
            times, low, high = one.interval()
            cells = [f"{min(one.base):.4g}", f"{min(one.head):.4g}", f"{times:.3f}", f"{low:.3f} – {high:.3f}"]
        rows.append([name, *cells, one.verdict(threshold)])
    base, head = check.sides
    return table(["Workload", base.name, head.name, "ratio", "95 % interval", ""], rows)


def meter(wanted: str) -> str:
    """What can be counted here."""
    if wanted == "cpu":
        return wanted
    try:
        speed_meter.counter()
    except OSError as error:
        if wanted == speed_meter.INSTRUCTIONS:
            raise Unmeasurable(f"instructions can't be counted here: {error}") from error
        return "cpu"
    return speed_meter.INSTRUCTIONS


def compare(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        counted = meter(options.meter)
        os.environ.pop(speed_meter.VARIABLE, None)
        base = stack.enter_context(side(options.base or before(), counted))
        head = stack.enter_context(side(options.head, counted))
        word = options.only.lower()
        asked = workloads(stack, word)
        home = stack.enter_context(tempfile.TemporaryDirectory())
        check = Check(base, head, asked, home, word)
        names = list(check.found)
        if not names:
            raise Unmeasurable(
                f"no workload is called {options.only!r}: {', '.join((*WORKLOADS, *OVER_HTTP, *COMMANDS))}"
            )
        say(f"{base.name} and {head.name}: {counted}, {options.pairs} pairs")
        check.pair(names, counts=False)  # byte code is made, files are read
        for number in range(options.pairs):
            check.pair(names)
            say(f"  pair {number + 1}")
        threshold = options.threshold / 100
        if again := [name for name in check.slower(threshold) if not check.found[name].failed]:
            say(f"  once more: {', '.join(again)}")
            for _ in range(options.pairs):
                check.pair(again)
        unit = "billions of instructions" if counted == speed_meter.INSTRUCTIONS else "CPU"
        print(f"In {unit} (ms a step, commands in seconds), least of all pairs; ratio {head.name} to {base.name}:\n")
        print(shown(check, threshold))
        for name, one in check.found.items():
            for where, why in one.failed.items():
                print(f"\n{name} failed on {where}:\n{why}")
        return 1 if check.slower(threshold) else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", help="a revision; by default the last tag, origin/main or HEAD~1")
    parser.add_argument("head", nargs="?", default=TREE, help="a revision; by default the working tree")
    parser.add_argument("--pairs", type=int, default=8, help="how often both are measured (default 8)")
    parser.add_argument("--threshold", type=float, default=3.0, metavar="PERCENT", help="what is let pass (default 3)")
    parser.add_argument("--only", default="", metavar="WORD", help="only workloads whose name contains this")
    parser.add_argument("--meter", choices=("auto", "cpu", speed_meter.INSTRUCTIONS), default="auto")
    options = parser.parse_args()
    if options.pairs < 3:
        parser.error("--pairs: three at least, or there is no interval")
    try:
        return compare(options)
    except Unmeasurable as error:
        print(f"bench/check: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""One framework in a process of its own, which the speed benchmark asks: ``python speed_worker.py NAME``.

Runs in the environment of the framework; needs nothing else. Reads one JSON object a line, which names some work, and
answers each with one line. Imports nothing of a framework before it is asked for it.
"""

from __future__ import annotations

import sys

# Behind everything else: some files here have the names of modules of the standard library.
sys.path.append(sys.path.pop(0))

import asyncio
import contextlib
import gc
import importlib.util
import json
import os
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from speed_meter import used

PACKAGES = {
    "taograph": ("taograph", "langgraph", "langchain-core", "langchain-openai", "openai"),
    "create_agent": ("langchain",),
    "create_react_agent": ("langgraph-prebuilt",),
    "pydantic_ai": ("pydantic-ai-slim",),
    "openai_agents": ("openai-agents",),
    "smolagents": ("smolagents",),
    "llama_index": ("llama-index-core",),
}
_MANY = "1000"


class Peer:
    """A framework of the shared ``peer.py``, which is a script: its set-up is taken, and it is not run to its end."""

    def __init__(self, path: Path, name: str, url: str) -> None:
        os.environ["FAKE_OPENAI"] = url
        sys.argv = [str(path), name, _MANY, "1"]
        spec = importlib.util.spec_from_file_location("peer", path)
        assert spec
        assert spec.loader
        self._module: Any = importlib.util.module_from_spec(spec)
        runs, asyncio.run = asyncio.run, lambda main, **_: main.close()
        try:
            spec.loader.exec_module(self._module)
        finally:
            asyncio.run = runs
        self._run = self._module.MAKERS[name]()

    async def run(self, steps: int) -> None:
        self._module.PROMPT = f"steps={steps} Look the records up one after another."
        answer, _ = await self._run()
        if "done" not in str(answer):
            raise RuntimeError(f"not the answer: {answer!r}")


class Work:
    """What can be asked for; each returns figures.

    Args:
        name: The framework.
        runner: The one event loop of the process: clients keep connections that belong to it.
    """

    def __init__(self, name: str, runner: asyncio.Runner) -> None:
        self.name, self.runner = name, runner
        self._peer: Peer | None = None

    def endpoint(self, peers: str, url: str, steps: int, runs: int) -> dict[str, Any]:
        """Runs over HTTP, one after the other: milliseconds of CPU a step."""
        if self._peer is None:
            self._peer = Peer(Path(peers), self.name, url)
            self.runner.run(self._peer.run(10))
        gc.collect()
        begun = used()
        for _ in range(runs):
            self.runner.run(self._peer.run(steps))
        return {"ms": (used() - begun) / runs / (steps + 1) * 1e3}

    def loop(self, **about: Any) -> dict[str, Any]:
        from speed_runs import loop

        return loop(self.name, self.runner, **about)

    def many(self, **about: Any) -> dict[str, Any]:
        from speed_runs import many

        return self.runner.run(many(self.name, **about))

    def tools(self, **about: Any) -> dict[str, Any]:
        from speed_runs import tools

        return tools(self.name, self.runner, **about)

    def stream(self, **about: Any) -> dict[str, Any]:
        from speed_reading import stream

        return self.runner.run(stream(self.name, **about))

    def first(self, **about: Any) -> dict[str, Any]:
        from speed_reading import first

        return self.runner.run(first(self.name, **about))

    def memory(self, **about: Any) -> dict[str, Any]:
        from speed_memory import memory

        return self.runner.run(memory(self.name, **about))

    def profile(self, **about: Any) -> dict[str, Any]:
        from speed_profile import profile

        return profile(self.name, self.runner, **about)

    def traced(self, **about: Any) -> dict[str, Any]:
        from speed_runs import traced

        return traced(self.name, **about)

    def where(self) -> dict[str, Any]:
        """The file of the package that is measured."""
        spec = importlib.util.find_spec(self.name)
        return {"file": spec.origin if spec else None}


def main() -> None:
    name = sys.argv[1]
    # Libraries print; the answers go where nothing of that goes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ.update(OPENAI_API_KEY="x", LANGSMITH_TRACING="false", OPENAI_AGENTS_DISABLE_TRACING="1")
    versions = {}
    for package in PACKAGES.get(name, ()):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    print(json.dumps({"versions": versions}), file=answers, flush=True)
    with asyncio.Runner() as runner:
        work = Work(name, runner)
        for line in sys.stdin:
            request = json.loads(line)
            request.pop("timeout")
            do: Callable[..., dict[str, Any]] = getattr(work, request.pop("work"))
            try:
                answer = do(**request)
            except Exception:  # noqa: BLE001 - it is told to the one who asked
                answer = {"failed": traceback.format_exc()[-3000:]}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

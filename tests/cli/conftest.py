"""Makes the helpers beside the test folders importable, and the command callable within the test's process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cli_support import environment


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


Tao = Callable[..., Done]


@pytest.fixture
def tao(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Tao]:
    """Call the command within this process: quick, and with no terminal anywhere."""
    from taograph.cli import main

    wanted = environment(tmp_path)
    for name in set(os.environ) - set(wanted):
        monkeypatch.delenv(name)
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    nothing = open(os.devnull)  # noqa: SIM115 - closed behind the test
    monkeypatch.setattr("sys.stdin", nothing)

    def call(*args: str, env: dict[str, str] | None = None) -> Done:
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        code = main(list(args))
        out, err = capfd.readouterr()
        return Done(code, out, err)

    yield call
    nothing.close()

"""Running the real command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "taograph.cli"]
_OURS = ("OPENAI_", "AZURE_", "ANTHROPIC_", "TAOGRAPH_", "LANGSMITH_", "LANGCHAIN_")
_VIEW = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing is configured and nothing is written outside of ``home``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) and name not in _VIEW}
    own = {"TAOGRAPH_DATA": str(home / "data"), "TAOGRAPH_CACHE": str(home / "cache"), "TERM": "xterm-256color"}
    return {**kept, **own, **more}


def tao(*args: str, home: Path, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``tao`` and wait for it; stdin is empty unless ``input`` gives it."""
    options.setdefault("stdin", subprocess.DEVNULL) if "input" not in options else None
    return subprocess.run(
        [*COMMAND, *args],
        env=environment(home, **(env or {})),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        **options,
    )

"""`langgraph dev` with the project's own langgraph.json, as in a clone of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from dev_server import ROOT, DevServer
from fake_openai_server import FakeOpenAI
from langgraph_sdk import get_sync_client

QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "Who are you?"}]}


def clone(folder: Path) -> Path:
    """The tree as a clone has it, without a copy of the files."""
    for name in ("graphs", "tools", "src", "pyproject.toml", "setup.py", "README.md"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "langgraph.json", folder)
    return folder


def test_it_is_valid(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "langgraph_cli", "validate", "-c", str(clone(tmp_path) / "langgraph.json")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = checked.stdout + checked.stderr
    assert checked.returncode == 0, said
    assert "is valid" in said
    assert "unknown" not in said.lower()


def test_it_is_served_without_a_file_of_settings_and_without_a_model(tmp_path: Path) -> None:
    with DevServer(clone(tmp_path), None) as server, get_sync_client(url=server.url) as client:
        served = {assistant["graph_id"]: assistant for assistant in client.assistants.search()}
        said: Any = client.runs.wait(None, "react", input=QUESTION, raise_error=False)
    named = json.loads((ROOT / "langgraph.json").read_text("utf-8"))["graphs"]
    assert set(served) == set(named)
    for graph, spec in named.items():
        assert served[graph]["description"] == spec["description"]
    assert "no model: name one" in said["__error__"]["message"]


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    with FakeOpenAI(["The model of the file."]) as fake:
        (clone(tmp_path) / ".env").write_text(f"TAOGRAPH_MODEL={fake.url}#mine\nTAOGRAPH_API_KEY=sk-of-the-file\n")
        with DevServer(tmp_path, None) as server, get_sync_client(url=server.url) as client:
            said: Any = client.runs.wait(None, "react", input=QUESTION)
    assert said["answer"] == "The model of the file."
    assert fake.requests[0]["model"] == "mine"
    assert fake.headers[0]["authorization"] == "Bearer sk-of-the-file"
    assert "sk-of-the-file" not in server.log

"""`tao run --mcp` and `tao tools --mcp`: the tools of MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_support import start
from fake_openai_server import FakeOpenAI, Reply

pytest.importorskip("langchain_mcp_adapters", reason="needs taograph[mcp]")

SERVER = str(Path(__file__).parents[1] / "tools" / "mcp_odd_server.py")
BAD = {"command": "no-such-program-4711"}
ECHO = Reply(calls=[("notes_echo", {"text": "hello"})])


def server(**told: Any) -> dict[str, Any]:
    tools = [{"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}]
    return {"command": sys.executable, "args": [SERVER, json.dumps({"tools": tools, **told})]}


def write(folder: Path, **servers: Any) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_run_has_their_tools_beside_the_others(tao: Any, tmp_path: Path, how: str) -> None:
    path = write(tmp_path, notes=server(), bad=BAD)
    options, env = (("--mcp", path), {}) if how == "option" else ((), {"TAOGRAPH_MCP": path})
    with FakeOpenAI([ECHO, "Hello."]) as model:
        done = tao("run", "Say hello.", "--model", f"{model.url}#fake", "--tools", "calculator", *options, env=env)
        offered = {tool["function"]["name"] for tool in model.requests[0]["tools"]}
    assert done.code == 0
    assert {"calculator", "notes_echo"} <= offered
    assert 'Action: notes_echo(text="hello")' in done.out
    assert '{"name": "echo", "arguments": {"text": "hello"}}' in done.out
    assert "The MCP server bad is left out: there is no program 'no-such-program-4711'." in done.err


def test_the_rest_goes_on_without_any(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI(["Hello."]) as model:
        done = tao("run", "Hello?", "--model", f"{model.url}#fake", "--mcp", write(tmp_path, bad=BAD))
    assert done.code == 0
    assert "Answer: Hello." in done.out
    assert "The MCP server bad is left out" in done.err


def test_they_are_listed(tao: Any, tmp_path: Path) -> None:
    done = tao("tools", "--mcp", write(tmp_path, notes=server(), bad=BAD))
    assert done.code == 0
    (line,) = [line for line in done.out.splitlines() if line.startswith("notes_echo ")]
    assert "Say it again." in line
    assert "\ncalculator " in done.out
    assert "The MCP server bad is left out" in done.err
    assert "tao tools --mcp mcp.json" in tao("tools").out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "mcp.json can't be read: No such file or directory"),
        ("{", "mcp.json is not JSON, line 1, column 2"),
        ('{"mcpServers": {"a": {}}}', "mcpServers.a: give either a command to start or a url to connect to"),
    ],
)
def test_a_file_that_cannot_be_used(tao: Any, tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "mcp.json").write_text(text)
    for command in (("run", "Hello?", "--model", "http://127.0.0.1:9/v1#x"), ("tools",)):
        done = tao(*command, "--mcp", str(tmp_path / "mcp.json"))
        assert done.code == 2
        assert says in done.err
        assert "--mcp (TAOGRAPH_MCP)" in done.err


def test_what_servers_write_to_stderr_is_not_shown_and_they_end_with_the_command(tmp_path: Path) -> None:
    path = write(tmp_path, notes=server(says="a banner", greeting=f"no message {tmp_path}"))
    with FakeOpenAI([ECHO, "Hello."]) as model:
        process = start("run", "Say hello.", "--model", f"{model.url}#fake", "--mcp", path, home=tmp_path)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Answer: Hello." in out
    assert "banner" not in out + err
    assert "Traceback" not in err
    assert not any(str(tmp_path) in command for command in commands())


def commands() -> list[str]:
    """The command lines of all processes."""
    return [text for each in Path("/proc").glob("[0-9]*/cmdline") if (text := command_line(each))]


def command_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # it has ended meanwhile


def test_doctor_looks_at_the_file_and_starts_nothing(tao: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    lacking = {"command": sys.executable, "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}}
    started = {"command": sys.executable, "args": ["-c", f"open({str(tmp_path / 'started')!r}, 'w')"]}
    path = write(tmp_path, notes=server(), bad=BAD, lacking=lacking, started=started)
    done = tao("doctor", "--json", env={"TAOGRAPH_MCP": path})
    found = [check for check in json.loads(done.out)["checks"] if check["name"] == "MCP servers"]
    assert [(check["status"], check["detail"]) for check in found] == [
        (
            "note",
            "lacking: env.TOKEN: the environment has no NO_SUCH_VARIABLE: set it, or write "
            "${NO_SUCH_VARIABLE:-otherwise}",
        ),
        ("note", "bad: there is no program 'no-such-program-4711'"),
        ("ok", f"notes, started in {path}"),
    ]
    assert not (tmp_path / "started").exists()
    (tmp_path / "mcp.json").write_text("{")
    done = tao("doctor", "--json")
    assert "is not JSON" in next(c["detail"] for c in json.loads(done.out)["checks"] if c["name"] == "MCP servers")
    assert done.code == 1


def test_a_thread_remembers_its_servers(tao: Any, tmp_path: Path) -> None:
    path = write(tmp_path, notes=server())
    ask = Reply(calls=[("ask_person", {"question": "Which?"})])
    with FakeOpenAI([ask, "Blue."]) as model:
        done = tao("run", "Which?", "--model", f"{model.url}#fake", "--mcp", path, "--thread", "t")
        assert done.code == 4
        assert tao("resume", "t", "--answer", "blue").code == 0
        before, after = (sorted(tool["function"]["name"] for tool in request["tools"]) for request in model.requests)
    assert before == after
    assert len(before) > 6

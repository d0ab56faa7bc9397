"""``mcp.json``: its forms and faults, servers that can't be used, names, schemas, and secrets that stay hidden."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_service import HTML, SILENCE, Answer, Service
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool

pytest.importorskip("langchain_mcp_adapters", reason="needs taograph[mcp]")

from mcp_support import PATIENCE, Remote, asked, config, free_port, listed, observe, odd, sample, texts

from taograph import checkpoints, create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools import mcp
from taograph.tools.engines.mcp_adapting import effects_of, sound_schema
from taograph.tools.engines.mcp_config import ServerSpec, full_name, read_config
from taograph.tools.mcp import close_mcp_tools, mcp_tools
from taograph.tools.policy import policy_of
from taograph.tools.schemas import fault_of

SECRET = "b4-very-4711-private"


@pytest.fixture
def load() -> Iterator[Any]:
    """``mcp_tools``, closed with the test; ``load.failed`` has what could not be used."""

    class Load:
        def __init__(self) -> None:
            self.tools: list[BaseTool] = []
            self.failed: dict[str, str] = {}

        def __call__(self, settings: Any, **options: Any) -> list[BaseTool]:
            tools = mcp_tools(settings, on_failure=self.failed.__setitem__, **options)
            self.tools += tools
            return tools

    made = Load()
    yield made
    close_mcp_tools(made.tools)


def names(tools: list[BaseTool]) -> list[str]:
    return [tool.name for tool in tools]


def spec(settings: dict[str, Any]) -> ServerSpec:
    found = read_config(config(s=settings))["s"]
    assert isinstance(found, ServerSpec), found
    return found


def test_the_forms_that_people_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/data")
    monkeypatch.delenv("NOWHERE", raising=False)
    local = spec({"command": "run", "args": ["--at", "${WHERE}/x", 5], "env": {"A": "${env:WHERE}"}, "cwd": "${WHERE}"})
    assert (local.transport, local.command, local.args, local.cwd) == (
        "stdio",
        "run",
        ("--at", "/data/x", "5"),
        "/data",
    )
    assert local.env == {"A": "/data"}
    remote = spec({"url": "https://a.example/${NOWHERE:-mcp}", "headers": {"X-Team": "$WHERE"}})
    assert (remote.transport, remote.url, remote.headers) == ("http", "https://a.example/mcp", {"X-Team": "$WHERE"})
    for said, meant in (("sse", "sse"), ("streamable-http", "http"), ("http", "http")):
        assert spec({"url": "http://a.example", "type": said}).transport == meant
        assert spec({"url": "http://a.example", "transport": said}).transport == meant
    assert spec({"command": "x", "type": "stdio", "alwaysAllow": ["y"], "timeout": 5}).transport == "stdio"
    assert read_config({"servers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": True}}}).keys() == {"a"}


def test_a_file_is_read(tmp_path: Path, load: Any) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("\ufeff" + json.dumps(config(s=odd(listed("echo")))), encoding="utf-8")
    assert names(load(path)) == ["s_echo"]
    assert names(load(str(path))) == ["s_echo"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, r"mcpServers\.a: give either a command to start or a url"),
        ({"command": "x", "url": "http://b"}, r"mcpServers\.a: give either"),
        ({"command": ["x"]}, r"mcpServers\.a\.command: write a text"),
        ({"command": "x", "args": "y"}, r"mcpServers\.a\.args: write a list"),
        ({"command": "x", "args": [None]}, r"mcpServers\.a\.args\[0\]: write a text"),
        ({"command": "x", "env": ["A=1"]}, r"mcpServers\.a\.env: write"),
        ({"command": "x", "type": "http"}, r"mcpServers\.a\.type: 'http' does not fit: use \"stdio"),
        ({"url": "http://b", "type": "ws"}, r"mcpServers\.a\.type: 'ws' does not fit: use \"http"),
        ({"url": "ftp://b"}, r"mcpServers\.a\.url: write an address that starts with http"),
        ({"url": "http://b", "taograph": {"tools": 5}}, r"a\.taograph\.tools: write"),
        ({"url": "http://b", "taograph": {"time": 5}}, r"a\.taograph\.time: there is no such setting"),
        ({"url": "http://b", "taograph": {"timeout": 0}}, r"a\.taograph: timeout=0: give seconds"),
        ({"url": "http://b", "taograph": {"timeout": "5"}}, r"a\.taograph: timeout and max_chars are numbers"),
        ({"url": "http://b", "taograph": {"only": "x"}}, r"a\.taograph\.only: write a list"),
        ({"url": "http://b", "taograph": {"start_seconds": -1}}, r"a\.taograph\.start_seconds: write seconds"),
        ({"url": "http://b", "taograph": {"tools": {"x": {"effects": "some"}}}}, r"tools\.x: effects='some': use"),
        ("run it", r'mcpServers\.a: write \{"command": …\} or \{"url": …\}'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_with_its_place(settings: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": settings}}), encoding="utf-8")
    for given, where in ((path, r"mcp\.json: "), ({"mcpServers": {"a": settings}}, "mcp: ")):
        with pytest.raises(ValueError, match=f"{where}.*{says}"):
            mcp_tools(given)


@pytest.mark.parametrize("settings", [{}, {"mcpServers": []}, {"mcp": {}}], ids=str)
def test_a_file_of_another_form(settings: Any) -> None:
    with pytest.raises(ValueError, match=r'mcp: write \{"mcpServers"'):
        mcp_tools(settings)


def test_a_file_that_is_none_is_said_without_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json can't be read: No such file"):
        mcp_tools(tmp_path / "none.json")
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {\n "a": {"env": {"KEY": "' + SECRET + '"}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"mcp\.json is not JSON, line 2, column \d+$") as raised:
        mcp_tools(path)
    assert raised.value.__cause__ is None
    assert SECRET not in str(raised.value)


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(mcp, "find_spec", lambda name: None if name == "langchain_mcp_adapters" else found(name))
    with pytest.raises(ValueError, match=r"pip install taograph\[mcp\]"):
        mcp_tools(config(s=odd()))


def test_a_server_that_cannot_be_used_is_named_and_the_rest_goes_on(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    port = free_port()
    (tmp_path / "plain.txt").write_text("text")
    with Service(lambda _: {}) as locked, Service(lambda _: {}) as page, Service(lambda _: {}) as silent:
        locked.fail(Answer(status=401), times=None)
        page.fail(HTML, times=None)
        silent.fail(SILENCE, times=None)
        quick = {"start_seconds": 3}
        tools = load(
            config(
                good=odd(listed("echo")),
                missing={"command": "no-such-program-4711"},
                plain={"command": str(tmp_path / "plain.txt")},
                folder={"command": sys.executable, "cwd": str(tmp_path / "none")},
                variable={"command": "x", "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}},
                asked={"command": "x", "args": ["${input:key}"]},
                exits=odd(exits=3, says="first\nNo module named 'pony'\n"),
                at_once={"command": "false"},
                stuck=odd(silent=["initialize"], own=quick),
                lists=odd(silent=["tools/list"], own=quick),
                down={"url": f"http://127.0.0.1:{port}/mcp?key={SECRET}"},
                locked={"url": f"{locked.url}/mcp?key={SECRET}"},
                page={"url": f"{page.url}/mcp"},
                silent={"url": f"{silent.url}/mcp", "taograph": quick},
            )
        )
        assert names(tools) == ["good_echo"]
        assert load.failed == {
            "missing": "there is no program 'no-such-program-4711'",
            "plain": f"'{tmp_path}/plain.txt' can't be started: Permission denied",
            "folder": f"its folder {tmp_path}/none does not exist",
            "variable": (
                "env.TOKEN: the environment has no NO_SUCH_VARIABLE: set it, or write ${NO_SUCH_VARIABLE:-otherwise}"
            ),
            "asked": "args[0]: ${input:key} is nothing that can be filled in here: use ${VARIABLE}",
            "exits": "it ended (it said: first; No module named 'pony')",
            "at_once": "it ended",
            "stuck": "it did not start within 3 s",
            "lists": "it did not list its tools within 3 s",
            "down": f"http://127.0.0.1:{port} can't be reached",
            "locked": f"{locked.url} answers with HTTP status 401; check its url and headers",
            "page": f"{page.url} answers with something that is not MCP",
            "silent": "it did not start within 3 s",
        }


def test_without_a_listener_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tools = mcp_tools(config(good=odd(listed("echo")), bad={"command": "no-such-program-4711"}))
    close_mcp_tools(tools)
    assert caplog.messages == ["the MCP server bad is left out: there is no program 'no-such-program-4711'"]


def test_no_server_at_all_is_an_error_where_nobody_listens() -> None:
    servers = {"a": {"command": "no-such-program-1"}, "b": {"command": "no-such-program-2"}}
    with pytest.raises(ValueError, match=r"no MCP server can be used\. a: there is no program .*; b: there is no"):
        mcp_tools(config(**servers))
    told: dict[str, str] = {}
    assert mcp_tools(config(**servers), on_failure=told.__setitem__) == []
    assert list(told) == ["a", "b"]
    assert mcp_tools({"mcpServers": {}}) == []


def test_only_what_is_wanted_is_started(load: Any, tmp_path: Path) -> None:
    servers = config(a=odd(listed("x"), listed("y")), a_b=odd(listed("z")), c={"command": "no-such-program-4711"})
    assert names(load(servers, only=["a"])) == ["a_x", "a_y"]
    assert names(load(servers, only=["a_y", "a_b"])) == ["a_y", "a_b_z"]
    assert names(load(servers, only="a_x")) == ["a_x"]
    assert load.failed == {}  # c was not tried
    assert names(load(servers, only=["a_x", "c_any"])) == ["a_x"]
    assert list(load.failed) == ["c"]
    for wanted in ("a_w", "d"):
        with pytest.raises(ValueError, match=f"only='{wanted}' is neither an MCP server nor a tool of one"):
            load(servers, only=["a_x", wanted])


def test_what_the_file_says_of_tools(load: Any) -> None:
    own = {
        "timeout": 7,
        "trusted": True,
        "only": ["x", "y"],
        "tools": {"y": {"effects": "none", "timeout": None, "max_chars": 300}},
    }
    servers = config(s=odd(listed("x"), listed("y"), listed("z"), own=own))
    x, y = load(servers)
    assert (policy_of(x).effects, policy_of(x).timeout, policy_of(x).trusted) == ("once", 7, True)
    assert (policy_of(y).effects, policy_of(y).timeout, policy_of(y).max_chars) == ("none", None, 300)
    (seen,) = observe("invoke", [x], call("s_x", {}))
    assert seen.content == '{"name": "x", "arguments": {}}'  # not framed: it is trusted
    for settings in ({"only": ["w"]}, {"tools": {"w": {}}}):
        with pytest.raises(ValueError, match=r"mcpServers\.s\.taograph: it has no tool 'w'; it has x"):
            load(config(s=odd(listed("x"), own=settings)))


def test_names_are_what_providers_take(load: Any) -> None:
    long = "a" * 70
    servers = {"git.hub/x": odd(listed("read.file"), listed("schön"), listed(long), listed(long + "b"))}
    tools = load(config(**servers))
    assert names(tools)[:2] == ["git_hub_x_read_file", "git_hub_x_sch_n"]
    first, second = names(tools)[2:]
    assert len(first) == len(second) == 64
    assert first[:55] == second[:55] == "git_hub_x_" + "a" * 45
    assert first != second
    assert texts("invoke", tools, call("git_hub_x_read_file", {})) == ['{"name": "read.file", "arguments": {}}']
    assert full_name("s", "t") == "s_t"


def test_two_tools_of_one_name_are_refused(load: Any) -> None:
    both = config(a=odd(listed("b_c")), a_b=odd(listed("c")))
    with pytest.raises(ValueError, match=r"two tools would be named 'a_b_c', of the MCP servers 'a' and 'a_b': give"):
        load(both)
    with pytest.raises(ValueError, match=r"two tools would be named 's_x_y', of the MCP servers 's' and 's'"):
        load(config(s=odd(listed("x.y"), listed("x/y"))))


def test_lists_of_several_pages(load: Any) -> None:
    tools = load(config(s=odd(*(listed(f"t{number}") for number in range(7)), page=3)))
    assert names(tools) == [f"s_t{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("hints", "effects"),
    [
        ({}, "once"),
        ({"readOnlyHint": True}, "none"),
        ({"readOnlyHint": True, "destructiveHint": False}, "none"),
        ({"readOnlyHint": True, "destructiveHint": True}, "once"),
        ({"idempotentHint": True, "destructiveHint": True}, "idempotent"),
        ({"destructiveHint": False}, "once"),
        ({"readOnlyHint": "yes"}, "once"),
    ],
)
def test_hints(hints: dict[str, Any], effects: str) -> None:
    assert effects_of(hints) == effects


def test_a_schema_that_holds_is_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
        "$defs": {"A": {"type": "string", "enum": ["x", "y"]}},
        "additionalProperties": False,
    }
    assert sound_schema(schema) == schema


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": None},
        {"type": "strin"},
        {"anyOf": [{"type": "object"}, {"type": "null"}]},
        {"properties": {"a": {"$ref": "http://169.254.169.254/secret"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"type": "number", "exclusiveMinimum": True, "description": "A."}}, "required": ["a"]},
        {"properties": {"a": "a text"}, "required": "a"},
    ],
    ids=str,
)
def test_a_schema_that_does_not_hold_is_reduced(schema: Any) -> None:
    made = sound_schema(schema)
    assert made["type"] == "object"
    assert fault_of(made) is None
    given = schema.get("properties") if isinstance(schema, dict) else None
    assert set(made["properties"]) == set(given or {})
    assert "anyOf" not in made


def test_a_tool_with_a_broken_schema_can_be_called(load: Any) -> None:
    broken = {"type": "object", "properties": {"a": {"type": "integr", "description": "A number."}}, "required": ["a"]}
    endless = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/X"}},
        "$defs": {"X": {"allOf": [{"$ref": "#/$defs/X"}]}},
    }
    tools = load(config(s=odd(listed("x", broken), listed("y", endless), listed("z", description=" "))))
    assert tools[0].args == {"a": {"description": "A number."}}
    assert tools[2].description == "The tool z of the MCP server s."
    first, second, _ = observe("invoke", tools, asked("x", a=1), asked("y", a=1), asked("z"))
    assert str(first.content).endswith('{"name": "x", "arguments": {"a": 1}}')
    assert "could not be checked (RecursionError)" in str(second.content)  # and the run goes on


def test_secrets_stay_hidden(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    database = tmp_path / "threads.sqlite"
    with Remote() as remote:
        headers = {"Authorization": "Bearer ${MY_API_KEY}"}
        there = remote.settings(headers=headers)
        there["url"] += "?key=${MY_API_KEY}"
        local = sample({"SAMPLE_TOKEN": SECRET, "PLAIN": "a-plain-value"})
        tools = load(config(s=local, r=there))
        assert SECRET not in repr(tools) + str(tools) + repr(read_config(config(s=local, r=there)))
        calls = [
            asked("reveal", name="SAMPLE_TOKEN"),
            asked("reveal", name="PLAIN"),
            asked("fail", secret=True),
            call("r_headers", {}),
        ]
        model = ScriptedModel(replies=[AIMessage("", tool_calls=calls), "Done."])
        with checkpoints.open(f"sqlite:///{database}") as saver:
            graph = create_react_graph(model, tools, checkpointer=saver)
            events = list(graph.stream({"messages": [("user", "Go.")]}, {"configurable": {"thread_id": "t"}}))
        remote.kill()
        (gone,) = observe("invoke", tools, call("r_headers", {}))
    seen = [str(message.content) for message in model.requests[-1].messages]
    assert sum("[secret]" in text for text in seen) == 3
    assert any("a-plain-value" in text for text in seen)  # what is no secret is shown
    assert any("Bearer" not in text and "[secret]" in text for text in seen)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a-plain-value" in kept
    assert SECRET.encode() not in kept
    assert SECRET not in repr(events) + str(gone)
    assert "HTTP Request: POST" in caplog.text  # the libraries did log, and their addresses
    assert SECRET not in caplog.text


def test_a_server_that_tells_a_secret_when_it_fails(load: Any) -> None:
    bad = odd(exits=1, says=f"bad token {SECRET}")
    load(config(good=odd(listed("x")), bad={**bad, "env": {"TOKEN": SECRET}}))
    assert load.failed == {"bad": "it ended (it said: bad token [secret])"}


def test_a_server_that_talks_to_stderr_without_end_is_not_blocked(load: Any) -> None:
    began = time.monotonic()
    tools = load(config(s=odd(listed("x"), says="chatter ", times=100_000)))
    assert names(tools) == ["s_x"]
    assert time.monotonic() - began < PATIENCE

"""What `tao` and `import taograph` load: nothing before it is needed, by the names of what was once loaded in vain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import environment
from fake_openai_server import FakeOpenAI, Reply

from taograph.cli import main
from taograph.cli.app import COMMANDS

# What a run with the usual tools against an endpoint has no use for before its first request, and who brings it.
NOT_BEFORE_THE_FIRST_REQUEST = {
    "docx": "read_file, for a Word document",
    "taograph.tools.engines.document_index": "the document tools, before they are called",
    "jsonpointer": "langchain_core, for astream_log",
    "jsonschema": "tools.schemas, for tools with a schema of JSON and for the text protocol",
    "langchain": "init_chat_model, for models of other providers",
    "langgraph_sdk.client": "LangGraph's Runtime, for one class of that package",
    "langsmith.types.run": "langchain_core's tracers, for one list of names",
    "numpy": "langchain_core, if it is installed",
    "openai.types.beta": "openai",
    "openai.types.responses.response": "openai",
    "phonenumbers": "redaction, for texts with numbers",
    "pygments": "httpx's command line",
    "psutil._common": "langsmith, to tell of the machine",
    "pypdf": "read_file, for a PDF",
    "rich": "httpx's command line, and our own in a terminal",
    "sqlalchemy": "the database tools",
    "tiktoken._tiktoken": "langchain_openai, for models whose tokens are counted beforehand",
    "trafilatura": "open_page",
    "transformers": "langchain_core's count of tokens, if it is installed",
    "xllamacpp": "the local model",
    "yaml.loader": "langchain_core, to write completion models to files",
}
SCRIPT = """
import sys

def look(event, arguments):
    if event == "socket.connect" and arguments[1][1:2] == ({port},):
        print("LOADED", *sys.modules, file=sys.stderr, flush=True)

sys.addaudithook(look)
sys.argv[0] = "tao"
from taograph.cli import main
sys.exit(main())
"""


def loaded(script: str, *arguments: str, home: Path) -> tuple[list[str], str]:
    """The modules that a process names on stderr after LOADED, and what it wrote on stdout."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment(home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    marked = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("LOADED")]
    return marked[0], done.stdout


def found(modules: list[str], unwanted: dict[str, str]) -> dict[str, str]:
    return {
        name: why for name, why in unwanted.items() if any(one == name or one.startswith(f"{name}.") for one in modules)
    }


def test_a_run_loads_nothing_in_vain_before_its_first_request(tmp_path: Path) -> None:
    with FakeOpenAI([Reply("It is 4.")]) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        modules, shown = loaded(
            SCRIPT.format(port=port), "run", "What is 2+2?", "--model", f"{server.url}#fake", home=tmp_path
        )
    assert "It is 4." in shown
    assert {"langgraph", "langchain_openai", "taograph.graphs.react"} <= set(modules)
    assert found(modules, NOT_BEFORE_THE_FIRST_REQUEST) == {}


@pytest.mark.parametrize(
    "line", [" ".join((*group.split(), name)) for group, commands in COMMANDS.items() for name, _, _ in commands]
)
def test_every_command_that_is_listed_is_there(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    group, _, name = line.rpartition(" ")
    short = next(short for one, _, short in COMMANDS[group] if one == name)
    assert main([*group.split(), "--help"]) == 0
    listed = [" ".join(row.split()) for row in capsys.readouterr().out.splitlines()]
    assert f"{name} {short}" in listed
    assert main([*line.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: tao {line} [OPTIONS]")
    assert len(shown.splitlines()) > 5


def test_a_command_loads_no_other(tmp_path: Path) -> None:
    script = """
import sys
from taograph.cli import main
main(sys.argv[1:])
print("LOADED", *sys.modules, file=sys.stderr)
"""
    modules, _ = loaded(script, "doctor", "--help", home=tmp_path)
    assert "taograph.cli.doctor" in modules
    assert found(modules, {f"taograph.cli.{one}": "app" for one in ("run", "threads", "trace", "model")}) == {}
    modules, _ = loaded(script, "--help", home=tmp_path)
    assert {one for one in modules if one.startswith("taograph")} <= {
        "taograph",
        "taograph.cli",
        "taograph.cli.app",
        "taograph.cli.errors",
        "taograph.cli.text",
        "taograph.redaction",
    }


def test_looking_at_what_was_recorded_loads_no_langchain(tmp_path: Path) -> None:
    script = """
import sys
from taograph.cli import main
code = main(["trace", "list"])
print("LOADED", *sys.modules, file=sys.stderr)
sys.exit(code)
"""
    modules, _ = loaded(script, home=tmp_path)
    assert "taograph.trace.stores" in modules
    assert found(modules, {"langchain_core": "the recorder", "langgraph": "the recorder"}) == {}


def test_the_strategies_are_listed_without_being_loaded(tmp_path: Path) -> None:
    script = """
import sys
from taograph.cli import main
code = main(["graphs"])
print("LOADED", *sys.modules, file=sys.stderr)
sys.exit(code)
"""
    modules, shown = loaded(script, home=tmp_path)
    assert "The ReAct loop: reason" in shown
    assert found(modules, {"langchain_core": "the strategies", "langgraph": "the strategies"}) == {}


def test_a_checker_of_schemas_is_loaded_with_the_tools_that_need_it(tmp_path: Path) -> None:
    """Never during a run: an event loop cannot wait for files."""
    script = """
import sys
from langchain_core.tools import StructuredTool
from taograph import create_react_graph

def add(a: int, b: int) -> int:
    "Add."
    return a + b

def known():
    print("jsonschema" in sys.modules)

create_react_graph(None, [add])
known()
schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
create_react_graph(None, [StructuredTool.from_function(add, name="other", args_schema=schema)])
known()
print("LOADED", file=sys.stderr)
"""
    assert loaded(script, home=tmp_path)[1].split() == ["False", "True"]
    for module in ("taograph.models.text_react", "taograph.graphs.rewoo"):
        script = f"import sys, {module}\nprint('jsonschema' in sys.modules)\nprint('LOADED', file=sys.stderr)"
        assert loaded(script, home=tmp_path)[1].split() == ["True"], module


def test_what_waits_is_whole_when_it_is_asked_for(tmp_path: Path) -> None:
    """Names, submodules and star imports of a package that waits are those it has without waiting."""
    script = """
import sys
from importlib import import_module
from taograph.cli.deferring import MODULES, defer
if sys.argv[1] == "wait":
    defer()
import langsmith.types.run_select_field
import openai.types.chat.chat_completion
print("LOADED", *sys.modules, file=sys.stderr)
for name in MODULES:
    module, public = import_module(name), {}
    exec(f"from {name} import *", public)
    print(name, type(module), module.__file__, type(module.__loader__), module.__spec__.loader is module.__loader__)
    print(*sorted(one for one in public if not one.startswith("_")))
    print(module.__doc__, getattr(module, "__all__", None), hasattr(module, "no_such_name"))
from openai.types import Completion
from langgraph_sdk import get_client
print(Completion, get_client.__module__)
"""
    waited, told = loaded(script, "wait", home=tmp_path)
    at_once, said = loaded(script, "at once", home=tmp_path)
    assert len(waited) < len(at_once) - 300
    assert "langgraph_sdk" in told
    assert told == said


SLOW = """
from slow.inner import VALUE
import events
events.inside.set()
assert events.asked.wait(30)
DONE = VALUE + 1
"""


def test_threads_that_ask_at_once_all_get_it_and_it_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text(SLOW)
    (tmp_path / "slow" / "inner.py").write_text("VALUE = 1\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("import events\nevents.tries += 1\nif events.tries < 2: 1 / 0\n")
    (tmp_path / "single.py").write_text("NAME = __name__\n")
    (tmp_path / "events.py").write_text(
        "import threading\ninside, asked = threading.Event(), threading.Event()\ntries = 0\n"
    )
    script = f"""
import sys, threading
sys.path.insert(0, {str(tmp_path)!r})
import events
from taograph.cli import deferring
deferring.MODULES = ("slow", "broken", "single")
deferring.defer()
import slow, broken, single
print("LOADED", *sys.modules, file=sys.stderr)
got = []
threads = [threading.Thread(target=lambda: got.append(slow.DONE)) for _ in range(4)]
threads[0].start()
assert events.inside.wait(30)
for each in threads[1:]:
    each.start()
events.asked.set()
for each in threads:
    each.join()
print(got)
try:
    broken.name
except ZeroDivisionError:
    print("it says why")
print(hasattr(broken, "name"), events.tries, single.NAME)
"""
    modules, shown = loaded(script, home=tmp_path)
    assert "slow" in modules
    assert "slow.inner" not in modules
    assert shown.splitlines() == ["[2, 2, 2, 2]", "it says why", "False 2 single"]


def test_the_command_called_again_in_one_process_defers_once(tmp_path: Path) -> None:
    script = (
        "import sys; from taograph.cli import main; sys.argv = ['tao', '--version']; before = len(sys.meta_path)\n"
        "print(main(), main(), len(sys.meta_path) - before)"
    )
    run = [sys.executable, "-c", script]
    done = subprocess.run(
        run, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 0 1"

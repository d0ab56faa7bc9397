"""Writes the tables in tools.md from the tools themselves: python docs/tools_table.py [--check]"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from taograph.tools import catalog
from taograph.tools.policy import DEFAULT_POLICY, ToolPolicy, policy_of
from taograph.tools.results import read_result_tool

PAGE = Path(__file__).parent / "tools.md"
BEGIN, END = "<!-- Written by tools_table.py: -->\n", "<!-- End of what tools_table.py wrote. -->\n"
EFFECTS = {"none": "none", "idempotent": "may be repeated", "once": "not to be repeated"}
# What tools are over that are not over anything by themselves; the rest of the environment is as if nobody had set it.
VARIABLES = ("TAOGRAPH_", "TAVILY_API_KEY", "BRAVE_SEARCH_API_KEY", "SERPER_API_KEY", "SEARXNG_URL")


def page(text: str) -> str:
    """The page with its tables as they have to be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def tables() -> str:
    """One table of all tools, and one of the arguments of each."""
    with surroundings() as folder:
        loaded = {
            name: (catalog.load(name, docs=str(folder / "docs")), info) for name, info in catalog.available().items()
        }
    lines = row("Tool", "What it does", "Effects", "Results", "Seconds", "Characters", "What leaves the machine")
    lines += row(*["---"] * 7)
    details = ""
    for name, (tools, info) in loaded.items():
        if info.source != "taograph":
            continue
        for tool in tools:
            listed = code(tool.name) + (f" (of {code(name)})" if tool.name != name else "")
            what = tool.description.split("\n")[0].split(" Example:")[0]
            lines += row(listed, what, *limits(policy_of(tool)), info.sends or "nothing")
            details += arguments(tool)
    reader = read_result_tool()
    lines += row(code(reader.name), reader.description.split("\n")[0], *limits(policy_of(reader)), "nothing")
    details += arguments(reader)
    served = ToolPolicy(trusted=False)
    lines += row("`SERVER_TOOL`", "A tool of an MCP server.", *limits(served), "the arguments, to the server")
    lines += row("your own", "What you write.", *limits(DEFAULT_POLICY), "what you send")
    return f"{lines}\n### Their arguments\n{details}"


def limits(policy: ToolPolicy) -> tuple[str, str, str, str]:
    """Effects, trust, seconds and characters of a policy."""
    return (
        EFFECTS[policy.effects] + (", a person approves" if policy.approve else ""),
        "trusted" if policy.trusted else "data",
        "—" if policy.timeout is None else f"{policy.timeout:g}",
        "its own" if policy.max_chars is None else f"{policy.max_chars:,}",
    )


def arguments(tool: BaseTool) -> str:
    """The arguments of a tool, as the model is told them."""
    schema: dict[str, Any] = convert_to_openai_tool(tool)["function"]["parameters"]
    required = schema.get("required", ())
    lines = f"\n{code(tool.name)}\n\n" + row("Argument", "Kind", "Default", "What it is") + row(*["---"] * 4)
    for name, about in schema["properties"].items():
        default = "required" if name in required else code(repr(about.get("default")))
        lines += row(code(name), kind(about), default, about.get("description", ""))
    return lines if schema["properties"] else f"\n{code(tool.name)} takes no arguments.\n"


def kind(about: Mapping[str, Any]) -> str:
    """What values an argument takes."""
    if "enum" in about:
        return " or ".join(code(repr(value)) for value in about["enum"])
    if "anyOf" in about:
        return " or ".join(kind(each) for each in about["anyOf"])
    named = {"string": "text", "integer": "whole number", "null": "None", "array": "list", "boolean": "True or False"}
    return named.get(str(about.get("type")), str(about.get("type", "any value")))


def code(text: str) -> str:
    """A text in the type of code."""
    return f"`{text}`"


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


@contextmanager
def surroundings() -> Iterator[Path]:
    """A folder with documents, a database and files, and an environment that names nothing else."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for inner in ("docs", "files", "cache"):
            (folder / inner).mkdir()
        (folder / "data.sqlite").touch()
        for variable in [each for each in os.environ if each.startswith(VARIABLES)]:
            del os.environ[variable]
        os.environ["TAOGRAPH_CACHE"] = str(folder / "cache")
        os.environ["TAOGRAPH_DATABASE"] = f"sqlite:///{folder / 'data.sqlite'}"
        os.environ["TAOGRAPH_FILES"] = str(folder / "files")
        try:
            yield folder
        finally:
            os.environ.clear()
            os.environ.update(before)


def main() -> int:
    """Write the page; with ``--check``, say whether it is as it has to be."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = page(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("docs/tools.md is not up to date: python docs/tools_table.py", file=sys.stderr)
        return int(text != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`tao tools new`: the beginnings of a tool of one's own, with a test."""

from __future__ import annotations

import keyword
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from taograph.cli.errors import CommandError

_LONGEST = 64


def new_tool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the model is to call it: word_count.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write.")] = Path(),
) -> int:
    """Write a commented tool and a test for it, which work as they are and are there to be changed.

    Nothing that exists is overwritten.

    \b
    tao tools new word_count
    tao run "How many words has this sentence?" --tools word_count.py:word_count
    """
    _check(name)
    folder = folder.expanduser()
    files = {folder / f"{name}.py": "new_tool.jinja", folder / f"test_{name}.py": "new_tool_test.jinja"}
    there = [path for path in files if path.exists()]
    if there:
        raise CommandError(f"{there[0]} exists, and nothing was written", fixes=("choose another name, or --dir",))
    if find_spec(name) is not None:
        raise typer.BadParameter(f"a module {name} exists; its place would be taken: choose another", param_hint="NAME")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, template in files.items():
            with path.open("x", encoding="utf-8") as file:  # not even one that has just come into being
                file.write(_filled(template, name))
    except OSError as error:
        raise CommandError(f"{error.filename or folder} can't be written: {error.strerror}") from error
    tool, test = (shlex.quote(str(path)) for path in files)
    typer.echo(f"{tool}: the tool. Change what it does, its arguments and their descriptions.")
    typer.echo(f"{test}: its test.      python -m pytest {test}")
    typer.echo(f'To use it:    tao run "How many words are in: to be or not to be?" --tools {tool}:{name}')
    return 0


def _filled(template: str, name: str) -> str:
    text = (Path(__file__).parent / template).read_text(encoding="utf-8")
    return text.replace("{{ name }}", name)


def _check(name: str) -> None:
    """Refuse a name that can't be a function, a file and a tool at once.

    Raises:
        typer.BadParameter: It can't; the message says the fix.
    """
    from taograph.tools.catalog import available

    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or len(name) > _LONGEST:
        fix = f"{name!r} is no name for a function: use letters, digits and _, such as word_count"
    elif name.startswith(("test_", "_")):
        fix = f"{name!r} would be taken for a test, or for something private: begin it with another word"
    elif name in available():
        fix = f"there is a tool called {name!r}: choose another name"
    elif name in sys.stdlib_module_names:
        fix = f"a module of Python is called {name!r}, and its place would be taken: choose another name"
    else:
        return
    raise typer.BadParameter(fix, param_hint="NAME")

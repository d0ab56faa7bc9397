"""`tao doctor`: what is configured, what is missing, how to mend it."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from taograph.cli.console import show


def doctor(
    json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> int:
    """Say what is configured, what is missing, and how to mend it.

    Asks the configured endpoint for its list of models, and sends nothing else anywhere. Exit status: 1 when
    `tao run` can't work.
    """
    from taograph.cli.checks import all_checks

    checks = list(all_checks())
    works = all(check.status != "fail" for check in checks)
    if json:
        typer.echo(jsonlib.dumps({"works": works, "checks": [check.to_dict() for check in checks]}, indent=2))
        return 0 if works else 1
    from rich.table import Table
    from rich.text import Text

    marks = {"ok": ("✓", "green"), "note": ("–", "yellow"), "fail": ("✗", "bold red")}
    shown = Table.grid(padding=(0, 1))
    shown.add_column()
    shown.add_column(no_wrap=True)
    shown.add_column(overflow="fold")
    for check in checks:
        mark, style = marks[check.status]
        told = Text(check.detail)
        if check.fix:
            told.append(f"\n→ {check.fix}", style="bold" if check.status == "fail" else "dim")
        shown.add_row(Text(mark, style=style), check.name, told)
    show(shown)
    typer.echo("\ntao run works." if works else "\ntao run can't work yet: see ✗ above.")
    return 0 if works else 1

"""Writes the pictures in strategies.md from the graphs themselves: python docs/strategies_page.py [--check]"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from taograph.graphs import STRATEGIES
from taograph.tools.calculator import calculator

PAGE = Path(__file__).parent / "strategies.md"


def page(text: str) -> str:
    """The page with its pictures as they have to be.

    Raises:
        ValueError: A strategy has no place on the page.
    """
    for name in STRATEGIES:
        begin, end = f"<!-- {name}, drawn by strategies_page.py -->\n", f"<!-- end of {name} -->\n"
        if begin not in text or end not in text:
            raise ValueError(f"docs/strategies.md has no place for {name}: write {begin.strip()} and {end.strip()}")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n```mermaid\n{picture(name)}```\n\n{end}{after}"
    return text


def picture(name: str) -> str:
    """The graph of a strategy, with the graphs that run in its nodes."""
    # With a tool: without any, the router has nothing to choose between.
    drawn = STRATEGIES[name](None, [calculator]).get_graph(xray=1).draw_mermaid()
    # The page's own colors; and what is drawn twice with the same words once.
    drawn = re.sub(r"\A---\n.*?---\n", "", drawn, flags=re.DOTALL)
    lines = [line for line in drawn.splitlines() if not line.lstrip().startswith("classDef")]
    return "\n".join(line.replace(":::first", "").replace(":::last", "") for line in lines).strip() + "\n"


def main() -> int:
    """Write the page; with ``--check``, say whether it is as it has to be."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = page(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("docs/strategies.md is not up to date: python docs/strategies_page.py", file=sys.stderr)
        return int(text != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

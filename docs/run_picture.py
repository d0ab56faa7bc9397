"""Make docs/run.svg, the picture of a run in the README, from a real run.

python docs/run_picture.py "What is 17% of 2340?" --model local
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from rich.console import Console

from taograph import Limits, stream_steps
from taograph.cli.terminal import TerminalRenderer
from taograph.graphs import STRATEGIES
from taograph.models.prices import price_of
from taograph.models.resolving import resolve
from taograph.tools import catalog

PICTURE = Path(__file__).with_name("run.svg")


def main() -> int:
    """Run the question, tell its events to a console that records, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question")
    parser.add_argument("--model", default="local")
    parser.add_argument("--tools")
    asked = parser.parse_args()

    console = Console(record=True, width=96, force_terminal=True, color_system="truecolor", file=sys.stderr)
    renderer = TerminalRenderer(console)  # never entered: a picture has no status line
    model = resolve(asked.model)
    renderer.priced = price_of(model) is not None
    tools = catalog.load(asked.tools) if asked.tools else catalog.default_tools()
    graph = STRATEGIES["react"](model, tools, limits=Limits())
    console.print(f'$ tao run "{asked.question}"', style="bold", markup=False, highlight=False)
    console.print()
    for event in stream_steps(graph, {"messages": [("user", asked.question)]}):
        renderer.event(event)
    svg = console.export_svg(title="tao run")
    # The page that shows it fetches nothing from elsewhere: whoever looks has a monospaced font.
    svg = re.sub(r"@font-face\s*\{.*?\}\s*", "", svg, flags=re.DOTALL)
    PICTURE.write_text(svg, encoding="utf-8")
    return 0 if renderer.last_stop == "final" else 1


if __name__ == "__main__":
    sys.exit(main())

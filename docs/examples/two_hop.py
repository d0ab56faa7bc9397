"""The two-hop question: from a person to a company, and whether that is listed; with ReAct's own two Wikipedia tools.

    .venv/bin/python docs/examples/two_hop.py
    .venv/bin/python docs/examples/two_hop.py --model local
    .venv/bin/python docs/examples/two_hop.py --live --model openai:gpt-5-mini \
        "Is the company that Jeff Bezos founded listed on a stock exchange?"

Without --live the encyclopedia is a file of five invented pages, which comes with the example; any file of this form
can be in its place (one JSON object a line: title, text, aliases). With --live it is the English Wikipedia.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from example import Options, says, seen, show, worked

from taograph import create_react_graph
from taograph.tools.wikipedia import build_corpus, wikipedia_tools

QUESTION = "Is the company that Mira Sample founded listed on a stock exchange?"
PAGES = Path(__file__).with_name("data") / "encyclopedia.jsonl"
SCRIPT = [
    says("First hop: which company did she found?", "wikipedia_search", entity="Mira Sample"),
    lambda messages: says(
        "Second hop: is that company listed?",
        "wikipedia_search",
        entity=seen(messages, r"she founded ([A-Z]\w+ [A-Z]\w+)")[0],
    ),
    says("The first sentences do not say. I look further down the page.", "wikipedia_lookup", keyword="listed"),
    lambda messages: "Yes: its shares have been listed on the {} since {}.".format(
        *seen(messages, r"listed on the ([\w ]+) since (\d{4})")
    ),
]


def main() -> None:
    """Answer the question."""
    options = Options(__doc__, QUESTION)
    options.add_argument("--live", action="store_true", help="read the English Wikipedia")
    asked = options.parse_args()
    model = options.model(asked, SCRIPT, elsewhere=asked.live)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "encyclopedia.sqlite"
        build_corpus(PAGES, corpus)
        tools = wikipedia_tools(corpus=None if asked.live else corpus)
        graph = create_react_graph(model, tools, examples=worked("two_hop", tools))
        show(graph, {"messages": [("user", asked.question)]}, by=model)


if __name__ == "__main__":
    main()

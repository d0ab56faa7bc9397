"""Company research: search, open a page, finish with the number of employees and its date. Three steps.

    .venv/bin/python docs/examples/company_research.py
    .venv/bin/python docs/examples/company_research.py --model local
    .venv/bin/python docs/examples/company_research.py --live --model openai:gpt-5-mini \
        "How many employees does Siemens have, and as of when?"

Without --live the web is a few pages about invented companies, which come with the example and are served on this
machine. With --live the search is web_search's own (ddgs, or a service whose key is set). The tools need the
extra "web".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from example import Options, says, seen, serve, show, worked

from taograph import create_react_graph
from taograph.tools.open_page import open_page_tool
from taograph.tools.web_search import SearchResult, web_search_tool

QUESTION = "How many employees does Example Corp have, and as of when?"
SYSTEM = "You research companies. Search, open the page that fits, and answer with the figure and its date."
PAGES = {f"/{path.name}": path.read_text("utf-8") for path in Path(__file__).with_name("data").glob("company/*.html")}
SCRIPT = [
    says("I search for the company's own figure.", "web_search", query="Example Corp number of employees"),
    lambda messages: says(
        "The company's own page is the one to read.", "open_page", url=seen(messages, r"http\S+/about\.html")[0]
    ),
    lambda messages: "Example Corp has {1} employees, as of {0}.".format(
        *seen(messages, r"As of ([\w ]+), Example Corp has ([\d,]+) employees")
    ),
]


def find(host: str, query: str, most: int) -> Sequence[SearchResult]:
    """A search provider of one's own is a function like this one; here it counts words of the query in the pages."""
    words = set(re.findall(r"\w+", query.lower()))
    found = []
    for path, page in PAGES.items():
        title, about = (re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[0] for tag in ("title", "p"))
        fits = len(words & set(re.findall(r"\w+", page.lower())))
        found.append((fits, SearchResult(title, f"http://{host}{path}", " ".join(about.split()))))
    return [result for fits, result in sorted(found, key=lambda each: -each[0]) if fits][:most]


def main() -> None:
    """Answer the question."""
    options = Options(__doc__, QUESTION)
    options.add_argument("--live", action="store_true", help="search the web and open its pages")
    asked = options.parse_args()
    model = options.model(asked, SCRIPT, elsewhere=asked.live)
    with ExitStack() as stack:
        if asked.live:
            tools = [web_search_tool(), open_page_tool()]
        else:
            print("The web: pages of the example's own, about invented companies")
            host = stack.enter_context(serve(lambda path, _: PAGES.get(path)))
            # Pages of this machine are refused unless they are named.
            tools = [web_search_tool(lambda *words: find(host, *words)), open_page_tool(allow_private=[host])]
        examples = worked("company_research", tools)
        graph = create_react_graph(model, tools, system_prompt=SYSTEM, examples=examples, require=["open_page"])
        show(graph, {"messages": [("user", asked.question)]}, by=model)


if __name__ == "__main__":
    main()

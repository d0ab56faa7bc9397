"""A question over a database of your own: the model reads the tables, then writes a query, which can only read.

    .venv/bin/python docs/examples/own_database.py
    .venv/bin/python docs/examples/own_database.py --model local
    .venv/bin/python docs/examples/own_database.py --url sqlite:///my.db --model openai:gpt-5-mini "Who ordered most?"

Without --url the database is a small shop, made for the run from data/shop.sql. --url takes sqlite:///path and
postgresql://… (with the extra "postgres").
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from example import Options, says, seen, show, worked

from taograph import create_react_graph
from taograph.tools.sql import sql_tools

QUESTION = "Which product brought in the most money in March 2026, and how much?"
SHOP = Path(__file__).with_name("data") / "shop.sql"
QUERY = """\
SELECT p.name, sum(p.price * o.quantity) AS total FROM orders o JOIN products p ON p.id = o.product_id
WHERE o.day LIKE '2026-03-%' GROUP BY p.name ORDER BY total DESC LIMIT 1"""
SCRIPT = [
    says("I look at the tables first.", "sql_schema"),
    says("Price times quantity, by product, for the days of March.", "sql_query", query=QUERY),
    lambda messages: "{}: it brought in {} in March 2026.".format(*seen(messages, r"\n(\w+) \| ([\d.]+)\n")),
]


def main() -> None:
    """Answer the question."""
    options = Options(__doc__, QUESTION)
    options.add_argument("--url", help="a database of your own")
    asked = options.parse_args()
    model = options.model(asked, SCRIPT, elsewhere=asked.url is not None)
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder) / "shop.db"
        with closing(sqlite3.connect(shop)) as connection:
            connection.executescript(SHOP.read_text("utf-8"))
        try:
            tools = sql_tools(asked.url or f"sqlite:///{shop}")
        except ValueError as error:
            options.error(str(error))
        graph = create_react_graph(model, tools, examples=worked("own_database", tools), require=["sql_query"])
        show(graph, {"messages": [("user", asked.question)]}, by=model)


if __name__ == "__main__":
    main()

"""Support triage: a ticket, the articles that may answer it, and a ticket-writing tool that needs a person's word.

    .venv/bin/python docs/examples/support_triage.py                   asks you, in the terminal
    .venv/bin/python docs/examples/support_triage.py --word yes        the person's word, given beforehand
    .venv/bin/python docs/examples/support_triage.py --word "No, it is not urgent." --model local

The tool asks by itself, with LangGraph's interrupt, since `create_react_graph(approve=…)` is not built yet. The
checkpointer keeps the run while it waits; Command(resume=…) goes on with it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from example import Options, says, seen, show, word_of_a_person, worked
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from taograph import create_react_graph, tool
from taograph.tools.documents import document_tools

FOLDER = Path(__file__).with_name("data") / "support"
QUESTION = "Triage ticket 1042: find the article that fits it, and write a ticket for the team that it names."
SYSTEM = "You triage support tickets. Read the ticket (tickets/NUMBER.md), search the articles, then act by them."
THREAD: RunnableConfig = {"configurable": {"thread_id": "triage"}}
SCRIPT = [
    says("I read the ticket first.", "open_document", document="tickets/1042.md"),
    says("An empty export. Is it known?", "search_documents", query="export empty file"),
    lambda messages: says(
        "It is known. I write the ticket that the article asks for.",
        "write_ticket",
        **{"number": 1042, "team": seen(messages, r"a ticket for the team (\w+)")[0], "priority": "high"},
        summary="The export gives an empty file: the account has more than 10,000 rows (articles/empty-export.md).",
    ),
    lambda messages: f"It is a known fault (articles/empty-export.md). The ticket: {messages[-1].text}",
]


def writing(folder: Path) -> BaseTool:
    """The tool ``write_ticket``, which writes into a folder."""

    # The question stands before the effect: when the run goes on, the tool begins anew, and the answer is there.
    @tool(effects="once", timeout=None)
    def write_ticket(number: int, team: str, priority: Literal["low", "normal", "high"], summary: str) -> str:
        """Write a ticket for a team. A person reads it before and may refuse.

        Args:
            number: The number of the customer's ticket.
            team: The team it is for.
            priority: How urgent it is.
            summary: What is wrong and what is known of it.
        """
        ticket = f"Ticket {number} for the team {team}, priority {priority}: {summary}"
        word = str(interrupt({"type": "question", "question": f"Write this? (yes, or what is wrong)\n{ticket}"}))
        if word.strip().lower() != "yes":
            return f"Not written. The person said: {word}"
        (folder / f"{number}.md").write_text(ticket + "\n", "utf-8")
        return f"Written: {number}.md"

    return write_ticket


def main() -> None:
    """Triage, and ask the person for as long as the run waits for one."""
    options = Options(__doc__, QUESTION)
    options.add_argument("--word", help="what the person says; asked for in the terminal when absent")
    asked = options.parse_args()
    model = options.model(asked, SCRIPT)
    with tempfile.TemporaryDirectory() as out:
        tools = [*document_tools(FOLDER), writing(Path(out))]
        examples = worked("support_triage", tools)
        graph = create_react_graph(model, tools, system_prompt=SYSTEM, examples=examples, checkpointer=InMemorySaver())
        waiting = show(graph, {"messages": [("user", asked.question)]}, THREAD, by=model)
        while waiting:
            words = {each: word_of_a_person(value, asked.word) for each, value in waiting.items()}
            waiting = show(graph, Command(resume=words), THREAD, by=model)
        print("Written:", *[path.read_text("utf-8").strip() for path in Path(out).iterdir()] or ["nothing"])


if __name__ == "__main__":
    main()

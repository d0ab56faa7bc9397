"""Runs that were recorded, for the commands that read them: with a scripted model, in the place where `tao` looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from taograph import create_react_graph, tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace import Recorder


@tool(effects="none")
def look(x: int) -> str:
    """Look.

    Args:
        x: Where.
    """
    return f"saw {x}"


@tool(effects="none")
def broken(x: int) -> str:
    """Break.

    Args:
        x: What.
    """
    raise RuntimeError("the disk said no")


@tool(effects="once")
def send(to: str) -> str:
    """Send a letter.

    Args:
        to: To whom.
    """
    return f"sent to {to}"


LOOKS = AIMessage("I look.", tool_calls=[call("look", {"x": 1})])
FAILS = AIMessage("I try both.", tool_calls=[call("look", {"x": 1}), call("broken", {"x": 2})])
SENDS = AIMessage("I send.", tool_calls=[call("send", {"to": "Ada"})])


class Runs:
    """Records runs.

    Args:
        home: The home of the command.
    """

    def __init__(self, home: Path) -> None:
        self.url = f"sqlite:///{home}/data/traces.sqlite"

    def record(
        self,
        *replies: Any,
        question: str = "What is there?",
        thread: str | None = None,
        user: str | None = None,
        make: Any = create_react_graph,
        tools: Sequence[Any] = (look, broken),
        answers: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        """Record a run.

        Args:
            *replies: What the model replies.
            question: What is asked.
            thread: Its thread.
            user: Who it is for.
            make: The factory of its graph.
            tools: Its tools.
            answers: What a person answers, one after the other.
            **options: Of the trace, or ``approve`` of the graph.
        """
        approve = options.pop("approve", ())
        model = ScriptedModel(replies=list(replies), usage=(30, 4))
        made = make(model, tools, approve=approve, checkpointer=InMemorySaver() if approve else None)
        handlers = trace.handlers(self.url, **options)
        config: Any = {"callbacks": handlers, "metadata": {"user_id": user} if user else {}}
        if thread:
            config["configurable"] = {"thread_id": thread}
        for given in ({"messages": [("user", question)]}, *map(_resume, answers)):
            made.invoke(given, config)
        for each in handlers:
            if isinstance(each, Recorder):
                each.writer.close()


def _resume(answer: Any) -> Command[Any]:
    return Command(resume=answer)

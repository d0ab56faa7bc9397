"""What must not reach a model is taken out of results before they are shown, kept or stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import Way, asks, both_ways, question, run, thread

from taograph import ToolError, checkpoints, create_react_graph, tool
from taograph.models import ScriptedModel, call
from taograph.tools import with_redaction
from taograph.trace.redaction import Redactor

MAIL = "anna.nowak@example.com"


@tool(effects="none")
def find(name: str) -> str:
    """Find a person.

    Args:
        name: Who.
    """
    if name == "nobody":
        raise ToolError(f"Ask {MAIL} first.")
    return f"{name}: {MAIL}. " + "Lives by the river. " * (1000 if name == "long" else 1) + f"Write to {MAIL}."


def sent(model: ScriptedModel) -> str:
    return "".join(str(message.content) for request in model.requests for message in request.messages)


@both_ways
def test_the_model_sees_it_redacted(way: Way, tmp_path: Path) -> None:
    replies = [asks(call("find", {"name": "Anna"})), asks(call("find", {"name": "nobody"})), "Found."]
    model = ScriptedModel(replies=replies)
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        graph = create_react_graph(model, with_redaction([find], Redactor().text), checkpointer=saver)
        result = run(way, graph, question("Who?"), thread())
    assert "Anna: <EMAIL>." in sent(model)
    assert "Ask <EMAIL> first." in sent(model)
    assert MAIL not in sent(model)
    assert MAIL not in str(result)
    assert not any(MAIL.encode() in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_what_is_kept_of_a_long_result_is_redacted_too() -> None:
    on = asks(call("read_result", {"handle": "c1", "start": 19_000}))
    model = ScriptedModel(replies=[asks(call("find", {"name": "long"}, id="c1")), on, "Found."])
    create_react_graph(model, with_redaction([find], Redactor().text)).invoke(question("Who?"))
    assert "Write to <EMAIL>." in sent(model)
    assert MAIL not in sent(model)


def test_what_cannot_be_redacted_is_withheld(caplog: pytest.LogCaptureFixture) -> None:
    def fails(text: str) -> str:
        raise RuntimeError(text)

    model = ScriptedModel(replies=[asks(call("find", {"name": "Anna"})), "Nothing."])
    result: Any = create_react_graph(model, with_redaction([find], fails)).invoke(question("Who?"))
    assert "The result of find is withheld: it could not be redacted." in sent(model)
    assert result["messages"][2].status == "error"
    assert MAIL not in str(result) + caplog.text


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="redact='EMAIL': give a function of a text"):
        with_redaction([find], "EMAIL")  # type: ignore[arg-type]

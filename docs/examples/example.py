"""What the examples share: their options, telling a run as it happens, scripted replies, and a small local server."""

from __future__ import annotations

import argparse
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import indent
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from taograph import stream_steps
from taograph.models import ScriptedModel, call, resolve
from taograph.tools.policy import policy_of
from taograph.tools.results import frame

SCRIPTED = "scripted"
HERE = Path(__file__).parent


class Options(argparse.ArgumentParser):
    """The options of an example: a question, ``--model``, and what it adds itself."""

    def __init__(self, doc: str | None, question: str) -> None:
        super().__init__(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.own = question
        self.add_argument("question", nargs="?", default=question)
        self.add_argument("--model", default=SCRIPTED, help='"local", "openai:NAME", "http://host:port/v1#NAME" …')

    def model(self, asked: argparse.Namespace, script: Sequence[Any], *, elsewhere: bool = False) -> BaseChatModel:
        """The model that was asked for.

        Args:
            asked: What the command line said.
            script: What the scripted model says. It answers the example's own question only.
            elsewhere: Whether the question is put to other data than the example's own.
        """
        if asked.model == SCRIPTED:
            if elsewhere or asked.question != self.own:
                self.error("the script knows the example's own question and data only: name a model with --model")
            return ScriptedModel(replies=script)
        try:
            return resolve(asked.model)
        except ValueError as error:
            self.error(str(error))


def worked(name: str, tools: Sequence[BaseTool]) -> list[BaseMessage]:
    """Worked examples from ``data/worked``, as turns that have happened, for models that learn from these alone.

    Those that the tools carry are of one call each. These show a course of several, and each observation as a run
    would show it.
    """
    outside = {tool.name for tool in tools if not policy_of(tool).trusted}
    messages: list[BaseMessage] = []
    for example in json.loads((HERE / "data" / "worked" / f"{name}.json").read_text("utf-8")):
        messages.append(HumanMessage(example["question"]))
        for step in example["steps"]:
            tool, text = step["tool"], step["observation"]
            made = call(tool, step["args"], id=f"example_{len(messages)}")
            shown = frame(text, tool) if tool in outside else text
            messages += [AIMessage("", tool_calls=[made]), ToolMessage(shown, tool_call_id=made["id"], name=tool)]
        messages.append(AIMessage(example["answer"]))
    return messages


def says(thought: str, tool: str, **args: Any) -> AIMessage:
    """A scripted reply: a thought and an action."""
    return AIMessage(thought, tool_calls=[call(tool, args)])


def seen(messages: Sequence[BaseMessage], pattern: str) -> tuple[str, ...]:
    """What a pattern finds in the last observation, so that a scripted reply makes up no figures of its own."""
    found = re.search(pattern, str(messages[-1].text))
    if not found:
        raise ValueError("the script does not find what it looks for in the last observation")
    return found.groups() or (found.group(),)


def show(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    given: Any,
    config: RunnableConfig | None = None,
    *,
    by: BaseChatModel,
) -> dict[str, Any]:
    """Run a graph and print what happens, as it happens.

    Args:
        graph: One of taograph's, or a larger one with one in it.
        given: What it takes.
        config: As the graph's own.
        by: The model, to stand beside its answer.

    Returns:
        The questions to a person that the run waits for, by the id that ``Command(resume={id: answer})`` takes.
    """
    waiting, named = {}, str(getattr(by, "model_name", by.get_name()))
    for event in stream_steps(graph, given, config):
        if event["type"] == "child":
            tell(event["event"], named, f"[{'/'.join(event['path'])}] ")
        else:
            tell(event, named)
        if event["type"] == "approval":
            waiting[event["id"]] = event["value"]
    return waiting


def tell(event: Any, by: str, name: str = "") -> None:
    """Print an event; ``name`` says which part of a larger graph it comes from."""
    match event:
        case {"type": "run_started", "question": question, "model": model}:
            about = " (its replies are written in the example; the tools really run)" * (model == SCRIPTED)
            print(f"{name}Question: {question}\n{name}Model: {model}{about}")
        case {"type": "thought", "step": step, "text": text}:
            print(f"{name}Thought {step}: {text}")
        case {"type": "action", "step": step, "tool": tool, "args": args}:
            print(f"{name}Action {step}: {tool} {json.dumps(args, ensure_ascii=False)}")
        case {"type": "observation", "step": step, "text": text}:
            print(f"{name}Observation {step}: " + indent(text, "    ").lstrip())
        case {"type": "retry", "reason": reason, "detail": detail}:
            print(f"{name}Retry: {reason}: {detail}")
        case {"type": "stop", "reason": reason, "detail": detail, "step": step}:
            print(f"{name}Stop: {reason} at step {step} ({detail})")
        case {"type": "answer", "text": text}:
            print(f"{name}Answer ({by}): {text}")


def word_of_a_person(asked: Any, given: str | None) -> str:
    """What the person says to a question of the run: what was given beforehand, or what they write now."""
    print(f"The run waits for a person: {asked['question']}")
    try:
        said = given if given is not None else input("> ")
    except EOFError:
        raise SystemExit("Nobody is there to answer.") from None
    print(f"The person: {said}")
    return said


@contextmanager
def serve(reply: Callable[[str, dict[str, str]], Any]) -> Iterator[str]:
    """A local server, as ``host:port``: ``reply(path, parameters)`` gives a page, a value to send as JSON, or None."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            found = reply(parts.path, dict(parse_qsl(parts.query)))
            data = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", f"{'text/html' if isinstance(found, str) else 'application/json'}")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()

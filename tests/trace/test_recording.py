"""What is recorded of the loop: each thing that happened, in its order, with the step that it belongs to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from recording_support import (
    QUESTION,
    THREAD,
    Recorded,
    asks,
    broken,
    content,
    look,
    of_type,
    pay,
    recorded,
    run,
    says,
    side_by_side,
    slow,
    told,
)

from taograph import Cancellation, Limits, create_react_graph, tool, trace

__all__ = ["recorded"]

LOOP = [
    "0 run_started",
    "1 model_asked",
    "1 model_replied",
    "1 thought",
    "1 action look",
    "1 action look",
    "1 observation look",
    "1 observation look",
    "2 model_asked",
    "2 model_replied",
    "2 stop final",
    "2 answer",
    "0 run_ended ended",
]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_the_loop(recorded: Recorded, way: str) -> None:
    graph = create_react_graph(says(asks("a", "b", text="I look at both."), "Both are there."), [look])
    run(way, recorded.of(graph), config=THREAD)
    found = recorded.one()
    assert side_by_side(told(found)) == LOOP
    assert {content(e)["run"] for e in found} == {content(found[0])["run"]}
    assert {(content(e)["thread"], content(e)["user"]) for e in found} == {("t", "u")}
    begin = content(found[0])
    assert (begin["graph"], begin["question"], begin["tools"]) == (
        "react",
        "What is in a and b?",
        ["look", "read_result"],
    )
    assert begin["limits"]["steps"] == 15
    assert begin["resumes"] is False
    assert set(begin["version"]) == {"taograph", "langgraph", "langchain-core"}
    asked, again = of_type(found, "model_asked")
    assert [m["content"] for m in asked["new"]][-1] == "What is in a and b?"
    assert again["new"] == [], "what was sent before is not told again"
    assert asked["request"] != again["request"]
    reply = of_type(found, "model_replied")[0]
    assert reply["message"]["content"] == "I look at both."
    assert [c["id"] for c in reply["message"]["tool_calls"]] == ["a", "b"]
    assert (reply["input_tokens"], reply["output_tokens"]) == (10, 2)
    assert {o["id"]: o["text"] for o in of_type(found, "observation")} == {"a": "saw a", "b": "saw b"}
    end = content(found[-1])
    assert {n: end[n] for n in ("model_calls", "tool_calls", "input_tokens", "output_tokens")} == {
        "model_calls": 2,
        "tool_calls": 2,
        "input_tokens": 20,
        "output_tokens": 4,
    }
    assert [content(e)["at"] for e in found] == sorted(content(e)["at"] for e in found)


def test_what_is_recorded_is_kept_for_a_time(recorded: Recorded) -> None:
    graph = create_react_graph(says("One.", "Two."), [look])
    recorded.of(graph).invoke(QUESTION)
    recorded.of(graph, keep_days=None).invoke(QUESTION)
    first, second = recorded.store().traces()
    assert first.delete_on is not None
    assert first.delete_on > first.started[:10]
    assert second.delete_on is None


def test_runs_side_by_side_have_traces_of_their_own(recorded: Recorded) -> None:
    both = [asks("a", "b", text="I look at both."), "Both are there."]
    graph = recorded.of(create_react_graph(says(*both), [look]))
    graphs = [graph, *(recorded.of(create_react_graph(says(*both), [look])) for _ in range(4))]

    async def together() -> None:
        await asyncio.gather(*(each.ainvoke(QUESTION) for each in graphs))

    asyncio.run(together())
    traces = recorded.all()
    assert [side_by_side(told(found)) for found in traces] == [LOOP] * 5
    assert len({content(found[0])["run"] for found in traces}) == 5


def test_other_callbacks_stay(recorded: Recorded) -> None:
    class Counts(BaseCallbackHandler):
        count = 0

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.count += 1

    counts = Counts()
    recorded.of(create_react_graph(says("Well."), [look])).invoke(QUESTION, {"callbacks": [counts]})
    assert counts.count == 1
    assert told(recorded.one())[-1] == "0 run_ended ended"


def test_nothing_is_remembered_of_runs_that_ended(recorded: Recorded) -> None:
    recorder, barrier = trace.handlers(recorded.url)
    assert isinstance(recorder, trace.Recorder)
    config: Any = {"callbacks": [recorder, barrier], **THREAD}
    tools = [look, broken, pay, slow]

    def graph(*replies: Any, **options: Any) -> Any:
        return create_react_graph(says(*replies), tools, checkpointer=InMemorySaver(), **options)

    graph(asks("a", "b"), asks("c", tool="broken"), "Well.").invoke(QUESTION, config)
    asyncio.run(graph(asks("a", "b"), "Well.").ainvoke(QUESTION, config))
    graph(RuntimeError("no model")).invoke(QUESTION, config)
    graph(asks("a", tool="slow"), "Well.", limits=Limits(seconds=0.1)).invoke(QUESTION, config)
    asks_first = graph(asks("a", tool="pay"), "Well.", approve=["pay"])
    asks_first.invoke(QUESTION, config)
    asks_first.invoke(Command(resume="approve"), config)
    stream = graph(asks("a"), "Well.").stream(QUESTION, config)
    next(stream)
    stream.close()
    until = time.monotonic() + 10
    while recorder._places and time.monotonic() < until:  # the tool that was given up takes its time
        time.sleep(0.05)
    assert (recorder._places, recorder._ours, recorder.ended) == ({}, set(), set())
    assert len(recorded.all()) == 7


# What goes wrong


def test_a_tool_that_fails(recorded: Recorded) -> None:
    recorded.of(create_react_graph(says(asks("a", tool="broken"), "Well."), [broken])).invoke(QUESTION)
    found = recorded.one()
    assert told(found)[3:7] == ["1 action broken", "1 tool_failed broken", "1 observation broken", "2 model_asked"]
    (failed,) = of_type(found, "tool_failed")
    assert (failed["error"], failed["text"]) == ("RuntimeError", "internal trouble"), "the auditor sees what it was"
    (shown,) = of_type(found, "observation")
    assert shown["status"] == "error"
    assert "internal trouble" not in shown["text"], "and the model does not"


def test_a_model_that_fails(recorded: Recorded) -> None:
    graph = create_react_graph(says(RuntimeError("no connection sk-1234567890abcdefgh12")), [look])
    recorded.of(graph).invoke(QUESTION)
    found = recorded.one()
    assert told(found) == [
        "0 run_started",
        "1 model_asked",
        "1 model_failed",
        "1 stop model_error",
        "1 answer",
        "0 run_ended ended",
    ]
    (failed,) = of_type(found, "model_failed")
    assert (failed["error"], failed["text"]) == ("RuntimeError", "no connection [secret]")


def test_a_deadline(recorded: Recorded) -> None:
    model = says(asks("a", tool="slow"), "In short.")
    recorded.of(create_react_graph(model, [slow], limits=Limits(seconds=0.2))).invoke(QUESTION)
    assert told(recorded.one()) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 action slow",
        "1 observation slow",
        "1 model_asked",
        "1 model_replied",
        "1 stop deadline",
        "1 answer",
        "0 run_ended ended",
    ]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_run_that_is_cancelled(recorded: Recorded, way: str) -> None:
    with Cancellation() as cancel:

        @tool(effects="none")
        def enough(name: str) -> str:
            """Throw the switch.

            Args:
                name: Anything.
            """
            cancel.request("that is enough")
            return "thrown"

        run(way, recorded.of(create_react_graph(says(asks("a", tool="enough"), "Well."), [enough])))
    found = recorded.one()
    assert told(found)[:4] == ["0 run_started", "1 model_asked", "1 model_replied", "1 action enough"]
    assert told(found)[-3:] == ["1 stop cancelled", "1 answer", "0 run_ended ended"]
    assert of_type(found, "stop")[0]["detail"] == "that is enough"


def test_a_task_that_is_cancelled(recorded: Recorded) -> None:
    async def go() -> None:
        inside = asyncio.Event()

        @tool(effects="none")
        async def waits(name: str) -> str:
            """Wait for ever.

            Args:
                name: Anything.
            """
            inside.set()
            await asyncio.Event().wait()
            return ""

        graph = recorded.of(create_react_graph(says(asks("a", tool="waits"), "Well."), [waits]))
        task = asyncio.create_task(graph.ainvoke(QUESTION))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert told(recorded.one()) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 action waits",
        "1 tool_failed waits",
        "0 run_ended cancelled",
    ]


def test_a_stream_that_is_left(recorded: Recorded) -> None:
    stream = recorded.of(create_react_graph(says(asks("a"), "Well."), [look])).stream(QUESTION)
    next(stream)
    stream.close()
    found = recorded.one()
    assert told(found)[:2] == ["0 run_started", "1 model_asked"]
    assert told(found)[-1] == "0 run_ended cancelled"


# A person is asked


def test_approval_and_going_on(recorded: Recorded) -> None:
    graph = create_react_graph(
        says(asks("Ada", "Bob", tool="pay"), "Paid."), [pay], approve=["pay"], checkpointer=InMemorySaver()
    )
    graph = recorded.of(graph)
    result = graph.invoke(QUESTION, THREAD)
    ids = [each.id for each in sorted(result["__interrupt__"], key=lambda each: str(each.value["args"]))]
    answers = {ids[0]: {"decision": "edit", "args": {"name": "Eve"}}, ids[1]: {"decision": "reject", "reason": "no"}}
    graph.invoke(Command(resume=answers), THREAD)
    first, second = recorded.all()
    assert told(first) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 action pay",
        "1 action pay",
        "1 approval_asked",
        "1 approval_asked",
        "0 run_ended waiting",
    ]
    asked = {a["id"]: a["value"]["args"]["name"] for a in of_type(first, "approval_asked")}
    assert asked == {each.id: each.value["args"]["name"] for each in result["__interrupt__"]}
    assert content(second[0])["resumes"] is True
    assert told(second)[-5:] == ["2 model_asked", "2 model_replied", "2 stop final", "2 answer", "0 run_ended ended"]
    assert sorted((a["decision"], a["args"]["name"]) for a in of_type(second, "approval_answered")) == [
        ("edit", "Eve"),
        ("reject", "Bob"),
    ]
    assert any("paid Eve" in o["text"] for o in of_type(second, "observation"))
    assert content(second[0])["run"] == content(first[0])["run"], "one run in two calls"
    assert [k.run for k in recorded.store().traces(run=content(first[0])["run"])] == [content(first[0])["run"]] * 2


PROCESS = textwrap.dedent(
    """
    import json, sys
    sys.path[:0] = [sys.argv[3], sys.argv[3] + "/.."]
    from langgraph.types import Command
    from recording_support import QUESTION, asks, pay, says
    from taograph import checkpoints, create_react_graph, trace
    threads, what, _, *urls = sys.argv[1:]
    with checkpoints.open(threads) as saver:
        for thread, url in enumerate(urls):
            model = says(asks("Ada", tool="pay")) if what == "ask" else says("Paid.")
            graph = trace.record(create_react_graph(model, [pay], approve=["pay"], checkpointer=saver), to=url)
            given = QUESTION if what == "ask" else Command(resume="approve")
            graph.invoke(given, {"configurable": {"thread_id": str(thread)}})
    """
)


@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_gone_on_with_in_another_process(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/traces.db", f"jsonl:{tmp_path}/traces"]
    if kind == "postgres":
        urls = [request.getfixturevalue("postgres_url")]
    for what in ("ask", "answer"):
        given = [f"sqlite:///{tmp_path}/threads.db", what, str(Path(__file__).parent), *urls]
        done = subprocess.run(
            [sys.executable, "-c", PROCESS, *given],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for url in urls:
        first, second = Recorded(url).all()
        assert told(first)[-2:] == ["1 approval_asked", "0 run_ended waiting"]
        assert told(second)[-6:] == [
            "1 observation pay",
            "2 model_asked",
            "2 model_replied",
            "2 stop final",
            "2 answer",
            "0 run_ended ended",
        ]
        assert content(second[0])["run"] == content(first[0])["run"]

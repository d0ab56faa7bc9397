"""protocol="auto", "native" and "text": what a model says of itself, what its endpoint refuses, what is remembered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import Fail, Raw, Reply
from http_support import Made, assert_concluded, both_pairs, by_address
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver
from stream_support import Streams, of
from support import (
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    python_process,
    question,
    run,
    thread,
)
from text_runs import ACTION, ANSWER, FOUND, REFUSED, Completions, in_text, offered, refusing, said

from taograph import create_react_graph, stream_steps
from taograph.models import ScriptedModel, TextReAct


def started(graph: Any, **options: Any) -> tuple[str, str]:
    (event,) = of([dict(e) for e in stream_steps(graph, question(), **options)], "run_started")
    return event["protocol"], event["protocol_reason"]


# --- what a model says of itself ---------------------------------------------------------------------------


class WithoutTools(ScriptedModel):
    """A chat model whose class cannot be given tools."""

    bind_tools = BaseChatModel.bind_tools


class NotYet(ScriptedModel):
    """A chat model whose integration gives it tools some other day."""

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def scripted(kind: type[ScriptedModel] = ScriptedModel, **options: Any) -> ScriptedModel:
    return kind(replies=[ACTION, ANSWER], **options)


DECLARED = {
    "no bind_tools": (lambda: scripted(WithoutTools), "text", "no bind_tools"),
    "bind_tools not implemented": (lambda: scripted(NotYet), "text", "not implemented"),
    "profile": (lambda: scripted(profile={"tool_calling": False}), "text", "profile"),
    "completions": (lambda: Completions(responses=[ACTION, ANSWER]), "text", "TextReAct"),
    "wrapped": (lambda: TextReAct(scripted()), "text", "TextReAct"),
    "wrapped completions": (lambda: TextReAct(Completions(responses=[ACTION, ANSWER])), "text", "TextReAct"),
    "able": (lambda: ScriptedModel(replies=[asks("Ada"), "Ada is\non page 3."]), "native", "bind_tools"),
    "able by profile": (
        lambda: ScriptedModel(replies=[asks("Ada"), "Ada is\non page 3."], profile={"tool_calling": True}),
        "native",
        "bind_tools",
    ),
}


@pytest.mark.parametrize(("made", "protocol", "why"), DECLARED.values(), ids=DECLARED.keys())
def test_auto_goes_by_what_the_model_says_of_itself(made: Any, protocol: str, why: str, steps: Streams) -> None:
    events = steps(create_react_graph(made(), [lookup]), question())
    assert events[0]["protocol"] == protocol
    assert why in events[0]["protocol_reason"]
    assert events[-1]["text"] == "Ada is\non page 3."
    assert len(of(events, "observation")) == 1


def test_text_is_spoken_where_it_is_chosen_also_by_a_model_that_calls_functions() -> None:
    model = scripted()
    assert started(create_react_graph(model, [lookup], protocol="text")) == ("text", 'protocol="text"')
    assert [request.tools for request in model.requests] == [[], []]


NATIVE = {
    "no bind_tools": (lambda: scripted(WithoutTools), "bind_tools"),
    "bind_tools not implemented": (lambda: scripted(NotYet), "bind_tools"),
    "completions": (lambda: Completions(responses=["x"]), "completion model"),
    "wrapped": (lambda: TextReAct(scripted()), "TextReAct"),
}


@pytest.mark.parametrize(("made", "words"), NATIVE.values(), ids=NATIVE.keys())
def test_native_is_refused_for_a_model_that_cannot(made: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        create_react_graph(made(), [lookup], protocol="native")
    assert 'Use "auto"' in str(error.value) or 'Use protocol="auto"' in str(error.value)


def test_another_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="protocol='xml': use"):
        create_react_graph(scripted(), [lookup], protocol="xml")  # type: ignore[arg-type]


# --- what an endpoint refuses ------------------------------------------------------------------------------


def error(status: int, message: str, **more: Any) -> Raw:
    return Raw(json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}}), status)


NO_ENDPOINT = "No endpoints found that support tool use. To learn more about provider routing, visit: https://x/docs"
EXTRA = {"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs are not permitted", "input": [{}]}
VLLM = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
REFUSALS = {
    "Ollama": error(400, "registry.ollama.ai/library/gemma:2b does not support tools", type="api_error"),
    "vLLM": Raw(json.dumps({"object": "error", "message": VLLM, "type": "BadRequestError", "code": 400}), 400),
    "llama.cpp": error(500, "tools param requires --jinja flag", code=500),
    "llama.cpp, once more": error(501, "This server does not support tools.", code=501),
    "OpenRouter": error(404, NO_ENDPOINT, code=404),
    "an old server": error(400, "Unrecognized request argument supplied: tools"),
    "several": error(400, "Unrecognized request arguments supplied: parallel_tool_calls, tools"),
    "o1": error(400, "Unsupported parameter: 'tools' is not supported with this model.", code="unsupported_parameter"),
    "a schema": error(400, "Additional properties are not allowed ('tools' was unexpected)"),
    "FastAPI": Raw(json.dumps({"detail": [EXTRA]}), 422),
    "DashScope": error(400, "<400> InternalError.Algo.InvalidParameter: 该模型不支持工具调用"),
    "Mistral": error(400, "Function calling is not enabled for this model"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_an_endpoint_that_refuses_tools_is_asked_in_text(serve: Any, refusal: Raw, steps: Streams) -> None:
    server = serve(default=refusing(refusal))
    graph = create_react_graph(by_address(server), [lookup])
    events = steps(graph, question())
    assert offered(server) == [True, False, False], "refused once, and not tried again"
    assert events[-1]["text"] == "Ada is\non page 3."
    assert events[-1]["spent"]["model_calls"] == 3, "the refused call counts"
    assert events[-1]["step"] == 2, "it is no turn of its own"
    assert events[0]["protocol"] == "native", "as it was asked first"
    (retry,) = of(events, "retry")
    assert (retry["reason"], retry["step"]) == ("protocol", 1)
    assert retry["detail"].startswith("going on in the text protocol: the endpoint refuses tools: ")
    assert started(graph) == ("text", retry["detail"].removeprefix("going on in the text protocol: "))
    assert offered(server)[3:] == [False, False], "remembered"


@pytest.mark.parametrize("streams", [False, True])
def test_a_refusal_within_an_answer_that_is_none(serve: Any, streams: bool) -> None:
    body = json.dumps({"error": {"message": NO_ENDPOINT, "code": 404}})
    refusal = Raw(f"data: {body}\n\n", kind="text/event-stream") if streams else Raw(body)
    server = serve(default=refusing(refusal))
    graph = create_react_graph(by_address(server), [lookup])
    if streams:
        answer = next(e["text"] for e in stream_steps(graph, question()) if e["type"] == "answer")
    else:
        answer = graph.invoke(question())["answer"]
    assert answer == "Ada is\non page 3."
    assert offered(server) == [True, False, False]


@both_ways
def test_a_client_that_hands_on_only_words(way: Way) -> None:
    refusal = RuntimeError("An error occurred (ValidationException): This model doesn't support tool use.")
    model = ScriptedModel(replies=[refusal, ACTION, ANSWER])
    result = run(way, create_react_graph(model, [lookup]), question())
    assert_ended(result, "final")
    assert [bool(request.tools) for request in model.requests] == [True, False, False]


@both_pairs
def test_tools_refused_in_the_middle_of_a_run(serve: Any, made: Made, way: Way) -> None:
    """Another endpoint may serve the second request."""
    calls = [("lookup", {"name": "Ada"}), ("lookup", {"name": "Bo"})]
    server = serve(Reply("Both.", calls=calls, reasoning="Hm."), default=refusing(REFUSED, lambda body: ANSWER))
    graph = create_react_graph(made(server), [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_concluded(result, "final", server)
    assert offered(server) == [True, True, False]
    assert [(m["role"], m["content"]) for m in server.requests[-1]["messages"][1:]] == [
        ("user", "What is it?"),
        ("assistant", 'Thought: Both.\nAction: lookup\nAction Input: {"name": "Ada"}'),
        ("user", f"Observation: {FOUND}"),
        ("assistant", 'Action: lookup\nAction Input: {"name": "Bo"}'),
        ("user", "Observation: Bo is in the book on page 2."),
    ]
    assert graph.get_state(thread()).values["run"]["protocol"] == "text"


OTHER_ERRORS = {
    "key": Fail(401, "Incorrect API key provided; you are not allowed to use tools."),
    "model": Fail(404, "The model `x` does not exist or you do not have access to it."),
    "one tool": Fail(400, "Tool 'lookup' has an unsupported schema: 'patternProperties' is not supported"),
    "its name": Fail(400, "Invalid 'tools[0].function.name': string does not match pattern."),
    "strict": Fail(400, "Unsupported parameter: 'tools[0].function.strict' is not supported with this model"),
    "too many": Fail(400, "Invalid 'tools': array too long. Expected an array with maximum length 128."),
    "order": Fail(400, "An assistant message with 'tool_calls' must be followed by tool messages."),
    "another parameter": Fail(400, "Unsupported parameter: 'temperature' is not supported with this model."),
}


@pytest.mark.parametrize("fault", OTHER_ERRORS.values(), ids=OTHER_ERRORS.keys())
def test_another_error_is_no_refusal_of_tools(serve: Any, fault: Fail) -> None:
    server = serve(default=refusing(fault))
    result = create_react_graph(by_address(server), [lookup]).invoke(question())
    assert_concluded(result, "model_error", server)
    assert offered(server) == [True]


def test_what_was_no_refusal_after_all_is_not_remembered(serve: Any) -> None:
    """The words of an error may mislead; the request in text fails just so."""
    server = serve(default=Fail(400, "Image input is not supported; take it out of the tool message"))
    graph = create_react_graph(by_address(server), [lookup])
    for _ in range(2):
        assert_concluded_so_far(graph.invoke(question()), "model_error")
    assert offered(server) == [True, False, True, False]
    server._queue[:] = [Reply(calls=[("lookup", {"name": "Ada"})]), "Page 3."]
    assert graph.invoke(question())["answer"] == "Page 3."


def assert_concluded_so_far(result: dict[str, Any], reason: str) -> None:
    assert result["stop"]["reason"] == reason
    assert "Image input" in result["stop"]["detail"]


@both_ways
def test_native_does_not_give_way(serve: Any, way: Way) -> None:
    server = serve(default=refusing())
    result = run(way, create_react_graph(by_address(server), [lookup], protocol="native"), question())
    assert_concluded(result, "model_error", server)
    assert offered(server) == [True]
    assert "does not support tools" in result["stop"]["detail"]
    assert 'protocol="auto"' in result["stop"]["detail"], "and what can be done"


@pytest.mark.parametrize("stop_refused", [False, True])
def test_an_endpoint_that_refuses_stop_texts_besides(serve: Any, stop_refused: bool) -> None:
    no_stop = Fail(400, "Unsupported parameter: 'stop' is not supported with this model.", "unsupported_parameter")
    rambling = f"{ACTION}\nObservation: ZQX\nFinal Answer: ZQX"
    server = serve(
        default=refusing(REFUSED, lambda b: no_stop if "stop" in b else in_text(b).replace(ACTION, rambling))
    )
    result = create_react_graph(by_address(server), [lookup]).invoke(question())
    assert result["answer"] == "Ada is\non page 3."
    assert "ZQX" not in str([result, server.requests])


# --- what is remembered ------------------------------------------------------------------------------------


def test_runs_side_by_side_learn_it_together(serve: Any) -> None:
    server = serve(default=refusing())
    graph = create_react_graph(by_address(server), [lookup])
    for results in (graph.batch([question()] * 5), asyncio.run(graph.abatch([question()] * 5))):
        assert [result["answer"] for result in results] == ["Ada is\non page 3."] * 5
    assert 1 <= sum(offered(server)) <= 5
    assert not any(offered(server)[-10:]), "by then it is known"


def test_a_model_that_a_run_names(serve: Any) -> None:
    able, unable = serve(Reply(calls=[("lookup", {"name": "Ada"})]), "Page 3."), serve(default=refusing())
    graph = create_react_graph(None, [lookup])
    for _ in range(2):
        assert graph.invoke(question(), context={"model": by_address(unable)})["answer"] == "Ada is\non page 3."
    assert graph.invoke(question(), context={"model": by_address(able)})["answer"] == "Page 3."
    assert offered(unable) == [True, *[False] * 4]
    assert offered(able) == [True, True], "what was learned is not held against another"


RESUMABLE = """
import sys
from langgraph.types import Command, interrupt
from taograph import checkpoints, create_react_graph, stream_steps, tool

@tool(effects="none")
def ask(who: str) -> str:
    '''Ask a person.

    Args:
        who: Whom.
    '''
    return str(interrupt(who))

given, thread = {given}, {{"configurable": {{"thread_id": "t"}}}}
with checkpoints.open("sqlite:///{file}") as saver:
    graph = create_react_graph("{model}", [ask], checkpointer=saver)
    for event in stream_steps(graph, given, thread):
        if event["type"] in ("retry", "approval", "answer"):
            print(event["type"], event.get("reason") or event.get("text") or event.get("value"))
"""


def test_a_run_goes_on_in_text_in_another_process(serve: Any, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        asked = any("Observation: Me" in str(m["content"]) for m in body["messages"])
        return "Thought: k\nFinal Answer: You." if asked else "Thought: t\nAction: ask\nAction Input: Who?"

    server = serve(default=refusing(REFUSED, reply))

    def process(given: str) -> list[str]:
        done = python_process(RESUMABLE.format(given=given, file=tmp_path / "t.db", model=by_address(server)))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert process('{"messages": [("user", "Who?")]}') == ["retry protocol", "approval Who?"]
    assert process('Command(resume="Me")') == ["answer You."]
    assert offered(server) == [True, False, False], "it is not tried again"


@both_ways
def test_a_thread_can_change_between_the_protocols(way: Way) -> None:
    saver = InMemorySaver()
    native = ScriptedModel(replies=[asks("Ada", "Bo", text="Both."), "Native.", asks("Cy"), "Native again."])
    text = ScriptedModel(replies=["Thought: hm", ACTION, ANSWER, "Thought: k\nFinal Answer: Text again."])
    graphs = [
        create_react_graph(native, [lookup], protocol="native", checkpointer=saver),
        create_react_graph(text, [lookup], protocol="text", checkpointer=saver),
    ]
    for number, answer in enumerate(["Native.", "Ada is\non page 3.", "Native again.", "Text again."]):
        result = run(way, graphs[number % 2], question(f"Question {number}?"), thread())
        assert_ended(result, "final")
        assert result["answer"] == answer
    for model in (native, text):
        for request in model.requests:
            assert_acceptable(request.messages)
    seen = native.requests[-1].messages
    assert [m.content for m in seen if m.type == "ai" and not m.tool_calls] == [
        "Native.",
        "Thought: hm",
        "Ada is\non page 3.",
    ]
    assert all("Action:" not in str(m.content) for m in seen if m.type in ("ai", "tool"))
    shown = said(text.requests[-1].messages)
    assert ("ai", "Final Answer: Native.") in shown
    assert ("ai", 'Action: lookup\nAction Input: {"name": "Cy"}') in shown

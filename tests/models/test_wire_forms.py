"""Messages on the wire: what is kept is what LangChain would send, as long as the message lives and is what it was."""

from __future__ import annotations

import copy
import gc
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from wire_support import (
    HISTORY,
    PAIRS,
    Asked,
    Pair,
    Recorder,
    at_once,
    both,
    by_name,
    outcome,
    own,
    plain,
    plain_by_name,
    whole,
)

from taograph.models.azure import AzureEndpoint
from taograph.models.endpoint import ChatEndpoint
from taograph.models.wire import EncodedMessages


@pytest.fixture(scope="module")
def one_server() -> Iterator[Recorder]:
    with Recorder() as made:
        yield made


@pytest.fixture
def server(one_server: Recorder) -> Recorder:
    one_server.answers = [whole()]
    one_server.take()
    return one_server


def sent(model: Any, messages: list[BaseMessage]) -> Any:
    """The messages as the model would send them."""
    return model._get_request_payload(messages)["messages"]


def endpoint(**options: Any) -> Any:
    return ChatEndpoint(model="fake", base_url="http://127.0.0.1:9/v1", api_key="x", **options)


# --- every kind of message ---------------------------------------------------------------------------------

text = st.one_of(st.text(max_size=12), st.sampled_from(['é\u2028\x00"\\', "𝔘🙂", "\ud800 alone", "</s>\r\n"]))
scalar = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text)
value = st.recursive(
    scalar, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)), max_leaves=6
)
block = st.one_of(
    text,
    st.fixed_dictionaries({"type": st.just("text"), "text": text}, optional={"annotations": st.just([]), "id": text}),
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": text}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "reasoning": text}),
    st.sampled_from(
        [
            {"type": "text", "text": "x", "extras": {"prompt_cache_breakpoint": {"type": "p"}}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {"type": "image", "base64": "AA==", "mime_type": "image/png"},
            {"type": "image", "url": "https://example.org/a.png"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            {"type": "audio", "base64": "AA==", "mime_type": "audio/wav"},
            {"type": "audio", "id": "audio_1"},
            {"type": "file", "base64": "AA==", "mime_type": "application/pdf", "filename": "a.pdf"},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
            {"type": "tool_call", "id": "c1", "name": "f", "args": {"a": 1}},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "non_standard", "value": {"a": 1.5}},
            {"type": "additional_tools", "tools": []},
            {"type": "text", "text": b"bytes"},
            {"type": "text", "text": float("nan")},
            {"nothing": "known", "n": 10**30},
        ]
    ),
)
content = st.one_of(text, st.lists(block, max_size=3))
call = st.builds(
    lambda name, args, at: {"name": name, "args": args, "id": at, "type": "tool_call"},
    text, st.dictionaries(text, value, max_size=3), st.one_of(st.none(), text),
)  # fmt: skip
bad_call = st.builds(
    lambda name, args: {"name": name, "args": args, "id": "c2", "error": "no JSON", "type": "invalid_tool_call"},
    text,
    text,
)
kwargs = st.fixed_dictionaries(
    {},
    optional={
        "refusal": text,
        "name": text,
        "reasoning_content": text,
        "function_call": st.fixed_dictionaries({"name": text, "arguments": text}),
        "tool_calls": st.lists(
            st.fixed_dictionaries({"id": text, "type": st.just("function"), "more": value}), max_size=2
        ),
        "audio": st.sampled_from([{"id": "a1", "data": "AA=="}, {"data": "AA=="}]),
        "__openai_role__": st.just("developer"),
    },
)
named = {"content": content, "additional_kwargs": kwargs, "name": st.one_of(st.none(), text)}
calling = {**named, "tool_calls": st.lists(call, max_size=2), "invalid_tool_calls": st.lists(bad_call, max_size=2)}
message: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, **named),
    st.builds(SystemMessage, **named),
    st.builds(AIMessage, **calling),
    st.builds(AIMessageChunk, content=content, additional_kwargs=kwargs),
    st.builds(HumanMessageChunk, **named),
    st.builds(ToolMessage, tool_call_id=text, artifact=st.just(object()), **named),
    st.builds(ChatMessage, role=st.sampled_from(["user", "critic"]), **named),
    st.builds(lambda content, name: FunctionMessage(content=content, name=name), content, text),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(message, min_size=1, max_size=4), model=st.sampled_from(["fake", "o3"]))
def test_all_kinds_of_messages(server: Recorder, messages: list[BaseMessage], model: str) -> None:
    models = _models(server, model)
    expected = outcome(at_once, models["plain"], messages)
    theirs = server.take()
    for name in ("by name", "by name", "own"):  # the second time from what was kept
        assert outcome(at_once, models[name], messages) == expected
        ours = server.take()
        assert [json.dumps(a.said, sort_keys=True) for a in ours] == [
            json.dumps(a.said, sort_keys=True) for a in theirs
        ]


def exactly(asked: Asked) -> str:
    """A body in which 1, 1.0 and true are not the same."""
    return json.dumps(asked.said, sort_keys=True)


_MADE: dict[tuple[str, str], dict[str, Any]] = {}


def _models(server: Recorder, model: str) -> dict[str, Any]:
    made = _MADE.get((server.address, model))
    if made is None:
        kinds: dict[str, Callable[..., Any]] = {"plain": plain_by_name, "by name": by_name, "own": own}
        made = _MADE[server.address, model] = {name: kind(server, model=model) for name, kind in kinds.items()}
    return made


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_conversation_that_grows(server: Recorder, pair: Pair) -> None:
    models = pair[0](server), pair[1](server)
    for length in range(1, len(HISTORY) + 1):
        both(server, pair, at_once, HISTORY[:length], models)


# --- what is kept ------------------------------------------------------------------------------------------


def test_each_message_is_encoded_once() -> None:
    model = endpoint()
    first = sent(model, HISTORY[:3])
    second = sent(model, HISTORY)
    assert isinstance(second, EncodedMessages)
    assert all(a is b for a, b in zip(first.pieces, second.pieces, strict=False))
    assert len(second) == 4
    assert second[-1] == {"role": "tool", "tool_call_id": "c1", "content": "1833 m"}
    assert second[:2] == [
        {"content": "Look it up.", "role": "system"},
        {"content": "How high is Snæfell?", "role": "user"},
    ]
    assert list(second) == sent(plain_model(), HISTORY)


def plain_model() -> Any:
    return ChatOpenAI(model="fake", base_url="http://127.0.0.1:9/v1", api_key="x")


def _set(field: str, new: Any) -> Callable[[Any], None]:
    return lambda changed: setattr(changed, field, new)


CHANGES: dict[str, Callable[[Any], None]] = {
    "the content": _set("content", "Other."),
    "the name": _set("name", "ada"),
    "the calls": _set("tool_calls", []),
    "the broken calls": _set("invalid_tool_calls", [{"name": "g", "args": "{", "id": "c3", "error": None}]),
    "more": _set("additional_kwargs", {"name": "ada"}),
    "a block more": lambda changed: changed.content.append({"type": "text", "text": "And more."}),
    "within a block": lambda changed: changed.content[0].update(text="Other."),
    "a call more": lambda changed: changed.tool_calls.append(
        {"name": "g", "args": {}, "id": "c2", "type": "tool_call"}
    ),
    "within a call": lambda changed: changed.tool_calls[0]["args"]["where"].append("here"),
    "one to true": lambda changed: changed.tool_calls[0]["args"].update(n=True),
    "one to one point nought": lambda changed: changed.tool_calls[0]["args"].update(n=1.0),
    "nought to minus nought": lambda changed: changed.tool_calls[0]["args"].update(z=-0.0),
    "within more": lambda changed: changed.additional_kwargs.update(name="ada"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_message_that_was_changed_is_encoded_anew(change: Callable[[Any], None]) -> None:
    args = {"where": ["there"], "n": 1, "z": 0.0, "nan": float("nan")}
    said = AIMessage([{"type": "text", "text": "Hm."}], tool_calls=[{"name": "f", "args": args, "id": "c1"}])
    model = endpoint()
    before = sent(model, [said])
    assert sent(model, [said]).pieces[0] is before.pieces[0]
    change(said)
    after = sent(model, [said])
    assert list(after) == sent(plain_model(), [said])
    assert list(after) != list(before) or after.pieces != before.pieces


def test_other_roles_and_results_that_were_changed() -> None:
    model = endpoint()
    said, result = ChatMessage("Hi.", role="user"), ToolMessage("1", tool_call_id="c1")
    sent(model, [said, result])
    said.role, result.tool_call_id = "critic", "c2"
    assert list(sent(model, [said, result])) == sent(plain_model(), [said, result])


def test_a_model_with_another_name_is_sent_its_own_form() -> None:
    model = endpoint()
    assert sent(model, HISTORY)[0]["role"] == "system"
    model.model_name = "o3"
    assert sent(model, HISTORY)[0]["role"] == "developer"
    assert sent(model.model_copy(update={"model_name": "fake"}), HISTORY)[0]["role"] == "system"


def test_what_is_kept_goes_with_its_message() -> None:
    model = endpoint()
    messages: list[BaseMessage] = [HumanMessage("x" * 100), AIMessage("y")]
    sent(model, messages)
    assert len(model._wire) == 2
    del messages[0]
    gc.collect()
    assert len(model._wire) == 1
    for number in range(200):  # where one was, the next one is
        assert sent(model, [HumanMessage(str(number))])[0]["content"] == str(number)
    gc.collect()
    assert len(model._wire) == 1


def test_of_a_class_that_nobody_knows_nothing_is_kept(server: Recorder) -> None:
    class Own(HumanMessage):
        pass

    model = endpoint()
    assert list(sent(model, [Own("Hi."), HumanMessage(["a", {"type": "text", "text": "b"}])])) == sent(
        plain_model(), [Own("Hi."), HumanMessage(["a", {"type": "text", "text": "b"}])]
    )
    assert len(model._wire) == 0


@pytest.mark.parametrize(
    "given", ["Hi.", ("Hi.",), [("user", "Hi."), HumanMessage("Ho."), {"role": "ai", "content": ""}]]
)
def test_what_is_no_message_yet(given: Any) -> None:
    model = endpoint()
    assert list(sent(model, given)) == list(sent(model, given)) == sent(plain_model(), given)


def test_a_copy_of_a_model_keeps_its_own() -> None:
    model = endpoint()
    sent(model, HISTORY)
    assert len(copy.deepcopy(model._wire)) == 0


@pytest.mark.parametrize("options", [{"response_format": {"type": "json_object"}}, {"use_responses_api": True}])
def test_other_requests_are_as_they_were(options: dict[str, Any]) -> None:
    made = {k: v for k, v in options.items() if k == "use_responses_api"}
    asked = {k: v for k, v in options.items() if k != "use_responses_api"}
    theirs = ChatOpenAI(model="fake", base_url="http://127.0.0.1:9/v1", api_key="x", **made)
    assert endpoint(**made)._get_request_payload(HISTORY, **asked) == theirs._get_request_payload(HISTORY, **asked)


def test_fields_of_the_classes_are_those_of_langchain() -> None:
    for ours, theirs in ((ChatEndpoint, ChatOpenAI), (AzureEndpoint, AzureChatOpenAI)):
        assert {n: repr(f) for n, f in ours.model_fields.items()} == {
            n: repr(f) for n, f in theirs.model_fields.items()
        }


def test_many_threads_at_once(server: Recorder) -> None:
    model, expected = by_name(server), sent(plain(server), HISTORY * 5)
    together = threading.Barrier(8)

    def ask(_: int) -> None:
        together.wait()
        for length in range(1, 6):
            model.invoke(HISTORY * length)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    asked = [a.said["messages"] for a in server.take()]
    assert len(asked) == 40
    assert all(messages == expected[: len(messages)] for messages in asked)
    assert len(model._wire) == len(HISTORY)

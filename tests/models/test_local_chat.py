"""The chat model over the local server, with a fake engine: calls from text, streams, errors, dead servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from local_support import FAKE_SERVER, alive, wait_for

from taograph.models import local, local_lease
from taograph.models.local import LocalChat, LocalServerError, ModelNotPulled, chat_model
from taograph.models.local_lease import Lease
from taograph.models.local_spec import ServerSpec
from taograph.models.pull import NotAModel

CALL = '{"name": "calculator", "arguments": {"expression": "17% of 2340"}}'
ARGS = {"expression": "17% of 2340"}
NO_CALLS = ['{"name": "calculator", "arguments": {"expression": "1}}', '{"total": 3}', "[1, 2]", "```py\nprint()\n```"]


@tool
def calculator(expression: str) -> str:
    """Work out arithmetic."""
    return expression


@pytest.fixture
def model(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalChat]:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    # Proxies and addresses of the environment are for other endpoints.
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_PROXY", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr(local, "ServerSpec", partial(ServerSpec, command=FAKE_SERVER))
    monkeypatch.setattr(local_lease, "_leases", {})
    monkeypatch.setenv("TAOGRAPH_LOCAL_LINGER", "0.2")
    made = chat_model(str(gguf))
    assert isinstance(made, LocalChat)
    yield made
    pids = [lease.record().pid for lease in local_lease._leases.values() if lease._record]
    for lease in local_lease._leases.values():
        lease.leave()
    for pid in pids:
        assert wait_for(lambda pid=pid: not alive(pid))  # type: ignore[misc]


@pytest.fixture
def acting(model: LocalChat) -> Runnable[Any, BaseMessage]:
    return model.bind_tools([calculator])


def lease_of(model: LocalChat) -> Lease:
    (lease,) = local_lease._leases.values()
    return lease


def whole(chunks: list[Any]) -> AIMessageChunk:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert isinstance(total, AIMessageChunk)
    return total


async def ask(acting: Runnable[Any, Any], text: str) -> list[AIMessage]:
    """The same request in the four ways of calling."""
    streamed = [chunk async for chunk in acting.astream(f"say: {text}")]
    return [
        await asyncio.to_thread(acting.invoke, f"say: {text}"),
        await acting.ainvoke(f"say: {text}"),
        whole(await asyncio.to_thread(lambda: list(acting.stream(f"say: {text}")))),
        whole(streamed),
    ]


async def test_a_call_written_as_json_is_a_tool_call_however_it_is_asked_for(acting: Runnable[Any, Any]) -> None:
    for message in await ask(acting, CALL):
        (call,) = message.tool_calls
        assert (call["name"], call["args"]) == ("calculator", ARGS)
        assert call["id"]
        assert message.content == ""
        assert message.usage_metadata
        assert message.usage_metadata["input_tokens"] == 9


async def test_several_calls_and_a_thought_before_tags(acting: Runnable[Any, Any]) -> None:
    for message in await ask(acting, f"{CALL}\n{CALL}"):
        assert [call["args"] for call in message.tool_calls] == [ARGS, ARGS]
        assert len({call["id"] for call in message.tool_calls}) == 2
    for message in await ask(acting, f"<tool_call>\n{CALL}\n</tool_call>"):
        assert [call["args"] for call in message.tool_calls] == [ARGS]


@pytest.mark.parametrize("text", NO_CALLS)
async def test_what_only_looks_like_a_call_stays_text(acting: Runnable[Any, Any], text: str) -> None:
    for message in await ask(acting, text):
        assert message.content == text
        assert not message.tool_calls


def test_text_streams_as_it_comes(acting: Runnable[Any, Any]) -> None:
    pieces = [str(chunk.content) for chunk in acting.stream("say: It is 397.8 exactly.") if chunk.content]
    assert len(pieces) > 3
    assert "".join(pieces) == "It is 397.8 exactly."


def test_no_piece_of_a_call_is_shown_as_text(acting: Runnable[Any, Any]) -> None:
    chunks = list(acting.stream(f"say: {CALL}"))
    assert all(chunk.content == "" for chunk in chunks)
    assert [chunk.tool_call_chunks[0]["name"] for chunk in chunks if chunk.tool_call_chunks] == ["calculator"]


def test_without_tools_nothing_is_held_back_or_taken_for_a_call(model: LocalChat) -> None:
    chunks = list(model.stream(f"say: {CALL}"))
    assert "".join(str(chunk.content) for chunk in chunks) == CALL
    assert sum(bool(chunk.content) for chunk in chunks) > 3
    assert not model.invoke(f"say: {CALL}").tool_calls


async def test_a_prompt_that_does_not_fit_is_langchains_overflow(model: LocalChat) -> None:
    with pytest.raises(ContextOverflowError, match="exceeds the available context size"):
        await asyncio.to_thread(model.invoke, "overflow")
    with pytest.raises(ContextOverflowError):
        await model.ainvoke("overflow")
    with pytest.raises(ContextOverflowError):
        await asyncio.to_thread(lambda: list(model.stream("overflow")))
    with pytest.raises(ContextOverflowError):
        async for _ in model.astream("overflow"):
            pass


async def test_a_server_killed_between_calls_is_replaced(model: LocalChat) -> None:
    for ask_again in (lambda: asyncio.to_thread(model.invoke, "say: one"), lambda: model.ainvoke("say: one")):
        await ask_again()
        pid = lease_of(model).record().pid
        os.kill(pid, signal.SIGKILL)
        assert (await ask_again()).content == "one"
        assert lease_of(model).record().pid != pid


def test_one_model_object_serves_several_event_loops(model: LocalChat) -> None:
    for word in ("one", "two"):
        assert asyncio.run(model.ainvoke(f"say: {word}")).content == word


async def test_the_event_loop_is_never_blocked(model: LocalChat) -> None:
    from blockbuster import blockbuster_ctx

    with blockbuster_ctx("taograph"):
        assert (await model.ainvoke("say: one")).content == "one"
        assert [c.content async for c in model.astream("say: one") if c.content] == ["one"]


async def test_a_start_that_fails_says_why(model: LocalChat, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = lease_of(model)
    broken = ServerSpec(
        model=lease.spec.model, run_dir=lease.spec.run_dir, command=(sys.executable, "-c", "exit('no memory')")
    )
    monkeypatch.setattr(lease, "spec", broken)
    with pytest.raises(LocalServerError, match="no memory"):
        await asyncio.to_thread(model.invoke, "say: one")
    with pytest.raises(LocalServerError, match="no memory"):
        await model.ainvoke("say: one")
    with pytest.raises(LocalServerError, match="no memory"):
        await asyncio.to_thread(lambda: list(model.stream("say: one")))


def test_making_it_starts_nothing(model: LocalChat) -> None:
    assert lease_of(model)._record is None
    assert model.worked_examples
    assert model.max_retries == 0
    assert model.temperature == 0
    assert "held-by-the-lease" not in repr(model)


def test_the_engine_is_not_imported_here() -> None:
    script = "import sys, taograph.models.local; assert 'xllamacpp' not in sys.modules, 'imported'"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_model_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    monkeypatch.delenv("TAOGRAPH_LOCAL_MODEL", raising=False)
    with pytest.raises(ModelNotPulled, match=r"tao model pull qwen2\.5-coder-0\.5b"):
        chat_model("local")
    with pytest.raises(ModelNotPulled, match="tao model pull smollm2-135m") as caught:
        chat_model("local:smollm2-135m")
    assert caught.value.name == "smollm2-135m"
    monkeypatch.setenv("TAOGRAPH_LOCAL_MODEL", "qwen2.5-coder-1.5b")
    with pytest.raises(ModelNotPulled, match=r"pull qwen2\.5-coder-1\.5b"):
        chat_model("local")
    with pytest.raises(ValueError, match="no local model is called 'gpt'"):
        chat_model("local:gpt")
    with pytest.raises(ValueError, match=r"absent\.gguf"):
        chat_model(str(tmp_path / "absent.gguf"))
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(NotAModel, match="not a GGUF"):
        chat_model(str(tmp_path / "text.gguf"))


def test_bind_tools_takes_langchain_tools(model: LocalChat) -> None:
    assert isinstance(calculator, BaseTool)
    bound: Any = model.bind_tools([calculator])
    assert bound.kwargs["tools"][0]["function"]["name"] == "calculator"


STOP = ["\nObservation:", "\n[You get]"]
STEP = " I know it.\nFinal Answer: 5"


async def test_a_base_models_step_is_begun_for_it(model: LocalChat) -> None:
    base = model.model_copy(update={"one_line": True, "constrain_calls": False})
    sent = base._get_request_payload(f"say: {STEP}", stop=STOP)
    assert sent["extra_body"]["chat_template_kwargs"] == {"begun": "Thought:"}
    for message in await ask(base.bind(stop=STOP), STEP):
        assert message.content == f"Thought:{STEP}"
        assert message.usage_metadata


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stop": ["\n\n"]},
        {"stop": STOP, "extra_body": {"grammar": "root ::= [a-z]+"}},
        {"stop": STOP, "response_format": {"type": "json_object"}},
    ],
)
def test_other_replies_are_not_begun(model: LocalChat, options: dict[str, Any]) -> None:
    base = model.model_copy(update={"one_line": True, "constrain_calls": False})
    assert "begun" not in str(base._get_request_payload("say: Yes.", **options))
    if "response_format" not in options:  # which the client reads as JSON
        assert base.invoke("say: Yes.", **options).content == "Yes."
    assert model.invoke("say: Yes.", stop=STOP).content == "Yes.", "an instruct model begins by itself"

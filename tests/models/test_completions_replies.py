"""Replies, streams and what stands beside LangChain's own models: all as with LangChain's own classes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import httpx2
import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from langchain_tests.unit_tests import ChatModelUnitTests
from pydantic import BaseModel
from wire_support import (
    HISTORY,
    KEY,
    PAIRS,
    STREAM,
    Ask,
    Pair,
    Recorder,
    Say,
    at_once,
    both,
    by_name,
    on_a_loop,
    own,
    own_azure,
    piece,
    streamed,
    streamed_on_a_loop,
    whole,
)

from taograph.models.azure import AzureEndpoint
from taograph.models.completions import ReadyAsyncCompletions, ReadyCompletions
from taograph.models.connections import ClientOfEachLoop
from taograph.models.endpoint import ChatEndpoint
from taograph.models.resolving import safe_across_loops

CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
BROKEN = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}]
TOKEN = {"token": "Hello", "logprob": -0.5, "bytes": [72], "top_logprobs": []}
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 2}}


class Answer(BaseModel):
    """An answer."""

    text: str


@pytest.fixture(scope="module")
def one_server() -> Iterator[Recorder]:
    with Recorder() as made:
        yield made


@pytest.fixture
def server(one_server: Recorder) -> Recorder:
    one_server.answers = [whole()]
    one_server.take()
    return one_server


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return PAIRS[request.param]


# --- replies -----------------------------------------------------------------------------------------------

REPLIES: dict[str, Say] = {
    "text": whole(),
    "a call": whole({"content": None, "tool_calls": CALLS}),
    "a broken call": whole({"content": None, "tool_calls": BROKEN}),
    "a refusal": whole({"content": None, "refusal": "No."}),
    "reasoning": whole({"reasoning_content": "Hm.", "reasoning": "Hm."}),
    "audio": whole({"audio": {"id": "a1", "data": "AA==", "transcript": "x", "expires_at": 1}}),
    "usage in detail": whole(usage={**USAGE, **DETAILS, "own": 1}),
    "no usage": whole(usage=None),
    "a tier": whole(service_tier="flex", system_fingerprint="fp_1", own={"a": 1}),
    "probabilities": whole(
        choices=[
            {"index": n, "message": {"role": "assistant", "content": str(n)}, "finish_reason": "length",
             "logprobs": {"content": [TOKEN]}} for n in range(2)
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_replies(server: Recorder, pair: Pair, ask: Ask) -> None:
    models = pair[0](server), pair[1](server)
    for reply in REPLIES.values():
        server.answers = [reply]
        (said,) = both(server, pair, ask, made=models)
        assert "content" in said[1]


def test_several_replies_to_one_request(server: Recorder, pair: Pair) -> None:
    server.answers = [REPLIES["probabilities"]]
    theirs, ours = (make(server, n=2, logprobs=True).generate([HISTORY]) for make in pair)
    assert [[g.text for g in made.generations[0]] for made in (theirs, ours)] == [["0", "1"]] * 2
    assert [g.generation_info for g in ours.generations[0]] == [g.generation_info for g in theirs.generations[0]]
    assert ours.llm_output == theirs.llm_output


STREAMS: dict[str, list[Any]] = {
    "text and a call": STREAM,
    "a refusal": [
        piece({"role": "assistant", "content": None, "refusal": "N"}),
        piece({"refusal": "o."}),
        piece({}, "stop"),
    ],
    "reasoning": [piece({"role": "assistant", "reasoning_content": "H"}), piece({"reasoning": "m"}), piece({}, "stop")],
    "a part without a delta": [piece({"content": "a"}), {**piece(), "choices": [{"index": 0, "delta": None}]}],
    "usage with every part": [piece({"content": "a"}, usage={**USAGE, **DETAILS})],
    "an error": [piece({"content": "a"}), {"error": {"message": "overloaded", "code": "x"}}],
    "no JSON": [piece({"content": "a"}), "{"],
    "nothing": [],
}


@pytest.mark.parametrize("ask", [streamed, streamed_on_a_loop])
def test_streams(server: Recorder, pair: Pair, ask: Ask) -> None:
    models = pair[0](server), pair[1](server)
    for events in STREAMS.values():
        server.answers = [Say(events=events)]
        both(server, pair, ask, made=models)
        both(server, pair, ask, made=models, stream_options={"include_usage": True})
    for asked in ({"logprobs": True}, {"extra_body": {"logprobs": True}}):
        choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [TOKEN]}}
        server.answers = [Say(events=[{**piece(), "choices": [choice]}, piece({}, "stop")])]
        both(server, pair, ask, made=models, **asked)
    call = {"function_call": {"arguments": "{}"}}
    server.answers = [
        Say(events=[piece({"function_call": {"name": "f", "arguments": ""}}), piece(call), piece({}, "stop")])
    ]
    both(server, pair, ask, made=models, functions=[{"name": "f", "parameters": {}}])


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_forms(server: Recorder, pair: Pair, method: Any) -> None:
    by_call = [{"id": "c1", "type": "function", "function": {"name": "Answer", "arguments": '{"text": "Hi."}'}}]
    message = (
        {"content": None, "tool_calls": by_call} if method == "function_calling" else {"content": '{"text": "Hi."}'}
    )
    server.answers = [whole(message)]
    models: Any = [make(server).with_structured_output(Answer, method=method) for make in pair]
    for ask in (at_once, on_a_loop):
        assert both(server, pair, ask, made=tuple(models)) == [Answer(text="Hi.")]


@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_the_other_api(server: Recorder, pair: Pair, ask: Ask) -> None:
    text = {"type": "output_text", "text": "Hi.", "annotations": []}
    out = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    server.answers = [Say({"id": "resp_1", "object": "response", "created_at": 1, "model": "fake", "output": [out],
                           "parallel_tool_calls": True, "tool_choice": "auto", "tools": []})]  # fmt: skip
    (said,) = both(server, pair, ask, made={"use_responses_api": True, "model": "fake"})
    assert server.take()[0].path.partition("?")[0].endswith("/responses")
    assert said[1]["content"][0]["text"] == "Hi."


def test_a_reply_is_read_where_all_threads_of_the_loop_are_taken(server: Recorder) -> None:
    model, release = by_name(server), threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        await model.ainvoke(HISTORY)  # the connections of a loop are made in a thread
        with ThreadPoolExecutor(1) as pool:
            loop.set_default_executor(pool)
            taken = loop.run_in_executor(None, release.wait)
            try:
                return str((await asyncio.wait_for(model.ainvoke(HISTORY), 30)).text)
            finally:
                release.set()
                await taken

    assert asyncio.run(main()) == "Hello."


@pytest.mark.parametrize("options", [{}, {"response_format": {"type": "json_object"}}])
def test_a_request_is_made_once_for_whoever_adds_to_it(server: Recorder, options: dict[str, Any]) -> None:
    class Adds(ChatEndpoint):
        def _get_request_payload(self, input_: Any, *, stop: Any = None, **kwargs: Any) -> dict[str, Any]:
            payload = super()._get_request_payload(input_, stop=stop, **kwargs)
            made.append(payload)
            return {**payload, "stop": [*payload.get("stop", ()), "more"]}

    made: list[dict[str, Any]] = []
    settings: Any = {"base_url": f"{server.address}/v1", "api_key": KEY, "http_async_client": ClientOfEachLoop()}
    model = Adds(model="fake", **settings)
    on_a_loop(model, HISTORY, **options)
    assert len(made) == 1
    assert server.take()[0].said["stop"] == ["more"]


# --- what stands beside them -------------------------------------------------------------------------------


def test_a_callers_model_is_left_as_it_was(server: Recorder) -> None:
    given = ChatOpenAI(model="fake", base_url=f"{server.address}/v1", api_key=KEY)  # type: ignore[arg-type]
    was = dict(vars(given))
    made = safe_across_loops(given)
    assert vars(given) == was
    assert type(made) is ChatOpenAI
    assert isinstance(made.client, ReadyCompletions)
    assert isinstance(made.async_client, ReadyAsyncCompletions)
    assert made.root_client is given.root_client
    assert made._get_ls_params() == given._get_ls_params()
    assert dumpd(made) == dumpd(given)
    assert safe_across_loops(made).client is made.client, "once is enough"


def test_a_callers_http_clients_are_the_ones_that_send(server: Recorder) -> None:
    seen: list[str] = []

    def note(request: Any) -> None:
        seen.append(request.url.path)

    async def anote(request: Any) -> None:
        seen.append(request.url.path)

    client = httpx2.Client(event_hooks={"request": [note]})
    aclient = httpx2.AsyncClient(event_hooks={"request": [anote]})
    model = own(server, http_client=client, http_async_client=aclient)

    async def main() -> None:
        async with aclient:
            await model.ainvoke(HISTORY)

    with client:
        model.invoke(HISTORY)
    asyncio.run(main())
    assert seen == ["/v1/chat/completions"] * 2


def test_many_at_once_have_clients_that_are_few_and_closed_with_their_loop(server: Recorder) -> None:
    model: Any = own(server)
    made, make = [], ClientOfEachLoop._made

    def noted(self: ClientOfEachLoop) -> Any:
        made.append(make(self))
        return made[-1]

    async def main() -> None:
        asked = [asyncio.ensure_future(model.ainvoke(HISTORY)) for _ in range(20)]
        await asyncio.sleep(0)
        asked[0].cancel()
        said = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(reply, "text", None) for reply in said] == [None, *["Hello."] * 19]
        assert len(made) == 3, "the first is waited for by all, and takes eight at a time"
        await model.ainvoke(HISTORY)
        assert len(made) == 3
        assert not any(client.is_closed for client in made)

    with mock.patch.object(ClientOfEachLoop, "_made", noted):
        asyncio.run(main())
        assert all(client.is_closed for client in made)
        on_a_loop(model, HISTORY)
    assert len(made) == 4


def test_clients_that_are_not_the_packages_stay() -> None:
    fake = mock.MagicMock()
    model = ChatOpenAI(model="fake", api_key=KEY, client=fake, async_client=fake)  # type: ignore[arg-type]
    assert safe_across_loops(model).client is fake

    class Other(openai.OpenAI):
        pass

    other = Other(api_key=KEY)
    model = ChatOpenAI(model="fake", api_key=KEY)  # type: ignore[arg-type]
    model.root_client, model.client = other, other.chat.completions
    assert safe_across_loops(model).client is other.chat.completions


def test_other_classes_over_the_same_client(server: Recorder) -> None:
    class Provider(BaseChatOpenAI):
        """As DeepSeek's and others are made."""

        def _get_request_payload(self, input_: Any, *, stop: Any = None, **kwargs: Any) -> dict[str, Any]:
            payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
            payload["messages"][0]["content"] += " Be brief."
            return payload

        def _convert_chunk_to_generation_chunk(self, chunk: Any, *rest: Any) -> ChatGenerationChunk | None:
            made = super()._convert_chunk_to_generation_chunk(chunk, *rest)
            if made and chunk["choices"]:
                made.message.additional_kwargs["own"] = chunk["choices"][0]["delta"].get("own")
            return made

    def make(of: Callable[[BaseChatModel], BaseChatModel]) -> Callable[..., BaseChatModel]:
        return lambda server, **options: of(
            Provider(model="fake", openai_api_base=f"{server.address}/v1", openai_api_key=KEY, **options)  # type: ignore
        )

    same = make(lambda model: model), make(safe_across_loops)
    both(server, same, at_once)
    assert server.take()[0].said["messages"][0]["content"] == "Look it up. Be brief."
    server.answers = [Say(events=[piece({"content": "a", "own": 1}), piece({}, "stop")])]
    both(server, same, streamed)


@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_a_redirect_to_another_host_does_not_take_azures_key_along(server: Recorder, ask: Ask) -> None:
    with Recorder() as other:
        server.answers = [Say({}, 307, headers={"location": f"{other.address}/elsewhere"}), whole()]
        assert ask(own_azure(server), HISTORY).text == "Hello."
        assert server.take()[0].headers["api-key"] == KEY
        assert KEY not in str(other.take())


# Reading certificates is most of what making a client takes.
CLIENT, ACLIENT = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500))), ClientOfEachLoop()


class TestAzureIsAChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return AzureEndpoint

    @property
    def chat_model_params(self) -> dict[str, Any]:
        address = {"azure_endpoint": "http://127.0.0.1:9", "api_version": "2025-01-01-preview"}
        return {**address, "model": "gpt-4o", "api_key": "x", "http_client": CLIENT, "http_async_client": ACLIENT}


class OwnModel(ChatOpenAI):
    @classmethod
    def is_lc_serializable(cls) -> bool:
        return False


class TestOwnModelIsAChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return OwnModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "fake", "base_url": "http://127.0.0.1:9/v1", "api_key": "x"}

    @pytest.fixture
    def model(self, request: Any) -> BaseChatModel:
        return safe_across_loops(self.chat_model_class(**{**self.standard_chat_model_params, **self.chat_model_params}))

"""What a model says of its window, and what refused requests tell of it, in the words of those who refuse."""

from __future__ import annotations

import pytest
from langchain_openai import ChatOpenAI

from taograph.models import ScriptedModel
from taograph.models.failures import is_overflow
from taograph.models.text_react import TextReAct
from taograph.models.windows import Overflow, overflow_of, reply_tokens, window_of

TOLD = {
    "openai": (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
        "Please reduce the length of the messages.",
        Overflow(8192, 9001),
    ),
    "openai, with a reply": (
        "This model's maximum context length is 4097 tokens. However, you requested 5010 tokens (1010 in the "
        "messages, 4000 in the completion).",
        Overflow(4097, 1010),
    ),
    "openai, input limit": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens.",
        Overflow(272000, 300123),
    ),
    "openai, no numbers": ("Your input exceeds the context window of this model.", Overflow(None, None)),
    "vllm": (
        "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 4096 "
        "tokens and your request has 3500 input tokens (1000 > 4096 - 3500).",
        Overflow(4096, 3500),
    ),
    "vllm, older": (
        "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens in the messages, "
        "Please reduce the length of the messages.",
        Overflow(4096, 4200),
    ),
    "vllm, decoder": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        Overflow(4096, 5000),
    ),
    "llama.cpp": (
        "request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it",
        Overflow(8192, 9012),
    ),
    "llama.cpp, older": ("the request exceeds the available context size, try increasing it", Overflow(None, None)),
    "anthropic": ("prompt is too long: 208310 tokens > 200000 maximum", Overflow(200000, 208310)),
    "anthropic, with a reply": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
        Overflow(200000, 188240),
    ),
    "google": (
        "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).",
        Overflow(1048576, 1200000),
    ),
    "mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        Overflow(32768, 40000),
    ),
    "cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.",
        Overflow(4081, 4292),
    ),
    "text-generation-inference": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and "
        "512 `max_new_tokens`",
        Overflow(4096, 4000),
    ),
}


@pytest.mark.parametrize("provider", TOLD)
def test_what_a_refused_request_tells(provider: str) -> None:
    text, told = TOLD[provider]
    error = RuntimeError(f"Error code: 400 - {{'error': {{'message': \"{text}\"}}}}")
    assert is_overflow(error), "the loop asks again"
    assert overflow_of(error) == told


def test_llama_cpp_names_the_sizes_in_fields_too() -> None:
    error = RuntimeError("the request exceeds the available context size, try increasing it")
    error.body = {"code": 400, "n_prompt_tokens": 9012, "n_ctx": 8192}  # type: ignore[attr-defined]
    assert overflow_of(error) == Overflow(8192, 9012)


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached: 30000 tokens per minute, received 4292",
        "invalid value for max_tokens: must be <= 4096",
        "temperature cannot exceed 2",
        "Incorrect API key provided",
        "tool results must be <= 400 characters. Given: 512",
    ],
)
def test_other_refusals_are_no_overflow(text: str) -> None:
    assert not is_overflow(RuntimeError(text))


def test_a_model_says_its_window_by_its_profile() -> None:
    assert window_of(ChatOpenAI(model="gpt-4o", api_key="x")) == 128000
    assert window_of(ChatOpenAI(model="unheard-of", api_key="x", base_url="http://localhost:1/v1")) is None
    assert window_of(ScriptedModel()) is None
    assert window_of(ScriptedModel(profile={"max_input_tokens": 4096})) == 4096
    assert window_of(TextReAct(ScriptedModel(profile={"max_input_tokens": 4096}))) == 4096


def test_a_model_says_how_long_its_reply_may_be() -> None:
    assert reply_tokens(ChatOpenAI(model="x", api_key="x", max_tokens=700)) == 700
    assert reply_tokens(ChatOpenAI(model="x", api_key="x")) is None
    assert reply_tokens(TextReAct(ChatOpenAI(model="x", api_key="x", max_tokens=700))) == 700
    assert reply_tokens(TextReAct(ChatOpenAI(model="x", api_key="x", max_tokens=700), max_tokens=300)) == 300

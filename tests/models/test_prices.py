"""What calls cost: the kept table, the user's own prices, and a limit that can be kept or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from taograph import Context, Limits, create_react_graph
from taograph.models import FlatPrice, ScriptedModel, prices, set_price
from taograph.models.prices import Price, model_name, price_of
from taograph.models.usage import usage_of


@pytest.fixture(autouse=True)
def own_prices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TAOGRAPH_PRICES", raising=False)
    monkeypatch.setattr(prices, "_OWN", {})
    prices._from_file.cache_clear()
    yield
    prices._from_file.cache_clear()
    prices._in_table.cache_clear()


def named(name: str, *replies: Any, **options: Any) -> ScriptedModel:
    return ScriptedModel(replies=list(replies) or ["Hello."], model_name=name, **options)


def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    monkeypatch.setenv("TAOGRAPH_PRICES", str(file))


def question() -> dict[str, Any]:
    return {"messages": [("user", "Hi")]}


# --- where a price comes from ------------------------------------------------------------------------------


def test_known_models_are_in_the_kept_table() -> None:
    price = price_of(named("gpt-4o-mini"))
    assert price is not None
    sent, received = price.dollars(1_000_000, 0, 0), price.dollars(0, 1_000_000, 0)
    assert 0 < sent < received < 100
    assert price.dollars(1_000_000, 0, 1_000_000) < sent, "what was cached is cheaper"


@pytest.mark.parametrize("name", ["scripted", "qwen2.5-coder-0.5b", "my-own-model", "gpt", ""])
def test_unknown_models_have_no_price(name: str) -> None:
    assert price_of(named(name)) is None


def test_a_price_that_is_set_goes_before_the_table() -> None:
    set_price("gpt-4o-mini", FlatPrice(1.0, 2.0, cached=0.5))
    price = price_of(named("gpt-4o-mini"))
    assert price is not None
    assert price.dollars(1_000_000, 1_000_000, 500_000) == pytest.approx(0.5 + 0.25 + 2.0)


def test_a_price_of_any_kind_can_be_set() -> None:
    class Flat:
        def dollars(self, sent: int, received: int, cached: int) -> float:
            return 0.25

    price: Price = Flat()
    set_price("per-call", price)
    model = named("per-call", usage=(10, 10))
    assert create_react_graph(model, []).invoke(question())["spent"]["cost"] == 0.25


def test_the_file_goes_before_the_table_and_behind_what_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, monkeypatch, json.dumps({"a": {"input": 1, "output": 2}, "b": {"input": 3, "output": 4}}))
    set_price("b", FlatPrice(5, 6))
    assert price_of(named("a")) == FlatPrice(1, 2)
    assert price_of(named("b")) == FlatPrice(5, 6)
    assert price_of(named("c")) is None


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "null",
        '{"a": null}',
        '{"a": {"input": 1}}',
        '{"a": {"input": 1, "output": 2, "extra": 3}}',
        '{"a": {"input": "1", "output": 2}}',
        '{"a": {"input": -1, "output": 2}}',
        '{"a": {"input": NaN, "output": 2}}',
        '{"a": {"input": true, "output": 2}}',
        '{"a": 5}',
    ],
)
def test_a_file_that_is_no_price_table_is_an_error_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    table(tmp_path, monkeypatch, text)
    model = named("a")
    with pytest.raises(ValueError, match="TAOGRAPH_PRICES"):
        create_react_graph(model, [], limits=Limits(cost=1.0))
    with pytest.raises(ValueError, match="TAOGRAPH_PRICES"):
        create_react_graph(model, []).invoke(question())
    assert model.requests == [], "nothing is paid before it is known that it cannot be counted"


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAOGRAPH_PRICES", str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match=r"none\.json"):
        create_react_graph(named("a"), [], limits=Limits(cost=1.0))


@pytest.mark.parametrize(
    "price", [(-1, 1), (1, -1), (float("nan"), 1), (float("inf"), 1), ("1", 1), (1, None), (1, True)]
)
def test_a_price_that_is_none(price: Any) -> None:
    with pytest.raises(ValueError, match="US dollars for a million tokens"):
        FlatPrice(*price)


def test_the_name_of_a_model_is_found_where_integrations_keep_it() -> None:
    class Other:
        model = "other-name"

    class Azure:
        model_name = None
        deployment_name = "my-deployment"

    assert model_name(Other()) == "other-name"
    assert model_name(Azure()) == "my-deployment"
    assert model_name(object()) == ""


# --- a cost limit ------------------------------------------------------------------------------------------


def test_a_cost_limit_without_a_price_is_refused_when_the_graph_is_built() -> None:
    with pytest.raises(ValueError, match=r"limits\.cost") as caught:
        create_react_graph(named("my-own-model"), [], limits=Limits(cost=1.0))
    for part in ("my-own-model", "set_price", "TAOGRAPH_PRICES"):
        assert part in str(caught.value)


def test_a_cost_limit_of_a_run_without_a_price_is_refused_before_the_model_is_asked() -> None:
    model = named("my-own-model")
    graph = create_react_graph(model, [])
    with pytest.raises(ValueError, match=r"limits\.cost"):
        graph.invoke(question(), context=Context(cost=1.0))
    assert model.requests == []


def test_a_price_set_after_the_error_counts() -> None:
    model = named("my-own-model", usage=(1_000_000, 0))
    graph = create_react_graph(model, [])
    with pytest.raises(ValueError, match="set_price"):
        graph.invoke(question(), context=Context(cost=5.0))
    set_price("my-own-model", FlatPrice(2.0, 2.0))
    assert graph.invoke(question(), context=Context(cost=5.0))["spent"]["cost"] == pytest.approx(2.0)


def test_a_model_that_is_free_needs_no_price() -> None:
    class Free(ScriptedModel):
        free_of_charge: bool = True

    result = create_react_graph(Free(replies=["Hello."]), [], limits=Limits(cost=1.0)).invoke(question())
    assert result["spent"]["cost"] == 0.0


def test_without_a_price_and_without_a_limit_the_cost_is_zero() -> None:
    assert create_react_graph(named("my-own-model"), []).invoke(question())["spent"]["cost"] == 0.0


# --- usage -------------------------------------------------------------------------------------------------


def reported(sent: int, received: int, cached: int | None = None) -> AIMessage:
    details: Any = {} if cached is None else {"input_token_details": {"cache_read": cached}}
    usage: Any = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received, **details}
    return AIMessage("Hello.", usage_metadata=usage)


def test_usage_is_what_is_reported() -> None:
    usage = usage_of([HumanMessage("Hi")], reported(100, 20, 40), FlatPrice(1.0, 2.0, cached=0.1))
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (100, 20, 40)
    assert usage.cost == pytest.approx((60 * 1.0 + 40 * 0.1 + 20 * 2.0) / 1_000_000)


@pytest.mark.parametrize("name", ["gpt-4o-mini", "flat"])
def test_more_cached_than_sent_does_not_end_the_run(name: str) -> None:
    """Some endpoints count what came from the cache beside what was sent; a strict table would refuse it."""
    set_price("flat", FlatPrice(1.0, 1.0, cached=0.1))
    model = named(name, reported(10, 5, 50))
    result = create_react_graph(model, []).invoke(question())
    assert result["stop"]["reason"] == "final"
    assert result["spent"]["cached_tokens"] == 10
    assert result["spent"]["cost"] > 0


@pytest.mark.parametrize("reply", [AIMessage("Hello, and a few words more."), reported(0, 0)], ids=["none", "zero"])
def test_usage_that_is_not_reported_is_estimated(reply: AIMessage) -> None:
    usage = usage_of([HumanMessage("word " * 100)], reply, FlatPrice(1.0, 1.0))
    assert 100 <= usage.input_tokens <= 200
    assert usage.output_tokens > 0
    assert usage.cost > 0


def test_an_estimate_counts_the_tools_that_were_sent() -> None:
    schema = {"type": "function", "function": {"name": "x", "description": "word " * 200, "parameters": {}}}
    bare = usage_of([HumanMessage("Hi")], AIMessage("Hello."), None)
    laden = usage_of([HumanMessage("Hi")], AIMessage("Hello."), None, [schema])
    assert laden.input_tokens - bare.input_tokens > 200

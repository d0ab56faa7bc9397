"""What a model call costs: the kept table of ``genai-prices``, and the user's own on top of it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel

_OWN: dict[str, Price] = {}
_MILLION = 1_000_000


class Price(Protocol):
    """A price that can be asked what a call costs."""

    def dollars(self, sent: int, received: int, cached: int) -> float:
        """US dollars for so many tokens; ``cached`` of those sent came from the provider's cache."""
        ...


@dataclass(frozen=True, slots=True)
class FlatPrice:
    """US dollars for a million tokens.

    Attributes:
        input: Of tokens sent.
        output: Of tokens received.
        cached: Of tokens sent that the provider had in its cache; as ``input`` when None.

    Raises:
        ValueError: A price that is not a number from 0 upwards.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached"):
            value = getattr(self, name)
            if value is None and name == "cached":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name}={value!r}: give US dollars for a million tokens, 0 or more")

    def dollars(self, sent: int, received: int, cached: int) -> float:
        """As :class:`Price`."""
        rate = self.input if self.cached is None else self.cached
        return ((sent - cached) * self.input + cached * rate + received * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class _TablePrice:
    model: str

    def dollars(self, sent: int, received: int, cached: int) -> float:
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=sent, output_tokens=received, cache_read_tokens=cached)
        return float(calc_price(usage, model_ref=self.model).total_price)


def set_price(model: str, price: Price) -> None:
    """Set or change the price of a model in this process.

    Args:
        model: Its name, as the endpoint knows it.
        price: For example ``FlatPrice(input=0.5, output=1.5)``.
    """
    _OWN[model] = price
    _in_table.cache_clear()


def price_of(model: BaseChatModel) -> Price | None:
    """The price of a model, or None where nobody knows it.

    The user's own prices come first: :func:`set_price`, then the JSON file named by ``TAOGRAPH_PRICES``
    (``{"name": {"input": 0.5, "output": 1.5, "cached": 0.1}}``, dollars for a million tokens).

    Raises:
        ValueError: The file cannot be read; the message says why.
    """
    return FREE if is_free(model) else price_by_name(model_name(model))


FREE = FlatPrice(0.0, 0.0)


def is_free(model: Any) -> bool:
    """Whether nothing is charged for a model."""
    return bool(getattr(model, "free_of_charge", False))


def price_by_name(name: str) -> Price | None:
    """The price of the model of this name, as :func:`price_of`; of a model without one, None."""
    if not name:
        return None
    file = os.environ.get("TAOGRAPH_PRICES")
    return _OWN.get(name) or (_from_file(file).get(name) if file else None) or _in_table(name)


def model_name(model: Any) -> str:
    """The name a model goes by, or "" where it has none."""
    for field in ("model_name", "model", "model_id", "deployment_name"):
        value = getattr(model, field, None)
        if isinstance(value, str) and value:
            return value
    return ""


@lru_cache(maxsize=64)
def _in_table(name: str) -> Price | None:
    price = _TablePrice(name)
    try:
        price.dollars(1, 1, 0)
    except LookupError:
        return None
    return price


@lru_cache(maxsize=4)
def _from_file(path: str) -> dict[str, FlatPrice]:
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: FlatPrice(**price) for name, price in table.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TAOGRAPH_PRICES={path!r} cannot be read as a price table ({error}). It should look like "
            '{"model": {"input": 0.5, "output": 1.5}}, dollars for a million tokens'
        ) from error

"""Exact arithmetic with a bound on every result, and numbers written as a person would write them.

Values are fractions as long as that is possible, floats after a root, a logarithm or a sine. Each operation
looks at the size of what it would make before it makes it: that is what keeps ``9**9**9`` from hanging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from typing import Any

from taograph.tools.policy import ToolError

MAX_BITS = 10_000
"""Bits of a numerator or denominator: about 3,000 digits."""

Number = Fraction | float


def too_large() -> ToolError:
    """The error for a result beyond the bound."""
    return ToolError("The result is too large to be useful (more than 3000 digits). Use smaller numbers.")


def checked(value: Any) -> Number:
    """A value that may go on, or the error that says why it may not."""
    if isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, int):
        value = Fraction(value)
    if isinstance(value, Fraction):
        if value.denominator.bit_length() > MAX_BITS:
            return checked(_as_float(value))
        if value.numerator.bit_length() > MAX_BITS:
            if value.denominator == 1:
                raise too_large()
            return checked(_as_float(value))
        return value
    if isinstance(value, float):
        if math.isnan(value):
            raise ToolError("The result is not a real number.")
        if math.isinf(value):
            raise too_large()
        return value
    if isinstance(value, complex):
        raise ToolError("The result is not a real number: a negative number has no such root.")
    raise ToolError("A function needs its arguments in brackets, for example sqrt(16).")


def _as_float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        raise too_large() from None


def _whole(value: Number, what: str) -> int:
    if value != int(value):
        raise ToolError(f"{what} needs whole numbers, not {written(value)}.")
    return int(value)


def power(base: Number, exponent: Number) -> Number:
    """``base ** exponent``, exact where both allow it."""
    base, exponent = checked(base), checked(exponent)
    if base == 0 and exponent < 0:
        raise ZeroDivisionError
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if base in (0, 1) or exponent == 0:
            return Fraction(1) if exponent == 0 else base
        if exponent.denominator == 1:
            if base == -1:
                return Fraction(-1) if exponent.numerator % 2 else Fraction(1)
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if size * abs(exponent.numerator) <= MAX_BITS:
                return checked(base**exponent.numerator)
            if base.denominator == 1 and exponent > 0:
                raise too_large()
        elif exponent == Fraction(1, 2):
            return root(base)
    try:
        result = checked(_as_float(base) ** _as_float(exponent))
    except OverflowError:
        raise too_large() from None
    if result == 0:
        raise ToolError("The result is too close to 0 to be written down.")
    return result


def root(value: Number) -> Number:
    """The square root, exact for squares of fractions."""
    value = checked(value)
    if value < 0:
        raise ToolError("A negative number has no real square root.")
    if isinstance(value, Fraction):
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return math.sqrt(_as_float(value))


def percent(value: Number) -> Number:
    """Hundredths: 17% is 0.17."""
    return checked(value / 100)


def _cube_root(value: Number) -> Number:
    if isinstance(value, Fraction) and value.denominator == 1 and abs(value) < 2**150:
        near = round(math.cbrt(value.numerator))
        if near**3 == value:
            return Fraction(near)
    return math.cbrt(_as_float(value))


def _factorial(value: Number) -> Number:
    whole = _whole(value, "factorial")
    if whole < 0:
        raise ToolError("factorial needs a number from 0 up.")
    if whole > 2 and whole * math.log2(whole / math.e) > MAX_BITS:
        raise too_large()
    return Fraction(math.factorial(whole))


def _choose(what: str, count: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def chosen(n: Number, k: Number) -> Number:
        whole, part = _whole(n, what), _whole(k, what)
        if whole < 0 or part < 0:
            raise ToolError(f"{what} needs numbers from 0 up.")
        # Fewer than n picks of n: n ** k bounds both from above, and comb(n, k) = comb(n, n - k).
        picks = min(part, whole - part) if what == "comb" and part <= whole else part
        if picks > 0 and part <= whole and picks * whole.bit_length() > MAX_BITS:
            raise too_large()
        return Fraction(count(whole, part))

    return chosen


def _log(value: Number, base: Number | None = None) -> Number:
    if value <= 0 or (base is not None and (base <= 0 or base == 1)):
        raise ToolError("log needs a number above 0, and a base above 0 other than 1.")
    if base == 10:
        return _log10(value)
    if base is not None:
        return _natural_log(value) / _natural_log(base)
    return _natural_log(value)


def _natural_log(value: Number) -> float:
    if isinstance(value, Fraction):  # math.log takes integers of any size, fractions only as floats
        return math.log(value.numerator) - (math.log(value.denominator) if value.denominator > 1 else 0.0)
    return math.log(value)


def _log10(value: Number) -> Number:
    if value <= 0:
        raise ToolError("log10 needs a number above 0.")
    if isinstance(value, Fraction):
        return math.log10(value.numerator) - (math.log10(value.denominator) if value.denominator > 1 else 0.0)
    return math.log10(value)


def _real(function: Callable[[float], float]) -> Callable[[Number], Number]:
    def call(value: Number) -> Number:
        argument = _as_float(value)
        result = function(argument)
        # sin(pi) is 1.2e-16 in floats and 0 for everybody else
        return 0.0 if abs(result) < 1e-15 < abs(argument) else result

    return call


def _round(value: Number, digits: Number = Fraction(0)) -> Number:
    places = _whole(digits, "round")
    if abs(places) > 50:
        raise ToolError("round(x, digits) takes digits from -50 to 50. Write numbers in it without commas.")
    scale = Fraction(10) ** places
    exact = Fraction(value) * scale
    half_up = math.floor(abs(exact) + Fraction(1, 2))  # 2.5 becomes 3 and -2.5 becomes -3, as people round
    return (half_up if exact >= 0 else -half_up) / scale


def _mean(*values: Number) -> Number:
    return _sum(*values) / len(values)


def _sum(*values: Number) -> Number:
    return reduce(lambda a, b: checked(a + b), values)


def _divisor(*values: Number) -> Number:
    return Fraction(math.gcd(*(_whole(value, "gcd") for value in values)))


def _multiple(*values: Number) -> Number:
    multiple = 1
    for value in values:
        multiple = math.lcm(multiple, _whole(value, "lcm"))
        checked(multiple)
    return Fraction(multiple)


def _nonempty(name: str, function: Callable[..., Number]) -> Callable[..., Number]:
    def call(*values: Number) -> Number:
        if not values:
            raise ToolError(f"{name} needs at least one number.")
        return function(*values)

    return call


ONE_ARGUMENT: Mapping[str, Callable[[Number], Number]] = {
    "sqrt": root,
    "cbrt": _cube_root,
    "percent": percent,
    "factorial": _factorial,
    "abs": lambda value: value if value >= 0 else -value,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "int": lambda value: Fraction(math.trunc(value)),
    "trunc": lambda value: Fraction(math.trunc(value)),
    "float": lambda value: value,
    "log10": _log10,
    "log2": lambda value: _log(value, Fraction(2)),
    "ln": _log,
    **{
        name: _real(getattr(math, name))
        for name in (
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "exp",
            "radians",
            "degrees",
        )
    },
}
FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    **ONE_ARGUMENT,
    "log": _log,
    "round": _round,
    "pow": power,
    "atan2": lambda y, x: math.atan2(_as_float(y), _as_float(x)),
    "comb": _choose("comb", math.comb),
    "perm": _choose("perm", math.perm),
    **{
        name: _nonempty(name, function)
        for name, function in (
            ("min", min),
            ("max", max),
            ("sum", _sum),
            ("mean", _mean),
            ("average", _mean),
            ("avg", _mean),
            ("hypot", lambda *sides: root(_sum(*(power(side, Fraction(2)) for side in sides)))),
            ("gcd", _divisor),
            ("lcm", _multiple),
        )
    },
}
CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}


def written(value: Number | bool) -> str:
    """A number as a person writes it: no ``.0``, no noise in the sixteenth digit, whole numbers in full."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return str(value.numerator)
        with localcontext() as context:
            whole = abs(value.numerator) // value.denominator
            # Enough digits for the whole part and a few decimals, whatever its length.
            context.prec = max(15, len(str(whole)) + 4)
            decimal = Decimal(value.numerator) / Decimal(value.denominator)
            return _fixed(decimal) if abs(value) >= Fraction(1, 10**6) else _scientific(decimal)
    decimal = Decimal(f"{value:.14g}")  # two digits fewer than a float holds: its noise
    return _fixed(decimal) if decimal == 0 or Decimal("1e-6") <= abs(decimal) < 10**15 else _scientific(decimal)


def _fixed(value: Decimal) -> str:
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _scientific(value: Decimal) -> str:
    digits, _, exponent = f"{value:e}".partition("e")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits}e{int(exponent)}"

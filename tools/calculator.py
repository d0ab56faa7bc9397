"""The calculator: exact arithmetic that can neither hang nor run code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import simpleeval  # type: ignore[import-untyped]  # it ships no types

from taograph.tools.engines.calculator_numbers import (
    CONSTANTS,
    FUNCTIONS,
    ONE_ARGUMENT,
    Number,
    checked,
    percent,
    power,
    too_large,
    written,
)
from taograph.tools.engines.calculator_syntax import read_expression
from taograph.tools.policy import ToolError, ToolExample, tool

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ALLOWED = (ast.Name, ast.UnaryOp, ast.BinOp, ast.Call, ast.Compare)


class _Arithmetic(simpleeval.SimpleEval):  # type: ignore[misc]
    """simpleeval with everything but arithmetic taken out, and each result bounded."""

    nodes: dict[type[ast.AST], Callable[..., Any]]

    def __init__(self, numbers: Mapping[str, Number]) -> None:
        super().__init__(operators=dict(_OPERATORS), functions=dict(FUNCTIONS), names={**CONSTANTS, **numbers})
        self.nodes = {kind: self.nodes[kind] for kind in _ALLOWED}
        self.nodes[ast.BinOp] = self._eval_chain

    def _eval_chain(self, node: ast.expr) -> Number:
        """A chain such as ``1 + 2 + 3 + …`` in a loop: recursion would limit it to some hundred terms."""
        chain: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            chain.append(node)
            node = node.left
        value = checked(self._eval(node))
        only_percents = _is_percent(node)
        for step in reversed(chain):
            right = checked(self._eval(step.right))
            of_the_left = isinstance(step.op, ast.Add | ast.Sub) and _is_percent(step.right)
            if of_the_left and not only_percents:
                right = checked(value * right)  # 200 + 10% is 220, as on every pocket calculator
            only_percents = only_percents and of_the_left
            value = checked(self.operators[type(step.op)](value, right))
        return value

    def _eval_call(self, node: ast.Call) -> Number:
        if node.keywords or not isinstance(node.func, ast.Name):
            raise simpleeval.FeatureNotAvailable
        function = self.functions.get(node.func.id)
        if function is None:
            raise simpleeval.FunctionNotDefined(node.func.id, "")
        return checked(function(*(checked(self._eval(argument)) for argument in node.args)))


def _is_percent(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and FUNCTIONS.get(node.func.id) is percent


_WRITE = "Use only numbers, + - * / ^ %, brackets and sqrt, round, min, max, sum, mean, log, exp, sin, pi."


def calculate(expression: str) -> str:
    """The value of an expression.

    Args:
        expression: Arithmetic, in any of the spellings that :mod:`taograph.tools.engines.calculator_syntax` reads.

    Raises:
        ToolError: Always this, whatever was written; the message says what to change.
    """
    read = read_expression(expression, functions=FUNCTIONS, one_argument=ONE_ARGUMENT)
    try:
        tree = ast.parse(read.source, mode="eval")
        value = _Arithmetic(read.numbers).eval(read.source, previously_parsed=tree.body)
        return written(value if isinstance(value, bool) else checked(value))
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError("Division by zero: the divisor must not be 0.") from None
    except (simpleeval.NameNotDefined, simpleeval.FunctionNotDefined) as error:
        name = getattr(error, "name", None) or getattr(error, "func_name", "")
        if name in read.numbers:
            raise ToolError("Write * between a number and a bracket: 2 * (3 + 4), not 2(3 + 4).") from None
        raise ToolError(f"Don't know {name!r}. {_WRITE} Leave out words and units.") from None
    except OverflowError:
        raise too_large() from None
    except ValueError:
        raise ToolError("A function got a number it isn't defined for, such as asin(2) or log(0).") from None
    except TypeError:
        raise ToolError("A function has too few or too many arguments, such as sqrt(1, 2) or round().") from None
    except (RecursionError, MemoryError):
        raise ToolError("The expression is nested too deeply. Split it into smaller steps.") from None
    except (SyntaxError, simpleeval.InvalidExpression, KeyError):
        raise ToolError(
            # No example here: a small model would take it for its next call.
            "Not an arithmetic expression. Write each operation with its sign and leave out words and units."
        ) from None


@tool(
    effects="none",
    max_chars=None,
    timeout=10.0,
    # Plain sums too: a model that sees the calculator used for hard ones only does the easy ones in its head.
    examples=(
        ToolExample(
            question="What is 23% of 1,870?",
            args={"expression": "23% of 1870"},
            observation="430.1",
            answer="23% of 1,870 is 430.1.",
        ),
        ToolExample(
            question="How much is 56 times 214?",
            args={"expression": "56 * 214"},
            observation="11984",
            answer="56 times 214 is 11984.",
        ),
        ToolExample(
            question="A machine makes 55 parts an hour. How many does it make in 9 hours?",
            args={"expression": "55 * 9"},
            observation="495",
            answer="It makes 495 parts.",
        ),
        ToolExample(
            question="Divide 3150 by 14.",
            args={"expression": "3150 / 14"},
            observation="225",
            answer="3150 divided by 14 is 225.",
        ),
        ToolExample(
            question="What is the square root of 1849?",
            args={"expression": "sqrt(1849)"},
            observation="43",
            answer="The square root of 1849 is 43.",
        ),
        ToolExample(
            question="What is 951 minus 276?",
            args={"expression": "951 - 276"},
            observation="675",
            answer="951 minus 276 is 675.",
        ),
    ),
)
def calculator(expression: str) -> str:
    """Work out arithmetic exactly. Example: calculator(expression="12% of 450").

    Args:
        expression: Numbers, + - * / ^ %, brackets, sqrt, round, min, max, log, sin, pi. No words or units.
    """
    return calculate(expression)

"""Arguments of tools in GBNF, the form of grammars that llama.cpp takes and that vLLM reads, too.

https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

VALUES = r"""
value ::= string | number | object | array | "true" | "false" | "null"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
array ::= "[" (value (", " value)*)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= integer ("." [0-9]{1,20})? ([eE] [-+]? [0-9]{1,2})?
integer ::= "-"? ("0" | [1-9] [0-9]{0,20})
boolean ::= "true" | "false"
"""
"""JSON on one line."""

_ESCAPE = re.compile(r"\\(.)")
_OTHERWISE = {"b": r"\x08", "f": r"\x0c"}
_RULES = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "null": '"null"'}


def values(longest: int | None = None) -> str:
    """The rules that :func:`arguments` refers to.

    Args:
        longest: Characters of a text; None for any number.
    """
    return VALUES if longest is None else VALUES.replace("char*", f"char{{0,{longest}}}")


def arguments(schema: Mapping[str, Any]) -> str:
    """The right-hand side of a rule for the arguments of a tool, as a JSON object on one line.

    The names of the arguments and the simple types are held to; what is in a value stays the model's own choice.

    Args:
        schema: The JSON schema of the arguments.
    """
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if not properties:
        return "object"
    needed: list[str] = []
    optional: list[str] = []
    for name, spec in properties.items():
        pair = f"{literal(json.dumps(name, ensure_ascii=False) + ': ')} {_value(spec)}"
        (needed if name in (schema.get("required") or ()) else optional).append(pair)
    # In the order of the schema, each at most once: a weak model would repeat one without end.
    if needed:
        return '"{" ' + ' ", " '.join(needed) + "".join(_later(optional)) + ' "}"'
    starts = [pair + "".join(_later(optional[at + 1 :])) for at, pair in enumerate(optional)]
    return f'"{{" ({" | ".join(starts)})? "}}"'


def literal(text: str) -> str:
    """A text that has to stand as it is. GBNF knows the escapes of JSON but two."""
    return _ESCAPE.sub(lambda found: _OTHERWISE.get(found[1], found[0]), json.dumps(text, ensure_ascii=False))


def _later(pairs: Sequence[str]) -> list[str]:
    return [f' (", " {pair})?' for pair in pairs]


def _value(spec: Any) -> str:
    if not isinstance(spec, Mapping):
        return "value"
    if choices := spec.get("enum"):
        return "(" + " | ".join(literal(json.dumps(choice, ensure_ascii=False)) for choice in choices) + ")"
    kind = spec.get("type")
    return _RULES.get(kind, "value") if isinstance(kind, str) else "value"

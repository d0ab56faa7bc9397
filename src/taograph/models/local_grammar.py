"""A grammar for replies: text, or well-formed calls of the tools that were offered.

A small model now and then drops a closing bracket or a quote, and then a right call is lost. llama.cpp can
hold the reply to a grammar at no cost worth naming: a token is only taken back where it would break the form.
What is in the calls stays the model's own choice; the grammar knows the tools' names, their arguments' names
and the simple types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

# The form of GBNF: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
_TEXT = r"""
prose ::= [^{ \t\n\r] [^\x00]*"""
_LINE = r"""
prose ::= [^{ \t\n\r] [^\x00\n]*"""
_COMMON = r"""
value ::= string | number | object | array | "true" | "false" | "null"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
array ::= "[" (value (", " value)*)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= integer ("." [0-9]{1,20})? ([eE] [-+]? [0-9]{1,3})?
integer ::= "-"? ("0" | [1-9] [0-9]{0,20})
boolean ::= "true" | "false"
"""
_RULES = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "null": '"null"'}
# Calls in one reply; weak models would otherwise go on for ever.
_MOST_CALLS = 8


def call_grammar(tools: Sequence[Mapping[str, Any]], choice: Any = None, *, one_line: bool = False) -> str:
    """The grammar of a reply in GBNF.

    Args:
        tools: The tools in OpenAI's form.
        choice: OpenAI's ``tool_choice``: None or ``"auto"``, ``"none"``, ``"required"``, or the one to call.
        one_line: Text is one line, and a reply one call: a base model does not know where to stop.
    """
    common = (_LINE if one_line else _TEXT) + _COMMON
    if choice == "none" or not tools:
        return f"root ::= prose{common}"
    functions = [tool["function"] for tool in tools]
    if isinstance(choice, Mapping):
        wanted = choice.get("function", {}).get("name")
        functions = [function for function in functions if function["name"] == wanted] or functions
    most = 1 if one_line or isinstance(choice, Mapping) else _MOST_CALLS
    forced = choice == "required" or isinstance(choice, Mapping)
    lines = [
        "root ::= calls" if forced else "root ::= calls | prose",
        f'calls ::= call ("\\n" call){{0,{most - 1}}}',
        "call ::= " + " | ".join(f"call-{number}" for number in range(len(functions))),
    ]
    for number, function in enumerate(functions):
        head = '{"name": ' + json.dumps(function["name"], ensure_ascii=False) + ', "arguments": '
        lines.append(f'call-{number} ::= {_literal(head)} args-{number} "}}"')
        lines.append(f"args-{number} ::= {_arguments(function.get('parameters') or {})}")
    return "\n".join(lines) + common


def _arguments(schema: Mapping[str, Any]) -> str:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if not properties:
        return "object"
    needed: list[str] = []
    optional: list[str] = []
    for name, spec in properties.items():
        pair = f"{_literal(json.dumps(name, ensure_ascii=False) + ': ')} {_value(spec)}"
        (needed if name in (schema.get("required") or ()) else optional).append(pair)
    # In the order of the schema, each at most once: a weak model would repeat one without end.
    if needed:
        return '"{" ' + ' ", " '.join(needed) + "".join(_later(optional)) + ' "}"'
    starts = [pair + "".join(_later(optional[at + 1 :])) for at, pair in enumerate(optional)]
    return f'"{{" ({" | ".join(starts)})? "}}"'


def _later(pairs: Sequence[str]) -> list[str]:
    return [f' (", " {pair})?' for pair in pairs]


def _value(spec: Any) -> str:
    if not isinstance(spec, Mapping):
        return "value"
    if choices := spec.get("enum"):
        return "(" + " | ".join(_literal(json.dumps(choice, ensure_ascii=False)) for choice in choices) + ")"
    kind = spec.get("type")
    return _RULES.get(kind, "value") if isinstance(kind, str) else "value"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

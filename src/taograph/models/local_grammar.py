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

from taograph.graphs.protocols.argument_grammar import VALUES, arguments, literal

_TEXT = r"""
prose ::= [^{ \t\n\r] [^\x00]*"""
_LINE = r"""
prose ::= [^{ \t\n\r] [^\x00\n]*"""
# Calls in one reply; weak models would otherwise go on for ever.
_MOST_CALLS = 8


def call_grammar(tools: Sequence[Mapping[str, Any]], choice: Any = None, *, one_line: bool = False) -> str:
    """The grammar of a reply in GBNF.

    Args:
        tools: The tools in OpenAI's form.
        choice: OpenAI's ``tool_choice``: None or ``"auto"``, ``"none"``, ``"required"``, or the one to call.
        one_line: Text is one line, and a reply one call: a base model does not know where to stop.
    """
    common = (_LINE if one_line else _TEXT) + VALUES
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
        lines.append(f'call-{number} ::= {literal(head)} args-{number} "}}"')
        lines.append(f"args-{number} ::= {arguments(function.get('parameters') or {})}")
    return "\n".join(lines) + common

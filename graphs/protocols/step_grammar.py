"""A reply held to one well-formed step: as a grammar of the labels, or as the schema of a JSON object.

A constraint repairs the form of what a model writes, not its judgment: the names of the tools, the names and simple
types of their arguments and the order of the parts are held to, and everything else is the model's own choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from taograph.graphs.protocols.argument_grammar import arguments, literal, values
from taograph.graphs.protocols.text_labels import Labels, labels
from taograph.graphs.protocols.text_tools import OfferedTool

# Left out of a thought: what opens a part in which labels do not count (a fence, a tag), the brace of a reply in JSON,
# and of its further lines the colon, without which no line is a label. Where a text begins, blanks of any kind are
# left out, and marks that would be taken for a list or for bold. There are few further lines,
# and none is long: a model that leaves out the colon of a label would never come to its step.
_BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff"
_LINE = rf"""
line ::= [^{_BLANK}`~<{{*_#|>] [^\x00-\x1f`~<{{]"""
_MORE = rf"""
more ::= [^{_BLANK}`~<{{:：] [^\x00-\x1f`~<{{:：]{{0,200}}"""
# Of an answer only the tag that says that everything before it was thinking.
_REST = rf"""
first ::= [^{_BLANK}`~<*_#|>:：]
rest ::= [^\x00-\x1f<] | "<"+ "/"? ([^\x00-\x1f</tT] | [tT] ([^\x00-\x1f<hH] | [hH] [^\x00-\x1f<iI]))"""
# Characters of a line, and of a text among the arguments, of a base model: it may repeat one without end.
_LONGEST_LINE = 120
_LONGEST_TEXT = 100
_BOUND = f"{{0,{_LONGEST_LINE}}}"
_ANSWERS = {
    False: '\nanswer ::= first rest* ("\\n" rest+)*' + _REST,
    True: f"\nanswer ::= first rest{_BOUND}" + _REST,
}


def step_grammar(
    tools: Sequence[OfferedTool],
    choice: str | None = None,
    *,
    language: str = "en",
    one_line: bool = False,
    begun: bool = False,
    thoughts: bool = True,
) -> str:
    """The grammar of one step in GBNF: a thought, if any, and an action whose arguments fit the tool, or an answer.

    A last newline is allowed and never asked for: a model that has to write one goes on behind it.

    Args:
        tools: The tools that may be called.
        choice: None: the model decides; "any": it has to call a tool; "none": it has to answer; else the name of the
            tool it has to call.
        language: Of the labels.
        one_line: For a base model, which does not know where to begin and to stop: there is a thought, thought and
            answer are one line each, and what it writes is not long.
        begun: The prompt ends with the label of the thought.
        thoughts: Whether there is a thought.

    Raises:
        ValueError: There are no tools, none has the name, or there is no such language.
    """
    label = labels(language)
    callable_ = _callable(tools, choice)
    lines = [_root(label, one_line=one_line, begun=begun) if thoughts else "root ::= step"]
    ways = [*(["action"] if callable_ else []), *(["final"] if choice in (None, "none") else [])]
    lines.append(f'step ::= ({" | ".join(ways)}) "\\n"?')
    if callable_:
        lines.append("action ::= " + " | ".join(f"call-{number}" for number in range(len(callable_))))
    for number, tool in enumerate(callable_):
        head = f"{label.action}{label.colon}{tool.name}\n{label.action_input}{label.colon}"
        lines.append(f"call-{number} ::= {literal(head)} args-{number}")
        lines.append(f"args-{number} ::= {arguments(tool.parameters)}")
    if choice in (None, "none"):
        lines.append(f"final ::= {literal(label.final_answer + label.colon)} answer")
    rules = _LINE + (_BOUND if one_line else "{0,400}") if thoughts else ""
    rules += _MORE if thoughts and not one_line else ""
    if choice in (None, "none"):
        rules += _ANSWERS[one_line]
    return "\n".join(lines) + rules + (values(_LONGEST_TEXT if one_line else None) if callable_ else "\n")


def _root(label: Labels, *, one_line: bool, begun: bool) -> str:
    lines = 'line "\\n"' if one_line else 'line "\\n" (more "\\n"){0,3}'
    if begun:
        blank = literal(label.colon[len(label.colon.rstrip()) :])
        return f"root ::= {f'{blank} ' if blank != literal('') else ''}{lines} step"
    return f"root ::= ({literal(label.thought + label.colon)} {lines}){'' if one_line else '?'} step"


def _callable(tools: Sequence[OfferedTool], choice: str | None) -> list[OfferedTool]:
    """The tools that a reply may call."""
    if not tools:
        raise ValueError("tools is empty: a step is held to the tools there are. Give at least one")
    if choice == "none":
        return []
    if choice in (None, "any"):
        return list(tools)
    found = [tool for tool in tools if tool.name == choice]
    if not found:
        raise ValueError(f"choice={choice!r}: no tool has this name; there are {', '.join(t.name for t in tools)}")
    return found

"""Replies of any length for the parser's benchmark: plain ones, and ones made to be slow.

Nothing but the standard library is imported: the file also runs in the rivals' environments.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A reply that can be as long as one likes: start, as many units as fit, as many closings, end.

    Attributes:
        name: What it is called in the tables.
        unit: What is repeated.
        start: What stands before.
        end: What stands after.
        close: Repeated as often as the unit, after all the units: the other half of a nesting.
        plain: Whether a well-behaved model writes such replies.
        seconds_per_char: What the case it is taken from allows; see :data:`SECONDS_PER_CHAR` for the others.
    """

    name: str
    unit: str
    start: str = ""
    end: str = ""
    close: str = ""
    plain: bool = False
    seconds_per_char: float = 0.0

    def text(self, size: int) -> str:
        """The reply of about ``size`` characters, never more unless it cannot be shorter."""
        room = size - len(self.start) - len(self.end)
        count = max(1, room // (len(self.unit) + len(self.close)))
        return self.start + self.unit * count + self.close * count + self.end

    def allowed(self, size: int) -> float:
        """The most CPU seconds that a reply of this size may take, linear in the size."""
        return size * (self.seconds_per_char or SECONDS_PER_CHAR)


SECONDS_PER_CHAR = 0.2 / 20_009
"""The strictest of the shared cases: 0.2 s for a reply of 20,009 characters."""

_GO = "Thought: go\nAction: a\nAction Input: "
_ROUND = 'Thought: t\nAction: a\nAction Input: {"n": 1}\nObservation: o\n'
_RECORD = '{"i": 1, "name": "crate seven", "tags": ["a", "b"], "ok": true}, '
_WORDS = "the crate stands on the pier and is not weighed yet "

PLAIN = (
    Shape("long thought", _WORDS, "Thought: ", '\nAction: weigh\nAction Input: {"crate": 7}', plain=True),
    Shape("long thought, many lines", _WORDS + "\n", "Thought: ", "\nFinal Answer: four kilos", plain=True),
    Shape("long answer", _WORDS, "Thought: done\nFinal Answer: ", plain=True),
    Shape("long answer, many lines", _WORDS + "\n", "Thought: done\nFinal Answer: ", plain=True),
    Shape("long text input", _WORDS + "\n", _GO, plain=True),
    Shape("large JSON input", _RECORD, _GO + '{"rows": [', "{}]}", plain=True),
    Shape("large JSON string", _WORDS + "\\n", _GO + '{"text": "', '"}', plain=True),
    Shape(
        "large Python literal", "{'i': 1, 'name': \"crate's\", 'ok': True}, ", _GO + "{'rows': [", "{}]}", plain=True
    ),
    Shape("many invented rounds", _ROUND, plain=True),
    Shape("prose without labels", _WORDS + "\n", plain=True),
    Shape("thinking, then a step", _WORDS + "\n", "<think>", f'</think>\n{_GO}{{"crate": 7}}', plain=True),
)

ADVERSARIAL = (
    # The families of the shared cases G01, G04, G05 and G06, each with its own allowance.
    Shape("thought of x (G01)", "x", "Thought: ", seconds_per_char=0.2 / 20_009),
    Shape("<think> repeated (G04)", "<think>", seconds_per_char=0.2 / 3_500),
    Shape('"Action Input: {" repeated (G05)', "Action Input: {", seconds_per_char=0.2 / 4_500),
    Shape("array of objects (G06)", '{"i": 1}, ', _GO + '{"data": [', "{}]}", seconds_per_char=0.5 / 3_540),
    # Thinking.
    Shape("<think></think> repeated", "<think></think>"),
    Shape("<think> nested and closed", "<think>", close="</think>", end=f'\n{_GO}{{"x": 1}}'),
    Shape("</think> repeated", "</think>"),
    Shape("thinking and thoughts in turn", "<think>a</think>\nThought: b\n"),
    Shape("thinking within an action", "<think>a</think>\n", "Thought: go\nAction: a\n", "Action Input: {}"),
    Shape("<think repeated, no >", "<think "),
    Shape("< repeated", "<"),
    Shape("unclosed <think>, labels inside", _ROUND, "<think>\n"),
    # Labels.
    Shape("Thought: lines", "Thought: a\n"),
    Shape("Action: lines", "Action: a\n"),
    Shape("Action: without line ends", "Action: "),
    Shape("Action and blanks", "Action" + " " * 50),
    Shape("Action and digits", "Action 1234567890"),
    Shape("one Action and a run of digits", "1", "Action "),
    Shape("Action Input: lines", "Action Input: a\n"),
    Shape("Action, Input never comes", "Action: a\n\n", "Thought: go\n"),
    Shape("Final Answer: lines", "Final Answer: a\n"),
    Shape("Final Answer: without line ends", "Final Answer: "),
    Shape("Observation prefixes", "Obs\n", _GO),
    Shape("Observation: lines", "Observation: o\n", _GO + '{"x": 1}\n'),
    Shape("full-width colons", "Action：a\n"),
    Shape("run of full-width colons", "："),
    Shape("Chinese labels", "思考：a\n行动：b\n"),
    Shape("Action: None lines", "Action: None\n"),
    Shape("letters that change length in lower case", "İẞﬁ", "Thought: ", "\nAction: a\nAction Input: {}"),
    # Blanks.
    Shape("blanks after the tool", " ", "Thought: go\nAction: a", '\nAction Input: {"x": 1}'),
    Shape("blanks between two labels", " ", "Action:", "Action"),
    Shape("empty lines between the labels", "\n", "Thought: go\nAction: a\n", 'Action Input: {"x": 1}'),
    Shape("blank lines of blanks", "  \t\n", "Thought: go\n", 'Action: a\nAction Input: {"x": 1}'),
    Shape("blanks within prose", " ", "The crate", "stands here"),
    Shape("blanks within a thought", " ", "Thought: the crate", 'stands here\nAction: a\nAction Input: {"x": 1}'),
    Shape("blanks within the tool", " ", "Thought: go\nAction: a", 'b\nAction Input: {"x": 1}'),
    Shape("blanks within text input", " ", _GO + "the crate", "stands here"),
    Shape("blanks within an answer", " ", "Final Answer: the crate", "stands here"),
    Shape("blanks within a call", " ", "Thought: go\nAction: a(x=1,", "y=2)"),
    Shape("blanks within a broken object", " ", _GO + '{"a": 1,', '"b": }'),
    Shape("line ends within prose", "\n", "The crate", "stands here"),
    Shape("line ends within text input", "\n", _GO + "the crate", "stands here"),
    Shape("line ends within an answer", "\n", "Final Answer: the crate", "stands here"),
    Shape("blanks and dashes", " - ", "Thought: go\nAction: a", '\nAction Input: {"x": 1}'),
    Shape("blanks before tokens that are none", " <|", "Thought: go\nAction: a", "x"),
    Shape("nothing but blanks", " "),
    Shape("nothing but line ends", "\n"),
    Shape("CRLF and CR", "\r\n\r", _GO),
    Shape("no-break and ideographic spaces", "\u00a0\u3000", "Thought: go\nAction:", "a\nAction Input: {}"),
    # Fences.
    Shape("unclosed fences", "```json\n{\n", _GO),
    Shape("fence lines, an odd number", "```\n", _GO, "x"),
    Shape("run of back-ticks", "`", _GO),
    Shape("fences of growing kinds", "```\n````\n~~~\n", "Thought: go\n"),
    Shape("labels in one unclosed fence", _ROUND, "Thought: go\n```\n"),
    # Decoration.
    Shape("run of asterisks as the tool", "*", "Thought: go\nAction: ", '\nAction Input: {"x": 1}'),
    Shape("asterisks before the input", "** ", _GO, '{"x": 1}'),
    Shape("bold labels", "**Action:** a\n"),
    Shape("bullets and headings", "- # > ", "", 'Action: a\nAction Input: {"x": 1}'),
    Shape("wrappers around the input", "Tool(", _GO, '{"x": 1}', close=")"),
    Shape("wrappers, never closed", "Tool(", _GO),
    Shape("gloss of open parentheses", "(", "Thought: go\nAction: a ", '\nAction Input: {"x": 1}'),
    Shape("keyword call", "a=1, ", "Thought: go\nAction: f(", "b=2)"),
    Shape("keyword call, never closed", "a='x', ", "Thought: go\nAction: f("),
    # JSON and what is nearly JSON.
    Shape("arrays, deep", "[", _GO, close="]"),
    Shape("arrays, deep, never closed", "[", _GO),
    Shape("objects, deep", '{"a":', _GO, "1", "}"),
    Shape("objects, deep, never closed", '{"a":', _GO),
    Shape("Python literal, deep", "{'a': [", _GO, "1", "]}"),
    Shape("braces in prose", "{ ", "Thought: "),
    Shape("braces in text input", "{a} ", _GO),
    Shape("open braces in text input", "{a ", _GO),
    Shape("brackets in text input", "[a ", _GO),
    Shape("run of double quotes", '"', _GO),
    Shape("run of single quotes", "'", _GO + "{"),
    Shape("quotes that never pair", "\"'", _GO + '{"a": '),
    Shape("backslashes in a string", "\\\\", _GO + '{"a": "', '"}'),
    Shape("backslashes, never closed", "\\", _GO + '{"a": "'),
    Shape("bad escapes", "\\d", _GO + '{"a": "', '"}'),
    Shape("half surrogates", "\\ud83d", _GO + '{"a": "', '"}'),
    Shape("run of digits", "9", _GO + '{"n": ', "}"),
    Shape("run of digits as text", "9", _GO),
    Shape("long floats", "0.1234567890123456789e+05, ", _GO + "[", "1]"),
    Shape("run of minus signs", "-", _GO + '{"n": '),
    Shape("JSON string full of labels", "Thought: t\\nAction: a\\nFinal Answer: f\\n", _GO + '{"text": "', '"}'),
    Shape("raw labels in a JSON string", _ROUND.replace('"', "'"), _GO + '{"text": "', '"}'),
    Shape("raw labels in an unclosed string", _ROUND.replace('"', "'"), _GO + '{"text": "'),
    Shape("truncated array of objects", _RECORD, _GO + '{"rows": ['),
    Shape("truncated string", _WORDS, _GO + '{"text": "'),
    Shape("truncated, single quotes", "{'i': 1, 'n': 'x'}, ", _GO + "{'rows': ["),
    Shape("missing colons", '"a" "b", ', _GO + "{", '"c": 1}'),
    Shape("missing commas", '"a": "b" ', _GO + "{", '"c": 1}'),
    Shape("keys without quotes", "a: b, ", _GO + "{", "c: d}"),
    Shape("values without quotes", '"a": some words, ', _GO + "{", '"c": 1}'),
    Shape("commas", ",", _GO + '{"a": 1', "}"),
    Shape("trailing commas", '{"a": 1,},', _GO + "[", "]"),
    Shape("comments", '/* c */ "a": 1, ', _GO + "{", "}"),
    Shape("comments never closed", "/* ", _GO + '{"a": 1, '),
    Shape("line comments", '"a": 1, // c\n', _GO + "{", "}"),
    Shape("hash comments", '"a": 1, # c\n', _GO + "{", "}"),
    Shape("typographic quotes", "“a”: “b”, ", _GO + "{", "“c”: 1}"),
    Shape("implicit string joining", "'a' ", _GO + "{'x': ", "}"),
    Shape("operators in a literal", "1+", _GO + "{'x': ", "1}"),
    Shape("many objects", '{"a": 1}\n', _GO),
    # Blobs and leaked calls.
    Shape("blobs without a name", '{"x": 1} '),
    Shape("blobs with a name", '{"name": "a", "arguments": {}} '),
    Shape("broken blobs", '{"name": "a", '),
    Shape("fenced broken blobs", '```json\n{"action": \n```\n'),
    Shape("<tool_call> repeated", "<tool_call>"),
    Shape("<tool_call> with broken blobs", "<tool_call>\n{"),
    Shape("leaked call markers", "<|tool_call_begin|>"),
    Shape("leaked call markers, no argument", "<|tool_call_begin|>functions.a:0"),
    Shape("end tokens", "<|im_end|>", "Final Answer: x"),
    Shape("<| repeated", "<|"),
    Shape("arguments encoded again", '\\"', '{"name": "a", "arguments": "', '"}'),
    # What is not text.
    Shape("null characters", "\x00", _GO),
    Shape("separators that are no line ends", "\u2028\x0b\x85\x1c", _GO),
    Shape("combining marks", "a\u0301\u0301", "Thought: "),
    Shape("lone surrogates", "\ud800", _GO),
)

SHAPES = PLAIN + ADVERSARIAL
SHARED_WITH_RIVALS = (
    *(shape.name for shape in PLAIN),
    *(shape.name for shape in ADVERSARIAL if "(G" in shape.name),
    "<think> nested and closed",
    "Thought: lines",
    "Action: lines",
    "Action: without line ends",
    "Action and blanks",
    "Action and digits",
    "Action, Input never comes",
    "Final Answer: lines",
    "Observation prefixes",
    "full-width colons",
    "blanks between two labels",
    "empty lines between the labels",
    "blanks within prose",
    "unclosed fences",
    "fence lines, an odd number",
    "run of back-ticks",
    "labels in one unclosed fence",
    "run of asterisks as the tool",
    "wrappers around the input",
    "gloss of open parentheses",
    "arrays, deep",
    "objects, deep",
    "objects, deep, never closed",
    "braces in prose",
    "open braces in text input",
    "run of double quotes",
    "backslashes in a string",
    "run of digits",
    "JSON string full of labels",
    "raw labels in an unclosed string",
    "truncated array of objects",
    "truncated string",
    "missing colons",
    "missing commas",
    "keys without quotes",
    "trailing commas",
    "comments",
    "comments never closed",
    "broken blobs",
    "blobs with a name",
)
"""What the other parsers are asked too: their slow ones take minutes each, and most of the rest is aimed at ours."""
BY_NAME = {shape.name: shape for shape in SHAPES}
SIZES = tuple(2**power for power in range(10, 21))
"""1 kB to 1 MB (a kB is 1,024 characters), doubling."""

"""Reading one step from a reply in the text protocol.

The policy, in short: the first step wins, and what follows it is dropped; a JSON argument is decoded before labels are
looked for, so that no argument can pose as a step; nothing inside a fence or a ``<think>`` part is a step; what would
have to be guessed is an error where it could do harm. The labels are those of ReAct as LangChain's first agents asked
for them (Yao et al., arXiv 2210.03629; "Thought / Action / Action Input / Observation / Final Answer").
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import islice

from taograph.graphs.protocols.arguments import BadArgumentsError, nothing_meant, read_arguments, value_at
from taograph.graphs.protocols.blobs import Blob, find_blob, find_call, read_call
from taograph.graphs.protocols.labels import Mark, Marks, scan
from taograph.graphs.protocols.step import ParsedStep, StepError

_OUTER_FENCE = re.compile(r"\s*+(?P<mark>`{3,}+|~{3,}+)[^\S\n]*+[\w+-]*+[^\S\n]*+\n")
_SPECIAL = re.compile(r"<[|｜][^<>\n]{1,60}[|｜]>|</s>|<end_of_turn>|<eos>|</?tool_calls?>")
_TURN_END = re.compile(r"<\|(?:im_end|eot_id|end|endoftext|end_of_text)\|>|</s>|<end_of_turn>|<｜end▁of▁sentence｜>")
_ENDED_BEFORE = re.compile(r"(?:(?:</s>|<\|(?:im_end|eot_id|endoftext|end)\|>)\s*+)++")
_PARTIAL = re.compile(
    r"\n[^\S\n]*+[*_#]{0,3}+[^\S\n]*+(?:Obs(?:e(?:r(?:v(?:a(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?)[^\S\n]*+\Z"
)
_MID_ANSWER = re.compile(r"(?:\bfinal[ \t]answer|最终答案)[^\S\n]{0,3}[:：]", re.IGNORECASE)
_MID_CALL = re.compile(
    r"\baction[^\S\n]{0,3}[:：][^\n]{1,200}\n?[^\n]{0,40}\baction[ \t]input[^\S\n]{0,3}[:：]", re.IGNORECASE
)
_FENCED_CALL = re.compile(r"^[^\S\n]*+action[^\S\n]*+[:：][^\n]*+\n[^\S\n]*+action input[^\S\n]*+[:：]", re.I | re.M)
_BROKEN_CALL = re.compile(
    r"(?:`{3,}\w*+\s*+)?+[{\[]\s*+\{?+\s*+[\"'](?:name|action|tool|tool_name|function|thought)[\"']\s*+:", re.IGNORECASE
)
_CALL_TAG = re.compile(r"<tool_calls?>|\[TOOL_CALLS\]|<[|｜]tool[_▁]call|<[|｜]python_tag|<function=|<invoke name=")
_CALL_AROUND = re.compile(r"\A(?:`{3,}\w*+\s*+|\[)")
_FENCE_LINE = re.compile(r"^[^\S\n]*+(?:`{3,}+|~{3,}+)", re.MULTILINE)
_NAMED = re.compile(r"\A([^\W\d][\w.-]*+)\(.*\Z")
_GLOSS = re.compile(r"(?:\s+(?:\(.*\)|[-–—#]\s.*|//.*)|[:：]\s.*)\Z")
_AROUND = " \t\"'`*“”‘’«»[]<>.,;:!"
_OPENED = re.compile(r"(?:(?:^|\n)[^\S\n]{0,3}(?:`{3}|~{3})\w{0,20}|<tool_calls?>)\Z")
_QUOTED = 160
_LONGEST_TOKEN = 70
_LONGEST_NAME = 300
_MOST_LOOKED_AT = 20
# Blanks, and characters that nobody sees: marks of byte order, of direction and of width.
_INVISIBLE = " \t\n\v\f\u3000\ufeff\u200b\u200c\u200d\u200e\u200f\u2060"
_NO_TOOL = frozenset({"no action", "no tool", "no action needed", "no tool needed"})
_FINALS = frozenset({"final answer", "最终答案"})


def parse_step(text: str, *, tools: Collection[str] = (), strict: bool = False) -> ParsedStep:
    """Read one step from a reply, in time that is linear in its length.

    Args:
        text: The reply of the model.
        tools: Names of the tools there are. A name that is one of them is taken as it is; no name is ever
            replaced by one that is like it.
        strict: Refuse what only a guess could make sense of: an action together with an answer, arguments that
            are cut off or broken, prose without labels. For calls that have effects.

    Returns:
        The step; whatever the text is, nothing is raised.
    """
    text = _without_tail(text.replace("\r\n", "\n").replace("\r", "\n").lstrip(_INVISIBLE))
    if (ended := _ENDED_BEFORE.match(text)) is not None:
        text = text[ended.end() :]
    if not text:
        return _error("empty", "The reply was empty.")
    outer = _outer_fence(text)
    marks = scan(text, outer.end() if outer else 0, fenced=outer is not None)
    if outer is not None and not marks.labels:
        marks = scan(text)
    return _Reading(text, marks, tools, strict).step()


class _Reading:
    """One reply while it is read."""

    def __init__(self, text: str, marks: Marks, tools: Collection[str], strict: bool) -> None:
        self.text = text
        self.marks = marks
        self.labels = marks.labels
        self.tools = tools
        self.strict = strict
        self.first = next((n for n, mark in enumerate(self.labels) if mark.kind in ("action", "answer")), None)
        # What a reply says it observed is data, whatever it looks like: it begins behind one at its head ...
        heads = bool(self.labels) and self.labels[0].kind == "observation" and not text[: self.labels[0].start].strip()
        self.base = self._end(0) if heads else marks.base
        # ... and what was written ahead of one is all that can be a step without labels.
        later = (mark.start for mark in self.labels if mark.kind == "observation" and mark.start >= self.base)
        self.observed = next(later, len(text))

    def step(self) -> ParsedStep:
        """The first step of the reply."""
        decisive = None if self.first is None else self.labels[self.first]
        if self.marks.unclosed is not None and (decisive is None or self.marks.unclosed < decisive.start):
            return _error("incomplete", "The reply ended inside <think>, before a step.")
        blob = self._blob(decisive)
        if blob is not None:
            return self._from_blob(blob)
        if decisive is None:
            return self._unlabelled()
        if self.observed < decisive.start and _CALL_TAG.search(self.text, self.base, self.observed):
            said = self.text[self.base : self.observed].strip()
            return _error("bad_arguments", f"There was a call that cannot be read: {_quote(said)}.")
        return self._answer() if decisive.kind == "answer" else self._action()

    def _blob(self, decisive: Mark | None) -> Blob | None:
        """A step written as JSON or in a native format, if it comes before any under labels."""
        if decisive is not None and decisive.kind == "action" and self.first is not None:
            start, end = decisive.value, self._end(self.first)
            if "{" in self.text[start:end] and not self._has_input(self.first):
                found = find_blob(self.text, start, end, inline=True)
                if found is not None and not self.text[start : found.start].strip():
                    return replace(found, start=decisive.start)
        start, end = self.base, len(self.text) if decisive is None else decisive.start
        if self.observed < end:
            found = find_blob(self.text, start, self.observed)
            if found is not None or decisive is None:
                return found
            end = self.observed
        if decisive is not None:
            # What stands in a thought is a call only if it names a tool there is.
            found = find_blob(self.text, start, end)
            return found if found is not None and found.tool in self.tools else None
        found = find_blob(self.text, start, end)
        if found is None and not self.strict and not self.labels:
            answered = _MID_ANSWER.search(self.text, start)
            found = find_call(self.text, start, answered.start() if answered else end)
            return found if found is not None and (not self.tools or found.tool in self.tools) else None
        return found

    def _from_blob(self, blob: Blob) -> ParsedStep:
        thought = blob.thought or self._thought(blob.start)
        dropped = blob.more or bool(self.text[blob.end :].strip())
        if self.strict and (
            blob.both or (blob.tool and any(m.kind == "answer" and m.start >= blob.end for m in self.labels))
        ):
            return self._both(thought)
        if blob.answer is not None and not blob.both:
            if not blob.answer.strip():
                return _error("empty", "The answer was empty.", thought)
            return ParsedStep("final", thought, answer=blob.answer, truncated=dropped)
        if blob.tool is None:
            keys = ", ".join(blob.keys)
            return _error("missing_action", f"The JSON names no tool; its keys are {_quote(keys)}.", thought)
        tool = self._name(blob.tool)
        if not tool:
            return _error("empty_tool", f"{_quote(blob.tool)} is no name of a tool.", thought)
        if tool not in self.tools and _no_tool("", tool):
            return _error("no_action", "No tool was named, and no answer was given.", thought)
        return ParsedStep("action", thought, tool, blob.args, truncated=dropped or blob.both)

    def _unlabelled(self) -> ParsedStep:
        thought = self._thought(len(self.text))
        middle = self._mid_answer()
        if middle is not None and not any(mark.kind == "input" for mark in self.labels):
            cut = self._next(middle.end())
            answer = self._answer_text(middle.end(), cut)
            if answer:
                return ParsedStep("final", self._thought(middle.start()), answer=answer, truncated=cut < len(self.text))
        prose = self.marks.text(self.text, self.marks.base, len(self.text))
        if not self.labels and not prose:
            what = "There was only thinking" if self.marks.thoughts else "The reply was empty"
            return _error("incomplete" if self.marks.thoughts else "empty", f"{what}, and no step.", thought)
        if self.strict or self.labels or _MID_CALL.search(prose) or _FENCED_CALL.search(prose):
            found = "a thought" if self.labels else "prose"
            said = self.marks.text(self.text, self.base, self.observed)
            return _error(
                "missing_action", f"There was {found} and neither an action nor an answer{_quoted(said)}", thought
            )
        # Python's form, which some models (Gemma, Llama) write natively: fenced, in brackets, or bare.
        call = read_call(_CALL_AROUND.sub("", prose).rstrip("`] \n")) if self.tools else None
        if call is not None and call[0] in self.tools:
            return ParsedStep("action", "\n".join(self.marks.thoughts), call[0], call[1].value, repaired=True)
        if _BROKEN_CALL.match(prose) or _CALL_TAG.search(prose):
            if prose[0] == "{" and value_at(prose, 0) is not None:
                return _error("missing_action", f"The JSON names no tool: {_quote(prose)}.", thought)
            return _error("bad_arguments", f"There was a call that cannot be read: {_quote(prose)}.", thought)
        answer = _unfenced(prose)
        if not answer:
            return _error("empty", "The reply was empty.", thought)
        return ParsedStep("final", "\n".join(self.marks.thoughts), answer=answer)

    def _mid_answer(self) -> re.Match[str] | None:
        """The first answer in the midst of a line, other than in an observation or in a line that is set apart."""
        for found in islice(_MID_ANSWER.finditer(self.text, self.marks.base), _MOST_LOOKED_AT):
            above = [mark for mark in self.labels if mark.start <= found.start()][-1:]
            line = self.text[self.text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if (above and above[0].kind == "observation") or line.startswith("| "):
                continue
            call = find_call(self.text, self.marks.base, found.start())
            if call is None or call.end <= found.start():  # else it stands in an argument
                return found
        return None

    def _answer(self) -> ParsedStep:
        """The last answer of those that come before any action or observation."""
        first = self.first or 0
        stop = next(
            (n for n in range(first, len(self.labels)) if self.labels[n].kind in ("action", "observation")),
            len(self.labels),
        )
        answers = [n for n in range(first, stop) if self.labels[n].kind == "answer"]
        thought = self._thought(self.labels[first].start)
        for n in reversed(answers):
            end = self._end(n)
            answer = self._answer_text(self.labels[n].value, end, self.labels[n].bold)
            if answer:
                return ParsedStep("final", thought, answer=answer, truncated=end < len(self.text))
        return _error("empty", "The answer was empty.", thought)

    def _action(self) -> ParsedStep:
        first = self.first or 0
        mark = self.labels[first]
        end = self._end(first)
        region = self.marks.text(self.text, mark.value, end)
        thought = self._thought(mark.start)
        line = region.partition("\n")[0].strip()
        if line and _MID_ANSWER.search(line):
            return self._both(thought)
        tool = self._name(line)
        answered = next((m for m in self.labels[first + 1 :] if m.kind == "answer"), None)
        if tool not in self.tools and _no_tool(line, tool):
            if answered is not None:
                return self._late_answer(answered, thought)
            return _error("no_action", f"The action was {_quote(line)}, and no answer followed.", thought)
        if not tool:
            what = f"After Action: there was {_quote(line)}" if line else "After Action: there was nothing"
            return _error("empty_tool", f"{what}; it must be the name of a tool.", thought)
        if self._unclosed_within(first):
            return _error("incomplete", "The reply ended inside <think>, within a step.", thought)
        if not self._has_input(first):
            return self._without_input(region, tool, thought, end, answered)
        return self._with_input(first + 1, tool, thought, answered)

    def _with_input(self, n: int, tool: str, thought: str, answered: Mark | None) -> ParsedStep:
        mark, end = self.labels[n], self._end(n)
        if tool.lower() in _FINALS and tool not in self.tools:
            answer = self._answer_text(mark.value, end)
            if answer:
                return ParsedStep("final", thought, answer=answer, truncated=end < len(self.text))
            return _error("empty", "The answer was empty.", thought)
        if self.strict and answered is not None:
            return self._both(thought)
        region = self.marks.text(self.text, self.labels[n - 1].value, mark.start)
        if "(" in region and not self.text[mark.value : end].strip() and read_call(region) is not None:
            return self._without_input(region, tool, thought, end, answered)
        decoded = self.marks.decoded
        start = mark.value if decoded is None or decoded.end > end else decoded.end
        raw = _unfenced(_without_tail(self.marks.text(self.text, start, end)).strip())
        try:
            args = read_arguments(
                raw, decoded=decoded if start != mark.value else None, strict=self.strict, cut=end < len(self.text)
            )
        except BadArgumentsError as bad:
            detail = (
                f"The arguments of {_short(tool)} cannot be read, {bad}: {_quote(raw)}. Write one line of valid JSON."
            )
            return _error("bad_arguments", detail, thought)
        dropped = end < len(self.text) or bool(args.rest.strip("`~*)\n \t")) or self._observed_before(n)
        return ParsedStep("action", thought, tool, args.value, truncated=dropped, repaired=args.repaired)

    def _without_input(self, region: str, tool: str, thought: str, end: int, answered: Mark | None) -> ParsedStep:
        """An action without an input label: an error, unless the line is a whole call and a guess does no harm."""
        if self.strict and answered is not None:
            return self._both(thought)
        call = None if self.strict else read_call(region)
        if call is not None:
            name, args = call
            return ParsedStep(
                "action", thought, self._name(name), args.value, truncated=end < len(self.text), repaired=True
            )
        detail = f'After "Action: {_short(tool)}" there was no "Action Input:" with the arguments.'
        return _error("missing_action_input", detail, thought)

    def _late_answer(self, mark: Mark, thought: str) -> ParsedStep:
        n = self.labels.index(mark)
        end = self._end(n)
        answer = self._answer_text(mark.value, end, mark.bold)
        if not answer:
            return _error("no_action", "No tool was named, and the answer was empty.", thought)
        return ParsedStep("final", thought, answer=answer, truncated=end < len(self.text))

    def _both(self, thought: str) -> ParsedStep:
        detail = "There was an action and an answer in one reply: write the action and wait, or write the answer alone."
        return _error("action_and_answer", detail, thought)

    def _thought(self, end: int) -> str:
        """What was thought up to a place: under labels, or the prose there is; invented observations left out."""
        before = [mark for mark in self.labels if mark.start < end]
        said = [
            _unbolded(self.marks.text(self.text, mark.value, min(end, self._end(n))), mark.bold)
            for n, mark in enumerate(before)
            if mark.kind == "thought"
        ]
        if not said:
            head = before[0].start if before else end
            said = [self.marks.text(self.text, self.marks.base, head)] if head > self.marks.base else []
        said = [part for part in (_bare_prose(part) for part in said) if part]
        return "\n".join(said or [part for part in self.marks.thoughts if part])

    def _answer_text(self, start: int, end: int, bold: str = "") -> str:
        raw = self.text[start:end]
        if (turn := _TURN_END.search(raw)) is not None:
            raw = raw[: turn.start()]
        holes = self.marks.text(self.text, start, start + len(raw))
        return _unfenced(_unbolded(_without_tail(holes).strip(), bold))

    def _name(self, line: str) -> str:
        """The name of a tool without what models put around it."""
        line = " ".join(_without_tail(line).split()) if line not in self.tools else line
        while line and line not in self.tools and len(line) < _LONGEST_NAME:
            bare = _NAMED.sub(r"\1", _GLOSS.sub("", line.strip(_AROUND))).strip(_AROUND)
            if bare == line:
                break
            line = bare
        return line

    def _end(self, n: int) -> int:
        """Where what a label stands for ends: at the next label."""
        return self.labels[n + 1].start if n + 1 < len(self.labels) else len(self.text)

    def _next(self, at: int) -> int:
        return next((mark.start for mark in self.labels if mark.start >= at), len(self.text))

    def _has_input(self, n: int) -> bool:
        return n + 1 < len(self.labels) and self.labels[n + 1].kind == "input"

    def _observed_before(self, n: int) -> bool:
        return any(mark.kind == "observation" for mark in self.labels[:n])

    def _unclosed_within(self, n: int) -> bool:
        """Whether the step that begins at a label is left inside a ``<think>``."""
        if self.marks.unclosed is None:
            return False
        last = n + 1 if self._has_input(n) else n
        return self.marks.unclosed < self._end(last)


def _outer_fence(text: str) -> re.Match[str] | None:
    """The fence around a whole reply; one that is closed before the step begins is none."""
    opening = _OUTER_FENCE.match(text)
    if opening is None:
        return None
    mark = re.escape(opening["mark"])
    closing = re.compile(rf"^[^\S\n]*+{mark}[^\S\n]*+$", re.MULTILINE).search(text, opening.end())
    if closing is None or not text[closing.end() :].strip(" \t\n`~"):
        return opening
    behind = scan(text, closing.end()).labels
    return opening if behind and behind[0].kind == "observation" else None


def _no_tool(line: str, tool: str) -> bool:
    """Whether an action says that there is none."""
    said = tool or line.strip(" \t*`\"'")
    return bool(said) and (nothing_meant(said) or said.lower() in _NO_TOOL)


def _without_tail(text: str) -> str:
    """A text without the special tokens it ends with, and without a last line that begins "Observation"."""
    end = before = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        start = text.rfind("<", max(0, end - _LONGEST_TOKEN), end)
        if not end or text[end - 1] != ">" or start < 0 or not _SPECIAL.fullmatch(text, start, end):
            break
        end = before = start
    partial = _PARTIAL.search(text, max(0, end - _LONGEST_TOKEN), end)
    return text[: partial.start()] if partial else text[:before]


def _unbolded(text: str, bold: str) -> str:
    """A text whose first line was bold together with its label, without the marks that close it."""
    if not bold:
        return text.strip()
    line, newline, rest = text.partition("\n")
    return f"{line.rstrip().removesuffix(bold).rstrip()}{newline}{rest}".strip()


def _unfenced(text: str) -> str:
    """A text without a last fence that nothing in it opened."""
    head, _, last = text.rstrip().rpartition("\n")
    if re.fullmatch(r"[^\S\n]*(?:`{3,}|~{3,})[^\S\n]*", last) and len(_FENCE_LINE.findall(text)) % 2:
        return head.rstrip()
    return text


def _bare_prose(text: str) -> str:
    """A thought without an opening fence or tag it ends with."""
    text = text.rstrip()
    while (found := _OPENED.search(text, max(0, len(text) - _LONGEST_TOKEN))) is not None:
        text = text[: found.start()].rstrip()
    return text.strip()


def _quote(text: str) -> str:
    return f'"{_short(text)}"'


def _quoted(text: str) -> str:
    return f": {_quote(text)}." if text else "."


def _short(text: str) -> str:
    flat = " ".join(text[: 4 * _QUOTED].split())
    return flat if len(flat) <= _QUOTED else f"{flat[:_QUOTED]}…"


def _error(code: StepError, detail: str, thought: str = "") -> ParsedStep:
    return ParsedStep("error", thought, error=code, detail=detail)

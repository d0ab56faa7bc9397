"""Letting out text of a stream that is certain, and holding back what may still become something else."""

from __future__ import annotations

import re
from collections.abc import Sequence


class _Doubtful:
    """Texts behind which only the parser can tell what a reply says.

    Args:
        texts: In lower case; a blank stands for a blank or a tab, a colon for either colon with blanks before it.
    """

    def __init__(self, *texts: str) -> None:
        forms = [[_FORMS.get(char, re.escape(char)) for char in text] for text in texts]
        self._whole = re.compile("|".join("".join(form) for form in forms), re.IGNORECASE)
        beginnings = ("".join(f"(?:{char}" for char in form[1:]) + ")?+" * (len(form) - 1) for form in forms)
        begun = "|".join(form[0] + rest for form, rest in zip(forms, beginnings, strict=True))
        self._begun = re.compile(rf"(?:{begun})[^\S\n]{{0,3}}\Z", re.IGNORECASE)

    def first(self, text: str) -> int | None:
        """Where one of them begins."""
        found = self._whole.search(text)
        return found.start() if found else None

    def begun(self, text: str) -> int:
        """Where what may become one of them begins at the end of a text."""
        found = self._begun.search(text, max(0, len(text) - _LONGEST))
        return found.start() if found else len(text)


_FORMS = {" ": "[ \t]", ":": r"[^\S\n]{0,3}[:：]"}
_LONGEST = 24
_TOKENS = ("<|", "<｜", "</s>", "<end_of_turn>", "<eos>", "<tool_call", "</tool_call", "<think", "</think")
# Within a thought also calls in a format of their own, and an answer in the midst of a line.
_IN_ANSWERS = _Doubtful(*_TOKENS)
_IN_THOUGHTS = _Doubtful(
    *_TOKENS,
    *("<function", "<invoke", "[tool_calls]", "functools"),
    *("final answer:", "最终答案:", "```", "~~~"),
)


class Outlet:
    """Lets out a text without the blanks around it, up to where it becomes doubtful.

    Args:
        answer: Whether it is an answer, which may speak of much that a thought may not. Of an answer the marks of
            a code fence are held back, too: one that closes nothing is no part of it.

    Attributes:
        frozen: Whether it has become doubtful; nothing more is let out.
    """

    def __init__(self, *, answer: bool = False) -> None:
        self.frozen = False
        self._doubtful = _IN_ANSWERS if answer else _IN_THOUGHTS
        self._ends = "`~" if answer else ""
        self._held: list[str] = []
        self._tail = ""
        self._begun = False

    @staticmethod
    def is_doubtful(text: str) -> bool:
        """Whether a whole thought holds what only the parser can tell the meaning of."""
        return _IN_THOUGHTS.first(text) is not None

    def pass_on(self, text: str) -> str:
        """What can be let out now that a piece has come."""
        if self.frozen:
            return ""
        text, self._tail = self._tail + text, ""
        found = self._doubtful.first(text)
        if found is not None:
            self.frozen = True
            return self._solid(text[:found])
        at = self._doubtful.begun(text)
        self._tail = text[at:]
        return self._solid(text[:at])

    def rest(self) -> str:
        """What was held back and is certain now that the text is over."""
        if self.frozen:
            return ""
        text, self._tail = self._tail, ""
        return self._solid(text)

    def _solid(self, text: str) -> str:
        """A text without what is not to stand at its end, behind what was held back of that before it."""
        solid = text.rstrip()
        while self._ends and solid.endswith(tuple(self._ends)):
            solid = solid.rstrip(self._ends).rstrip()
        if not solid:
            self._held.append(text)
            return ""
        out = "".join([*self._held, solid])
        self._held = [text[len(solid) :]]
        out, self._begun = out if self._begun else out.lstrip(), True
        return out


class Stops:
    """Ends a text where one of some texts begins.

    Attributes:
        hit: The one that ended it, or nothing.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.hit = ""
        self._held = ""
        self._stops = tuple(stop for stop in stops if stop)

    def pass_on(self, piece: str) -> str:
        """What can be passed on now that a piece has come."""
        text = self._held + piece
        places = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            at, self.hit = min(places)
            self._held = ""
            return text[:at]
        sizes = (size for stop in self._stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
        at = len(text) - max(sizes, default=0)
        self._held = text[at:]
        return text[:at]

    def rest(self) -> str:
        """What was held back, now that the text is over."""
        held, self._held = self._held, ""
        return held

"""A text as a reader sees it: full-width digits, and what JSON and URLs escape.

A trace is full of JSON within texts (``"\\u7535\\u8bdd13812345678"``, ``"card:\\n4111…"``) and of URLs
(``?phone=%2B48512345678``): there the letter before a number belongs to an escape and not to the number.
"""

from __future__ import annotations

import re
from bisect import bisect_right


def _table() -> dict[int, str]:
    same = {0xFF01 + i: chr(0x21 + i) for i in range(94)}
    for zero in (0x660, 0x6F0, 0x966):  # digits of Arabic, Persian, Hindi
        same |= {zero + i: str(i) for i in range(10)}
    same |= dict.fromkeys([0xAD, *range(0x2010, 0x2016), 0x2212, 0xFE63], "-")
    return same | dict.fromkeys([0xA0, *range(0x2000, 0x200E), 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF], " ")


_PLAIN = _table()
_ESCAPE = re.compile(r"\\{1,8}(?:u([0-9a-fA-F]{4})|[nrtbfv])|%([0-9a-fA-F]{2})")


class Plain:
    """A text in plain signs, and where each stands in the text itself.

    Attributes:
        text: The plain text.
    """

    def __init__(self, text: str) -> None:
        self._whole = len(text)
        # After each escape: the place in the plain text, and in the text itself.
        self._here, self._there = [0], [0]
        if "\\" in text or "%" in text:
            text = self._read(text)
        self.text = text if text.isascii() else text.translate(_PLAIN)

    def _read(self, text: str) -> str:
        parts, at, size = [], 0, 0
        for escape in _ESCAPE.finditer(text):
            code = int(escape[1] or escape[2] or "20", 16)
            # Of a letter in several bytes, as URLs have them, it is enough that it is none of ours.
            sign = chr(code) if escape[1] or 0x20 <= code < 0x7F else "\ufffd"
            parts += [text[at : escape.start()], sign]
            size += escape.start() - at + 1
            at = escape.end()
            self._here.append(size)
            self._there.append(at)
        return "".join([*parts, text[at:]])

    def there(self, place: int) -> int:
        """A place of the plain text, in the text itself."""
        index = bisect_right(self._here, place) - 1
        found = self._there[index] + place - self._here[index]
        return min(found, self._whole)

    def here(self, place: int) -> int:
        """A place of the text itself, in the plain text."""
        index = bisect_right(self._there, place) - 1
        found = self._here[index] + place - self._there[index]
        # Within an escape: where its sign ends.
        return min(found, self._here[index + 1]) if index + 1 < len(self._here) else found

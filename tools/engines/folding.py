"""Names without what people leave out when they write them."""

from __future__ import annotations

import unicodedata

_KINDS = (("‐‑‒–—−", "-"), ("‘’ʼ", "'"), ("“”", '"'), ("_", " "))
_PLAIN = {ord(sign): plain for signs, plain in _KINDS for sign in signs}


def folded(name: str) -> str:
    """A name without case, accents, doubled blanks, and kinds of dashes and quotation marks."""
    apart = unicodedata.normalize("NFKD", name.translate(_PLAIN))
    return " ".join("".join(sign for sign in apart if not unicodedata.combining(sign)).casefold().split())

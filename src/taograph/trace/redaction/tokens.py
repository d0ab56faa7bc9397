"""What stands in place of a value that was found, and how it is known again."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Literal

from taograph.redaction import HIDDEN

Mode = Literal["replace", "mask", "hash", "drop"]

SECRET = "SECRET"  # noqa: S105 (a kind)
DROPPED = "[…]"
NAME = re.compile(r"[A-Z][A-Z0-9_]{1,39}")
# All that the modes write: never looked into, and never a part of a match.
TOKEN = re.compile(rf"<([A-Z][A-Z0-9_]{{1,39}})(?::[0-9a-f]{{8}})?>|{re.escape(HIDDEN)}|{re.escape(DROPPED)}|\*{{4,}}")


def written(value: str, kind: str, mode: Mode, key: bytes) -> str:
    """The token for a value.

    A secret is ``[secret]`` in every mode, as everywhere in taograph: nobody has to tell one from another.
    """
    if kind == SECRET:
        return HIDDEN
    match mode:
        case "replace":
            return f"<{kind}>"
        case "mask":
            return "*" * max(len(value), 4)
        case "drop":
            return DROPPED
        case "hash":
            # Kind and bare value: the same number with and without spaces is the same token.
            bare = "".join(filter(str.isalnum, value)) if kind != "EMAIL" else value
            digest = hmac.new(key, f"{kind}:{bare.casefold()}".encode(), hashlib.sha256)
            return f"<{kind}:{digest.hexdigest()[:8]}>"

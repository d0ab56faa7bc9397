"""Keeping secrets out of texts that leave the process: errors, details, events."""

from __future__ import annotations

import os
import re

_NAMED = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|lsv2|ghp|gho|github_pat|glpat|hf|xox[abprs])[-_][A-Za-z0-9_*\-]{6,}"
    r"|\bAKIA[0-9A-Z]{12,}"
    r"|\bAIza[0-9A-Za-z_\-]{20,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?"
    r"|(?<=Bearer )[^\s\"']+"
    r"|(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,100}(?=@)"
    r"|(?<=api_key=)[^\s&\"']+|(?<=api-key: )[^\s\"']+",
    re.IGNORECASE,
)
HIDDEN = "[secret]"


def redact(text: str) -> str:
    """A text without keys: those of the usual shapes, and the values of this process's secret variables."""
    for name, value in os.environ.items():
        if len(value) >= 8 and _NAMED.search(name) and value in text:
            text = text.replace(value, HIDDEN)
    return _SHAPES.sub(HIDDEN, text)

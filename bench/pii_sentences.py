"""Writes bench/data/pii_sentences.jsonl from pii_templates.txt: `python bench/pii_sentences.py`.

Each sentence gets made-up values with computed checksums, the same at every call. Every second sentence of a language,
with and without personal data, is held out: patterns are tuned on the others.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pii_values import OTHERS, PHONES, VALIDATED, WIDE

DATA = Path(__file__).parent / "data"
SLOT = re.compile(r"\[\[(WIDE:)?([A-Z0-9_]+)(?::([a-z]+))?(?:\|([^\]]*))?\]\]")


def value(kind: str, language: str, random: Random) -> str:
    make = PHONES[language] if kind == "PHONE" else {**VALIDATED, **OTHERS}[kind]
    return make(random)


def filled(template: str, language: str, random: Random) -> tuple[str, list[dict[str, Any]]]:
    text, spans, at = "", [], 0
    for slot in SLOT.finditer(template):
        wide, kind, country, given = slot.groups()
        made = given or value(kind, country or language, random)
        made = made.translate(WIDE) if wide else made
        text += template[at : slot.start()]
        spans.append({"start": len(text), "end": len(text) + len(made), "kind": "IP" if kind == "IP6" else kind})
        text, at = text + made, slot.end()
    return text + template[at:], spans


def main() -> None:
    random, seen, lines = Random(7), Counter[tuple[str, bool]](), []
    for line in (DATA / "pii_templates.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        language, form, template = line.split("|", 2)
        text, spans = filled(template, language, random)
        group = (language, bool(spans))
        seen[group] += 1
        row = {"id": f"{language}-{sum(seen[language, s] for s in (True, False)):03d}", "language": language}
        row |= {"form": form, "split": "held out" if seen[group] % 2 == 0 else "tuned on"}
        lines.append(json.dumps({**row, "text": text, "spans": spans}, ensure_ascii=False))
    (DATA / "pii_sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(len(lines), "sentences", dict(seen))


if __name__ == "__main__":
    main()

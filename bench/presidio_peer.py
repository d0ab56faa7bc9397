"""Presidio on the labelled sentences: run by bench/redaction.py with a Python that has presidio-analyzer.

Prints one line of JSON: what was found in each sentence, by the kinds' names here. Two engines: its patterns alone, as
it runs without a model, and with the English spaCy model that is installed, if one is.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

KINDS = {
    "EMAIL_ADDRESS": "EMAIL",
    "PHONE_NUMBER": "PHONE",
    "IBAN_CODE": "IBAN",
    "CREDIT_CARD": "CARD",
    "IP_ADDRESS": "IP",
    "MAC_ADDRESS": "MAC",
    "CRYPTO": "WALLET",
    "DATE_TIME": "BIRTH_DATE",
    "US_SSN": "US_SSN",
    "UK_NHS": "UK_NHS",
    "UK_NINO": "UK_NINO",
    "ES_NIF": "ES_DNI",
    "ES_NIE": "ES_NIE",
    "IT_FISCAL_CODE": "IT_CF",
    "PL_PESEL": "PL_PESEL",
    "DE_TAX_ID": "DE_TAX_ID",
    "FI_PERSONAL_IDENTITY_CODE": "FI_HETU",
    "SE_PERSONNUMMER": "SE_PNR",
    "PERSON": "PERSON",
}
LANGUAGES = ["en", "de", "pl", "zh"]


def engine(model: str | None) -> Any:
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    class Blank(SpacyNlpEngine):
        """spaCy's tokenizers, and a model for English where there is one."""

        def load(self) -> None:
            self.nlp = {code: spacy.blank(code) for code in LANGUAGES}
            if model:
                self.nlp["en"] = spacy.load(model)

    nlp = Blank(models=[{"lang_code": code, "model_name": "blank"} for code in LANGUAGES])
    nlp.load()
    registry = RecognizerRegistry(supported_languages=LANGUAGES)
    registry.load_predefined_recognizers(languages=LANGUAGES, nlp_engine=nlp)
    return AnalyzerEngine(nlp_engine=nlp, registry=registry, supported_languages=LANGUAGES)


def measured(model: str | None) -> dict[str, Any]:
    data = Path(__file__).parent / "data/pii_sentences.jsonl"
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    begun = time.perf_counter()
    analyzer = engine(model)
    analyzer.analyze("tel. 512 345 678", "en", entities=list(KINDS))
    loaded = time.perf_counter() - begun
    spans, begun = {}, time.process_time()
    for row in rows:
        found = analyzer.analyze(row["text"], row["language"], entities=list(KINDS), score_threshold=0.4)
        # Dates are of birth only by a word; Presidio has no such kind, so none of its dates count.
        spans[row["id"]] = [(f.start, f.end, KINDS[f.entity_type]) for f in found if f.entity_type != "DATE_TIME"]
    taken = time.process_time() - begun
    return {"load": loaded, "milliseconds": taken / len(rows) * 1e3, "spans": spans}


def main() -> None:
    logging.disable(logging.CRITICAL)
    begun = time.perf_counter()
    import presidio_analyzer
    import spacy.util

    imported = time.perf_counter() - begun
    names = {"Presidio, patterns": None}
    models = [name for name in spacy.util.get_installed_models() if name.startswith("en_")]
    names |= {f"Presidio, and {model}": model for model in models[:1]}
    engines = {name: measured(model) for name, model in names.items()}
    for one in engines.values():
        one["load"] += imported
    folder = Path(presidio_analyzer.__file__).parents[1]
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "pip" not in file.parts) // 10**6
    print(json.dumps({"version": version("presidio-analyzer"), "megabytes": size, "engines": engines}))


if __name__ == "__main__":
    sys.exit(main())

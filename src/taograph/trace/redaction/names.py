"""Names of people, which have no pattern: by Presidio and a spaCy model of each language, where they are installed.

    pip install presidio-analyzer && python -m spacy download en_core_web_sm
    redactor = Redactor(custom=presidio_names({"en": "en_core_web_sm"}))

A model finds most names and not all, and takes some other words for names: docs/benchmarks.md has figures. It loads
for seconds and reads slower than the rest of the redaction, so it is never on by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Collection, Mapping
from typing import Any

Finder = Callable[[str], list[tuple[int, int, str]]]


def presidio_names(
    models: Mapping[str, str], *, entities: Collection[str] = ("PERSON",), threshold: float = 0.5
) -> Finder:
    """A function for ``Redactor(custom=…)`` that finds names.

    Every model reads every line: the language of a trace is not known. Only names are asked of Presidio: its own
    patterns for addresses of machines and mail would ask the network for a list of domains.

    Args:
        models: The language in two letters, and a spaCy model that is installed: ``{"en": "en_core_web_sm"}``.
        entities: What is to be found: ``PERSON``, ``LOCATION``, ``NRP``, ``ORGANIZATION``.
        threshold: How sure Presidio has to be, from 0 to 1.

    Raises:
        ImportError: Presidio is not installed.
        ValueError: There is no such model here. None is downloaded.
    """
    if not models:
        raise ValueError('models is empty: give a language and its spaCy model, such as {"en": "en_core_web_sm"}')
    if importlib.util.find_spec("presidio_analyzer") is None:
        raise ImportError("presidio_names needs Presidio: pip install presidio-analyzer")
    presidio: Any = importlib.import_module("presidio_analyzer")
    engines: Any = importlib.import_module("presidio_analyzer.nlp_engine")
    recognizers: Any = importlib.import_module("presidio_analyzer.predefined_recognizers")
    spacy: Any = importlib.import_module("spacy.util")
    for name in models.values():
        if not spacy.is_package(name):
            raise ValueError(f"models: {name!r} is not installed: python -m spacy download {name}")
    languages = list(models)
    nlp = engines.SpacyNlpEngine(models=[{"lang_code": code, "model_name": name} for code, name in models.items()])
    registry = presidio.RecognizerRegistry(supported_languages=languages)
    for code in languages:
        registry.add_recognizer(recognizers.SpacyRecognizer(supported_language=code, supported_entities=list(entities)))
    nlp.load()
    analyzer = presidio.AnalyzerEngine(nlp_engine=nlp, registry=registry, supported_languages=languages)

    def names(line: str) -> list[tuple[int, int, str]]:
        return [
            (found.start, found.end, found.entity_type)
            for code in languages
            for found in analyzer.analyze(text=line, language=code, entities=list(entities), score_threshold=threshold)
        ]

    return names

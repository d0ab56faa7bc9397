"""Names, where Presidio and a model are installed."""

from __future__ import annotations

import importlib.util

import pytest

from taograph.trace.redaction import Redactor
from taograph.trace.redaction.names import presidio_names

HERE = importlib.util.find_spec("presidio_analyzer") is not None


@pytest.mark.skipif(HERE, reason="Presidio is installed")
def test_without_presidio_it_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="pip install presidio-analyzer"):
        presidio_names({"en": "en_core_web_sm"})


def test_it_needs_a_model() -> None:
    with pytest.raises(ValueError, match="models is empty"):
        presidio_names({})


@pytest.mark.skipif(not HERE, reason="Presidio is not installed: pip install presidio-analyzer and a spaCy model")
@pytest.mark.filterwarnings("default")
def test_names_are_found() -> None:
    spacy = pytest.importorskip("spacy")
    models = [name for name in spacy.util.get_installed_models() if name.startswith("en_core")]
    if not models:
        pytest.skip("no English spaCy model is installed")
    with pytest.raises(ValueError, match="python -m spacy download en_no_such"):
        presidio_names({"en": "en_no_such"})
    redactor = Redactor(custom=presidio_names({"en": models[0]}))
    text = "Yesterday Helen Marsh wrote to helen@example.com.\nThe invoice is late."
    assert redactor.text(text) == "Yesterday <PERSON> wrote to <EMAIL>.\nThe invoice is late."
    assert redactor.text(redactor.text(text)) == redactor.text(text)

"""What reflexion and the router say to a model, word for word."""

from __future__ import annotations

from typing import Any

import pytest
from reflexion_support import good, last_text, tries
from reflexion_support import kinds_of as trials_of
from router_support import UNSURE, kinds_of, routed
from support import lookup, question
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from taograph.graphs.parts.chain_of_thought import THINK
from taograph.graphs.reflexion import create_reflexion_graph
from taograph.graphs.router import create_router_graph


class Text(SingleFileSnapshotExtension):
    """A text file for each prompt."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def first(model: Any, kinds: list[str], kind: str) -> str:
    return last_text(model.requests[kinds.index(kind)].messages)


@pytest.mark.parametrize("kind", ["reflect", "trial 2", "sample"])
def test_reflexion(kind: str, snapshot: SnapshotAssertion) -> None:
    model = tries("bad", "worse", "good", sample=lambda: "good")
    evaluate = "agreement" if kind == "sample" else good
    create_reflexion_graph(model, [lookup], evaluate=evaluate).invoke(question("Where is it?"))
    assert first(model, trials_of(model), kind) == snapshot.use_extension(Text)


@pytest.mark.parametrize("kind", ["classify", "direct", "react"])
def test_router(kind: str, snapshot: SnapshotAssertion) -> None:
    model = routed(at_once=UNSURE)
    create_router_graph(model, [lookup]).invoke(question("Who built the bridge?"))
    told = first(model, kinds_of(model), kind).partition(THINK[:40])[0]  # what direct says is its own matter
    assert told == snapshot.use_extension(Text)

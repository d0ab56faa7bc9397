"""Makes the helpers beside the test folders importable; the two ways to stream; servers over real HTTP."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from http_support import serve  # noqa: F401 - a fixture
from stream_support import Streams, acollect, collect


@pytest.fixture(params=[collect, acollect], ids=["stream", "astream"])
def steps(request: pytest.FixtureRequest) -> Streams:
    streams: Streams = request.param
    return streams

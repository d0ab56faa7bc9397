from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_support import FAKE_SERVER, alive, wait_for

from taograph.models.local_lease import Lease
from taograph.models.local_spec import Record, ServerSpec


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and nothing more")
    return path


@pytest.fixture
def spec(tmp_path: Path, gguf: Path) -> ServerSpec:
    return ServerSpec(model=gguf, run_dir=tmp_path / "run", linger=0.2, command=FAKE_SERVER)


@pytest.fixture
def make_lease(spec: ServerSpec) -> Iterator[Callable[[], Lease]]:
    """Leases on the fake server, which has gone when the test is over."""
    made: list[Lease] = []

    def make() -> Lease:
        made.append(Lease(spec))
        return made[-1]

    yield make
    record = Record.read(spec.file("json"))
    for lease in made:
        lease.leave()
    if record:
        assert wait_for(lambda: not alive(record.pid)), "the server outlived its last user"

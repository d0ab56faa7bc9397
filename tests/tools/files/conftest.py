"""A folder for the file tools, with a secret beside it, reached in both ways."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from filing import SECRET

from taograph.tools.engines import file_folder


@pytest.fixture(params=["by descriptor", "by path"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reaching files; the second is the one for systems without descriptors of folders."""
    if request.param == "by path":
        monkeypatch.setattr(file_folder, "BY_DESCRIPTOR", False)
    elif not file_folder.BY_DESCRIPTOR:
        pytest.skip("this system has no descriptors of folders")
    return str(request.param)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET, encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path, way: str) -> Path:
    folder = tmp_path / "root"
    (folder / "notes" / "old").mkdir(parents=True)
    (folder / "notes" / "boiler.md").write_bytes(b"# Boiler\n\nServiced on 2024-02-27. It has a new filter.\n")
    (folder / "notes" / "garden.md").write_bytes(b"Beans in row one, peas in row two.\n")
    (folder / "notes" / "old" / "roof.md").write_bytes(b"Tiles\n")
    (folder / ".env").write_text("KEY=hidden-value", encoding="utf-8")
    (folder / "readme.txt").write_bytes(b"hello\n")
    return folder


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    before = descriptors()
    yield
    assert len(descriptors()) <= len(before) + 2, "descriptors were left open"


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []

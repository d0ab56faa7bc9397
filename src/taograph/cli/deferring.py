"""A quick start: modules that other libraries load, and of which a run needs little or nothing.

Half of the time from `tao run` to its first request went into modules of libraries that no run of ours ever looks
into: 200 types of LangSmith's API for one list of names, LangGraph's client of servers for one class, types of OpenAI's
other APIs. They are loaded because some package's ``__init__`` loads all there is below it. What is named here runs
when a name of it is first asked for; until then modules below such a package are found as ever. Only the command does
this: in a program that uses taograph, imports are the program's.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Nothing here has to be right for a run to be right: what is not found, or is asked for at once, is loaded as ever.
MODULES = (
    "jsonpatch",  # for astream_log, which nothing here calls
    "langchain_openai",  # models for embeddings, completions and decisions beside the one for chats
    "langchain_openai.chat_models",  # Azure's
    "langgraph_sdk",  # the client of LangGraph's servers, which loads rich by way of httpx's command line
    "langsmith.types",  # every type of its API, each a Pydantic model
    "openai.types",  # every type of its APIs, each a Pydantic model
    "openai.types.chat",
    "openai.types.responses",
    "psutil",  # tells LangSmith of the machine
    "tiktoken",  # counts tokens where a model's own count is missing and its name is OpenAI's
    "yaml",  # writes completion models to files
)
_BODY = "__deferred__:"
# Objects made before Python looks for cycles: it would walk through all modules' objects again and again while they are
# being made, though none can be dropped. 700 is Python's own.
_COLLECT_AFTER = 20_000


def defer() -> None:
    """Have this process start quickly; for the command's entry point alone."""
    gc.set_threshold(_COLLECT_AFTER)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):  # `main` may be called again
        sys.meta_path.insert(0, _Finder({name for name in MODULES if name not in sys.modules}))


class _Finder:
    """Finds the modules that are to wait, and what each one runs, as a module of a name of its own."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As every finder's."""
        if fullname.startswith(_BODY):
            waiting = sys.modules[fullname.removeprefix(_BODY).replace(":", ".")]
            return ModuleSpec(fullname, _Body(waiting))  # type: ignore[arg-type]
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader_state = spec.loader
            spec.loader = _Waiting()  # type: ignore[assignment]
        return spec


class _Unrun(ModuleType):
    """A module that has not run yet."""

    def __getattr__(self, name: str) -> Any:
        # By way of an import: Python's own locks see to it that one thread runs it while others wait.
        import_module(_BODY + self.__name__.replace(".", ":"))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class _Waiting:
    """Loads a module but does not run it."""

    def create_module(self, spec: ModuleSpec) -> None:
        """A module as any other."""

    def exec_module(self, module: ModuleType) -> None:
        """Wait."""
        spec = module.__spec__
        assert spec is not None  # noqa: S101 - it was made from one
        # Whoever asks for its loader, as for what files a package brings, finds the real one.
        spec.loader = module.__loader__ = spec.loader_state
        module.__class__ = _Unrun


class _Body:
    """Runs a module that waits."""

    def __init__(self, waiting: ModuleType) -> None:
        self._waiting = waiting

    def create_module(self, spec: ModuleSpec) -> None:
        """A module as any other, which holds nothing."""

    def exec_module(self, module: ModuleType) -> None:
        """Run what waits, in its own module."""
        loader: Any = self._waiting.__loader__
        loader.exec_module(self._waiting)
        self._waiting.__class__ = ModuleType  # all is there: no name is waited for any longer

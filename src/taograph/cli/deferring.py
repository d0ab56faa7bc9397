"""A quick start: packages that other libraries load whole, and of which a run needs little or nothing.

More than half of the time from `tao run` to its first request goes into modules of libraries that no run of ours
ever looks into: 200 types of LangSmith's API for one list of names, LangGraph's client of servers for one class, types
of OpenAI's other APIs. They are loaded because some package's ``__init__`` loads all there is below it. For the
packages named here that ``__init__`` runs when a name that it gives is first asked for; until then modules below the
package are found as ever. Only the command does this: in a program that uses taograph, imports are the program's.
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
PACKAGES = (
    "langchain_openai",  # models for embeddings, completions and decisions beside the one for chats
    "langchain_openai.chat_models",  # Azure's
    "langgraph_sdk",  # the client of LangGraph's servers, which loads rich by way of httpx's command line
    "langsmith.types",  # every type of its API, each a Pydantic model
    "openai.types",  # every type of its APIs, each a Pydantic model
    "openai.types.chat",
    "openai.types.responses",
    "tiktoken",  # counts tokens where a model's own count is missing and its name is OpenAI's
)
_BODY = "__deferred__"
# Objects made before Python looks for cycles: it would walk through all modules' objects again and again while they are
# being made, though none can be dropped. 700 is Python's own.
_COLLECT_AFTER = 20_000


def defer() -> None:
    """Have this process start quickly; for the command's entry point alone."""
    gc.set_threshold(_COLLECT_AFTER)
    sys.meta_path.insert(0, _Finder({name for name in PACKAGES if name not in sys.modules}))


class _Finder:
    """Finds the packages that are to wait, and each one's ``__init__`` as a module below it."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As every finder's."""
        parent, _, last = fullname.rpartition(".")
        if last == _BODY and isinstance(package := sys.modules.get(parent), _Package):
            return ModuleSpec(fullname, _Body(package))  # type: ignore[arg-type]
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader_state = spec.loader
            spec.loader = _Waiting()  # type: ignore[assignment]
        return spec


class _Package(ModuleType):
    """A package whose ``__init__`` has not run yet."""

    def __getattr__(self, name: str) -> Any:
        # By way of an import: Python's own locks see to it that one thread runs it while others wait.
        import_module(f"{self.__name__}.{_BODY}")
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class _Waiting:
    """Loads a package but for its ``__init__``."""

    def create_module(self, spec: ModuleSpec) -> None:
        """A module as any other."""

    def exec_module(self, module: ModuleType) -> None:
        """Wait."""
        spec = module.__spec__
        assert spec is not None  # noqa: S101 - it was made from one
        # Whoever asks for the package's loader, as for what files it brings, finds the real one.
        spec.loader = module.__loader__ = spec.loader_state
        module.__class__ = _Package


class _Body:
    """Runs a package's ``__init__``."""

    def __init__(self, package: _Package) -> None:
        self._package = package

    def create_module(self, spec: ModuleSpec) -> None:
        """A module as any other, which holds nothing."""

    def exec_module(self, module: ModuleType) -> None:
        """Run it, in the package."""
        loader: Any = self._package.__loader__
        loader.exec_module(self._package)
        self._package.__class__ = ModuleType  # all is there: no name is waited for any longer

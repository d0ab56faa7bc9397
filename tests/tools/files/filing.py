"""What the tests of the file tools share: short ways to call them."""

import os
from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

from taograph.tools.files import file_tools

SECRET = "the secret outside"


posix = pytest.mark.skipif(os.name != "posix", reason="needs links and pipes as POSIX has them")


def tools(root: Path, **options: int) -> tuple[BaseTool, BaseTool, BaseTool]:
    made = file_tools(root, **options)  # type: ignore[arg-type]
    return made[0], made[1], made[2]


def listed(root: Path, pattern: str = "*", **options: int) -> list[str]:
    return str(tools(root, **options)[0].invoke({"pattern": pattern})).splitlines()


def read(root: Path, path: str, **more: object) -> str:
    return str(tools(root)[1].invoke({"path": path, **more}))


def write(root: Path, path: str, content: str, mode: str = "create") -> str:
    return str(tools(root)[2].invoke({"path": path, "content": content, "mode": mode}))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/"
        for path in sorted(folder.rglob("*"))
    }

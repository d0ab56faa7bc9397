"""The project's own promises: the commands that the README gives, and the versions that they install."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = ({"sys_platform": "linux"}, {"sys_platform": "darwin"}, {"sys_platform": "win32"})


def command_under(heading: str) -> str:
    """The first fenced command below a heading of the README."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert found, f"README.md has no command under {heading!r}"
    return found[1].strip()


# Commands


def test_the_readme_needs_two_commands() -> None:
    """One line each, word for word what a stranger pastes: the first answers a question, the second tests."""
    first, second = command_under("Try it"), command_under("Run the tests")
    for command in (first, second):
        assert "\n" not in command
        assert "-c requirements.lock" in command
        assert not re.search(r"[<…]|\bexport\b", command), command
    assert " run --yes " in first
    assert second.split(" && ")[-1].split()[0].endswith("/pytest")


def test_ci_runs_the_readmes_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line.strip() for line in script.read_text("utf-8").splitlines()]
    assert command_under("Run the tests") in lines
    assert "set -euo pipefail" in lines
    assert not re.search(r"index-url|find-links|://", script.read_text("utf-8")), "pip's settings are the machine's"


@pytest.mark.parametrize("place", re.findall(r"\]\((?!https?://)([^)#]+)\)", README))
def test_what_the_readme_links_to_is_there(place: str) -> None:
    assert (ROOT / place).exists()


# Locked versions


def locked() -> list[Requirement]:
    lines = (line.strip() for line in LOCK.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pin(requirement: Requirement) -> Version:
    (one,) = requirement.specifier
    return Version(one.version)


def holds(marker: Marker | None, python: str, system: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(
        {"python_version": python, "python_full_version": f"{python}.0", "extra": "", **system}
    )


def wanted() -> Iterator[Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name != PROJECT["name"]:
            yield requirement


def test_the_lock_is_what_pip_takes_as_constraints() -> None:
    """Exact versions and markers only: pip refuses extras in constraints, and hashes would apply to everything."""
    assert locked()
    for requirement in locked():
        assert not requirement.extras, requirement
        assert requirement.url is None, requirement
        assert [one.operator for one in requirement.specifier] == ["=="], requirement
    assert "--" not in re.sub(r"(?m)^#.*$", "", LOCK), "no options: no index, no hashes"


def test_the_lock_says_how_it_is_made_and_nothing_of_where() -> None:
    comments = "\n".join(line for line in LOCK.splitlines() if line.startswith("#"))
    assert ".ci/lock" in comments
    assert os.access(ROOT / ".ci" / "lock", os.X_OK)
    assert "://" not in LOCK
    assert "file:" not in LOCK


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system["sys_platform"])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_one_version_of_all_that_is_declared(python: str, system: dict[str, str]) -> None:
    versions: dict[str, Version] = {}
    for requirement in locked():
        if holds(requirement.marker, python, system):
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"two versions of {name}"
            versions[name] = pin(requirement)
    for requirement in wanted():
        if holds(requirement.marker, python, system):
            name = canonicalize_name(requirement.name)
            assert name in versions, f"{name} is declared and not locked: refresh the lock"
            assert requirement.specifier.contains(versions[name]), f"{requirement} does not admit {versions[name]}"


def test_the_lock_holds_no_heavy_framework() -> None:
    names = {canonicalize_name(requirement.name) for requirement in locked()}
    assert not names & {"torch", "tensorflow", "transformers", "jax", "onnxruntime", "llama-cpp-python"}

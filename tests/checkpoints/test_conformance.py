"""LangGraph's own suite for savers, on what is opened from each URL, both ways, with and without a key."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from taograph import checkpoints

PASSED = {"put", "put_writes", "get_tuple", "list", "delete_thread", "copy_thread", "prune"}


@pytest.mark.parametrize("key", [None, "k" * 32], ids=["plain", "encrypted"])
async def test_langgraphs_suite_passes(url: str, way: str, key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if key:
        monkeypatch.setenv("LANGGRAPH_AES_KEY", key)

    @checkpointer_test(name="taograph")
    async def opened():  # type: ignore[no-untyped-def]
        if way == "sync":
            with checkpoints.open(url) as saver:
                yield saver
        else:
            async with checkpoints.aopen(url) as saver:
                yield saver

    report = await validate(opened)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert report.passed_all_base()
    assert {name for name, result in report.results.items() if result.passed} == PASSED
    # Runs cannot be deleted one by one: what one wrote may be a part of every later state.
    assert report.results["delete_for_runs"].detected is False


async def test_the_savers_are_langgraphs() -> None:
    async with checkpoints.aopen("sqlite://") as saver:
        assert isinstance(saver, BaseCheckpointSaver)
        with pytest.raises(NotImplementedError):
            saver.delete_for_runs(["r"])

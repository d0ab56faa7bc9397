"""`langgraph dev` with a checkpointer of ours: threads are kept in a database, encrypted, and can be looked into."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from dev_server import ROOT, DevServer
from driving import ask, model, multiplying, new_thread, question, values
from fake_openai_server import FakeOpenAI
from langgraph_sdk import get_client

from taograph import checkpoints, create_react_graph

KEY = "0123456789abcdef"
SAVER = dedent('''
    """What langgraph.json names as the checkpointer."""

    import os

    from taograph import checkpoints


    def saver():
        return checkpoints.aopen(os.environ["RUNS"])
''')


async def test_a_server_keeps_its_threads_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saver.py").write_text(SAVER, "utf-8")
    url = f"sqlite:///{tmp_path}/runs.db"
    config = {
        "dependencies": [str(ROOT)],
        "graphs": {"react": f"{ROOT}/graphs/react.py:graph"},
        "checkpointer": {"path": f"{tmp_path}/saver.py:saver"},
    }
    with DevServer(tmp_path, config, {"RUNS": url, "LANGGRAPH_AES_KEY": KEY}) as server:
        async with get_client(url=server.url) as client:
            thread, other = await new_thread(client), await new_thread(client)
            with multiplying() as fake:
                live = await ask(client, thread, "react", input=question(), context=model(fake))
            with FakeOpenAI(["Hello."]) as fake:
                await ask(client, other, "react", input=question("Hi"), context=model(fake))
            assert live["answer"] == "It is 51."
            assert (await values(client, thread))["messages"] == live["messages"]
            history = await client.threads.get_history(thread)
            before = history[1]["checkpoint"]
            with FakeOpenAI(["It is 51, again."]) as fake:
                again = await ask(client, thread, "react", input=None, checkpoint=before, context=model(fake))
            assert again["answer"] == "It is 51, again."
            copied: Any = await client.threads.copy(thread)
            if copied:  # some servers answer nothing
                assert (await values(client, copied["thread_id"]))["answer"] == again["answer"]
                await client.threads.delete(copied["thread_id"])
            await client.threads.delete(other)
        assert "BlockingError" not in server.log
    assert b"17 times 3" not in (tmp_path / "runs.db").read_bytes()
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with checkpoints.open(url) as saver:
        assert [found.id for found in checkpoints.threads(saver)] == [thread]
        state = create_react_graph(None, [], checkpointer=saver).get_state({"configurable": {"thread_id": thread}})
        assert state.values["answer"] == "It is 51, again."

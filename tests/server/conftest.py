"""A server for the tests of this folder, and what they drive it with."""

from collections.abc import AsyncIterator, Iterator
from textwrap import dedent

import pytest
from dev_server import ROOT, DevServer
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

# Tools that no user would want, beside a way to see that blocking calls are found at all.
_SPECIAL = dedent('''
    import asyncio
    import time

    from taograph import create_react_graph, tool
    from taograph.graphs import STRATEGIES


    @tool(effects="none", timeout=None)
    async def wait_for_ever() -> str:
        """Never come back."""
        await asyncio.sleep(600)
        return "back"


    @tool(effects="none")
    def nap() -> str:
        """Sleep in a thread, as plain functions may."""
        time.sleep(0.01)
        return "rested"


    @tool(effects="none")
    async def stall() -> str:
        """Sleep on the event loop, as nobody may."""
        time.sleep(0.01)
        return "stalled"


    @tool(effects="once")
    async def send(to: str) -> str:
        """Send a letter.

        Args:
            to: To whom.
        """
        return f"sent to {to}"


    graph = create_react_graph(None, [wait_for_ever, nap, stall])
    careful = create_react_graph(None, [send, nap], approve="send")
    planned = STRATEGIES["plan_execute"](None, [send, nap], approve="send", name="planned")
''')


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """`langgraph dev` with ``react`` as it is served, ``special``, ``careful`` and ``planned``; without a model."""
    folder = tmp_path_factory.mktemp("dev")
    (folder / "special.py").write_text(_SPECIAL, "utf-8")
    (folder / "docs").mkdir()
    (folder / "docs" / "rent.md").write_text("# Rent\n\nThe rent is due on the fifth of each month.\n", "utf-8")
    config = {
        "dependencies": [str(ROOT)],
        "graphs": {
            "react": {"path": f"{ROOT}/graphs/react.py:graph", "description": "the served graph"},
            "special": f"{folder}/special.py:graph",
            "careful": f"{folder}/special.py:careful",
            "planned": f"{folder}/special.py:planned",
        },
    }
    with DevServer(folder, config, {"TAOGRAPH_DOCS": str(folder / "docs")}) as started:
        yield started


@pytest.fixture
async def client(server: DevServer) -> AsyncIterator[LangGraphClient]:
    """The SDK's client of the server."""
    async with get_client(url=server.url) as made:
        yield made

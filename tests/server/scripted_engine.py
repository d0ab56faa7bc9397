"""Run as the server process of a local model: the real server, with a scripted engine in llama.cpp's place."""

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_openai_server import FakeOpenAI

from taograph.models.local_server import Engine, serve
from taograph.models.local_spec import ServerSpec


def start(spec: ServerSpec, key: str) -> Engine:
    """An engine that answers everything alike."""
    engine = FakeOpenAI(default=f"I am {spec.model.name}.").__enter__()
    return SimpleNamespace(url=engine.url.removesuffix("/v1"), template="own")


if __name__ == "__main__":
    serve(ServerSpec.from_json(sys.argv[-1]), start)

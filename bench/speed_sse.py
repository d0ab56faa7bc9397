"""An OpenAI-compatible endpoint that streams tokens at a pace: ``python speed_sse.py PORT``. For the speed benchmark.

The question says how many tokens are wanted and how many a second ("tokens=100 rate=10"; rate 0: as fast as they can
be sent). Each token is the time at which it was sent, so whoever reads it knows how far behind it is; the first is the
time of the first byte of the reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import sys
import time

WANTED = re.compile(rb"tokens=(\d+) rate=(\d+)")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ABOUT = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fake",'
BEGIN = f'data: {ABOUT}"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}\n\n'
TOKEN = f'data: {ABOUT}"choices":[{{"index":0,"delta":{{"content":"%s"}},"finish_reason":null}}]}}\n\n'
LAST = f'data: {ABOUT}"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}\n\ndata: [DONE]\n\n'
WHOLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "fake",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
}


def chunk(text: str) -> bytes:
    """A piece of a body."""
    data = text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


async def stream(writer: asyncio.StreamWriter, tokens: int, rate: int) -> None:
    """Send one reply."""
    begun = time.monotonic_ns()
    writer.write(HEAD + chunk(BEGIN) + chunk(TOKEN % f"{begun} "))
    if rate:  # not all streams in step
        begun += int(random.random() * 1e9 / rate)
    for number in range(1, tokens):
        if rate and (wait := begun + number * 1_000_000_000 // rate - time.monotonic_ns()) > 0:
            await asyncio.sleep(wait / 1e9)
        writer.write(chunk(TOKEN % f"{time.monotonic_ns()} "))
        await writer.drain()
    writer.write(chunk(LAST) + b"0\r\n\r\n")
    await writer.drain()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            found = re.search(rb"content-length: *(\d+)", head)
            body = await reader.readexactly(int(found[1])) if found else b""
            wanted = WANTED.search(body)
            if wanted and json.loads(body).get("stream"):
                await stream(writer, int(wanted[1]), int(wanted[2]))
            else:
                out = json.dumps(WHOLE).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(out)
                )
                writer.write(out)
                await writer.drain()
    writer.close()


async def main() -> None:
    """Serve until somebody ends it."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())

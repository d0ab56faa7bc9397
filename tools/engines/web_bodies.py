"""Unpacking what a server sent packed, without ever holding more than was asked for.

A few kilobytes can be packed from gigabytes. httpx unpacks each part it reads as a whole, whatever comes out, so
it is not left to do it.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from taograph.tools.engines.web_errors import WebError

_WINDOW = 8 * 1024 * 1024
"""Bytes of memory a zstd stream may ask for: what RFC 9659 grants to one sent over HTTP."""
_GZIP = b"\x1f\x8b"
_MEMBERS = 50
"""Members of a gzip stream at most. Each costs a copy of the rest, so thousands of empty ones would cost minutes."""


def unpack(packed: bytes, encoding: str, most: int) -> bytes:
    """The plain bytes of a body, or the first of them.

    Args:
        packed: The body as it was sent; where its end is missing, so is that of the result.
        encoding: Its ``Content-Encoding``.
        most: Bytes wanted. One byte more is returned where there are more.

    Raises:
        WebError: An unknown encoding, several on top of each other, or damaged data.
    """
    steps = [step for part in encoding.lower().split(",") if (step := part.strip()) not in ("", "identity")]
    if not steps:
        return packed[: most + 1]
    if len(steps) > 1:
        raise WebError("encoding", "The page is packed several times over and was not unpacked. Use another source.")
    how = _unpackers().get(steps[0])
    if how is None:
        raise WebError("encoding", "The page is packed in a way that can't be read. Use another source.")
    try:
        return how(packed, most + 1)
    except Exception as error:  # each library has its own
        raise WebError("encoding", "The page came damaged: it can't be unpacked. Use another source.") from error


def accepted() -> str:
    """What to send as ``Accept-Encoding``."""
    return ", ".join(name for name in _unpackers() if name != "x-gzip")


def _unpackers() -> Mapping[str, Callable[[bytes, int], bytes]]:
    found: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate}
    for name, library, how in (("br", "brotli", _brotli), ("zstd", "zstandard", _zstd)):
        try:
            import_module(library)
        except ImportError:
            continue
        found[name] = how
    return found


def _gzip(packed: bytes, most: int) -> bytes:
    if packed and not packed.startswith(_GZIP):
        raise ValueError("not gzip")
    out = b""
    for _ in range(_MEMBERS):
        if not packed.startswith(_GZIP) or len(out) >= most:  # what else follows the last member is padding
            return out
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        out += member.decompress(packed, most - len(out))
        packed = member.unused_data
    raise ValueError("too many members")


def _deflate(packed: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, most)
    except zlib.error:  # many servers leave out the wrapping that the standard asks for
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)


def _zstd(packed: bytes, most: int) -> bytes:
    library: Any = import_module("zstandard")
    unpacker = library.ZstdDecompressor(max_window_size=_WINDOW)
    with unpacker.stream_reader(io.BytesIO(packed), read_across_frames=True) as reader:
        return bytes(reader.read(most))


def _brotli(packed: bytes, most: int) -> bytes:
    library: Any = import_module("brotli")
    unpacker = library.Decompressor()
    out = bytes(unpacker.process(packed, output_buffer_limit=most))
    while len(out) < most and not unpacker.can_accept_more_data():  # the limit is per step, and only roughly kept
        more = bytes(unpacker.process(b"", output_buffer_limit=most - len(out)))
        if not more:
            break
        out += more
    return out[:most]

"""Bodies as they come: counted as sent and again decompressed, and never held whole."""

from __future__ import annotations

import http.client
import zlib
from collections.abc import Iterator

from backends.web.web_records import RefusedFetch

_PIECE = 1 << 16


def read_body_pieces(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """The body, decompressed, in pieces; Refused where it is too long, breaks off, or is packed in an unknown way."""
    encoding = (response.headers.get("Content-Encoding") or "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise RefusedFetch("bad_encoding", "final", f"content encoding {encoding[:40]!r}")
    if response.length is not None and response.length > most:
        raise RefusedFetch("too_many_bytes", "final", f"{response.length} bytes announced")
    raw = _raw(response, most)
    yield from raw if encoding in ("", "identity") else _decompress(raw, encoding, most)


def _raw(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    received = 0
    while piece := response.read(_PIECE):
        received += len(piece)
        if received > most:
            raise RefusedFetch("too_many_bytes", "final", f"more than {most} bytes")
        yield piece
    if response.length:
        raise RefusedFetch("incomplete", "transient", f"{response.length} bytes are missing", retry_in=0.0)


def _decompress(raw: Iterator[bytes], encoding: str, most: int) -> Iterator[bytes]:
    """Never more than a piece in memory, whatever a few kilobytes claim to hold. `deflate` means zlib's form, but some
    servers send it bare."""
    unpacking, unpacked, is_first = zlib.decompressobj(47), 0, True
    for packed in raw:
        while not unpacking.eof:
            try:
                plain = unpacking.decompress(packed, _PIECE)
            except zlib.error as error:
                if not is_first or encoding != "deflate":
                    raise RefusedFetch("bad_encoding", "final", f"{encoding} body: {error}") from None
                unpacking, is_first = zlib.decompressobj(-15), False
                continue
            is_first = False
            unpacked += len(plain)
            if unpacked > most:
                raise RefusedFetch("too_many_bytes", "final", f"more than {most} bytes once decompressed")
            yield plain
            packed = unpacking.unconsumed_tail
            if not packed and len(plain) < _PIECE:
                break
    if not unpacking.eof:
        raise RefusedFetch("bad_encoding", "transient", f"{encoding} body ends too early", retry_in=0.0)

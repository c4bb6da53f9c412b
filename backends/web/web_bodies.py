"""Response bodies as streams: limited as sent and again as decompressed, never held whole."""

import http.client
import zlib
from collections.abc import Iterable, Iterator

from backends.web.web_records import RefusedFetch

_PIECE = 1 << 16
_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")


def read_body_pieces(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """Yields the decompressed body in pieces. Raises RefusedFetch where it is longer than `most` bytes, incomplete, or
    in an unknown encoding."""
    if response.length is not None and response.length > most:
        raise RefusedFetch("too_many_bytes", "final", f"{response.length} bytes announced")
    yield from decompress_pieces(_raw(response, most), response.headers.get("Content-Encoding") or "", most)


def _raw(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    received = 0
    while piece := response.read(_PIECE):
        received += len(piece)
        if received > most:
            raise RefusedFetch("too_many_bytes", "final", f"more than {most} bytes")
        yield piece
    if response.length:
        raise RefusedFetch("incomplete", "transient", f"{response.length} bytes are missing", retry_in=0.0)


def decompress_pieces(raw: Iterable[bytes], encoding: str, most: int) -> Iterator[bytes]:
    """Yields decompressed pieces, at most one in memory; `encoding` is the header's value. `deflate` means zlib's
    format, but some servers send it raw. Raises RefusedFetch for an unknown encoding, and where the data is damaged,
    incomplete or longer than `most` bytes."""
    encoding = encoding.strip().lower()
    if encoding not in _ENCODINGS:
        raise RefusedFetch("bad_encoding", "final", f"content encoding {encoding[:40]!r}")
    if encoding in ("", "identity"):
        yield from raw
        return
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

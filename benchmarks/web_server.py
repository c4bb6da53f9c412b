"""A web server on this machine for benchmarks: images behind a little latency, some of them at fault.

    python benchmarks/web_server.py FOLDER [--latency 0.005]

Serves /N as one of the folder's JPEG files, with N written into it, so that no two are the same; prints its address.
With /fault/N every tenth is at fault, in turn, in one of the ways of FAULTS. Asyncio and bytes made beforehand: it
takes little of the processor that it shares with what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
from collections import Counter
from pathlib import Path

FAULTS = ("not found", "a page", "cut short", "busy once", "redirect", "packed", "half an image", "called text")
UNFETCHABLE_FAULTS = ("not found", "a page", "cut short", "half an image")  # of these nobody gets an image


def fault_of(number: int) -> str:
    """The fault of an image; empty for the nine good ones of ten."""
    return FAULTS[number // 10 % len(FAULTS)] if number % 10 == 7 else ""


class ImageFileServer:
    def __init__(self, files: list[bytes], latency: float) -> None:
        self.files, self.latency = files, latency
        self.asked: Counter[str] = Counter()

    def image(self, number: int) -> bytes:
        data = self.files[number % len(self.files)]
        comment = b"%012d" % number
        return data[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + data[2:]

    def answer(self, path: str) -> bytes:
        self.asked[path] += 1
        name = path.rpartition("/")[2]
        if not name.isdigit():
            return format_response(b"", "404 Not Found")
        number = int(name)
        whole = self.image(number)
        match fault_of(number) if path.startswith("/fault/") else "":
            case "not found":
                return format_response(b"gone", "404 Not Found")
            case "a page":
                return format_response(b"<!doctype html>" + b"<p>no image</p>" * 900, kind="text/html")
            case "cut short":
                return format_response(whole)[: len(whole) // 2]
            case "half an image":
                return format_response(whole[: len(whole) // 2])
            case "busy once" if self.asked[path] == 1:
                return format_response(b"", "503 Service Unavailable", more="Retry-After: 0\r\n")
            case "redirect":
                return format_response(b"", "302 Found", more=f"Location: /{number}\r\n")
            case "packed":
                return format_response(gzip.compress(whole, 1), more="Content-Encoding: gzip\r\n")
            case "called text":
                return format_response(whole, kind="text/plain")
        return format_response(whole)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(self.latency)
                answer = self.answer(head.split(b" ", 2)[1].decode())
                writer.write(answer)
                await writer.drain()
                length = answer.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
                is_cut = len(answer.partition(b"\r\n\r\n")[2]) < int(length)
                if is_cut or b"connection: close" in head.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


def format_response(body: bytes, status: str = "200 OK", kind: str = "image/jpeg", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float, default=0.005, help="seconds before an answer")
    given = parser.parse_args()
    files = [path.read_bytes() for path in sorted(given.folder.glob("*.jpg"))]
    server = await asyncio.start_server(ImageFileServer(files, given.latency).serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

"""An image search and its images on this machine, for benchmarks/collecting.py, which starts it.

    python benchmarks/collecting_server.py QUERIES [--latency 0.02]

A Baidu-shaped search gives 24 results to every query; 16 different small images of each are drawn beforehand. One
result in ten has a fault, in turn. GET /count tells how many requests there were, and POST of any chat request gets a
reply that lists nothing. Asyncio and bytes made beforehand: it takes little of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image
from web_server import format_response

RESULTS = 24
_DRAWN = 16  # of them: with one in ten at fault, twelve good ones are among these
FAULTS = ("not found", "a page", "cut short", "busy once", "half an image", "advertisement", "too small", "redirect")


def draw_image(number: int) -> bytes:
    """An image that looks like no other."""
    coarse = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((240, 180), Image.Resampling.BILINEAR).save(out, "JPEG", quality=70)
    return out.getvalue()


class ImageSearchServer:
    def __init__(self, queries: int, latency: float) -> None:
        self.images = [draw_image(number) for number in range(queries * _DRAWN)]
        self.latency, self.asked = latency, 0
        self.numbers: dict[str, int] = {}
        self.busy: set[str] = set()

    def answer(self, path: str, place: str) -> bytes:
        parts = urlsplit(path)
        if parts.path == "/count":
            return format_response(str(self.asked).encode(), kind="text/plain")
        self.asked += 1
        if parts.path == "/acjson":
            return format_response(self.result_page(parse_qs(parts.query)["word"][0], place), kind="application/json")
        if parts.path.startswith("/p/"):
            return self.image(parts.path)
        return format_response(b"", "404 Not Found")

    def result_page(self, query: str, place: str) -> bytes:
        first = self.numbers.setdefault(query, len(self.numbers)) * RESULTS
        items = []
        for number in range(first, first + RESULTS):
            fault = FAULTS[number // 10 % len(FAULTS)] if number % 10 == 7 else ""
            side = 100 if fault == "too small" else 600
            url = f"http://{place}/p/{fault.replace(' ', '-') or 'good'}/{number}"
            is_advertisement = "1" if fault == "advertisement" else "0"
            page = {"ObjURL": url, "FromURL": f"http://{place}/page/{number}"}
            told_of = {"replaceUrl": [page], "width": side, "height": side, "adType": is_advertisement}
            items.append({**told_of, "fromPageTitle": f"{query} {number}"})
        return json.dumps({"listNum": 1500, "data": [*items, {}]}).encode()

    def image(self, path: str) -> bytes:
        _, _, fault, number = path.split("/")
        query, rank = divmod(int(number), RESULTS)
        whole = self.images[query * _DRAWN + rank % _DRAWN]
        match fault:
            case "not-found":
                return format_response(b"gone", "404 Not Found")
            case "a-page":
                return format_response(b"<!doctype html>" + b"<p>no image</p>" * 99, kind="text/html")
            case "cut-short":
                return format_response(whole)[: len(whole) // 2]
            case "half-an-image":
                return format_response(whole[: len(whole) // 2])
            case "busy-once" if path not in self.busy:
                self.busy.add(path)
                return format_response(b"", "503 Service Unavailable", more="Retry-After: 0\r\n")
            case "redirect":
                return format_response(b"", "302 Found", more=f"Location: /p/good/{number}\r\n")
        return format_response(whole)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                named = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
                if head.startswith(b"POST"):
                    await reader.readexactly(int(named[b"content-length"]))
                    answer = format_response(_REPLY, kind="application/json")
                else:
                    await asyncio.sleep(self.latency)
                    answer = self.answer(head.split(b" ", 2)[1].decode(), named[b"host"].decode())
                writer.write(answer)
                await writer.drain()
                length = answer.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
                if len(answer.partition(b"\r\n\r\n")[2]) < int(length):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


_REPLY = json.dumps({"choices": [{"message": {"content": "。"}, "finish_reason": "stop"}]}).encode()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=int)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before an answer")
    given = parser.parse_args()
    server = await asyncio.start_server(
        ImageSearchServer(given.queries, given.latency).serve, "127.0.0.1", 0, backlog=512
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

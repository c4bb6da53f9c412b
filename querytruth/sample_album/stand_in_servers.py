"""A mock caption endpoint and a mock image search on this machine.

querytruth demo-servers FOLDER [--captions 8001] [--search 8002]

`/v1/chat/completions` answers in OpenAI's format: the colours of the image select the words of the caption, which do
not describe it. `/search?q=…&size=…` selects the same words for each image in FOLDER and counts those of the query.
This allows trying the tutorial without a model; the scores mean nothing.
"""

import base64
import io
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image, ImageOps
from pillow_heif import register_heif_opener

from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.errors import UserError

_WORDS = read_package_yaml(Path(__file__).with_name("stand_in_words.yaml"))


def name_colours(image: Image.Image) -> list[str]:
    """Return the name of the colour of each of nine parts, row by row."""
    small = ImageOps.exif_transpose(image).convert("RGB").resize((3, 3), Image.Resampling.BOX)
    pixels = [small.getpixel((x, y)) for y in range(3) for x in range(3)]
    colours = _WORDS["colours"]
    return [min(colours, key=lambda name: _distance(colours[name], pixel)) for pixel in pixels]


def _distance(one: Any, other: Any) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def choose_words(image: Image.Image) -> list[str]:
    """Return a word of each list, by the colours of a part of the image."""
    colours = name_colours(image)
    parts = (colours[:3], colours[3:6], colours[6:], colours[1::3])
    return [words[zlib.crc32("|".join(part).encode()) % 12] for words, part in zip(_WORDS["lists"], parts, strict=True)]


def describe(image: Image.Image) -> str:
    """Return a caption of an image."""
    subject, action, thing, place = choose_words(image)
    return f"A {subject} {action} a {name_colours(image)[4]} {thing} in the {place}."


class Servers(BaseHTTPRequestHandler):
    """Both services; `index` has the words of each file."""

    index: dict[str, set[str]]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer with the list of models, or a search."""
        asked = urlsplit(self.path)
        if asked.path == "/v1/models":
            return self._answer({"data": [{"id": "stand-in"}]})
        given = parse_qs(asked.query)
        words = set(given.get("q", [""])[0].casefold().strip(".").split())
        hits = sorted(self.index, key=lambda name: (-len(self.index[name] & words), name))
        return self._answer({"hits": [{"file": name} for name in hits[: int(given.get("size", ["10"])[0])]]})

    def do_POST(self) -> None:
        """Answer with a caption of the image in a chat message."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        parts = [
            part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
        ]
        data = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
        image = Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2])))
        choice = {"message": {"role": "assistant", "content": describe(image)}, "finish_reason": "stop"}
        self._answer(
            {"model": "stand-in", "choices": [choice], "usage": {"prompt_tokens": 600, "completion_tokens": 60}}
        )

    def _answer(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Print nothing for each call."""


def index_folder(folder: Path) -> dict[str, set[str]]:
    """Return the words of each image that opens."""
    register_heif_opener()
    index = {}
    for path in sorted(folder.rglob("*")):
        try:
            words = choose_words(Image.open(path))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            continue
        index[path.relative_to(folder).as_posix()] = set(words)
    return index


def serve_stand_ins(folder: Path, captions: int, search: int) -> None:
    """Serve both on loopback until the process ends. Raises UserError for a folder without images, and for a port in
    use."""
    Servers.index = index_folder(folder)
    if not Servers.index:
        raise UserError("demo-servers", folder, "has no readable image", "name a folder of photos")
    servers = []
    for port in (captions, search):
        try:
            servers.append(ThreadingHTTPServer(("127.0.0.1", port), Servers))
        except OSError as error:
            reason = f"cannot be opened ({error.strerror})"
            raise UserError("demo-servers", f"port {port}", reason, "use other --captions, --search") from None
    print(f"{len(Servers.index)} images; captions on {captions}, search on {search}; Ctrl-C stops both", flush=True)
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

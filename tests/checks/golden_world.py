"""A folder of twelve photos, a search over it whose answers a test may change, and a golden file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.images import make_jpeg
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback

PHOTOS = [f"p{number:02}.jpg" for number in range(12)]


def write_photos(folder: Path, names: list[str] = PHOTOS) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(make_jpeg((number * 20, 90, 200 - number), (24 + number, 16)))
    return folder


def write_golden(folder: Path, cases: list[dict[str, Any]], **keys: Any) -> Path:
    path = folder / "golden.yaml"
    content = {"system": "mine.yaml", "images": "photos", "within": 3, **keys, "cases": cases}
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}, allow_unicode=True), "utf-8")
    return path


class Search:
    """Answers a query with the names in `lists`, else with all photos; `odd` has other answers by query."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}
        self.odd: dict[str, LoopbackAnswer] = {}

    def answer(self, request: ReceivedRequest) -> LoopbackAnswer:
        asked = parse_qs(urlsplit(request.path).query)
        text, k = asked["q"][0], int(asked["k"][0])
        names = self.lists.get(text, PHOTOS)[:k]
        hits = [{"id": name, "s": 1 / (rank + 1)} if isinstance(name, str) else name for rank, name in enumerate(names)]
        return self.odd.get(text) or CannedResponse(json.dumps({"results": hits}))


@contextmanager
def serve(folder: Path, **options: Any) -> Iterator[Search]:
    """The search, described by mine.yaml in the folder, which has the photos, too."""
    search = Search()
    write_photos(folder / "photos")
    with loopback(search.answer) as server:
        described = {"system": "http", "url": f"{server.url}/?q={{query}}&k={{k}}", "score": "s", "ids": "file_name"}
        described |= {"deadline": 0.3, "tries": 1, "pause": 0.01, **options}
        (folder / "mine.yaml").write_text(yaml.safe_dump(described))
        yield search

"""Sets of every kind are the same wherever they are built: in six environments and in any order."""

import csv
import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from querytruth.records import stable_hash
from tests.flows.image_web import FakeImageWeb, collect_with_decisions, make_definition
from tests.flows.stub_generator import make_word
from tests.loopback import CannedResponse, ReceivedRequest, answer_late, loopback
from tests.worlds import caption_reply, define_gallery, draw_album, fill_pile

IMAGES, QUERIES = 8, 4
LET_THROUGH = """
import pytest
from tests.flows.image_web import allow_loopback
allow_loopback(pytest.MonkeyPatch())
"""
Digest = Callable[..., str]
Make = Callable[..., Path]
Here = Callable[..., Path]  # the definition in a folder of its own, its input shuffled or not
ENVIRONMENTS: list[dict[str, Any]] = [
    {},
    {"workers": 4, "PYTHONHASHSEED": "99", "TZ": "Asia/Shanghai"},
    {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
    {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "umask": 0o077},
    {"shuffled": True},
    {"shuffled": True, "workers": 3, "PYTHONHASHSEED": "7", "TZ": "UTC", "LC_ALL": "C"},
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def copy_images(pattern: Path, folder: Path, seed: int | None) -> None:
    """Write the images in the order of their names, or in another one."""
    made = sorted(path for path in pattern.rglob("*") if path.is_file())
    if seed is not None:
        random.Random(seed).shuffle(made)
    for path in made:
        target = folder / path.relative_to(pattern)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


@contextmanager
def make_gallery(place: Path, _make_world: Make, _count: int) -> Iterator[Here]:
    pattern = fill_pile(place / "pattern")
    for odd in ("pipe.jpg", "link.jpg"):
        (pattern / odd).unlink()

    def here(n: int, shuffled: bool = False) -> Path:
        folder = place / f"place {n}" / "pile"
        copy_images(pattern, folder, n if shuffled else None)
        return define_gallery(folder.parent, folder, select={"count": 9})

    yield here


@contextmanager
def make_precision(place: Path, make_world: Make, _count: int) -> Iterator[Here]:
    def here(n: int, shuffled: bool = False) -> Path:
        definition = make_world(folder=place / f"place {n}", images=True)
        if shuffled:
            path = definition.parent / "instances.json"
            data = json.loads(path.read_text())
            for rows in data.values():
                random.Random(n).shuffle(rows)
            path.write_text(json.dumps(dict(reversed(data.items())), indent=1))
        return definition

    yield here


@contextmanager
def make_recall(place: Path, _make_world: Make, count: int) -> Iterator[Here]:
    """With captions by a model, which each build asks for itself."""
    draw_album(place / "pattern", [f"照片 {n:02}" for n in range(IMAGES)])

    def answer(asked: ReceivedRequest) -> CannedResponse:
        number = stable_hash(asked.body.decode()) % 7  # of eight images two have the same caption
        return caption_reply(f"街边有{make_word(number)}")

    def here(n: int, shuffled: bool = False) -> Path:
        folder = place / f"place {n}"
        copy_images(place / "pattern", folder / "album", n if shuffled else None)
        options = {"base_url": f"{server.url}/v1", "name": "m", "concurrency": 1 + n % 4, "pause": 0}
        keys = {"name": "album", "kind": "recall", "images": str(folder / "album"), "render": {"size": 64}}
        keys |= {"sizes": [3], "captions": {"model": "openai_compatible", "options": options}}
        keys |= {"ambiguity": {"text_embedder": "char_ngrams"}, "out": str(folder / "sets")}
        (folder / "album.yaml").write_text(json.dumps(keys), "utf-8")
        return folder / "album.yaml"

    with loopback(answer_late(answer)) as server:
        yield here
        assert len(server.asked) == count * IMAGES, "each of them asked for itself"


@contextmanager
def make_generated(place: Path, _make_world: Make, count: int) -> Iterator[Here]:
    """Collected from the web, by each build for itself."""
    collect_with_decisions(place / "pattern", "web", QUERIES)

    def here(n: int, shuffled: bool = False) -> Path:
        folder = place / f"place {n}"
        shutil.copytree(place / "pattern", folder)
        if shuffled:
            shuffle_rows(folder / "web" / "review" / "objects.csv", n)
        wanted = make_definition(folder, server.url, first=10, keep=5, limits={"concurrency": 1 + n % 8})
        (folder / "web.json").write_text(wanted.model_dump_json(), "utf-8")
        return folder / "web.json"

    web = FakeImageWeb(["", "gone", "", "twin", "", "", "page", "", "told_long", ""])
    with loopback(answer_late(web)) as server:
        yield here
        searches = [one for one in server.asked if one.path.startswith("/acjson")]
        assert len(searches) == count * QUERIES, "each of them collected for itself"


WORLDS: dict[str, Callable[[Path, Make, int], AbstractContextManager[Here]]] = {
    "gallery": make_gallery,
    "precision": make_precision,
    "recall": make_recall,
    "generated": make_generated,
}


@pytest.mark.parametrize("kind", WORLDS)
def test_a_set_is_the_same_in_six_environments(kind: str, digest_of: Digest, make_world: Make, tmp_path: Path) -> None:
    before = LET_THROUGH if kind == "generated" else ""
    with WORLDS[kind](tmp_path, make_world, len(ENVIRONMENTS)) as here:
        found = set()
        for number, environment in enumerate(ENVIRONMENTS, start=1):
            rest = {key: value for key, value in environment.items() if key != "shuffled"}
            definition = here(number, shuffled=environment.get("shuffled", False))
            found.add(digest_of(kind, definition, before=before, **rest))
    assert len(found) == 1


def shuffle_rows(table: Path, seed: int) -> None:
    """As a spreadsheet sorts what people filled in."""
    rows = list(csv.reader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    order = rows[1:]
    random.Random(seed).shuffle(order)
    text = io.StringIO(newline="")
    csv.writer(text).writerows([rows[0], *order])
    table.write_text(text.getvalue(), "utf-8-sig", newline="")

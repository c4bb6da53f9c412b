"""Twelve environments, one digest: of a recall set whose captions a model writes, and of one collected from the web."""

import csv
import io
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from querytruth.records import stable_hash
from tests.flows.image_web import FakeImageWeb, collect_with_decisions, make_definition
from tests.flows.stub_generator import make_word
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import caption_reply, draw_album

IMAGES, QUERIES = 8, 4
LET_THROUGH = """
import pytest
from tests.flows.image_web import allow_loopback
allow_loopback(pytest.MonkeyPatch())
"""
Digest = Callable[..., str]
Here = Callable[..., Path]  # the definition in a folder of its own, its input shuffled or not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def in_twelve(digest: Callable[..., str], here: Here) -> set[str]:
    return {
        digest(here(1)),
        digest(here(2), workers=4),
        digest(here(3), PYTHONHASHSEED="1"),
        digest(here(4), PYTHONHASHSEED="99", TZ="Asia/Shanghai"),
        digest(here(5), TZ="America/St_Johns"),
        digest(here(6), LC_ALL="C", LANG="C"),
        digest(here(7), LC_ALL="tr_TR.UTF-8"),
        digest(here(8), PYTHONUTF8="0", LC_ALL="POSIX"),
        digest(here(9), umask=0o077),
        digest(here(10, shuffled=True)),
        digest(here(11, shuffled=True), workers=3),
        digest(here(12, shuffled=True), workers=2, PYTHONHASHSEED="7", TZ="UTC", LC_ALL="C"),
    }


def unhurried(answer: Callable[[ReceivedRequest], Any]) -> Callable[[ReceivedRequest], Any]:
    """Answers in an order of their own every time."""
    rng, lock = random.Random(0), threading.Lock()

    def late(asked: ReceivedRequest) -> Any:
        with lock:
            pause = rng.choice([0, 0.005, 0.02])
        time.sleep(pause)
        return answer(asked)

    return late


def test_a_recall_set_is_the_same_wherever_it_is_built(digest_of: Digest, tmp_path: Path) -> None:
    draw_album(tmp_path / "pattern", [f"照片 {n:02}" for n in range(IMAGES)])

    def answer(asked: ReceivedRequest) -> CannedResponse:
        number = stable_hash(asked.body.decode()) % 6  # of eight images some have the same caption
        return caption_reply(f"街边有{make_word(number)}")

    def here(n: int, shuffled: bool = False) -> Path:
        folder = tmp_path / f"place {n}"
        (folder / "album").mkdir(parents=True)
        made = sorted((tmp_path / "pattern").iterdir())
        if shuffled:
            random.Random(n).shuffle(made)
        for path in made:
            shutil.copyfile(path, folder / "album" / path.name)
        options = {"base_url": f"{server.url}/v1", "name": "m", "concurrency": 1 + n % 4, "pause": 0}
        keys = {
            "name": "album",
            "kind": "recall",
            "images": str(folder / "album"),
            "render": {"size": 64},
            "sizes": [3],
            "captions": {"model": "openai_compatible", "options": options},
            "ambiguity": {"text_embedder": "char_ngrams"},
            "out": str(folder / "sets"),
        }
        (folder / "album.yaml").write_text(yaml.safe_dump(keys, allow_unicode=True), "utf-8")
        return folder / "album.yaml"

    with loopback(unhurried(answer)) as server:
        found = in_twelve(lambda path, **how: digest_of("recall", path, **how), here)
        assert len(server.asked) == 12 * IMAGES, "each of them asked for itself"
    assert len(found) == 1


def test_a_generated_set_is_the_same_wherever_it_is_collected(digest_of: Digest, tmp_path: Path) -> None:
    collect_with_decisions(tmp_path / "pattern", "web", QUERIES)
    web = FakeImageWeb(["", "gone", "", "twin", "", "", "page", "", "told_long", ""])

    def here(n: int, shuffled: bool = False) -> Path:
        folder = tmp_path / f"place {n}"
        shutil.copytree(tmp_path / "pattern", folder)
        if shuffled:
            shuffle_rows(folder / "web" / "review" / "objects.csv", n)
        wanted = make_definition(folder, server.url, first=10, keep=5, limits={"concurrency": 1 + n % 8})
        (folder / "web.json").write_text(wanted.model_dump_json(), "utf-8")
        return folder / "web.json"

    with loopback(unhurried(web)) as server:
        found = in_twelve(lambda path, **how: digest_of("generated", path, before=LET_THROUGH, **how), here)
        searches = [one for one in server.asked if one.path.startswith("/acjson")]
        assert len(searches) == 12 * QUERIES, "each of them collected for itself"
    assert len(found) == 1


def shuffle_rows(table: Path, seed: int) -> None:
    """As a spreadsheet sorts what people filled in."""
    rows = list(csv.reader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    order = rows[1:]
    random.Random(seed).shuffle(order)
    text = io.StringIO(newline="")
    csv.writer(text).writerows([rows[0], *order])
    table.write_text(text.getvalue(), "utf-8-sig", newline="")

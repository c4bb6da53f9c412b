"""A gallery on disk becomes one file with its images inside, whatever has become of the files since."""

import base64
import io
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from flows.set_kinds import write_set_page
from querytruth.backends.images import rendering as thumbnails
from querytruth.records import empty_frame
from querytruth.sets import set_publishing
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.published_files import record_own_version
from querytruth.sets.set_files import locate_source_items
from tests.images import make_jpeg
from tests.review.galleries import groups_table, images_table, make_manifest, scan_table
from tests.review.page_reader import ParsedPage
from tests.small_sets import make_whole_manifest

FIRST, SECOND, TWIN, WIDE = "2024/photo00000.jpg", "2024/photo00001.jpg", "copies/0/1.jpg", "wide.jpg"
COLOURS = {FIRST: "red", SECOND: "lime", TWIN: "blue", WIDE: "yellow"}


def album(folder: Path) -> Path:
    """Two images, a twin of the first and one that is too wide, each of its own colour."""
    for name, colour in COLOURS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(make_jpeg(colour))
    return folder


def published(
    tmp_path: Path,
    images: object,
    *,
    items: dict[str, str] | None = None,
    refused: str = "x.jpg",
    rendered: bool = True,
) -> Path:
    """A gallery of the album's first two images, built from `images`; `items` are its files by other names."""
    names = {name: name for name in COLOURS} | (items or {})
    frame, ledger = scan_table(2), Ledger()
    ledger.record_stage("list", "image", 5, 4, rejection_rows([refused], "rejected", "link_out_of_folder"))
    ledger.record_stage("filter", "image", 4, 3, rejection_rows([names[WIDE]], "rejected", "too_wide"))
    ledger.record_stage("near_duplicates", "image", 3, 2, rejection_rows([names[TWIN]], "rejected", "duplicate"))
    folder = tmp_path / ("rendered" if rendered else "album")
    paths = [name if rendered else str(folder / name) for name in (FIRST, SECOND)]
    image_rows = images_table(frame).assign(path=pd.array(paths, dtype="str"))
    twins = groups_table(frame, 2).assign(item=[names[FIRST], names[TWIN]])
    tables = Tables(empty_frame("queries"), image_rows, empty_frame("qrels"), ledger.rows(), twins)
    about = make_manifest(tables)
    definition = None if images is None else {"images": str(images)}

    def manifest(digest: str, version: int, parent: dict[str, Any] | None) -> dict[str, Any]:
        fields = {"content_digest": digest, "version": version, "envelope": {"definition": definition}}
        return make_whole_manifest(**about | fields)

    source = album(folder) if rendered else None
    folder = tmp_path / "sets" / "album"
    version = set_publishing.publish_set(tables, manifest, lambda _: "", folder, images=source).path
    record_own_version(version)
    return version


def page_of(path: Path) -> str:
    page = path.parents[2] / "page.html"
    write_set_page(path, page)
    return page.read_text("utf-8")


def seen_on(html: str) -> set[str]:
    """The album's images that are to be seen on the page, told by their colours."""
    found = set()
    for data in re.findall(r'url\("data:image/jpeg;base64,([^"]+)"\)', html):
        middle = Image.open(io.BytesIO(base64.b64decode(data))).resize((1, 1)).tobytes()
        found |= {name for name, colour in COLOURS.items() if np.allclose(list(middle), rgb(colour), atol=40)}
    return found


def rgb(colour: str) -> list[int]:
    return list(Image.new("RGB", (1, 1), colour).tobytes())


def named_on(html: str) -> list[str]:
    labels = [a.get("aria-label", "") for _, a in ParsedPage(html).tags]
    return [label.partition(",")[0] for label in labels if "not available" in label]


@pytest.mark.parametrize("rendered", [True, False])
def test_images_of_the_set_and_files_left_out_are_seen(tmp_path: Path, rendered: bool) -> None:
    html = page_of(published(tmp_path, album(tmp_path / "album"), rendered=rendered))
    assert seen_on(html) == COLOURS.keys() and not named_on(html)
    assert html.count("data:image/jpeg") == 4


def test_files_behind_a_url_are_seen(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "album.zip", "w") as archive:
        for file in album(tmp_path / "loose").rglob("*.jpg"):
            archive.write(file, file.relative_to(tmp_path / "loose"))
    assert seen_on(page_of(published(tmp_path, f"zip://::file://{tmp_path}/album.zip"))) == COLOURS.keys()


@pytest.mark.parametrize("images", [None, "/nowhere/at/all", "nonsense://x"])
@pytest.mark.thorough
def test_without_its_source_the_set_shows_what_it_holds_and_names_the_rest(tmp_path: Path, images: str | None) -> None:
    html = page_of(published(tmp_path, images))
    assert seen_on(html) == {FIRST, SECOND}
    assert named_on(html) == [TWIN], "a reason without a single image is a list of names"
    assert WIDE in ParsedPage(html).text


def test_a_set_whose_images_are_gone_has_a_page_of_names(tmp_path: Path) -> None:
    html = page_of(published(tmp_path, None, rendered=False))
    assert "data:image" not in html and {FIRST, SECOND, TWIN} <= set(named_on(html))


def test_what_no_build_has_opened_no_page_opens(tmp_path: Path) -> None:
    """Here the list's stage refused an image that lies outside: the page must not show it all the same."""
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(make_jpeg("black"))
    html = page_of(published(tmp_path, album(tmp_path / "album"), refused=str(secret)))
    assert str(secret) in ParsedPage(html).text and html.count("data:image/jpeg") == 4
    asked = ["http://127.0.0.1/a.jpg", "simplecache::https://127.0.0.1/a.jpg", "../secret.jpg", "bytes:a%00b", TWIN]
    assert list(locate_source_items(str(tmp_path / "album"), asked)) == [TWIN]


def test_what_is_no_image_has_no_thumbnail_and_nothing_waits_for_it(tmp_path: Path) -> None:
    files = {"text": b"an image of nothing", "empty": b"", "cut": make_jpeg()[:300]}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_bytes(make_jpeg())
    Image.new("1", (8000, 8000)).save(tmp_path / "huge", "PNG")
    asked = {name: str(tmp_path / name) for name in [*files, "huge", "pipe", "good", "gone", "x" * 400]}
    asked |= {"folder": str(tmp_path), "driver": "nonsense://a.jpg", "device": "/dev/zero"}
    start = time.monotonic()
    assert list(thumbnails.make_thumbnails(asked)) == ["good"]
    assert time.monotonic() - start < 20, "the pipe was not waited for until its time was up"


def test_many_images_are_small_ones_and_stay_below_the_pages_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (12, 400, 300, 3), dtype=np.uint8)
    for n, pixels in enumerate(noise):
        Image.fromarray(pixels).save(tmp_path / f"{n}.jpg")
    asked = {n: str(tmp_path / f"{n}.jpg") for n in range(len(noise))}

    def sizes() -> set[tuple[int, int]]:
        return {Image.open(io.BytesIO(data)).size for data in thumbnails.make_thumbnails(asked).values()}

    assert sizes() == {(240, 320)}
    monkeypatch.setattr(thumbnails, "_MAX_TOTAL_BYTES", 150_000)
    assert sizes() == {(96, 128)}

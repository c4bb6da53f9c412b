"""A local album as an image search: offline, in both languages, and in one order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.web import image_search
from querytruth.backends.web.image_search import ImageCandidate, SearchResult
from querytruth.backends.web.web_records import WebRequest
from querytruth.errors import UserError

CAPTIONS = """file_name,language,caption
pictures/1.jpg,zh,一只黑色的狗趴在草地上
pictures/1.jpg,en,A black dog lies on the grass
pictures/2.jpg,zh,两只狗
pictures/2.jpg,en,Two dogs
pictures/3.jpg,zh,雪地上的红色汽车
pictures/3.jpg,en,A red car on the snow; no doghouse here
pictures/4.jpg,en,Buses and glasses
../outside.jpg,en,A dog outside
"""


def no_fetch(_request: WebRequest, _read: Callable[[bytes], Any]) -> Any:
    raise AssertionError("an album needs no page")


@pytest.fixture
def album(tmp_path: Path) -> Path:
    (tmp_path / "album" / "pictures").mkdir(parents=True)
    for number in range(1, 5):
        (tmp_path / "album" / "pictures" / f"{number}.jpg").write_bytes(b"picture")
    (tmp_path / "outside.jpg").write_bytes(b"picture")
    index = tmp_path / "album" / "captions.csv"
    index.write_text(CAPTIONS, encoding="utf-8")
    return index


def names(found: SearchResult) -> list[str]:
    return [candidate.url for candidate in found.candidates]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("狗", ["pictures/2.jpg", "pictures/1.jpg"]),
        ("黑色的狗", ["pictures/1.jpg"]),
        ("黑色 狗", ["pictures/1.jpg"]),
        ("DOG", ["pictures/2.jpg", "../outside.jpg", "pictures/1.jpg"]),
        ("dogs", ["pictures/2.jpg", "../outside.jpg", "pictures/1.jpg"]),
        ("red car", ["pictures/3.jpg"]),
        ("car red snow", ["pictures/3.jpg"]),
        ("ｄｏｇ black", ["pictures/1.jpg"]),
        ("glass", []),
        ("do", []),
        ("猫", []),
        ("", []),
        (" ", []),
    ],
)
def test_captions_with_all_words_fit_the_shortest_first(album: Path, query: str, found: list[str]) -> None:
    result = image_search.load_image_search("folder", index=album).search(query, 24, no_fetch)
    assert (names(result), result.reported) == (found, len(found))


def test_the_caption_that_fits_comes_along_and_no_path_leads_out_of_the_folder(album: Path) -> None:
    found = image_search.load_image_search("folder", index=album).search("dog", 24, no_fetch).candidates
    assert found[0] == ImageCandidate(
        "pictures/2.jpg", caption="Two dogs", path=str(album.parent / "pictures" / "2.jpg")
    )
    assert (found[1].url, found[1].path) == ("../outside.jpg", None)


def test_a_table_may_tell_more_and_hold_several_captions_in_a_row(tmp_path: Path) -> None:
    table = pa.table(
        {
            "file_name": ["a.jpg", "b.jpg", None],
            "captions": [["a cat", "猫"], ["two cats"], ["nobody's cat"]],
            "licence": ["cc-by-4.0", None, None],
            "creator": ["Jane", None, None],
            "page_url": ["https://a.example/", None, None],
            "width": [300, None, None],
            "height": [200, None, None],
        }
    )
    pq.write_table(table, tmp_path / "index.parquet")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"picture")
    search = image_search.load_image_search("folder", index=tmp_path / "index.parquet", images=tmp_path / "photos")
    found = search.search("cat", 24, no_fetch)
    assert names(found) == ["a.jpg", "b.jpg"]
    assert found.candidates[0] == ImageCandidate(
        "a.jpg",
        caption="a cat",
        path=str(tmp_path / "photos" / "a.jpg"),
        page_url="https://a.example/",
        licence="cc-by-4.0",
        creator="Jane",
        width=300,
        height=200,
    )
    assert search.search("猫", 24, no_fetch).candidates[0].caption == "猫"


def test_the_order_of_the_index_is_no_matter(album: Path) -> None:
    first = image_search.load_image_search("folder", index=album).search("dog", 24, no_fetch)
    head, *rows = CAPTIONS.splitlines()
    album.write_text("\n".join([head, *reversed(rows)]), encoding="utf-8")
    search = image_search.load_image_search("folder", index=album)
    assert search.search("dog", 24, no_fetch) == first
    assert search.identity.as_record()["name"] == "folder"
    assert len(search.identity.revision) == 64


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("none.csv", None, "does not exist"),
        ("index.parquet", b"PAR1", "is not a complete Parquet file"),
        ("index.csv", b"a,b\n1,2\n", "has only the columns a, b"),
        ("index.txt", b"x", "has an unknown suffix"),
    ],
)
def test_an_index_that_is_none_is_told_in_a_line(tmp_path: Path, name: str, data: bytes | None, told: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=told):
        image_search.load_image_search("folder", index=tmp_path / name)


def test_an_index_without_any_of_its_images_is_an_error(album: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UserError, match=r"elsewhere has none of its 5 images, such as pictures/1\.jpg"):
        image_search.load_image_search("folder", index=album, images=tmp_path / "elsewhere")

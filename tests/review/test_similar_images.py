"""A right image is missing from a query: the reviewer finds it by a text, by a similar image or by its file."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw

from querytruth.backends.models.vector_store import VectorStore
from querytruth.records import image_id_of_bytes
from querytruth.sets import set_files
from querytruth.sets.set_files import StoredSet
from tests.images import encode_image
from tests.review.recall_sets import images_table, qrels_table, queries_table
from tests.review.server.pages import ORIGIN_HEADERS, ReviewClient, open_client
from tests.small_sets import publish_tables

BYTES = {**ORIGIN_HEADERS, "content-type": "application/octet-stream"}
NAMES = ["beach_dog", "park_dog", "sofa_cat", "street"]


def draw(number: int, quality: int = 90) -> bytes:
    """An image of shapes that no other number has."""
    rng, image = np.random.default_rng(number), Image.new("RGB", (256, 192), "white")
    pen = ImageDraw.Draw(image)
    for _ in range(12):
        x, y, side = (int(value) for value in rng.integers(0, 200, 3))
        pen.rectangle((x, y, x + side, y + side // 2), fill=tuple(int(value) for value in rng.integers(0, 255, 3)))
    return encode_image(image, "JPEG", quality=quality)


def publish_album(folder: Path, **changes: Any) -> StoredSet:
    """Four images; “狗” has one right one, “猫” another."""
    images = images_table(NAMES).assign(sha256=[str(n) * 64 for n in range(4)])
    images["path"] = [f"images/{n:02}/{name}.jpg" for n, name in enumerate(images["image_id"])]
    for n, path in enumerate(images["path"]):
        (folder / "rendered" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "rendered" / path).write_bytes(draw(n))
    images["caption"] = [None, None, None, "a rainy street with a puppy"]
    queries = [
        {"query_id": "q_dog", "text": "狗", "labels": ["dog"]},
        {"query_id": "q_cat", "text": "猫", "labels": ["cat"]},
    ]
    frames = {
        "queries": queries_table(queries),
        "images": images,
        "qrels": qrels_table([("q_dog", "img_beach_dog", 2), ("q_cat", "img_sofa_cat", 1)]),
    }
    return publish_tables(folder, "album", frames | changes, folder / "rendered")


@pytest.fixture
def page(tmp_path: Path) -> ReviewClient:
    return open_client(publish_album(tmp_path))


def found(page: ReviewClient, how: str, **params: str) -> list[tuple[str, str]]:
    answer = page.get(f"/api/finder/{how}", params={"query": "q_dog", **params})
    assert answer.status_code == 200, answer.text
    return [(one["name"].removesuffix(".jpg"), one["why"]) for one in answer.json()["images"]]


def drop(page: ReviewClient, data: bytes) -> Any:
    return page.client.post("/api/finder/file", content=data, headers=BYTES, params={"query": "q_dog"})


def test_images_are_found_by_name_label_caption_and_query(page: ReviewClient) -> None:
    assert found(page, "text", search="Dog") == [
        ("beach_dog", "name: beach_dog.jpg"), ("park_dog", "name: park_dog.jpg"),
    ]  # fmt: skip
    assert found(page, "text", search="cat") == [("sofa_cat", "name: sofa_cat.jpg")]
    assert found(page, "text", search="猫") == [("sofa_cat", "relevant for: 猫")]
    assert found(page, "text", search="PUPPY") == [("street", "caption: a rainy street with a puppy")]
    assert found(page, "text", search="nothing") == found(page, "text", search=" ") == []


def test_a_label_finds_images_whose_names_do_not_say_it(tmp_path: Path) -> None:
    images = publish_album(tmp_path / "named").tables.images.assign(file_name=["0.jpg", "1.jpg", "2.jpg", "3.jpg"])
    page = open_client(publish_album(tmp_path, images=images))
    assert found(page, "text", search="dog") == [("0", "label: dog")]


def test_a_found_image_that_is_graded_is_on_the_card_and_in_the_next_version(page: ReviewClient) -> None:
    (one,) = page.get("/api/finder/text", params={"query": "q_dog", "search": "park"}).json()["images"]
    assert (one["grade"], one["relevance"], one["own"]) == (None, None, None)
    card = page.decide("q_dog", "狗", "grade", image_id=one["image_id"], relevance=2).json()["card"]
    assert [(one["name"], one["relevance"], one["grade"]) for one in card["images"]] == [
        ("park_dog.jpg", None, 2), ("beach_dog.jpg", 2, 2),
    ]  # fmt: skip
    (again,) = page.get("/api/finder/text", params={"query": "q_dog", "search": "park"}).json()["images"]
    assert again["grade"] == 2 and again["own"] is not None
    assert page.undo().json()["card"]["image_total"] == 1, "what is taken back leaves the card"
    page.decide("q_dog", "狗", "grade", image_id=one["image_id"], relevance=2)
    qrels = page.publish().tables.qrels
    assert sorted(qrels.loc[qrels["query_id"] == "q_dog", "image_id"]) == ["img_beach_dog", "img_park_dog"]


def test_similar_images_are_those_with_the_nearest_hashes(page: ReviewClient) -> None:
    names = [name for name, _ in found(page, "similar", image_id="img_street")]
    assert sorted(names) == ["beach_dog", "park_dog", "sofa_cat"]
    (file,) = (page.stored.path.parent / ".hashes").glob("*.parquet")
    assert found(open_client(page.stored), "similar", image_id="img_street")[0][0] == names[0], "read from the file"
    file.write_bytes(b"damaged")
    assert [name for name, _ in found(open_client(page.stored), "similar", image_id="img_street")] == names
    assert list(set_files.verify_set(page.stored.path)) == []


def test_similar_images_are_those_of_a_model_where_it_encoded_the_set(page: ReviewClient) -> None:
    ids = page.stored.tables.images["image_id"].tolist()
    vectors = np.array([[1, 0], [0.1, 1], [0, 1], [1, 0.2]], np.float32)  # the street is most like the beach
    VectorStore(page.stored.path.parent / ".vectors", "a model").add(ids, vectors)
    by_model = found(open_client(page.stored), "similar", image_id=ids[3])
    assert by_model[0] == (ids[0].removeprefix("img_"), "cosine 0.98") and len(by_model) == 3


def test_a_dropped_file_is_found_by_its_bytes_or_by_what_it_shows(page: ReviewClient) -> None:
    same = drop(page, draw(1)).json()["images"]
    assert [(one["image_id"], one["why"]) for one in same] == [("img_park_dog", "the same file")]
    smaller = drop(page, draw(1, quality=55)).json()["images"]
    assert smaller[0]["image_id"] == "img_park_dog" and "of 64 bits differ" in smaller[0]["why"]


def test_a_dropped_near_duplicate_is_answered_with_the_image_that_stands_for_it(tmp_path: Path) -> None:
    twin = image_id_of_bytes(hashlib.sha256(draw(9)).hexdigest())
    rows = [("g", "img_street", "street.jpg", True), ("g", twin, "copy.jpg", False)]
    table = pd.DataFrame(rows, columns=["duplicate_group", "image_id", "item", "is_representative"])
    page = open_client(publish_album(tmp_path, duplicates=table.assign(width=9, height=9)))
    (one,) = drop(page, draw(9)).json()["images"]
    assert (one["image_id"], one["why"]) == ("img_street", "represents this near-duplicate")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (draw(77), "this image is not in the gallery: no image shows the same, and the most similar one"),
        (b"no image at all", "this file is not a readable image"),
        (b"", "this file is not a readable image"),
    ],
)
@pytest.mark.thorough
def test_a_dropped_file_of_no_image_is_refused_with_the_reason(page: ReviewClient, data: bytes, reason: str) -> None:
    answer = drop(page, data)
    assert answer.status_code == 409 and reason in answer.json()["error"]
    assert page.log == []


def test_a_plain_area_cannot_be_compared(page: ReviewClient) -> None:
    out = encode_image(Image.new("RGB", (64, 64), "white"), "PNG")
    assert "too little structure" in drop(page, out).json()["error"]


def test_what_is_not_in_the_set_is_not_found(page: ReviewClient) -> None:
    assert page.get("/api/finder/text", params={"query": "q_none", "search": "dog"}).status_code == 404
    assert page.get("/api/finder/similar", params={"query": "q_dog", "image_id": "../x"}).status_code == 404

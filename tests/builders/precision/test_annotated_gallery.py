"""The gallery: which boxes count, how much of the image they cover, and that nothing hangs on the input's order."""

import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.precision import annotated_gallery
from builders.precision.annotated_gallery import AnnotatedGallery, AnnotationFile
from builders.precision.annotation_files import read_annotations
from builders.precision.label_index import LabelListFile, LabelLists, join_label_lists
from querytruth.errors import UserError
from querytruth.records import image_id_of_source
from querytruth.sets.ledger import Ledger, rejection_table

IMAGE = {"id": 7, "file_name": "a.jpg", "height": 80, "width": 100}
BOX = {"image_id": 7, "category_id": 3, "bbox": [10, 20, 50, 40]}
CATEGORIES = [{"id": 0, "name": "dog"}, {"id": 3, "name": "cat"}]
NAN, INF = float("nan"), float("inf")


def coco(images: Any = (IMAGE,), annotations: Any = (BOX,), categories: Any = CATEGORIES) -> dict[str, Any]:
    return {"images": images, "annotations": annotations, "categories": categories}


def join(
    folder: Path, *worlds: dict[str, Any], images: pd.DataFrame | None = None, left_out: Collection[str] = ()
) -> tuple[AnnotatedGallery, Ledger]:
    """Read the worlds as f0.json, f1.json …; their labels are dog and cat, by name."""
    files = []
    for number, world in enumerate(worlds):
        (folder / f"f{number}.json").write_text(json.dumps(world))
        files.append(read_annotations(folder / f"f{number}.json"))
    labels = [np.array([["dog", "cat"].index(name) for name in file.categories["name"]]) for file in files]
    ledger = Ledger()
    gallery = annotated_gallery.join_annotations(
        files, annotated_gallery.list_images(files), images, labels, ledger, left_out=frozenset(left_out)
    )
    for stage in ledger.funnel():
        away = sum(sum(stage[bucket].values()) for bucket in ("rejected", "quarantined", "pending"))
        assert stage["entered"] == stage["accepted"] + away
    assert ledger.funnel()[1]["accepted"] == len(gallery.box_image)
    return gallery, ledger


def said(gallery: AnnotatedGallery) -> tuple[list[Any], list[Any]]:
    """All that a gallery says, the boxes in no order."""
    ids = gallery.images["image_id"].tolist()
    assert ids == sorted(set(ids))
    boxes = zip(gallery.box_image.tolist(), gallery.box_label.tolist(), gallery.box_share.tolist(), strict=True)
    return gallery.images.astype(object).fillna("-").to_numpy().tolist(), sorted(boxes)


def test_boxes_get_their_image_label_and_share(tmp_path: Path) -> None:
    images = [IMAGE, {"id": 9, "file_name": "unreferenced.jpg", "height": 10, "width": 10}]
    boxes = [BOX, BOX | {"category_id": 0, "bbox": [-10, -20, 60, 60]}, BOX | {"bbox": [90, 60, 1e300, 500]}]
    gallery, ledger = join(tmp_path, coco(images, boxes))
    assert gallery.images["image_id"].tolist() == sorted(
        image_id_of_source(name, key) for name, key in (("a.jpg", "7"), ("unreferenced.jpg", "9"))
    )
    row = gallery.images["file_name"].tolist().index("a.jpg")
    assert gallery.box_image.tolist() == [row] * 3
    assert gallery.box_label.tolist() == [1, 0, 1]
    assert gallery.box_share.tolist() == [0.25, 50 * 40 / 8000, 10 * 20 / 8000], "clipped to the image"
    assert len(ledger.rows()) == 0


@pytest.mark.parametrize(("key", "place"), [("image_id", "images"), ("category_id", "categories")])
def test_annotations_that_write_all_ids_as_another_type_are_refused_in_one_line(
    tmp_path: Path, key: str, place: str
) -> None:
    """Some exporters write the ids of images as texts and name them by numbers."""
    boxes = [BOX | {key: str(BOX[key])}]
    with pytest.raises(UserError, match=rf"\(number\) in the ids of {place}, '\d+' \(text\) in the annotations"):
        join(tmp_path, coco([IMAGE], boxes))


def test_ids_of_both_types_in_one_file_are_two_images(tmp_path: Path) -> None:
    images = [IMAGE, IMAGE | {"id": "7", "file_name": "b.jpg"}]
    gallery, ledger = join(tmp_path, coco(images, [BOX | {"image_id": 8}, BOX | {"image_id": "8"}]))
    assert len(gallery.images) == 2
    assert set(ledger.rows()["reason"]) == {"unknown_image"}


@pytest.mark.parametrize(
    ("change", "bucket", "reason"),
    [
        ({"image_id": 8}, "quarantined", "unknown_image"),
        ({"image_id": "7"}, "quarantined", "unknown_image"),
        ({"image_id": 2**40}, "quarantined", "unknown_image"),
        ({"image_id": -1}, "quarantined", "unknown_image"),
        ({"category_id": 1}, "quarantined", "unknown_category"),
        ({"category_id": "cat"}, "quarantined", "unknown_category"),
        ({"bbox": [NAN, 2, 3, 4]}, "quarantined", "bbox_not_finite"),
        ({"bbox": [1, 2, INF, 4]}, "quarantined", "bbox_not_finite"),
        ({"bbox": [-(10**400), 2, 3, 4]}, "quarantined", "bbox_not_finite"),
        ({"bbox": [1, 2, 0, 4]}, "quarantined", "bbox_without_extent"),
        ({"bbox": [1, 2, 3, -4]}, "quarantined", "bbox_without_extent"),
        ({"bbox": [100, 2, 3, 4]}, "quarantined", "bbox_outside_image"),
        ({"bbox": [-5, 2, 5, 4]}, "quarantined", "bbox_outside_image"),
        ({"bbox": [1, 1e308, 3, 1e308]}, "quarantined", "bbox_outside_image"),
        ({"bbox": [1, 2, 3]}, "quarantined", "bbox_not_four_numbers"),
        ({"bbox": ["1", 2, 3, 4]}, "quarantined", "bbox_not_four_numbers"),
        ({"image_id": 9}, "rejected", "image_not_accepted"),
        ({"iscrowd": 1}, "rejected", "crowd"),
        ({"isfake": True}, "rejected", "fake"),
    ],
)
@pytest.mark.thorough
def test_a_box_that_does_not_count_is_booked_with_its_record(
    tmp_path: Path, change: dict[str, Any], bucket: str, reason: str
) -> None:
    images = [IMAGE, {"id": 9, "file_name": "no size.jpg"}]
    gallery, ledger = join(tmp_path, coco(images, [BOX, BOX | change, BOX]), left_out={"crowd", "fake"})
    assert gallery.box_share.tolist() == [0.25, 0.25]
    rows = ledger.rows()
    assert rows[["item", "bucket", "reason"]].to_numpy().tolist() == [
        ["no size.jpg", "quarantined", "no_size"],
        ["f0.json#annotations[1]", bucket, reason],
    ]


def test_crowds_and_fakes_count_where_they_are_wanted(tmp_path: Path) -> None:
    boxes = [BOX | {"iscrowd": 1}, BOX | {"isfake": 1, "iscrowd": True}, BOX]
    kept = {
        kinds: len(join(tmp_path, coco(annotations=boxes), left_out=kinds)[0].box_image)
        for kinds in (("crowd", "fake"), ("crowd",), ("fake",), ())
    }
    assert list(kept.values()) == [1, 1, 2, 3]


def test_ids_of_any_kind_join(tmp_path: Path) -> None:
    ids = [7, 3.0, "a", "11", 2**40, 2**70]
    images = [IMAGE | {"id": key, "file_name": f"{n}.jpg"} for n, key in enumerate(ids)]
    gallery, ledger = join(tmp_path, coco(images, [BOX | {"image_id": key} for key in reversed(ids)]))
    assert [gallery.images["file_name"][row] for row in gallery.box_image] == [f"{n}.jpg" for n in range(5, -1, -1)]
    assert len(ledger.rows()) == 0


def test_an_image_in_two_files_is_one_image_with_the_boxes_of_both(tmp_path: Path) -> None:
    other = coco([IMAGE | {"width": 0}], [BOX | {"category_id": 5}], [{"id": 5, "name": "dog"}])
    gallery, ledger = join(tmp_path, other, coco())
    assert gallery.images["file_name"].tolist() == ["a.jpg"]
    assert sorted(gallery.box_label.tolist()) == [0, 1]
    assert gallery.images["width"].tolist() == [100], "the file that knows it says it"
    assert ledger.rows()[["item", "reason"]].to_numpy().tolist() == [["a.jpg", "listed_in_another_file"]]


def test_the_same_file_name_under_two_ids_is_two_images(tmp_path: Path) -> None:
    gallery, _ = join(tmp_path, coco([IMAGE, IMAGE | {"id": 8}]), coco([IMAGE | {"file_name": "a.jpg\x007", "id": 0}]))
    assert len(gallery.images) == 3


def test_no_images_or_no_boxes_at_all(tmp_path: Path) -> None:
    for world in (coco([], []), coco([], [BOX]), coco([IMAGE], []), coco([{"id": 7, "file_name": "a.jpg"}])):
        gallery, _ = join(tmp_path, world)
        assert len(gallery.box_image) == len(gallery.box_label) == len(gallery.box_share) == 0


def found_on_disk(names: list[str], digests: dict[str, str]) -> pd.DataFrame:
    """What reading the images gives: missing where no digest is known."""
    there = [name in digests for name in names]
    return pd.DataFrame(
        {
            "path": names,
            "sha256": [digests.get(name) for name in names],
            "width": [100 if is_there else 0 for is_there in there],
            "height": [80 if is_there else 0 for is_there in there],
            **dict.fromkeys(("taken_at", "detail")),
            **dict.fromkeys(("latitude", "longitude"), np.nan),
            "bucket": ["" if is_there else "rejected" for is_there in there],
            "reason": ["" if is_there else "image_missing" for is_there in there],
        }
    )


@pytest.mark.parametrize("seed", range(4))
def test_files_with_the_same_bytes_are_one_image_that_the_first_name_stands_for(tmp_path: Path, seed: int) -> None:
    names = ["d.jpg", "b.jpg", "c.jpg", "gone.jpg"]
    random.Random(seed).shuffle(names)
    images = [IMAGE | {"id": ord(name[0]), "file_name": name} for name in names]
    boxes = [BOX | {"image_id": ord(name[0])} for name in names]
    digests = {"b.jpg": "b" * 64, "c.jpg": "a" * 64, "d.jpg": "b" * 64}
    gallery, ledger = join(tmp_path, coco(images, boxes), images=found_on_disk(names, digests))
    assert gallery.images["file_name"].tolist() == ["c.jpg", "b.jpg"], "sorted by the bytes' digest"
    assert sorted(gallery.box_image.tolist()) == [0, 1, 1], "the copy's box is on its twin"
    rows = ledger.rows()
    assert rows.loc[rows["kind"] == "image", ["item", "reason", "related_item"]].fillna("").to_numpy().tolist() == [
        ["d.jpg", "same_bytes", "img_" + "b" * 20],
        ["gone.jpg", "image_missing", ""],
    ]


images_strategy = st.lists(
    st.builds(
        lambda key, name, width: IMAGE | {"id": key, "file_name": f"{name}.jpg", "width": width},
        st.integers(0, 4) | st.sampled_from(["a", "1"]),
        st.integers(0, 2),
        st.sampled_from([100, 100, 0, 50]),
    ),
    max_size=8,
)
boxes_strategy = st.lists(
    st.builds(
        lambda key, label, bbox: {"image_id": key, "category_id": label, "bbox": bbox},
        st.integers(0, 5) | st.sampled_from(["a", "1"]),
        st.sampled_from([0, 3, 4]),
        st.lists(st.sampled_from([-20, 0, 1.5, 60, 1e30, NAN]), min_size=4, max_size=4),
    ),
    max_size=12,
)
worlds_strategy = st.lists(st.builds(coco, images_strategy, boxes_strategy), min_size=1, max_size=3)


@settings(max_examples=150)
@given(worlds_strategy, st.randoms(use_true_random=False))
@pytest.mark.slow
def test_neither_the_order_of_records_nor_that_of_files_matters(
    tmp_path_factory: pytest.TempPathFactory, worlds: list[dict[str, Any]], chance: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("orders")

    def outcome(*worlds: dict[str, Any]) -> Any:
        try:
            return said(join(folder, *worlds)[0])
        except UserError:  # too many bad rows, or annotations name by texts what has numbers, or the reverse
            return "refused"

    first = outcome(*worlds)
    shuffled = [
        coco(*(chance.sample(world[key], len(world[key])) for key in ("images", "annotations", "categories")))
        for world in worlds
    ]
    chance.shuffle(shuffled)
    assert outcome(*shuffled) == first


def test_real_boxes_join_as_counted_plainly(shared: Callable[[str], Path]) -> None:
    path = shared("boxes_only/taco_annotations.json")
    whole, file = json.loads(path.read_bytes()), read_annotations(path)
    gallery = annotated_gallery.join_annotations(
        [file],
        annotated_gallery.list_images([file]),
        None,
        [np.arange(len(file.categories))],
        Ledger(),
    )
    size = {image["id"]: (image["width"], image["height"]) for image in whole["images"]}
    wanted = []
    for box in whole["annotations"]:
        (x, y, width, height), (across, down) = box["bbox"], size[box["image_id"]]
        wanted.append((min(x + width, across) - max(x, 0)) * (min(y + height, down) - max(y, 0)) / (across * down))
    assert gallery.box_share.tolist() == pytest.approx(wanted)
    names = gallery.images["file_name"].to_numpy()[gallery.box_image].tolist()
    by_id = {image["id"]: image["file_name"] for image in whole["images"]}
    assert names == [by_id[box["image_id"]] for box in whole["annotations"]]


NOTHING = rejection_table([])


def make_file(images: list[Any], categories: list[Any]) -> AnnotationFile:
    tables = pd.DataFrame({"id": images}), pd.DataFrame(), pd.DataFrame({"id": categories})
    return AnnotationFile("boxes.json", "d", *tables, len(images), 0, NOTHING, NOTHING)


def join_lists(
    absent: list[Any], partial: list[Any], listed: list[Any], codes: list[int], rows: list[int]
) -> LabelLists:
    """The lists of a file with the images 10, 11, 12 and categories 5, 6 …, of labels `codes`."""
    columns = [np.array([pair[side] for pair in pairs], dtype=object) for pairs in (absent, partial) for side in (0, 1)]
    lists = LabelListFile("d", columns[0], columns[1], columns[2], columns[3], np.array(listed, dtype=object))
    file = make_file([10, 11, 12], [5 + place for place in range(len(codes))])
    return join_label_lists([file], {"d": lists}, [np.array(codes)], [np.array(rows)], max(rows) + 1)


def test_unknown_images_and_categories_say_nothing() -> None:
    lists = join_lists([(10, 5), (99, 5), (11, 77)], [], [10, 99], [0], [0, 1, -1])
    assert lists.is_absent(0).tolist() == [True, False] and lists.is_listed.tolist() == [True, False]


def test_a_label_of_two_spellings_is_absent_where_both_are() -> None:
    lists = join_lists([(10, 5), (10, 6), (11, 6)], [], [], [0, 0], [0, 1, 2])
    assert lists.is_absent(0).tolist() == [True, False, False]


def test_copies_of_an_image_are_listed_where_all_of_them_are() -> None:
    """Images 10 and 11 have the same bytes."""
    lists = join_lists([], [(11, 5)], [10, 12], [0], [0, 0, 1])
    assert lists.is_listed.tolist() == [False, True]
    assert lists.is_whole(0, np.array([True, True])).tolist() == [False, True]


def test_boxes_of_a_label_that_is_listed_as_absent_are_unknown() -> None:
    lists = join_lists([(10, 5), (11, 5)], [(12, 5)], [10, 11, 12], [0], [0, 1, 2])
    assert lists.is_whole(0, np.array([True, False, True])).tolist() == [False, True, False]

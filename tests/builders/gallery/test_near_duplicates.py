"""Which images are the same: groups, who stands for them, what ties each member, and what the ledger says."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.backends.images import same_images
from querytruth.backends.images.image_reading import read_image
from querytruth.records import content_id, image_id_of_bytes, to_arrow
from tests.drawn_views import frame_of, image_row
from tests.images import draw_scene
from tests.property_runs import few_and_many

FIELDS = ("sha256", "pixels", "views", "thumbnail", "details", "width", "height")


def scanned(folder: Path) -> pd.DataFrame:
    """All good images below a folder, read as a build reads them."""
    rows = []
    for path in sorted(folder.rglob("*")):
        found = read_image(path) if path.is_file() else None
        if found is not None and found.reason is None and found.sha256 is not None:
            told = {name: getattr(found, name) for name in FIELDS}
            rows.append({"item": str(path.relative_to(folder)), "image_id": image_id_of_bytes(found.sha256), **told})
    return frame_of(rows)


def groups(found: DuplicateGroups) -> set[frozenset[str]]:
    return {frozenset(rows) for _, rows in found.table.groupby("duplicate_group")["item"]}


def ways(found: DuplicateGroups) -> dict[str, tuple[str, int] | str | None]:
    """Per item what ties it to its representative, with the bits where there are any."""
    told: dict[str, tuple[str, int] | str | None] = {}
    for row in found.table.itertuples():
        way = None if pd.isna(row.matched_by) else row.matched_by
        told[row.item] = way if pd.isna(row.distance) else (way, row.distance)
    return told


def test_bytes_pixels_looks_and_a_models_pair_make_one_group() -> None:
    frame = frame_of(
        [
            image_row("large", bytes_="x", pixels="p", phash=0, size=(400, 300)),
            image_row("copy", bytes_="x", pixels="p", phash=0, size=(400, 300)),
            image_row("other metadata", pixels="p", phash=0),
            image_row("resaved", phash=0b111),
            image_row("cropped", phash=2**30 - 1),
            image_row("another", phash=2**64 - 1),
        ]
    )
    found = find_duplicates(frame, distance=6, pairs=np.array([[4, 0]]))
    assert groups(found) == {frozenset(["large", "copy", "other metadata", "resaved", "cropped"])}
    first, second = ("large", "copy") if found.is_kept[0] else ("copy", "large")
    assert ways(found) == {
        first: None,
        second: "bytes",
        "other metadata": "pixels",
        "resaved": ("views", 3),
        "cropped": "embedding",
    }
    assert found.is_kept.tolist().count(True) == 2 and found.is_kept[5]
    assert found.group[5] is None and len(set(found.group[:5])) == 1


def test_the_table_has_the_declared_columns_and_an_id_made_of_content() -> None:
    frame = frame_of(
        [image_row("b", bytes_="x", phash=1), image_row("a", bytes_="x", phash=1), image_row("c", phash=2**40 - 1)]
    )
    found = find_duplicates(frame, distance=6)
    table = to_arrow("duplicates", found.table)
    assert table["duplicate_group"].to_pylist() == [content_id("dup", frame["image_id"][0])] * 2
    assert table["item"].to_pylist() == ["a", "b"], "the representative first"
    assert table["matched_by"].to_pylist() == [None, "bytes"] and table["distance"].to_pylist() == [None, None]
    assert to_arrow("duplicates", find_duplicates(frame[2:], distance=6).table).num_rows == 0


def test_the_largest_stands_then_the_smallest_id_then_the_smallest_item() -> None:
    same: dict[str, Any] = {"bytes_": "x", "phash": 5}
    large = image_row("z", phash=5, size=(50, 50))
    assert find_duplicates(frame_of([image_row("a", **same), large]), distance=0).is_kept.tolist() == [False, True]
    ids = frame_of(
        [image_row("1", bytes_="z", phash=5), image_row("3", bytes_="y", phash=5), image_row("2", bytes_="x", phash=5)]
    )
    assert find_duplicates(ids, distance=0).is_kept.tolist() == [False, False, True]
    twins = frame_of([image_row("b", **same), image_row("a", **same)])
    assert find_duplicates(twins, distance=0).is_kept.tolist() == [False, True]


def test_the_ledger_names_the_representative_and_says_whether_the_bytes_are_the_same() -> None:
    frame = frame_of(
        [
            image_row("a.jpg", bytes_="x", phash=0, size=(90, 90)),
            image_row("b.jpg", bytes_="x", phash=0, size=(90, 90)),
            image_row("small.jpg", bytes_="y", phash=1),
            image_row("small copy.jpg", bytes_="y", phash=1),
            image_row("alone.jpg", phash=2**50 - 1),
        ]
    )
    found = find_duplicates(frame, distance=6)
    away = found.rejections.set_index("item")
    assert away["reason"].to_dict() == {
        "b.jpg": "exact_duplicate",
        "small.jpg": "near_duplicate",
        "small copy.jpg": "near_duplicate",
    }
    assert set(away["bucket"]) == {"rejected"} and set(away["related_item"]) == {"a.jpg"}
    assert len(found.rejections) + found.is_kept.sum() == len(frame)


def test_no_chain_leads_beyond_the_limit() -> None:
    """Each is within four bits of the next; the representative is the one that most of them are near to."""
    steps = [0, 0b1111, 0b11111111, 0b11111111_1111, 0b11111111_11111111]
    frame = frame_of([image_row(f"{n}", phash=value, size=(90 - n, 90)) for n, value in enumerate(steps)])
    found = find_duplicates(frame, distance=4)
    assert ways(found) == {"1": None, "0": ("views", 4), "2": ("views", 4), "3": None, "4": ("views", 4)}


def test_what_shares_bytes_or_pixels_stays_together() -> None:
    rows = [
        image_row("0", phash=0, size=(90, 90)),
        image_row("1", phash=0b1111),
        image_row("2", phash=0b1111111, pixels="same"),
        image_row("3", phash=0b11111, pixels="same"),
        image_row("4", phash=None),
    ]
    found = find_duplicates(frame_of(rows), distance=4, pairs=np.array([[4, 1]]))
    assert len(groups(found)) == 1, "one of the two with the same pixels is near the representative"
    assert ways(found)["4"] == "embedding"
    apart = find_duplicates(frame_of(rows).assign(pixels=list("abcde")), distance=4, pairs=np.array([[4, 3]]))
    assert frozenset(["3", "4"]) <= max(groups(apart), key=len) or not any("4" in group for group in groups(apart))


def test_the_same_bytes_as_another_member_alone_are_no_exact_duplicate_of_the_representative() -> None:
    twins = [image_row(name, bytes_="x", phash=0b1111) for name in ("twin", "other twin")]
    found = find_duplicates(frame_of([image_row("0", phash=0, size=(90, 90)), *twins]), distance=4)
    assert set(found.rejections["reason"]) == {"near_duplicate"}


def test_images_without_a_hash_are_the_same_only_by_bytes_or_pixels() -> None:
    blanks = [image_row("white"), image_row("black"), image_row("white again", pixels="white")]
    found = find_duplicates(frame_of([*blanks, image_row("photo", phash=7)]), distance=16)
    assert groups(found) == {frozenset(["white", "white again"])}


def test_without_a_distance_looks_do_not_count() -> None:
    frame = frame_of([image_row("a", phash=7), image_row("b", phash=7), image_row("c", pixels="a", phash=9)])
    plain = frame.drop(columns=["views", "thumbnail"])
    assert groups(find_duplicates(plain, distance=None)) == {frozenset("ac")}
    assert groups(find_duplicates(frame, distance=0)) == {frozenset("abc")}


def test_the_same_hash_with_another_thumbnail_is_another_image() -> None:
    rows = [image_row("a", phash=7), image_row("b", phash=7, picture=1), image_row("c", phash=6, picture=1)]
    assert groups(find_duplicates(frame_of(rows), distance=6)) == {frozenset("bc")}


def test_unknown_bytes_and_pixels_tie_nothing() -> None:
    frame = frame_of([image_row("a", phash=1), image_row("b", phash=2**40 - 1)]).assign(sha256=None, pixels=None)
    assert not len(find_duplicates(frame, distance=6).table)
    some = [image_row(f"{n}", phash=value, size=(90 - n, 90)) for n, value in enumerate([0, 0b1111, 0b11])]
    found = find_duplicates(frame_of(some).assign(sha256=None, pixels=None), distance=4)
    assert ways(found) == {"0": None, "1": ("views", 4), "2": ("views", 2)}
    assert set(found.rejections["reason"]) == {"near_duplicate"}


def test_no_images() -> None:
    found = find_duplicates(frame_of([image_row("a", phash=1)])[:0], distance=6)
    assert (len(found.is_kept), len(found.table), len(found.rejections)) == (0, 0, 0)


# ---- against comparing all with all

words = st.sampled_from([0, 1, 3, 7, 15, 255, 2**63, 2**63 + 1, 2**64 - 1])
looks = st.fixed_dictionaries(
    {
        "phash": st.one_of(st.none(), words),
        "picture": st.sampled_from([0, 1]),
        "bytes_": st.sampled_from(["", "", "x", "y"]),
        "pixels": st.sampled_from(["", "", "p", "q"]),
        "size": st.sampled_from([(40, 30), (30, 40), (41, 30)]),
    }
)


def is_tied(a: dict[str, Any], b: dict[str, Any], distance: int) -> bool:
    hashed = not (pd.isna(a["code"]) or pd.isna(b["code"]))
    near = hashed and a["picture"] == b["picture"] and (int(a["code"]) ^ int(b["code"])).bit_count() <= distance
    return near or has_same_pixels(a, b)


def has_same_pixels(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["sha256"] == b["sha256"] or a["pixels"] == b["pixels"])


def classes(count: int, tied: Callable[[int, int], bool]) -> list[int]:
    """Per row the first one that a chain of ties leads to."""
    names = list(range(count))
    for one, other in combinations(range(count), 2):
        if tied(one, other):
            low, high = sorted((names[one], names[other]))
            names = [low if name == high else name for name in names]
    return names


def check_against_all_pairs(
    found: DuplicateGroups, frame: pd.DataFrame, distance: int, pairs: list[tuple[int, int]]
) -> None:
    """Each member, or one with its pixels, is tied to its representative, or to one with the representative's pixels,
    or a chain of a model's pairs leads there; no two representatives of which one is left alone are tied; and what has
    the same pixels is together."""
    rows = frame.to_dict("records")
    same = classes(len(rows), lambda one, other: has_same_pixels(rows[one], rows[other]))
    tied = {(a, b) for a, b in pairs} | {
        pair for pair in combinations(range(len(rows)), 2) if is_tied(rows[pair[0]], rows[pair[1]], distance)
    }
    chain = classes(len(rows), lambda one, other: same[one] == same[other] or (one, other) in pairs)
    tied |= {pair for pair in combinations(range(len(rows)), 2) if chain[pair[0]] == chain[pair[1]]}
    linked = {(same[a], same[b]) for a, b in tied} | {(same[b], same[a]) for a, b in tied}
    place = {row["item"]: number for number, row in enumerate(rows)}
    lead = list(range(len(rows)))
    for _, members in found.table.groupby("duplicate_group"):
        (representative,) = members.loc[members["is_representative"], "item"]
        for item in members["item"]:
            lead[place[item]] = place[representative]
    for number, leader in enumerate(lead):
        assert same[number] == same[leader] or (same[number], same[leader]) in linked
    for one, other in combinations(range(len(rows)), 2):
        if same[one] == same[other]:
            assert lead[one] == lead[other]
        if lead[one] == one and lead[other] == other and same[one] != same[other]:
            # Two may be tied where one has members of its own that the other is not tied to.
            assert (same[one], same[other]) not in linked or lead.count(one) > 1 or lead.count(other) > 1


LOOK = {"phash": None, "picture": 0, "bytes_": "", "pixels": "", "size": (40, 30)}


@few_and_many(
    8,
    60,
    pytest.mark.thorough,
    piles=st.lists(looks, min_size=1, max_size=14),
    distance=st.integers(0, 8),
    pairs=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=2),
    seed=st.integers(0, 99),
)
@example(piles=[LOOK] * 3, distance=0, pairs=[(0, 1), (1, 2)], seed=0)
def test_each_member_is_tied_to_its_representative_whatever_the_order(
    piles: list[dict[str, Any]], distance: int, pairs: list[tuple[int, int]], seed: int
) -> None:
    rows = [image_row(f"{n:02}", **pile) for n, pile in enumerate(piles)]
    same = classes(len(rows), lambda one, other: has_same_pixels(rows[one], rows[other]))
    looks = [{name: piles[first][name] for name in ("phash", "picture")} for first in same]  # views are of the pixels
    frame = frame_of(
        [image_row(f"{n:02}", **pile | look) for n, (pile, look) in enumerate(zip(piles, looks, strict=True))]
    )
    pairs = [(one, other) for one, other in pairs if one < other < len(piles)]
    found = find_duplicates(frame, distance=distance, pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2))
    check_against_all_pairs(found, frame, distance, pairs)
    assert len(found.rejections) + found.is_kept.sum() == len(frame)
    assert found.table["is_representative"].sum() == found.table["duplicate_group"].nunique()
    order = np.random.default_rng(seed).permutation(len(piles))
    moved = np.argsort(order)[np.array(pairs, dtype=np.int64).reshape(-1, 2)]
    again = find_duplicates(frame.iloc[order], distance=distance, pairs=moved)
    pd.testing.assert_frame_equal(found.table, again.table)
    assert dict(zip(frame["item"].iloc[order], again.is_kept, strict=True)) == dict(
        zip(frame["item"], found.is_kept, strict=True)
    )


@pytest.mark.thorough
def test_thousands_that_look_alike_are_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    measure = same_images.measure_pairs

    def counted(images: Any, ones: Any, other_images: Any, others: Any) -> Any:
        compared.append(len(ones))
        return measure(images, ones, other_images, others)

    monkeypatch.setattr(same_images, "measure_pairs", counted)
    rows = [image_row(f"{n:05}", phash=n % 8, size=(40, 30 + n % 3)) for n in range(2_000)]
    found = find_duplicates(frame_of(rows), distance=6)
    assert len(groups(found)) == 1 and found.is_kept.sum() == 1
    assert sum(compared) < len(rows)


# ---- images


def test_transparent_icons_and_plain_areas_do_not_fall_into_one_group(tmp_path: Path) -> None:
    """Whatever colour lies below full transparency, an icon is seen on white; a plain area looks like any other."""
    for number in range(12):
        rng = np.random.default_rng(number)
        icon = Image.new("RGBA", (64, 64), (*rng.integers(0, 256, 3).tolist(), 0))
        draw = ImageDraw.Draw(icon)
        for _ in range(4):
            x, y, r = rng.integers(8, 56), rng.integers(8, 56), rng.integers(3, 16)
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(0, 0, 0, 255))
        icon.save(tmp_path / f"icon {number}.png")
        Image.new("RGBA", (64, 64 + number), (number, 90, 20, 0)).save(tmp_path / f"clear {number}.png")
        Image.new("RGB", (64, 64), (number * 20, 90, 20)).save(tmp_path / f"plain {number}.png")
        Image.linear_gradient("L").rotate(90 * (number % 4)).resize((64, 80 + number)).save(
            tmp_path / f"gradient {number}.png"
        )
    assert groups(find_duplicates(scanned(tmp_path), distance=6)) == set()


@pytest.mark.parametrize(
    ("flips", "rotations", "wanted"),
    [
        (False, False, set()),
        (True, False, {"mirrored", "upside down", "180"}),
        (False, True, {"90", "180", "270"}),
        (True, True, {"mirrored", "upside down", "90", "180", "270", "transposed", "transverse"}),
    ],
)
def test_turned_images_are_found_only_where_asked_for(
    tmp_path: Path, flips: bool, rotations: bool, wanted: set[str]
) -> None:
    turns = {
        "mirrored": Image.Transpose.FLIP_LEFT_RIGHT,
        "upside down": Image.Transpose.FLIP_TOP_BOTTOM,
        "90": Image.Transpose.ROTATE_90,
        "180": Image.Transpose.ROTATE_180,
        "270": Image.Transpose.ROTATE_270,
        "transposed": Image.Transpose.TRANSPOSE,
        "transverse": Image.Transpose.TRANSVERSE,
    }
    image = draw_scene(1, (320, 240))
    image.save(tmp_path / "upright.jpg", quality=90)
    for name, turn in turns.items():
        image.transpose(turn).save(tmp_path / f"{name}.jpg", quality=70)
    for seed in range(2, 12):
        draw_scene(seed, (320, 240)).save(tmp_path / f"another {seed}.jpg", quality=90)
    frame = scanned(tmp_path)
    found = find_duplicates(frame, distance=6, flips=flips, rotations=rotations)
    with_upright = {name for group in groups(found) if "upright.jpg" in group for name in group} - {"upright.jpg"}
    assert with_upright == {f"{name}.jpg" for name in wanted}
    assert not any(item.startswith("another") for group in groups(found) for item in group)


def edits_of(table: pd.DataFrame, start: str) -> list[set[str]]:
    """The groups among the items below a folder, without the folder's name."""
    some = table[table["item"].str.startswith(start)]
    return [{Path(item).name for item in rows} for _, rows in some.groupby("duplicate_group")["item"]]


def test_the_edits_of_real_photos_that_a_hash_can_see_are_found(shared: Callable[[str], Path]) -> None:
    frame = scanned(shared("near_duplicates"))
    table = find_duplicates(frame, distance=6).table
    bridge = {Path(item).name for item in frame["item"] if "bridge-mods" in item}
    assert edits_of(table, "pdq") == [bridge] and len(bridge) == 12, "all of them, and none of the other seven photos"
    found = {frozenset(group) for group in edits_of(table, "imagededup")}
    stem = "ukbench00120"
    assert found == {
        frozenset([f"{stem}.jpg", f"{stem}_resize.jpg", f"{stem}_gray.jpg", "alpha_channel_image.png"]),
        frozenset(f"ukbench09380.{suffix}" for suffix in ("jpg", "jpeg", "png", "webp", "bmp")),
        frozenset(["ukbench09268.jpg"]),  # copies in several folders
        frozenset([f"{stem}_hflip.jpg"]),
        frozenset([f"{stem}_rotation.jpg"]),  # by some 30 degrees: no hash sees that
    }
    flipped = find_duplicates(frame, distance=6, flips=True, rotations=True).table
    assert any({f"{stem}.jpg", f"{stem}_hflip.jpg"} <= group for group in edits_of(flipped, "imagededup"))


@pytest.mark.parametrize("distance", [6, 10])
@pytest.mark.thorough
def test_no_two_different_real_photos_are_in_one_group(shared: Callable[[str], Path], distance: int) -> None:
    for name in ("photos_flowers", "coco_tiny"):
        assert groups(find_duplicates(scanned(shared(name)), distance=distance, flips=True, rotations=True)) == set()


@pytest.mark.thorough
def test_real_camera_photos_fall_into_the_groups_that_a_person_sees(shared: Callable[[str], Path]) -> None:
    """The same photo in two collections, with other metadata, or in all eight orientations; and title cards of which
    only the small print differs."""
    found = find_duplicates(scanned(shared("photos_exif")), distance=6)
    stems = [{Path(item).stem.lower() for item in group} for group in groups(found)]
    assert all(len({stem[:3] for stem in group}) == 1 for group in stems), "one camera, one place, one series of cards"
    for name in ("portrait", "landscape"):  # each was scaled and saved on its own
        assert {f"{name}_{n}" for n in range(1, 9)} in stems
    assert not any("utc-20240413-203630-london" in stem for stem in stems), "a card with another city and time"

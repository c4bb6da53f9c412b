"""The page of a gallery: what it shows of it, what it says, that it stands alone, and that hostile names stay text."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser

from builders.gallery.page import GallerySelection, ThumbnailKey, measure_score, render_gallery_page, select_gallery
from querytruth.errors import make_visible
from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from tests.images import make_jpeg
from tests.review.galleries import images_table, make_gallery_tables, make_manifest, scan_table
from tests.review.page_reader import EVIL, TURNED, ParsedPage, check_page_stands_alone, check_text_stays_text


def page_of(tables: Tables, thumbnails: dict[ThumbnailKey, bytes] | None = None, **changes: Any) -> str:
    shown = select_gallery(tables)
    found = {key: make_jpeg() for key in shown.thumbnail_keys} if thumbnails is None else thumbnails
    return render_gallery_page(tables, make_manifest(tables, **changes), found, shown)


def test_what_the_page_says() -> None:
    text = ParsedPage(page_of(make_gallery_tables())).text
    of_the_set = ["Our album", "album/v3", "c0ffee", "of 60 listed", "4 duplicate images left out", "3 truncated"]
    of_groups = ["4 of one kind", "kept", "copies/0/1.jpg", "same bytes", "same pixels", "looks alike, 3 bits apart"]
    of_reasons = ["Rejected 16", "too wide", "ratio 10, threshold 5", "broken/0.jpg", "ends"]
    of_plots = ["Images by", "Images by longitude and latitude", "passes: at least 0.25", "no cut", "31.205° N"]
    of_files = ["place and time 28 place only 4 time only 6 neither 2", "640 × 480 30", "landscape 30"]
    for said in [*of_the_set, *of_files, *of_groups, *of_reasons, *of_plots, "images.parquet", "Clocks may be wrong."]:
        assert said in text, said


def page_of_places(*rows: tuple[float | None, float | None, str | None, int, int], **changes: Any) -> str:
    """The text of the page of images at these latitudes, longitudes, times, and of these sizes."""
    latitude, longitude, taken_at, width, height = zip(*rows, strict=True)
    frame = scan_table(len(rows)).assign(taken_at=pd.Series(taken_at, dtype="str"), width=width, height=height)
    frame = frame.assign(latitude=pd.array(latitude, "Float64"), longitude=pd.array(longitude, "Float64"))
    tables = replace(make_gallery_tables(len(rows)), images=images_table(frame))
    return ParsedPage(page_of(tables, {}, **changes)).text


def test_a_journey_in_numbers() -> None:
    text = page_of_places(
        (31.234, 121.473, "2023-12-31T23:59:59", 640, 480),
        (31.231, 121.479, "2024-01-01T00:00:01+08:00", 640, 480),
        (-12.046, -77.043, "2024-01-01T09:00:00", 480, 640),
        (31.239, 121.471, None, 640, 480),
        (None, None, None, 500, 500),
        (None, None, "2024-03-01", 640, 480),
    )
    for said in (
        "Places2cells of 0.01 degrees",
        "Days3from 2023-12-31 to 2024-03-01",
        "place and time 3 place only 1 time only 1 neither 1",
        "Shapeslandscape 4 portrait 1 square 1",
        "Sizes640 × 480 4 480 × 640 1 500 × 500 1",
        "median 0.307, from 0.25 to 0.307",
        "31.235° N, 121.475° E 3",
        "2 / 2 31.235° N",
        "2024-01-01 2 2023-12-31 1",
    ):
        assert said in text, said


def test_the_date_line_is_one_place_and_cells_are_as_large_as_defined() -> None:
    rows = [(10.0, 180.0, None, 8, 8), (10.0, -180.0, None, 8, 8), (10.4, -179.6, None, 8, 8)]
    assert "10.005° N, 179.995° W 2" in page_of_places(*rows)
    assert "10.500° N, 179.500° W 3" in page_of_places(*rows, configuration={"select": {"place_degrees": 1}})


def test_the_rest_is_counted_together() -> None:
    text = page_of_places(*[(None, None, f"2024-02-{1 + n:02}", 100 + n, 100) for n in range(20)])
    assert "6 / 20 2024-02-01 1" in text and "105 × 100 1 others 14" in text


def test_scores_are_those_of_all_that_could_be_read() -> None:
    found = measure_score(pd.Series([0.0, 0.1, 0.1, 1.0, None]))
    assert (found["median"], sum(found["histogram"])) == (0.1, 4)
    assert (found["histogram"][0], found["histogram"][4], found["histogram"][-1]) == (1, 2, 1)
    assert measure_score(pd.Series([None], dtype="float32")) == {"median": 0.0, "histogram": [0] * 40}


def test_the_page_stands_alone() -> None:
    tables = make_gallery_tables()
    shown = select_gallery(tables)
    html = page_of(
        tables, {key: make_jpeg() + bytes([n % 256, n // 256]) for n, key in enumerate(shown.thumbnail_keys)}
    )
    check_page_stands_alone(html, len(shown.thumbnail_keys), scripts=1)


def test_twins_in_every_byte_share_one_image() -> None:
    assert page_of(make_gallery_tables()).count("data:image/jpeg") == 1  # all its thumbnails are the same


def test_images_that_are_not_at_hand_are_named() -> None:
    tables = make_gallery_tables()
    gone = page_of(tables, {})
    assert "data:image" not in gone
    assert sum("not available" in a.get("aria-label", "") for _, a in ParsedPage(gone).tags) >= 40 + 6
    lost = ThumbnailKey("item", "copies/0/1.jpg")
    some = {key: make_jpeg() for key in select_gallery(tables).thumbnail_keys if key != lost}
    labels = [
        a["aria-label"] for _, a in ParsedPage(page_of(tables, some)).tags if "not available" in a.get("aria-label", "")
    ]
    assert labels == ["copies/0/1.jpg, 600 × 450, same bytes, image not available"]


def test_every_image_has_words_for_those_who_cannot_see_it() -> None:
    photos = [a for _, a in ParsedPage(page_of(make_gallery_tables())).tags if a.get("role") == "img"]
    assert len(photos) > 50 and all(len(a["aria-label"]) > 10 for a in photos)


def test_a_squashed_image_stands_in_its_own_proportions() -> None:
    tables = make_gallery_tables()
    tables.images.loc[0, ["width", "height"]] = [4000, 1000]
    photo = next(a for _, a in ParsedPage(page_of(tables)).tags if "4000 × 1000" in a.get("title", ""))
    assert photo["style"] == "--ratio:2.200;background-size:181.8% 100.0%", "4 is 1.818 times 2.2: the ends are cut"
    cropped = page_of(tables, configuration={"render": {"size": 512, "mode": "crop"}})
    photo = next(a for _, a in ParsedPage(cropped).tags if "4000 × 1000" in a.get("title", ""))
    assert photo["style"] == "--ratio:1.000"


@pytest.mark.parametrize("evil", [*EVIL, "two\nlines", "照片" * 60])
def test_untrusted_text_stays_text(evil: str) -> None:
    plain = make_gallery_tables()
    ledger = plain.ledger.astype({"item": "object", "reason": "object", "detail": "object"})
    ledger = ledger.assign(item=evil + ledger["item"], detail=evil, reason=evil + ledger["reason"].astype(str))
    images = plain.images.assign(file_name=evil, taken_at=evil, licence=evil)
    duplicates = plain.duplicates.assign(item=evil + plain.duplicates["item"])
    hostile = Tables(plain.queries, images, plain.qrels, ledger, duplicates)
    stage = {"stage": evil, "kind": evil, "entered": 1, "accepted": 0, "quarantined": {}, "pending": {}}
    changes = {
        **dict.fromkeys(("name", "title", "licence", "content_digest", "build_digest"), evil),
        "known_limitations": [evil],
        "inputs": [{"file": evil, "sha256": evil}],
        "files": [{"path": evil, "rows": None, "bytes": 1, "sha256": evil}],
        "funnel": [{**stage, "rejected": {evil: 1}}],
        "thresholds": [{"name": evil, "passes": evil, "value": 1, "inclusive": True}],
    }
    check_text_stays_text(page_of(hostile, **changes), page_of(plain, {}), evil, "wbr")


def test_names_of_either_direction_are_isolated() -> None:
    plain, evil = make_gallery_tables(), TURNED
    ledger = plain.ledger.assign(item=evil + plain.ledger["item"], detail=evil)
    duplicates = plain.duplicates.assign(item=evil + plain.duplicates["item"])
    images = plain.images.assign(file_name=evil, taken_at=evil, licence=evil)
    html = page_of(Tables(plain.queries, images, plain.qrels, ledger, duplicates), {}, licence=evil)
    text = re.sub(r'(title|aria-label)="[^"]*"', "", html)
    found = [m.start() for m in re.finditer(re.escape(make_visible(evil)), text)]
    assert len(found) > 90 and all(text[:place].rstrip().endswith(("<bdi>", '<bdi class="small">')) for place in found)


def test_a_gallery_of_nothing_has_a_page() -> None:
    nothing = Tables(empty_frame("queries"), empty_frame("images"), empty_frame("qrels"))
    assert select_gallery(nothing) == GallerySelection([], [], 0, [])
    assert "No image came through" in page_of(nothing, funnel=[], thresholds=[])


def make_hostile_gallery() -> str:
    """A gallery whose file names are code, or turn the direction of a text; half of the images are there."""
    tables = make_gallery_tables()
    names = [EVIL[n % len(EVIL)] + name for n, name in enumerate(tables.images["file_name"])]
    ledger = tables.ledger.assign(item=tables.ledger["item"].str.replace("broken/0", TURNED))
    hostile = replace(tables, images=tables.images.assign(file_name=names), ledger=ledger)
    some = {key: make_jpeg() for key in select_gallery(hostile).thumbnail_keys[::2] if not key.name.endswith("jpg")}
    return page_of(hostile, some)


@pytest.mark.thorough
def test_marks_that_nobody_closed_turn_nothing_but_the_name(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(make_hostile_gallery())
    bar = page.locator(".timeline .mark-rect path").first.bounding_box()
    assert bar is not None and bar["width"] > 0 and bar["height"] > 0
    named = page.locator(".listed li", has_text="gpj").locator("bdi")
    name, detail = named.nth(0).bounding_box(), named.nth(1).bounding_box()
    assert name is not None and detail is not None and name["x"] + name["width"] <= detail["x"] + 1
    page.close()


def test_a_small_gallery_is_shown_whole_in_the_order_of_its_days() -> None:
    tables = make_gallery_tables(40)
    shown = select_gallery(tables)
    assert sorted(shown.image_ids) == sorted(tables.images["image_id"])
    times = tables.images.set_index("image_id")["taken_at"].loc[shown.image_ids]
    assert times.dropna().is_monotonic_increasing and times.iloc[-5:].isna().all()


def test_of_a_large_one_a_part_whatever_the_order_of_rows() -> None:
    tables = make_gallery_tables(400)
    shuffled = Tables(
        tables.queries,
        tables.images.sample(frac=1, random_state=1),
        tables.qrels,
        tables.ledger,
        tables.duplicates.sample(frac=1, random_state=2),
    )
    shown = select_gallery(tables)
    assert len(set(shown.image_ids)) == 150 and shown == select_gallery(shuffled)


def test_the_largest_groups_come_first_each_with_its_representative() -> None:
    shown = select_gallery(make_gallery_tables(100, *range(2, 72)))
    assert [size for size, *_ in shown.groups] == list(range(71, 11, -1)) and shown.group_total == 70
    _, members, further_names = shown.groups[0]
    assert [member.is_representative for member in members] == [True, *[False] * 5]
    assert members[0].key.kind == "image" and members[1].key.kind == "item"
    assert [member.matched_by for member in members[1:]] == ["bytes"] * 5, "the surest match first"
    assert len(further_names) == 40
    assert len(shown.thumbnail_keys) < 700, "so many that thumbnails one can look at stay within five megabytes"


def test_a_representative_that_was_not_selected_is_shown_as_a_listed_file() -> None:
    tables = make_gallery_tables(40, 3)
    kept = tables.images[tables.images["image_id"] != tables.duplicates["image_id"][0]]
    shown = select_gallery(Tables(tables.queries, kept, tables.qrels, tables.ledger, tables.duplicates))
    assert shown.groups[0][1][0].key == ThumbnailKey("item", "2024/photo00000.jpg")


def test_examples_of_every_reason_but_not_of_what_the_groups_show() -> None:
    away = {one.reason: one for one in select_gallery(make_gallery_tables()).rejection_reasons}
    assert list(away) == ["truncated", "too_wide", "duplicate"], "in the order of the stages"
    assert [one.count for one in away.values()] == [3, 9, 4]
    assert [len(one.examples) for one in away.values()] == [3, 6, 0]
    assert away["too_wide"].examples[0].description[1] == "threshold 5"


def test_a_file_that_is_named_like_an_image_does_not_take_its_thumbnail() -> None:
    tables = make_gallery_tables()
    image_id = str(tables.images["image_id"][0])
    ledger = tables.ledger.assign(item=tables.ledger["item"].replace("wide/0.jpg", image_id))
    keys = select_gallery(
        Tables(tables.queries, tables.images, tables.qrels, ledger, tables.duplicates), examples=9
    ).thumbnail_keys
    assert ThumbnailKey("image", image_id) in keys and ThumbnailKey("item", image_id) in keys

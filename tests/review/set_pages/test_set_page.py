"""The page of a set: what it chooses, that it stands alone, and that a set's texts stay text on it."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.lint import lint_tables
from builders.set_page import SetSelection, render_set_page, select_set_queries
from flows.set_kinds import write_set_page
from querytruth.errors import UserError
from querytruth.records import empty_frame
from querytruth.sets import set_publishing
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.published_files import record_own_version
from tests.images import make_jpeg
from tests.review.page_reader import (
    EVIL,
    TURNED,
    ParsedPage,
    check_directions_are_isolated,
    check_page_stands_alone,
    check_text_stays_text,
)
from tests.review.recall_sets import make_manifest
from tests.small_sets import make_whole_manifest


def qrels_table(rows: list[tuple[str, str, int, str, str | None]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["query_id", "image_id", "relevance", "judged_by", "evidence"])
    for column in ("query_id", "image_id", "judged_by", "evidence"):
        frame[column] = frame[column].astype("category")
    return frame.astype({"relevance": "int8"})


def tables(asked: list[dict[str, Any]], rows: list[tuple[str, str, int, str, str | None]], names: list[str]) -> Tables:
    base = {"language": "zh", "style": "word", "level": 1, "labels": None}
    queries = pd.DataFrame([{**base, **one} for one in asked]).astype({"level": "int8"})
    images = empty_frame("images").reindex(range(len(names)))
    images["image_id"] = [f"img_{n:03}" for n in range(len(names))]
    images["file_name"] = names
    images = images.assign(width=640, height=480).astype({"width": "int32", "height": "int32"})
    return Tables(queries, images, qrels_table(rows))


def footwear() -> Tables:
    asked = [
        {"query_id": "q_en", "text": "shoes", "language": "en", "labels": ["shoes"]},
        {"query_id": "q_zh", "text": "鞋子", "labels": ["shoes"]},
        {"query_id": "q_zs", "text": "一张鞋子的图片", "style": "sentence", "labels": ["shoes"]},
        {"query_id": "q_any", "text": "穿戴", "labels": ["wear"]},
        {"query_id": "q_mix", "text": "鞋子&摩托车", "level": 2, "labels": ["shoes", "motorcycle"]},
    ]
    rows: list[tuple[str, str, int, str, str | None]] = []
    zh, en = ("皮鞋 accepted for 鞋子", "鞋子"), ("leather shoes accepted for shoes", "shoes")
    for query, (accepted, name) in {"q_zh": zh, "q_zs": zh, "q_en": en}.items():
        rows += [(query, f"img_{n:03}", 1 + n % 2, "detector", name) for n in range(20)]
        rows += [(query, "img_020", 2, "rule", accepted)]
    rows += [("q_any", f"img_{n:03}", 1, "rule", "鞋子 accepted for 穿戴") for n in range(3)]
    rows += [("q_mix", "img_001", 2, "detector", "鞋子; 摩托车"), ("q_mix", "img_002", 0, "detector", "摩托车 missing")]
    return tables(asked, rows, [f"photo{n}.jpg" for n in range(21)])


def manifest_of(set_: Tables, **changes: Any) -> dict[str, Any]:
    stage = {"stage": "mixes_of_2", "kind": "mix", "entered": 9, "accepted": 2, "pending": {}}
    funnel = [{**stage, "rejected": {"too_few_images": 6}, "quarantined": {"odd_size": 1}}]
    told: dict[str, Any] = {"name": "shoes", "title": "Footwear", "kind": "precision", "funnel": funnel}
    told |= {"notes": {"parents": ["wear"]}, "grades": {"2": "large", "1": "small", "0": "lacks one"}}
    told |= {"known_limitations": ["Boxes may lack."], "inputs": [{"file": "boxes.json", "sha256": "cd"}]}
    told |= {"configuration": {"render": None}}
    return make_manifest(set_, **told | changes)


def page_of(set_: Tables, thumbnails: dict[str, bytes] | None = None, **changes: Any) -> str:
    shown = select_set_queries(set_, parents=["wear"])
    return render_set_page(set_, manifest_of(set_, **changes), thumbnails or {}, lint_tables(set_), shown)


def entries(shown: SetSelection) -> dict[str, Any]:
    return {entry.wordings[0].query_id: entry for batch in shown.batches.values() for entry in batch}


def test_wordings_of_the_same_labels_are_one_entry_chinese_first() -> None:
    entry = entries(select_set_queries(footwear()))["q_zh"]
    assert [w.query_id for w in entry.wordings] == ["q_zh", "q_zs", "q_en"]
    assert [w.query_id for w in entry.main_wordings] == ["q_zh", "q_en"]
    assert entry.relevant_count == 21 and not entry.has_differing_judgments


def test_levels_and_parents_stand_apart() -> None:
    found = {
        key: [e.wordings[0].query_id for e in batch]
        for key, batch in select_set_queries(footwear(), parents=["wear"]).batches.items()
    }
    assert found == {("", 1, False): ["q_zh"], ("", 1, True): ["q_any"], ("", 2, False): ["q_mix"]}


def test_questions_of_one_label_that_ask_for_different_things_stand_apart() -> None:
    """ "person", "two people" and "three people" have the same label, and other right images."""
    asked = [
        {"query_id": f"q_{number}", "text": text, "level": 1, "labels": ["Person"], "family": family}
        for number, (text, family) in enumerate(
            [("person", None), ("two people", "count/2"), ("an image of two people", "count/2"), ("3", "count/3")]
        )
    ]
    shown = select_set_queries(tables(asked, [("q_0", "img_000", 1, "detector", None)], ["a.jpg"]))
    found = {batch.family: [[w.text for w in one.wordings] for one in some] for batch, some in shown.batches.items()}
    assert found == {"": [["person"]], "count": [["two people", "an image of two people"], ["3"]]}


def test_better_grades_come_first_and_the_lower_is_seen() -> None:
    images = entries(select_set_queries(footwear(), images=12))["q_zh"].images
    grades = [image.relevance for image in images]
    assert grades == [2] * 8 + [1] * 4
    by_rule = next(image for image in images if image.judged_by == "rule")
    assert by_rule.evidence == (("zh", "皮鞋 accepted for 鞋子"), ("en", "leather shoes accepted for shoes"))


def test_near_misses_are_apart_with_their_evidence() -> None:
    entry = entries(select_set_queries(footwear()))["q_mix"]
    assert [p.image_id for p in entry.images] == ["img_001"]
    assert [(p.image_id, p.evidence) for p in entry.near_misses] == [("img_002", (("zh", "摩托车 missing"),))]


def test_the_order_of_rows_does_not_matter() -> None:
    set_ = footwear()
    mixed = Tables(set_.queries.sample(frac=1, random_state=3), set_.images, set_.qrels.sample(frac=1, random_state=5))
    before, after = select_set_queries(set_), select_set_queries(mixed)
    assert before.batches.keys() == after.batches.keys() and before.batch_sizes == after.batch_sizes
    assert entries(before).keys() == entries(after).keys()
    assert page_of(set_) == page_of(Tables(mixed.queries, set_.images, set_.qrels))


def test_a_wording_that_people_judged_otherwise_is_said() -> None:
    set_ = footwear()
    set_.qrels.loc[(set_.qrels["query_id"] == "q_en") & (set_.qrels["image_id"] == "img_003"), "relevance"] = 0
    assert entries(select_set_queries(set_))["q_zh"].has_differing_judgments
    assert "Other wordings are judged differently" in page_of(set_)


@pytest.mark.parametrize("number", [1, 3, 7, 100])
def test_as_many_queries_as_wished_spread_over_levels(number: int) -> None:
    asked = [
        {"query_id": f"q_{level}_{n}", "text": "x", "level": level, "labels": [f"level {level}", f"{n}"]}
        for level in (1, 2, 3)
        for n in range((2, 9, 20)[level - 1])
    ]
    rows = [(str(one["query_id"]), "img_000", 1, "detector", None) for one in asked]
    shown = select_set_queries(tables(asked, rows, ["a.jpg"]), queries=number)
    sizes = [len(batch) for batch in shown.batches.values()]
    assert sum(sizes) <= number and max(sizes) - min(sizes) <= max(1, max(sizes) - 2)
    assert sum(sizes) == min(number, len({tuple(one["labels"]) for one in asked}))


def test_what_the_page_says() -> None:
    text = ParsedPage(page_of(footwear(), {"img_001": make_jpeg()})).text
    of_queries = ["鞋子", "shoes", "一张鞋子的图片", "皮鞋 accepted for 鞋子", "摩托车 missing", "21 relevant images"]
    of_the_set = ["Footwear", "6 too few images", "(quarantined)", "Parents of the tree", "Pairs", "Boxes may lack."]
    for said in [*of_queries, *of_the_set, "c0ffee", "qrels.parquet", "boxes.json"]:
        assert said in text, said


def test_the_page_stands_alone() -> None:
    html = page_of(footwear(), {f"img_{n:03}": make_jpeg() for n in range(21)})
    check_page_stands_alone(html, len(select_set_queries(footwear()).image_ids), scripts=1)


def test_every_image_has_words_for_those_who_cannot_see_it() -> None:
    photos = [a for _, a in ParsedPage(page_of(footwear(), {"img_001": make_jpeg()})).tags if a.get("role") == "img"]
    assert photos and all("photo" in a["aria-label"] and "grade" in a["aria-label"] for a in photos)
    assert sum("not available" in a["aria-label"] for a in photos) > 5


@pytest.mark.parametrize("evil", EVIL)
def test_untrusted_text_stays_text(evil: str) -> None:
    asked = [
        {"query_id": "q_0", "text": evil, "language": evil, "style": evil, "labels": [evil]},
        {"query_id": "q_1", "text": evil + evil, "labels": [evil], "language": "en"},
    ]
    rows: list[tuple[str, str, int, str, str | None]] = [
        ("q_0", "img_000", 1, "rule", evil),
        ("q_0", "img_001", 1, evil, evil),
        ("q_1", "img_000", 0, "rule", evil),
    ]
    set_ = tables(asked, rows, [evil, evil])
    set_.images["licence"] = evil
    stage = {"stage": evil, "kind": evil, "entered": 1, "accepted": 0, "quarantined": {}, "pending": {}}
    changes = {
        **dict.fromkeys(("name", "title", "licence", "kind", "content_digest"), evil),
        "known_limitations": [evil],
        "grades": {"1": evil},
        "inputs": [{"file": evil, "sha256": evil}],
        "files": [{"path": evil, "rows": None, "bytes": 1, "sha256": evil}],
        "funnel": [{**stage, "rejected": {evil: 1}}],
    }
    harmless = [{**one, "text": "a", "language": "zh", "style": "word", "labels": ["a"]} for one in asked]
    plain = page_of(tables(harmless, rows, ["a", "a"]))
    check_text_stays_text(page_of(set_, {"img_000": make_jpeg()}, **changes), plain, evil, "wbr")


def test_texts_of_either_direction_are_isolated() -> None:
    set_ = tables([{"query_id": "q_0", "text": TURNED}], [("q_0", "img_000", 1, "detector", None)], ["a.jpg"])
    check_directions_are_isolated(page_of(set_), "bdi|span")


def test_a_set_without_queries_or_labels_has_a_page() -> None:
    assert "Footwear" in page_of(Tables(empty_frame("queries"), empty_frame("images"), empty_frame("qrels")))
    lone = page_of(tables([{"query_id": "q_0", "text": "红色的船"}], [], ["a.jpg"]))
    assert "红色的船" in lone and "No image is relevant for this query" in lone


def publish(folder: Path, paths: list[str | None]) -> Path:
    set_ = footwear()
    set_.images["path"] = pd.Series(paths + [None] * (len(set_.images) - len(paths)), dtype="str")

    def manifest(digest: str, version: int, parent: dict[str, Any] | None) -> dict[str, Any]:
        assert parent is None
        return make_whole_manifest(**manifest_of(set_) | {"content_digest": digest, "version": version, "parent": None})

    version = set_publishing.publish_set(set_, manifest, lambda _: "", folder / "shoes").path
    record_own_version(version)
    return version


def test_a_set_on_disk_becomes_one_file(tmp_path: Path) -> None:
    (tmp_path / "good.jpg").write_bytes(make_jpeg("orange", (2000, 1500)))
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    (tmp_path / "long.png").write_bytes(b"")
    names = ("good.jpg", "broken.jpg", "gone.jpg", "long.png")
    paths = [*[str(tmp_path / name) for name in names], "x" * 5000, str(tmp_path)]
    page = tmp_path / "new" / "page.html"
    write_set_page(publish(tmp_path, paths), page)
    html = page.read_text("utf-8")
    assert html.count("data:image/jpeg") == int("img_000" in select_set_queries(footwear()).image_ids)
    assert "Some images are not available" in html
    assert len(html) < 200_000


def test_a_page_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="write page"):
        write_set_page(publish(tmp_path, []), tmp_path / "file" / "page.html")

"""Near-duplicates as cards and as a view: decisions on disk at once, groups as what was decided leaves them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.records import empty_frame
from querytruth.review.gallery_cards import DuplicateCards
from querytruth.sets import decision_log, set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import ImagePairDecision
from querytruth.sets.set_files import StoredSet
from tests.images import draw_scene
from tests.resealed_sets import reseal
from tests.review.server.pages import ReviewClient, open_client
from tests.worlds import build_of, define_gallery
from tests.worlds import save_photo as photo


def cards_of(*groups: str, alone: str = "", distance: Any = 3, edit: str | None = None) -> DuplicateCards:
    """A letter is an image; the first of a group is in the gallery and stands for the others."""
    rows = [
        {"duplicate_group": f"dup_{group}", "image_id": f"img_{one}", "item": f"{one}.jpg", "is_representative": not n}
        | {"matched_by": "views" if n else "", "distance": distance, "edit": edit if n else None}
        | {"width": 4, "height": 3}
        for group in groups
        for n, one in enumerate(group)
    ]
    inside = [group[0] for group in groups] + list(alone)
    images = pd.DataFrame({"image_id": [f"img_{one}" for one in inside], "file_name": [f"{one}.jpg" for one in inside]})
    tables = Tables(empty_frame("queries"), images.assign(width=4, height=3), empty_frame("qrels"))
    return DuplicateCards(replace(tables, duplicates=pd.DataFrame(rows)), "lin")


def strips(cards: DuplicateCards, one: str, other: str) -> tuple[list[str], list[str]]:
    card = cards.build_card(cards.get_key_for_any_pair(f"img_{one}", f"img_{other}"))
    shown = [["".join(name[4:] for name in box["images"]) for box in card[side]] for side in ("before", "after")]
    return shown[0], shown[1]


def decide_pair(cards: DuplicateCards, one: str, other: str, decision: str) -> None:
    cards.apply_entries(
        [cards.create_decision(cards.get_key_for_any_pair(f"img_{one}", f"img_{other}"), decision, "", "2024")]
    )


def test_two_of_different_groups_bring_their_groups_along() -> None:
    cards = cards_of("abc", "de", alone="f")
    assert strips(cards, "e", "b") == (["abc", "de"], ["abc", "de"])
    decide_pair(cards, "e", "b", "same")
    assert strips(cards, "b", "e") == (["abc", "de"], ["abcde"])
    decide_pair(cards, "f", "a", "same")
    assert strips(cards, "f", "a") == (["abc", "f"], ["abcf"])
    decide_pair(cards, "f", "a", "different")
    assert strips(cards, "f", "a")[1] == ["abc", "f"]


def test_two_of_one_group_neither_of_which_stands_for_it() -> None:
    cards = cards_of("abc")
    assert strips(cards, "b", "c") == (["abc"], ["abc"])
    decide_pair(cards, "b", "c", "different")
    assert strips(cards, "b", "c") == (["abc"], ["ab", "c"])
    decide_pair(cards, "a", "c", "different")
    assert strips(cards, "b", "c")[1] == ["ab", "c"], "it left already"
    decide_pair(cards, "a", "b", "different")
    assert strips(cards, "a", "b")[1] == ["a", "b", "c"]


def test_a_search_gives_images_by_name_and_not_too_many() -> None:
    cards = cards_of("ab", alone="".join(chr(number) for number in range(0x4E00, 0x4E00 + 100)))
    assert [one["name"] for one in cards.search_images(" B.JPG ")] == ["b.jpg"]
    assert len(cards.search_images("")) == 60 and cards.search_images("") == sorted(
        cards.search_images(""), key=lambda one: one["name"]
    )


def test_a_word_is_heard_of_images_that_were_brought_together_elsewhere() -> None:
    cards = cards_of("ab", alone="cd")
    cards.apply_entries([ImagePairDecision(("img_c", "img_d"), "same", reviewer="mei", at="2024")])
    (key,) = [key for key in cards.list_keys("all", "") if key.startswith("apart/")]
    assert cards.build_card(key)["last_decision"] == "same" and cards.build_card(key)["own"] is None
    assert key == cards.get_key_for_any_pair("img_d", "img_c")


def test_a_card_says_how_an_edited_copy_was_edited() -> None:
    cards = cards_of("ab", distance=pd.NA, edit="crop+overlay")
    card = cards.build_card(cards.get_key_for_any_pair("img_a", "img_b"))
    assert (card["matched_by"], card["edit"], card["hash_distance"]) == ("views", "crop+overlay", None)


NAME = "一 <b>copy.jpg"


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    """Four photos; of the first a smaller version, of the second the same bytes and the same pixels once more."""
    folder = tmp_path / "pile"
    for n in range(4):
        photo(folder / f"{n}.jpg", n, day=n + 1)
    draw_scene(0).resize((120, 90)).save(folder / NAME, quality=80)
    shutil.copy(folder / "1.jpg", folder / "1 copy.jpg")
    data = (folder / "1.jpg").read_bytes()
    (folder / "1 plain.jpg").write_bytes(data[:2] + data[4 + int.from_bytes(data[4:6], "big") :])
    return folder


def build(folder: Path) -> StoredSet:
    """The next version of the gallery of what is in the pile now."""
    return set_files.read_set(build_of("gallery", define_gallery(folder, folder / "pile")).path)


@pytest.fixture
def stored(tmp_path: Path, pile: Path) -> StoredSet:
    return build(tmp_path)


@pytest.fixture
def page(stored: StoredSet) -> ReviewClient:
    return open_client(stored)


def say(page: ReviewClient, key: str, decision: str, note: str = "") -> Any:
    return page.post("/api/duplicates/decide", {"view": "duplicates", "key": key, "decision": decision, "note": note})


def log(page: ReviewClient) -> list[ImagePairDecision]:
    return decision_log.read_decisions(page.stored.path.parent, ImagePairDecision)


@pytest.mark.thorough
def test_each_member_beside_its_representative_the_least_sure_first(page: ReviewClient) -> None:
    assert 'href="/duplicates"' in page.get("/captions").text
    found = [page.card(key, "duplicates") for key in page.keys("duplicates")]
    assert [one["matched_by"] for one in found] == ["views", "pixels"], "copies of the same bytes are one image"
    assert (found[0]["one"]["name"], found[0]["other"]["name"]) == ("0.jpg", NAME)
    assert found[0]["one"]["in_gallery"] and not found[0]["other"]["in_gallery"]
    assert [strip["size"] for strip in found[0]["before"]] == [2] and found[0]["after"] == found[0]["before"]
    assert page.keys("duplicates", search="<B>COPY") == [found[0]["key"]]


@pytest.mark.thorough
def test_a_decision_is_on_disk_when_it_is_answered_and_shows_what_follows(page: ReviewClient) -> None:
    key = page.keys("duplicates")[0]
    answer = say(page, key, "different", "一张是重拍的").json()["card"]
    assert [strip["size"] for strip in answer["after"]] == [1, 1] and answer["own"]["decision"] == "different"
    (word,) = log(page)
    assert (word.decision, word.note, word.reviewer, word.view) == ("different", "一张是重拍的", "lin", "duplicates")
    assert (
        page.keys("duplicates", state="decided") == [key]
        and page.keys("duplicates", state="open") == page.keys("duplicates")[1:]
    )
    other = open_client(page.stored, "mei")
    assert (
        other.card(key, "duplicates")["own"] is None and other.card(key, "duplicates")["last_decision"] == "different"
    )
    assert other.undo("duplicates").status_code == 409, "lin's is lin's"
    assert page.undo("duplicates").json()["card"]["own"] is None and page.undo("duplicates").status_code == 409
    assert [one.decision for one in log(page)] == ["different", "undo"]
    assert page.log == [], "no decision about a query"


@pytest.mark.parametrize(("key", "decision"), [("", "same"), ("dup_x/img_y", "same"), (None, "drop"), (None, "undo")])
@pytest.mark.thorough
def test_what_is_no_decision_on_a_pair_is_refused(page: ReviewClient, key: str | None, decision: str) -> None:
    assert say(page, page.keys("duplicates")[0] if key is None else key, decision).status_code == 409
    assert say(page, page.keys("duplicates")[0], "same", "x" * 4001).status_code == 409 and log(page) == []


@pytest.mark.thorough
def test_a_left_out_image_is_shown_by_its_id_and_nothing_else_of_the_disk(page: ReviewClient, pile: Path) -> None:
    pair = page.card(page.keys("duplicates")[0], "duplicates")
    for side in (320, 1280):
        for one in (pair["one"], pair["other"]):
            answer = page.get(f"/duplicates/image/{side}/{one['image_id']}")
            assert answer.headers["content-type"] == "image/jpeg" and answer.content.startswith(b"\xff\xd8")
    for name in ("2.jpg", NAME, "..%2f..%2fetc%2fpasswd", str(pile / "2.jpg"), "img_0000000000000000000", "%00"):
        assert page.get(f"/duplicates/image/320/{name}").status_code in (403, 404), name
    assert page.get(f"/duplicates/image/321/{pair['one']['image_id']}").status_code == 404
    assert page.get(f"/image/320/{pair['other']['image_id']}").status_code == 404, "not in the gallery"


@pytest.mark.thorough
def test_a_file_that_became_another_is_not_shown(page: ReviewClient, pile: Path) -> None:
    image = page.card(page.keys("duplicates")[0], "duplicates")["other"]["image_id"]
    draw_scene(99).save(pile / NAME)
    assert page.get(f"/duplicates/image/320/{image}").status_code == 404
    (pile / NAME).unlink()
    (pile / NAME).symlink_to("/etc/passwd")
    assert page.get(f"/duplicates/image/320/{image}").status_code == 404


@pytest.mark.thorough
def test_a_table_that_names_files_out_of_its_source_shows_none_of_them(stored: StoredSet, tmp_path: Path) -> None:
    from querytruth.sets.set_thumbnails import make_source_thumbnail_reader

    away = stored.tables.duplicates[~stored.tables.duplicates["is_representative"].astype(bool)].iloc[0]
    secret = tmp_path / "secret.jpg"
    shutil.copy(tmp_path / "pile" / away["item"], secret)
    for item in ("../secret.jpg", str(secret), f"file://{secret}", "http://127.0.0.1/secret.jpg", "\x00"):
        assert make_source_thumbnail_reader(stored, {away["image_id"]: item})(away["image_id"], 320) is None, item
    assert make_source_thumbnail_reader(stored, {away["image_id"]: away["item"]})(away["image_id"], 320) is not None


@pytest.mark.thorough
def test_groups_that_another_build_made_are_decided_there(stored: StoredSet) -> None:
    manifest = json.loads((stored.path / "manifest.json").read_text())
    manifest["configuration"]["gallery"] = "elsewhere/v1"
    (stored.path / "manifest.json").write_text(json.dumps(manifest))
    reseal(stored.path)
    page = open_client(stored)
    assert "/duplicates" not in page.get("/captions").text and page.get("/duplicates").status_code == 404


def section(page: ReviewClient) -> str:
    """The words of the view of decisions, without markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.get("/decisions").text).split())


@pytest.mark.thorough
def test_decisions_are_counted_by_person_and_by_outcome(page: ReviewClient, pile: Path, tmp_path: Path) -> None:
    assert 'href="/decisions"' in page.get("/captions").text and "No decisions yet" in section(page)
    hash_, pixels = page.keys("duplicates")
    say(page, hash_, "different")
    say(open_client(page.stored, "mei"), pixels, "different")
    say(open_client(page.stored, "mei"), hash_, "same")
    image = page.card(hash_, "duplicates")["one"]["image_id"]
    page.post("/api/captions/decide", {"view": "captions", "image_id": image, "language": "zh", "text": "沙滩"})
    assert "Reviewer Captions Near-duplicates lin 1 1 mei 0 2" in section(page)
    assert "0 in this version 2 wait for the next build 0 could not be applied" in section(page), "per pair the last"
    for name in ("1.jpg", "1 copy.jpg"):  # what stands for "1 plain.jpg", which lacks the date
        (pile / name).unlink()
    built = open_client(build(tmp_path))
    assert "1 in this version 0 wait for the next build 1 could not be applied" in section(built)
    assert "different" in section(built) and "an image is missing" in section(built)
    open_client(built.stored, "mei").undo("duplicates")
    assert "0 in this version 2 wait" in section(built), "what was taken back, and what counts in its place"


def brought(page: ReviewClient, one: str, other: str) -> Any:
    return page.get("/api/duplicates/pair", params={"one": one, "other": other})


def found(page: ReviewClient, search: str) -> dict[str, str]:
    images = page.get("/api/duplicates/images", params={"search": search}).json()["images"]
    return {one["name"]: one["image_id"] for one in images}


@pytest.mark.thorough
def test_any_two_images_can_be_paired_and_the_build_makes_them_one(page: ReviewClient, tmp_path: Path) -> None:
    ids = found(page, ".JPG")
    alone, member = ids["2.jpg"], ids[NAME]
    assert list(found(page, "2.J")) == ["2.jpg"], "alone in the gallery, and found"
    key = brought(page, alone, member).json()["key"]
    assert brought(page, member, alone).json()["key"] == key and page.log == [], "the order says nothing"
    shown = page.card(key, "duplicates")
    assert (
        shown["matched_by"] == "" and sorted(one["size"] for one in shown["before"]) == [1, 2] and shown["own"] is None
    )
    assert key not in page.keys("duplicates"), "until somebody speaks of them"
    after = say(page, key, "same").json()["card"]["after"]
    assert [one["size"] for one in after] == [3] and key in page.keys("duplicates", state="decided")
    (word,) = log(page)
    assert word.images == tuple(sorted((alone, member))) and word.decision == "same"
    second = build(tmp_path)
    groups = second.tables.duplicates.set_index("image_id")["duplicate_group"]
    assert len({groups[one] for one in (alone, member, ids["0.jpg"])}) == 1, "with all of its group"
    assert second.manifest["decisions"]["in_effect"] == [word.decision_id]
    assert len(second.tables.images) == len(page.stored.tables.images) - 1


@pytest.mark.thorough
def test_what_is_no_two_images_of_the_set_is_refused(page: ReviewClient) -> None:
    one, other = found(page, "2.jpg")["2.jpg"], found(page, "3.jpg")["3.jpg"]
    low, high = sorted((one, other))
    assert brought(page, one, one).status_code == 409 and brought(page, one, "img_0").status_code == 409
    for key in (f"apart/{high}+{low}", f"apart/{one}+{one}", f"apart/{low}+img_z", "apart/", f"apart/{low}"):
        assert say(page, key, "same").status_code == 409, key
        assert page.cards("duplicates", key) == []
    assert log(page) == [] and found(page, "no such name") == {}

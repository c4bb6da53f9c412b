"""Two images as a card: their groups as they are, and as what was said leaves them."""

from dataclasses import replace

import pandas as pd

from querytruth.records import empty_frame
from querytruth.review.gallery_cards import DuplicateCards
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import ImagePairDecision


def cards_of(*groups: str, alone: str = "") -> DuplicateCards:
    """A letter is an image; the first of a group is in the gallery and stands for the others."""
    rows = [
        {"duplicate_group": f"dup_{group}", "image_id": f"img_{one}", "item": f"{one}.jpg", "is_representative": not n}
        | {"matched_by": "" if not n else "views", "distance": 3, "edit": None, "width": 4, "height": 3}
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


def say(cards: DuplicateCards, one: str, other: str, decision: str) -> None:
    cards.apply_entries(
        [cards.create_decision(cards.get_key_for_any_pair(f"img_{one}", f"img_{other}"), decision, "", "2024")]
    )


def test_two_of_different_groups_bring_their_groups_along() -> None:
    cards = cards_of("abc", "de", alone="f")
    assert strips(cards, "e", "b") == (["abc", "de"], ["abc", "de"])
    say(cards, "e", "b", "same")
    assert strips(cards, "b", "e") == (["abc", "de"], ["abcde"])
    say(cards, "f", "a", "same")
    assert strips(cards, "f", "a") == (["abc", "f"], ["abcf"])
    say(cards, "f", "a", "different")
    assert strips(cards, "f", "a")[1] == ["abc", "f"]


def test_two_of_one_group_neither_of_which_stands_for_it() -> None:
    cards = cards_of("abc")
    assert strips(cards, "b", "c") == (["abc"], ["abc"])
    say(cards, "b", "c", "different")
    assert strips(cards, "b", "c") == (["abc"], ["ab", "c"])
    say(cards, "a", "c", "different")
    assert strips(cards, "b", "c")[1] == ["ab", "c"], "it left already"
    say(cards, "a", "b", "different")
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
    rows = [
        {"duplicate_group": "dup_a", "image_id": f"img_{one}", "item": f"{one}.jpg", "is_representative": one == "a"}
        | {"matched_by": None if one == "a" else "views", "distance": pd.NA, "width": 4, "height": 3}
        | {"edit": None if one == "a" else "crop+overlay"}
        for one in "ab"
    ]
    images = pd.DataFrame({"image_id": ["img_a"], "file_name": ["a.jpg"]}).assign(width=4, height=3)
    tables = Tables(empty_frame("queries"), images, empty_frame("qrels"), duplicates=pd.DataFrame(rows))
    cards = DuplicateCards(tables, "lin")
    card = cards.build_card(cards.get_key_for_any_pair("img_a", "img_b"))
    assert (card["matched_by"], card["edit"], card["hash_distance"]) == ("views", "crop+overlay", None)

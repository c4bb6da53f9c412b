"""What was turned away, in the order in which people look at it, and words on it: small ledgers, no files."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.gallery.image_filters import apply_filters, build_filter_rules
from builders.generated.result_screening import CollectionRules, find_size_problem
from builders.recall.caption_rules import caption_query_id
from querytruth.review.deck import ActionError
from querytruth.review.rejection_cards import RejectionCards, RejectionContext
from querytruth.review.rejection_table import (
    MAX_QUEUE_LENGTH,
    RejectionFilter,
    RejectionTable,
    relative_misses,
    to_text_array,
)
from querytruth.sets.decision_records import Override, parse_decision
from tests.review.ledgers import LedgerRow, make_ledger

NONE = RejectionContext()


def _brightness(value: float) -> dict[str, Any]:
    return {"measure": "brightness", "value": value, "threshold": 0.15}


GALLERY: list[LedgerRow] = [
    ("broken.jpg", "image", "scan", "quarantined", "cannot_be_decoded", {"detail": "ValueError: no"}),
    ("a.jpg", "image", "filter", "rejected", "too_dark", _brightness(0.02)),
    ("b.jpg", "image", "filter", "rejected", "too_dark", _brightness(0.1499)),
    ("c.jpg", "image", "filter", "rejected", "too_dark", {}),
    (
        "长.jpg",
        "image",
        "filter",
        "rejected",
        "too_large",
        {"measure": "longer_side", "value": 5200, "threshold": 5000},
    ),
    ("twin.jpg", "image", "duplicates", "rejected", "near_duplicate", {"related_item": "first.jpg"}),
    ("left.jpg", "image", "select", "rejected", "not_selected", {}),
]


def opened(rows: list[LedgerRow] = GALLERY, around: RejectionContext = NONE, reviewer: str = "lin") -> RejectionCards:
    return RejectionCards(make_ledger(rows), around, reviewer)


def names(cards: RejectionCards, **wanted: str) -> list[str]:
    return [
        cards.get_rejection(key).item for key in cards.build_queue(RejectionFilter.model_construct(**wanted))["keys"]
    ]


def key(cards: RejectionCards, item: str) -> str:
    return next(key for key in cards.build_queue(RejectionFilter())["keys"] if cards.get_rejection(key).item == item)


def card(cards: RejectionCards, item: str) -> dict[str, Any]:
    return cards.build_cards([key(cards, item)])[0]


def rescue(item: str, name: str, reviewer: str = "lin", note: str = "good", **more: Any) -> Override:
    return Override(item, "rescue", name, note=note, reviewer=reviewer, view="rejects", at="2026-01-01", **more)


def undo(word: Override) -> Override:
    return replace(word, decision="undo", note="", undoes=word.decision_id)


def test_what_can_be_rescued_comes_first_and_of_that_the_nearest_to_its_cut() -> None:
    cards = opened()
    assert names(cards) == ["b.jpg", "a.jpg", "c.jpg", "长.jpg", "left.jpg", "broken.jpg", "twin.jpg"]
    groups = cards.build_queue(RejectionFilter())["groups"]
    assert [(one["reason"], one["size"]) for one in groups.values()][:2] == [("too_dark", 3), ("too_large", 1)]


def test_filters_meet() -> None:
    cards = opened()
    assert names(cards, stage="filter", reason="too_large") == ["长.jpg"]
    assert names(cards, bucket="quarantined") == ["broken.jpg"]
    assert names(cards, search=" 长 ") == ["长.jpg"] and names(cards, search="VALUEERROR") == ["broken.jpg"]
    assert names(cards, search="0.1499") == ["b.jpg"] and names(cards, search="\ud800") == names(cards)
    assert names(cards, stage="none") == [] and names(cards, search=".*") == []
    cards.apply_entries([rescue("img_1", "b.jpg")])
    assert names(cards, state="decided") == ["b.jpg"] and names(cards, state="open", stage="filter") == [
        "a.jpg", "c.jpg", "长.jpg",
    ]  # fmt: skip


@pytest.mark.thorough
def test_a_long_ledger_is_shared_out_so_that_no_reason_hides_another() -> None:
    rows: list[LedgerRow] = [
        (f"{n:04d}.jpg", "image", "filter", "rejected", "too_dark", {}) for n in range(MAX_QUEUE_LENGTH)
    ]
    rows += [(f"s{n:04d}.jpg", "image", "select", "rejected", "not_selected", {}) for n in range(MAX_QUEUE_LENGTH)]
    cards = opened([*rows, GALLERY[0]])
    found = cards.build_queue(RejectionFilter())
    assert len(found["keys"]) == MAX_QUEUE_LENGTH and len(found["done"]) == MAX_QUEUE_LENGTH
    told = [(one["reason"], one["size"], one["listed"]) for one in found["groups"].values()]
    assert told == [
        ("too_dark", MAX_QUEUE_LENGTH, 999),
        ("not_selected", MAX_QUEUE_LENGTH, 1000),
        ("cannot_be_decoded", 1, 1),
    ]
    assert len(cards.build_queue(RejectionFilter(reason="too_dark"))["keys"]) == MAX_QUEUE_LENGTH
    assert names(cards, reason="too_dark")[-1] == f"{MAX_QUEUE_LENGTH - 1:04d}.jpg"


def test_the_same_whatever_the_order_of_the_ledger_of_codes() -> None:
    frame = make_ledger(GALLERY)
    other = frame.astype({"reason": "str"}).astype({"reason": pd.CategoricalDtype(frame["reason"].unique()[::-1])})
    plain = frame.astype(dict.fromkeys(["kind", "stage", "bucket", "reason"], "str"))
    orders = [
        RejectionTable(one).build_queue(RejectionFilter(), np.zeros(len(one), dtype=bool))[0]
        for one in (frame, other, plain)
    ]
    assert orders[0].tolist() == orders[1].tolist() == orders[2].tolist()


def test_a_rescue_shows_whose_it_is_and_is_taken_back_by_its_own_reviewer_alone() -> None:
    mine, lins = opened(reviewer="mei"), opened()
    word = rescue("img_1", "a.jpg", note="晚上拍的")
    for cards in (mine, lins):
        cards.apply_entries([word])
    assert card(lins, "a.jpg")["own"]["note"] == "晚上拍的" and card(lins, "a.jpg")["other_overrides"] == []
    assert card(mine, "a.jpg")["own"] is None and card(mine, "a.jpg")["other_overrides"][0]["reviewer"] == "lin"
    with pytest.raises(ActionError, match="nothing to undo"):
        mine.create_undo("2026-01-02")
    back = lins.create_undo("2026-01-02")
    assert (back.item, back.undoes, back.reviewer) == ("img_1", word.decision_id, "lin")
    for cards in (mine, lins):
        cards.apply_entries([back])
        assert card(cards, "a.jpg")["own"] is None and names(cards, state="decided") == []


def test_another_reason_takes_the_place_of_the_first_and_undo_brings_that_back() -> None:
    cards = opened()
    first = rescue("img_1", "a.jpg", note="one")
    cards.apply_entries([first, replace(first, note="two", at="2026-01-02")])
    assert card(cards, "a.jpg")["own"]["note"] == "two"
    cards.apply_entries([cards.create_undo("2026-01-03")])
    assert card(cards, "a.jpg")["own"]["note"] == "one"


def test_what_a_build_could_not_follow_says_so_and_what_it_let_in_is_taken_back_by_name() -> None:
    word, gone = rescue("img_1", "twin.jpg"), rescue("img_2", "inside.jpg")
    cards = opened(around=replace(NONE, stale_reasons={word.decision_id: "it is grouped with a duplicate"}))
    cards.apply_entries([word, gone])
    assert card(cards, "twin.jpg")["own"]["stale"].startswith("it is grouped with a duplicate")
    back = cards.create_undo("2026-01-02")
    assert back.item == "img_2" and cards.find_card(back)["undone_name"] == "inside.jpg"


def test_what_cannot_be_rescued_says_what_to_do() -> None:
    cards = opened([*GALLERY, ("odd", "thing", "nowhere", "rejected", "never", {})])
    for item, says in (("broken.jpg", "fix"), ("twin.jpg", "Duplicates"), ("odd", "no build")):
        assert not card(cards, item)["overridable"] and says in card(cards, item)["why"]
        with pytest.raises(ActionError, match=says):
            cards.create_override(cards.get_rejection(key(cards, item)), "img_1", {"note": "x", "caption": ""}, "")
    part = opened(around=replace(NONE, blocked_reason="this set is a part of big/v1"))
    assert card(part, "a.jpg")["why"] == "this set is a part of big/v1" and not card(part, "a.jpg")["overridable"]
    assert card(cards, "a.jpg")["why"] == "" and card(cards, "a.jpg")["overridable"]


@pytest.mark.parametrize("note", ["", "  \n ", "x" * 4001, "a\x00b", "\ufffd", "\ud83d", "\x1b[31m"])
def test_a_reason_is_needed_and_is_one_that_the_log_can_keep(note: str) -> None:
    cards = opened()
    with pytest.raises(ActionError):
        cards.create_override(cards.get_rejection(key(cards, "a.jpg")), "img_1", {"note": note, "caption": ""}, "")
    word = cards.create_override(
        cards.get_rejection(key(cards, "a.jpg")), "img_1", {"note": " 好\r\n的 ", "caption": "no"}, "2026"
    )
    assert (word.note, word.caption, word.name, word.view) == ("好\n的", "", "a.jpg", "rejects")
    assert parse_decision(word.as_json()) == word


def test_a_key_names_one_row_of_one_version() -> None:
    cards = opened()
    good = key(cards, "a.jpg")
    changed = opened([("other.jpg", *row[1:]) for row in GALLERY])
    for bad in ("", "-", good[:-1], good.replace("-", "_"), f" {good}", "99" + good, "²-" + good, "-1-" + good):
        assert cards.build_cards([bad]) == [] and not cards.is_file(bad)
        with pytest.raises(ActionError):
            cards.get_rejection(bad)
    assert cards.build_cards([good]) and not changed.build_cards([good])


def test_words_find_their_rejects_by_kind_not_by_a_name_that_others_share() -> None:
    few = {"measure": "reported_results", "value": 0, "threshold": 6}
    rows: list[LedgerRow] = [
        ("q_1", "query", "search", "rejected", "too_few_results", {"item_id": "q_1", "text": "伞"} | few),
        ("伞", "row", "objects_rows", "rejected", "repeated", {}),
        ("http://x/1.jpg", "result", "results", "rejected", "advertisement", {"text": "伞", "rank": 1}),
        ("http://x/1.jpg", "result", "results", "rejected", "too_small", {"text": "船", "rank": 4}),
    ]
    cards = opened(rows)
    word = cards.create_override(cards.get_rejection(key(cards, "q_1")), "q_1", {"note": "rare", "caption": ""}, "2026")
    assert word.name == "伞", "people read the query, not its id"
    cards.apply_entries([word, rescue("http://x/1.jpg", "http://x/1.jpg")])
    assert sorted(names(cards, state="decided")) == ["http://x/1.jpg", "http://x/1.jpg", "q_1"]
    assert card(cards, "q_1")["text"] == "伞" and card(cards, "q_1")["detail"] == "reported results 0, threshold 6"
    assert card(cards, "伞")["own"] is None


def test_a_caption_goes_by_its_query_and_brings_the_words_and_the_image() -> None:
    own, settled = caption_query_id("img_1", "zh/caption", 1), caption_query_id("img_2", "en/caption", 0)
    of_own = {"item_id": own, "image_id": "img_1", "language": "zh", "text": "一只猫"}
    of_settled = {"item_id": settled, "image_id": "img_2", "language": "en", "text": "A dog.", "related_item": "img_1"}
    rows: list[LedgerRow] = [
        ("猫.jpg · zh/caption 2", "caption", "clean", "rejected", "too_short", of_own),
        ("same.jpg · zh/caption", "caption", "clean", "rejected", "echo", {"text": "question"}),
        (settled, "caption", "ambiguity", "rejected", "ambiguous", of_settled | {"detail": "all of it is said"}),
    ]
    cards = opened(rows)
    one = card(cards, "猫.jpg · zh/caption 2")
    assert (one["text"], one["language"], one["shown"]) == ("一只猫", "zh", {"path": "/image", "id": "img_1"})
    reject = cards.get_rejection(one["key"])
    assert reject.item_id == own
    for nothing in (" \n ", "…!?"):
        with pytest.raises(ActionError, match="write the caption"):
            cards.create_override(reject, own, {"note": "x", "caption": nothing}, "")
    word = cards.create_override(reject, own, {"note": "x", "caption": "一只\n猫"}, "2026")
    assert word.caption == "一只 猫" and word.name == reject.item
    assert cards.get_rejection(key(cards, "same.jpg · zh/caption")).item_id == "", "of version 1: two go by that name"
    other = card(cards, settled)
    assert (other["text"], other["detail"], other["language"]) == ("A dog.", "see img_1, all of it is said", "en")
    assert other["confusable"]["id"] == "img_1" and other["shown"]["id"] == "img_2" and one["confusable"] is None
    cards.apply_entries([word, rescue(settled, "A dog.", caption="A dog.")])
    assert sorted(names(cards, state="decided")) == sorted([reject.item, settled])


def test_a_near_duplicate_leads_to_its_pair() -> None:
    twins = pd.DataFrame(
        {
            "duplicate_group": ["d1"] * 3, "image_id": ["img_1", "img_2", "img_1"],
            "item": ["first.jpg", "twin.jpg", "copy.jpg"], "is_representative": [True, False, False],
        }
    )  # fmt: skip
    rows = [*GALLERY, ("copy.jpg", "image", "duplicates", "rejected", "exact_duplicate", {"related_item": "first.jpg"})]
    cards = opened(rows, replace(NONE, duplicates=twins))
    assert card(cards, "twin.jpg")["link"] == "d1/img_2" and card(cards, "copy.jpg")["link"] is None
    assert card(opened(), "twin.jpg")["link"] is None


HOSTILE = ["<script>alert(1)</script>", "\u202egpj.exe", "a\x00b\x1b[31m\n\t", "x" * 10_000, "", "{{ 7*7 }}", "../../e"]


@pytest.mark.parametrize("name", [*HOSTILE, "half \ud83d", "\udcff\udcfe no UTF-8"])
def test_hostile_names_and_details_are_texts(name: str) -> None:
    rows: list[LedgerRow] = [(name, "image", "filter", "rejected", "too_dark", {"detail": name}), *GALLERY[1:2]]
    cards = opened(rows)
    shown = cards.build_cards(cards.build_queue(RejectionFilter(search="\x00" if "\x00" in name else ""))["keys"])
    assert 1 <= len(shown) <= 2 and all(len(one["name"]) <= 1501 for one in shown)
    for one in shown:
        json.dumps(one, ensure_ascii=False).encode()
    cards.apply_entries([rescue("img_1", cards.get_rejection(shown[0]["key"]).item), rescue("img_2", "nobody has it")])
    assert len(names(cards, state="decided")) == 1


def test_texts_of_a_column_that_is_no_utf_8() -> None:
    import pyarrow as pa

    raw = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xffa", b"b"], pa.binary()).buffers())
    assert to_text_array(pd.Series(pd.array(raw, dtype=pd.ArrowDtype(pa.string())))).to_pylist() == ["\ufffda", "b"]
    assert to_text_array(pd.Series(["a", None, float("nan")], dtype=object)).to_pylist() == ["a", "", ""]


@pytest.mark.thorough
def test_a_million_rows_cost_no_object_each() -> None:
    frame = make_ledger(GALLERY)
    many = pd.concat([frame] * 30_000, ignore_index=True)
    cards = RejectionCards(many, NONE, "lin")
    assert sum(cards.table.count_by_group().values()) == len(many)
    assert len(cards.build_queue(RejectionFilter(search="a.jpg", stage="filter"))["keys"]) == MAX_QUEUE_LENGTH


RULES = {rule.filter.reason: rule for rule in build_filter_rules(min_brightness=0.15, max_flatness=0.4)}
SIDES = st.integers(1, 100_000)
SCORES = st.floats(0, 1, width=32)
CUTS = st.one_of(st.integers(0, 100_000), st.floats(0, 100_000, allow_subnormal=False))


@given(SIDES, SIDES, SCORES, st.sampled_from(sorted(RULES)), CUTS)
def test_the_distance_is_of_the_measured_value(width: int, height: int, score: float, reason: str, cut: float) -> None:
    rule = replace(RULES[reason], threshold=cut)
    frame = pd.DataFrame({"width": [width], "height": [height], "brightness": [score], "flatness": [score]})
    (kept,), failures = apply_filters(frame.astype({"brightness": "float32", "flatness": "float32"}), [rule])
    assert len(failures) == (not kept)
    if not kept:
        sides = {"shorter_side": min(width, height), "longer_side": max(width, height), "ratio": width / height}
        value = round(sides.get(rule.filter.measure, score), 6)
        assert failures["measure"].tolist() == [rule.filter.measure]
        assert relative_misses(failures)[0] == pytest.approx(abs(value - cut) / (abs(cut) or 1), rel=1e-6, abs=1e-9)


def test_the_nearest_comes_first_and_what_has_no_value_last() -> None:
    values = [(5200, 5000), (0.1499, 0.15), (math.nan, 0.15), (5.1, 5), (None, None), (math.inf, math.inf), (0.5, None)]
    found = relative_misses(pd.DataFrame(values, columns=["value", "threshold"]))
    assert np.argsort(found, kind="stable")[:3].tolist() == [1, 3, 0]
    assert [math.isnan(one) for one in found[[2, 4, 5, 6]]] == [True] * 4
    assert relative_misses(pd.DataFrame({"value": [], "threshold": []})).tolist() == []


def test_search_results_have_numbers_as_well() -> None:
    rules = CollectionRules(min_side=112, max_ratio=2.0)
    problems = [find_size_problem(*size, rules) for size in ((80, 100), (420, 200))]
    assert relative_misses(pd.DataFrame(problems)).tolist() == pytest.approx([32 / 112, 0.1 / 2])

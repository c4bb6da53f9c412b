"""The page of a recall set: what it chooses, what it says of ambiguous captions and of cleaning; nothing on it acts."""

from dataclasses import replace
from typing import Any

import pytest

from builders.lint import lint_tables
from builders.recall.page import RecallSelection, render_recall_page, select_recall
from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from tests.images import make_jpeg
from tests.review.ledgers import LedgerRow, make_ledger
from tests.review.page_reader import (
    EVIL,
    TURNED,
    ParsedPage,
    check_directions_are_isolated,
    check_page_stands_alone,
    check_text_stays_text,
    read_text,
)
from tests.review.recall_sets import (
    images_table,
    make_ambiguity,
    make_ambiguity_example,
    make_candidate_judgments,
    make_caption_figures,
    make_manifest,
    pairs_of,
    qrels_table,
    queries_table,
    recall_beach_tables,
)


def page_of(set_: Tables, thumbnails: dict[str, bytes] | None = None, **changes: Any) -> str:
    manifest = make_manifest(set_, **changes)
    shown = select_recall(set_, manifest["notes"])
    return render_recall_page(set_, manifest, thumbnails or {}, lint_tables(set_), shown)


def text_of(set_: Tables, **changes: Any) -> str:
    return read_text(page_of(set_, **changes))


def text_with(ambiguity: dict[str, Any]) -> str:
    """Of the page of the beach, whose build found this ambiguity."""
    return text_of(recall_beach_tables(), notes={"ambiguity": ambiguity})


def test_a_query_that_fits_more_images_has_them_beside_its_own() -> None:
    asked = {one.queries[0].query_id: one.queries[0] for one in select_recall(recall_beach_tables(), {}).images}
    assert asked["q_4"].other_relevant == ("img_ship",) and asked["q_5"].other_relevant == ()
    assert "boat.jpg" in page_of(recall_beach_tables()) and "ship.jpg, also relevant" in page_of(recall_beach_tables())


def test_a_query_without_a_right_image_is_seen_and_said() -> None:
    set_ = recall_beach_tables()
    lost = replace(set_, qrels=set_.qrels[set_.qrels["query_id"] != "q_5"])
    (alone,) = [one.queries for one in select_recall(lost, {}).images if one.image_id is None]
    assert [asked.query_id for asked in alone] == ["q_5"]
    assert "No image of the set is relevant for this query." in text_of(lost)


def test_the_order_of_rows_does_not_matter() -> None:
    set_ = recall_beach_tables()
    frames = {name: getattr(set_, name).sample(frac=1, random_state=3) for name in ("queries", "qrels", "ledger")}
    mixed = replace(set_, **frames)
    assert select_recall(set_, {}) == select_recall(mixed, {})
    assert page_of(set_) == page_of(mixed)


def test_the_headline_says_how_ambiguous_queries_were_and_are() -> None:
    text = text_of(recall_beach_tables())
    assert "33.3% → 0%" in text and "2 of 6 before, 0 of 5 after" in text
    assert "they are relevant, like its own" in text
    assert "what the captions say, caption similarity (char_ngrams)." in text
    assert "1 of 2 shown" in text, "two are ambiguous, one is in the notes"
    assert "1 of them for further images that a query fits" in text


@pytest.mark.parametrize(
    ("outcome", "new_text", "said"),
    [
        ("merged", None, "the other images are also relevant"),
        ("marked", None, "left for people to judge"),
        ("kept", None, "unambiguous, because the other images have new captions"),
        ("asked_again", "一艘蓝色的船", "unambiguous with its new caption asked for again: 一艘蓝色的船"),
        ("dropped", None, "left out"),
        ("lost_at_sea", None, "lost at sea"),
    ],
)
def test_what_became_of_an_ambiguous_caption(outcome: str, new_text: str | None, said: str) -> None:
    text = text_with(make_ambiguity(make_ambiguity_example(outcome=outcome, new_text=new_text)))
    assert f"一艘船 {said} boat.jpg its own image ship.jpg 1.00 一艘红色的船 all of it is said" in text


def test_evidence_does_not_say_the_rivals_caption_again() -> None:
    assert page_of(recall_beach_tables()).count("all of it is said</bdi>") == 1
    described = {"image_id": "img_ship", "text": "一艘大船", "score": 1.0, "evidence": "all of it is said: 船的描述"}
    assert "all of it is said: 船的描述" in text_with(make_ambiguity(make_ambiguity_example(rivals=[described])))
    unsaid = {"image_id": "img_ship", "text": None, "score": 0.6, "evidence": "images alike: None"}
    assert "0.60 images alike: None" in text_with(make_ambiguity(make_ambiguity_example(rivals=[unsaid])))


def test_a_query_that_was_left_out_says_why() -> None:
    text = text_with(make_ambiguity(make_ambiguity_example("q_9", outcome="dropped")))
    assert "left out: another query has the same text and the same relevant images" in text


def test_rounds_of_asking_again_and_what_was_done_then() -> None:
    rounds = [{"asked": 9, "answered": 8, "ambiguous_after": 4}]
    text = text_with(make_ambiguity(policy="recaption", then="drop", rounds=rounds))
    assert "requested again, with their captions in the prompt. A caption that is still ambiguous is left out." in text
    assert "Round 1: 9 asked again, 8 with a new caption, 4 queries ambiguous then" in text


def test_pairs_that_wait_for_people_are_counted_until_they_are_judged() -> None:
    waiting = make_candidate_judgments(("q_5", "img_boat", 0.6), ("q_1", "img_empty", 0.5))
    set_ = replace(recall_beach_tables(), candidate_judgments=waiting)
    assert "2 pairs wait for a person: querytruth review export-csv beach lists them first." in text_of(set_)
    judged = replace(set_, qrels=qrels_table([*pairs_of(set_), ("q_5", "img_boat", 0)]))
    assert "1 pair waits for a person" in text_of(judged)


def test_how_captions_begin_and_what_was_no_caption() -> None:
    text = text_of(recall_beach_tables())
    assert "9 asked for, 8 replies." in text
    assert "Chinese Most frequent beginnings of unchanged captions" in text and "三只狗在 3 50% 三只狗在沙滩" in text
    assert "这张图片展示了 4" in text
    assert "2 refusal the model declined to describe the image" in text
    assert "抱歉，我看不到图片 cat.jpg · zh/caption" in text and "no text ant.jpg" in text
    reasons = [(one.reason, one.count) for one in select_recall(recall_beach_tables(), {}).rejected_replies]
    assert reasons == [("refusal", 2), ("empty", 1)], "the most frequent first"
    assert text.index("Chinese Most") < text.index("English Most")


def test_a_smaller_set_says_what_it_was_cut_from_and_has_no_captions_of_its_own() -> None:
    nested = {"of": "coast/v3", "size": 100, "queries": 5, "images": 4, "judgments": 6, "narrower": 2}
    html = page_of(recall_beach_tables(), notes={"nested": nested})
    text = read_text(html)
    assert "The first 100 images of coast/v3" in text and "2 of them have further relevant images outside." in text
    assert "Ambiguous" not in text and "Relevant images per query 1" in text
    targets = {a["id"] for _, a in ParsedPage(html).tags if "id" in a}
    assert {a["href"][1:] for _, a in ParsedPage(html).tags if "href" in a} <= targets


def test_nothing_ambiguous_and_nothing_stripped_is_said_too() -> None:
    calm = make_ambiguity(before={"queries": 5, "ambiguous": 0, "share": 0.0})
    empty_notes = make_caption_figures(openings={"zh": []}, stripped={"zh": []})
    silent = replace(recall_beach_tables(), ledger=empty_frame("ledger"))
    text = text_of(silent, notes={"ambiguity": calm, "captions": empty_notes})
    assert "0% → 0%" in text and "No caption was found to fit another image." in text
    assert "None." in text and "Nothing." in text and "Every reply contains a caption." in text


def test_the_page_stands_alone() -> None:
    ids = ("img_boat", "img_dog", "img_ship")
    html = page_of(recall_beach_tables(), {name: make_jpeg() for name in ids})
    check_page_stands_alone(html, len(ids), scripts=1)
    assert "not available" not in html


def test_every_image_has_words_for_those_who_cannot_see_it() -> None:
    seen = ParsedPage(page_of(recall_beach_tables(), {"img_dog": make_jpeg()}))
    photos = [a["aria-label"] for _, a in seen.tags if a.get("role") == "img"]
    assert "dog.jpg" in photos and "boat.jpg, the caption's own image, image not available" in photos
    assert "ship.jpg, a confusable image, image not available" in photos
    assert "Some images are not available" in text_of(recall_beach_tables())


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.thorough
def test_untrusted_text_stays_text(evil: str) -> None:
    set_ = recall_beach_tables()
    names = set_.images.assign(file_name=evil, licence=evil)
    ledger = set_.ledger.assign(detail=evil, item=evil).astype("object")
    ledger.loc[0, "reason"] = evil
    asked = set_.queries.assign(text=evil, language=evil, style=evil)
    waiting = make_candidate_judgments(("q_5", "img_boat", 0.6)).assign(evidence=evil)
    hostile = Tables(asked, names, set_.qrels, ledger, candidate_judgments=waiting)
    rival = {"image_id": "img_ship", "text": evil, "score": 0.7, "evidence": evil}
    told = make_ambiguity_example(text=evil, language=evil, new_text=evil, outcome=evil, rivals=[rival], image_id=evil)
    seen_by = dict.fromkeys(("captions", "images", "descriptions"), evil)
    begins = {evil: [{"text": evil, "count": 1, "share": 1.0, "example": evil}]}
    nested = {"of": evil, "size": 9, "queries": 1, "images": 1, "judgments": 1, "narrower": 0}
    notes = {
        "captions": make_caption_figures(stripped={evil: [{"text": evil, "count": 1}]}, openings=begins),
        "ambiguity": make_ambiguity(told, policy=evil, then=evil, seen=seen_by),
        "nested": nested,
    }
    changes: dict[str, Any] = dict.fromkeys(("name", "title", "licence", "content_digest"), evil)
    changes |= {"notes": notes, "known_limitations": [evil], "grades": {"1": evil}}
    thumbnails = {"img_dog": make_jpeg()}
    check_text_stays_text(page_of(hostile, thumbnails, **changes), page_of(set_, thumbnails), evil)


def test_texts_of_either_direction_are_isolated() -> None:
    set_ = recall_beach_tables()
    rival = {"image_id": "img_ship", "text": TURNED, "score": 1.0, "evidence": TURNED}
    told = make_ambiguity_example(text=TURNED, new_text=TURNED, rivals=[rival])
    turned = replace(set_, queries=set_.queries.assign(text=TURNED), images=set_.images.assign(file_name=TURNED))
    notes = {"ambiguity": make_ambiguity(told), "captions": make_caption_figures()}
    check_directions_are_isolated(page_of(turned, notes=notes))


def shown_with(selection: RecallSelection) -> dict[str | None, list[str]]:
    return {one.image_id: [asked.query_id for asked in one.queries] for one in selection.images}


def test_all_that_is_asked_of_an_image_stands_with_it_chinese_and_captions_first() -> None:
    selection = select_recall(recall_beach_tables(), {})
    assert shown_with(selection) == {"img_boat": ["q_4"], "img_dog": ["q_3", "q_2", "q_1"], "img_ship": ["q_5"]}
    assert selection.image_total == 3


def test_an_image_that_was_judged_not_relevant_is_none_of_them() -> None:
    set_ = recall_beach_tables()
    judged = replace(set_, qrels=qrels_table([*pairs_of(set_), ("q_5", "img_boat", 0)]))
    assert select_recall(judged, {}) == select_recall(set_, {})


def test_where_its_own_image_is_not_right_or_not_there_another_stands_for_it() -> None:
    """As in a smaller gallery, which may hold an image that the query was merged with and not its own."""
    set_ = recall_beach_tables()
    smaller = replace(set_, images=set_.images[set_.images["image_id"] != "img_boat"])
    assert shown_with(select_recall(smaller, {}))["img_ship"] == ["q_4", "q_5"]
    refused = replace(
        set_, qrels=set_.qrels[~((set_.qrels["query_id"] == "q_4") & (set_.qrels["image_id"] == "img_boat"))]
    )
    assert shown_with(select_recall(refused, {}))["img_ship"] == ["q_4", "q_5"]


def test_images_of_ambiguous_captions_need_thumbnails_too_even_of_queries_that_went() -> None:
    notes = {"ambiguity": make_ambiguity(make_ambiguity_example("q_9", image_id="img_empty", outcome="dropped"))}
    ids = select_recall(recall_beach_tables(), notes).image_ids
    assert len(ids) == len(set(ids)) and set(ids) == {"img_boat", "img_dog", "img_ship", "img_empty"}
    assert "img_empty" not in select_recall(recall_beach_tables(), {}).image_ids


@pytest.mark.parametrize("number", [1, 3, 50, 500])
def test_as_many_images_as_wished(number: int) -> None:
    names = [f"{n:03}" for n in range(100)]
    asked = [{"query_id": f"q_{name}", "text": name, "source_image_id": f"img_{name}"} for name in names]
    rows = [(f"q_{name}", f"img_{name}", 1) for name in names]
    set_ = Tables(queries_table(asked), images_table(names), qrels_table(rows))
    found = select_recall(set_, {}, images=number)
    assert len(found.images) == len(found.image_ids) == min(number, 100) and found.image_total == 100


def test_a_reason_shows_a_few_of_its_replies_however_many_there_are() -> None:
    rows: list[LedgerRow] = [
        (f"{n}.jpg", "caption", "clean", "rejected", "empty", {"text": f"reply {n}"}) for n in range(9000)
    ]
    set_ = replace(recall_beach_tables(), ledger=make_ledger(rows))
    (refused,) = select_recall(set_, {}).rejected_replies
    assert refused.count == 9000 and len(refused.examples) == 4

"""The card of a set, as people and Hugging Face read it."""

from typing import Any

import pytest
import yaml

from querytruth.formats.set_card import format_share, list_biases, render_set_card
from querytruth.sets.benchmark_set import make_canary
from tests.review.recall_sets import (
    make_ambiguity,
    make_ambiguity_example,
    make_caption_figures,
    make_manifest,
    recall_beach_tables,
)


def card_of(**notes: Any) -> str:
    set_ = recall_beach_tables()
    return render_set_card(make_manifest(set_, notes=notes), set_)


def test_the_card_states_made_and_typed_queries() -> None:
    (stated,) = list_biases("imported", {"en/query": 4, "en/caption": 6})
    assert stated.startswith("6 of its queries were generated, 4 were typed by people who search: absolute scores")
    assert "absolute scores may be biased" in list_biases("recall", {"zh/caption": 6})[0]
    assert list_biases("queries", {"en/query": 4}) == list_biases("imported", {"en/caption": 4}) == []


def test_a_recall_sets_card_tells_of_ambiguity_before_and_after() -> None:
    text = card_of(captions=make_caption_figures(), ambiguity=make_ambiguity(make_ambiguity_example()))
    assert "a recall set for text-to-image search: captions as queries" in text
    assert "| before | 6 | 2 | 33.3% |\n| after | 5 | 0 | 0% |" in text
    assert "| 一艘船 | ship.jpg: 一艘红色的船 | the other images are also relevant |" in text
    assert "Confusable images were found by what the captions say, caption similarity (char\\_ngrams)." in text
    assert "| 狗 沙滩 | zh | keywords | 1 |" in text and "| Three dogs on the beach | en | caption | 1 |" in text


def test_an_example_names_its_first_rival_and_its_new_words() -> None:
    rivals = [{"image_id": "img_gone", "text": None, "score": 0.6, "evidence": "images alike"}] * 3
    text = card_of(
        ambiguity=make_ambiguity(make_ambiguity_example(outcome="asked_again", new_text="一艘*蓝*船", rivals=rivals))
    )
    assert "| 一艘船 | img\\_gone and 2 more | unambiguous with its new caption: 一艘\\*蓝\\*船 |" in text


def test_an_example_that_was_left_out_says_why() -> None:
    text = card_of(ambiguity=make_ambiguity(make_ambiguity_example("q_9", outcome="dropped")))
    assert "left out: another query has the same text and the same relevant images" in text


def test_a_smaller_sets_card_names_what_it_was_cut_from() -> None:
    text = card_of(nested={"of": "coast/v3", "size": 1000, "queries": 5, "images": 4, "judgments": 6, "narrower": 0})
    assert "The first 1,000 images of `coast/v3`" in text and "Ambiguous" not in text


@pytest.mark.parametrize("kind", ["recall", "generated", "imported"])
def test_every_kind_has_a_card_with_front_matter(kind: str) -> None:
    set_ = recall_beach_tables()
    text = render_set_card(make_manifest(set_, kind=kind, notes={}), set_)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["language"] == ["en", "zh"] and front["pretty_name"] == "The beach 海边"
    assert f"a {kind} set" in text


@pytest.mark.parametrize(
    ("ambiguous", "queries", "words"),
    [
        (0, 9, "0%"),
        (1, 3, "33.3%"),
        (1, 700, "0.14%"),
        (1, 100_000, "under 0.01%"),
    ],
)
def test_shares_in_words(ambiguous: int, queries: int, words: str) -> None:
    assert format_share({"ambiguous": ambiguous, "queries": queries, "share": 0.0}) == words


def test_a_generated_sets_card_names_people_and_the_web_only_where_they_had_a_part() -> None:
    collection = {
        "search": "folder",
        "fetched": {"hosts": 0, "first": None, "last": None},
        "by_topic": [{"topic": "fruit", "queries": 3}],
        "queries": 2,
        "pictures_of_several_queries": 0,
        "same_picture_at_other_addresses": 0,
    }
    text = card_of(collection=collection)
    assert "Of 3 queries, 2 found enough images." in text and "No image was fetched from the web" in text
    day = "2026-03-01T08:00:00+00:00"
    fetched = {"hosts": 2, "first": day, "last": day}
    text = card_of(collection=collection | {"fetched": fetched, "choices_of_people": 1})
    assert "Of 3 queries that people chose, 2 found" in text and "The address, web page" in text


def test_what_a_stranger_wrote_is_text_on_the_card() -> None:
    set_, hostile = recall_beach_tables(), "![x](http://127.0.0.1/x) <img src=http://127.0.0.1/y> \u202ex"
    manifest = make_manifest(set_, notes={}) | {"known_limitations": [hostile], "grades": {"1": hostile}}
    text = render_set_card(manifest | {"title": hostile, "licence": hostile}, set_).split("---\n", 2)[2]
    assert "![x]" not in text and "<img" not in text and "\u202e" not in text
    assert text.count("⟨U+202E⟩") == 4


def test_each_content_has_a_canary_of_its_own() -> None:
    set_ = recall_beach_tables()
    card = render_set_card(make_manifest(set_) | {"content_digest": "a digest"}, set_)
    assert f"`{make_canary('a digest')}`" in card
    assert make_canary("a digest") != make_canary("another")

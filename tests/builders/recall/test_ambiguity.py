"""Captions that fit several images: found, told why, and dealt with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.judged_pairs import JudgedPairs, decide_pairs
from builders.recall.ambiguity import build_recaption_requests, count_ambiguous, resolve_ambiguity, see_through_judge
from builders.recall.confusable_images import ConfusableImages, ConfusableRules, find_confusable_images
from builders.recall.fit_probability import MEASURES, FittedLine
from querytruth.array_types import BoolArray, FloatArray
from querytruth.backends.models.embedders import char_ngrams
from tests.builders.recall.album_captions import CaptionedAlbum, make_captioned_album, source_pairs

RULES = ConfusableRules()
encode = char_ngrams.CharNgramEmbedder().encode_texts
SMALL = {  # query letter: its caption; q_a asks for img_a …
    "a": "海滩上有一双拖鞋。",
    "b": "在海滩上拍到的一双拖鞋。",
    "c": "海滩上有一双红色的拖鞋和一只狗。",
    "d": "海滩上有一双蓝色的拖鞋和一只狗。",
    "e": "公园里有一张长椅。",
}


def world(captions: dict[str, str], groups: dict[str, str] | None = None, language: str = "zh") -> tuple[Any, Any, Any]:
    """Queries, judgments, images: an image per caption."""
    queries = pd.DataFrame(
        {"query_id": [f"q_{c}" for c in captions], "text": list(captions.values()), "language": language}
    )
    images = pd.DataFrame({"image_id": [f"img_{c}" for c in captions]})
    images["duplicate_group"] = [(groups or {}).get(c) for c in captions]
    return queries, source_pairs(list(queries["query_id"]), list(images["image_id"])), images


def rivals_of(captions: dict[str, str] = SMALL, rules: ConfusableRules = RULES, **more: Any) -> ConfusableImages:
    queries, qrels, images = world(captions, more.pop("groups", None), more.pop("language", "zh"))
    return find_confusable_images(queries, qrels, images, rules, encode(queries["text"]), **more)


def pairs(rivals: ConfusableImages) -> set[tuple[str, str]]:
    sure = rivals.table
    return set(zip(sure["query_id"], sure["image_id"], strict=True))


PARTS = {"all": slice(None), "every second": slice(1, None, 2)}  # of the scenes


@pytest.fixture(scope="module", params=[(language, part) for language in ("zh", "en") for part in PARTS], ids=" ".join)
def album(request: pytest.FixtureRequest) -> CaptionedAlbum:
    language, part = request.param
    return make_captioned_album(language, PARTS[part])


def found(album: CaptionedAlbum, **more: Any) -> ConfusableImages:
    vectors = encode(album.queries["text"])
    return find_confusable_images(album.queries, album.qrels, album.images, RULES, vectors, **more)


def test_a_caption_fits_an_image_of_which_as_much_is_said_and_not_the_other_way() -> None:
    rivals = rivals_of()
    fits = {("q_a", f"img_{c}") for c in "bcd"} | {("q_b", f"img_{c}") for c in "acd"}
    assert pairs(rivals) == fits
    assert rivals.ambiguous_query_ids == {"q_a", "q_b"}
    first = rivals.table.iloc[0]
    assert (first["query_id"], first["image_id"], first["confusable_query_id"], first["score"]) == (
        "q_a",
        "img_b",
        "q_b",
        1,
    )
    assert first["evidence"] == "its captions say all of it: 在海滩上拍到的一双拖鞋。"


def test_near_duplicates_are_one_answer() -> None:
    assert not pairs(rivals_of({"a": SMALL["a"], "b": SMALL["b"]}, groups={"a": "dup_1", "b": "dup_1"}))
    told = pd.DataFrame({"duplicate_group": ["dup_1"] * 2, "image_id": ["img_a", "img_b"]})
    assert not pairs(rivals_of({"a": SMALL["a"], "b": SMALL["b"]}, duplicates=told))
    three = dict.fromkeys("abc", SMALL["a"])
    assert pairs(rivals_of(three, groups={"b": "dup_1", "c": "dup_1"})) == {
        ("q_a", "img_b"),
        ("q_b", "img_a"),
        ("q_c", "img_a"),
    }
    queries, qrels, images = world(three, {"b": "dup_1", "c": "dup_1"})
    merged = resolve_ambiguity(
        queries, qrels, images, rivals_of(three, groups={"b": "dup_1", "c": "dup_1"}), "merge"
    ).qrels
    assert set(merged.loc[merged["query_id"] == "q_a", "image_id"]) == {"img_a", "img_b", "img_c"}


def test_what_a_person_judged_wrong_is_no_rival() -> None:
    queries, qrels, images = world({"a": SMALL["a"], "b": SMALL["b"]})
    judged = qrels.iloc[[0]].assign(image_id="img_b", relevance=0, judged_by="human")
    rivals = find_confusable_images(queries, pd.concat([qrels, judged]), images, RULES, encode(queries["text"]))
    assert pairs(rivals) == {("q_b", "img_a")}


def test_a_caption_that_says_nothing_is_no_ones_rival() -> None:
    assert not pairs(rivals_of({"a": "。", "b": "。", "c": "有的"}))


def line(intercept: float, **weights: float) -> FittedLine:
    """A line by some features, whose background fits all captions."""
    groups = ("kind", "sex", "age", "number", "colour", "place", "time", "negation")
    known = dict.fromkeys((*MEASURES, *(f"other_{group}" for group in groups)), 0.0) | weights
    stated: dict[str, Any] = {"fitted_on": {}, "reliability": [], "embedder": "char_ngrams"}
    return FittedLine(
        language="en", compares_spelling=True, weights=known, intercept=intercept, covered=0.9, background=1, **stated
    )


OTHERS = {f"x{number}": f"a red lamp number{number}" for number in range(30)}


def test_candidates_are_those_first_by_the_probability_of_the_line() -> None:
    captions = OTHERS | {"a": "a dog by the green sea", "b": "dogs by the green sea wall", "c": "a dog by a lamp"}
    for weights, first in (({"missing": -0.3}, "img_b"), ({"missing": 0.3}, "img_x0")):
        rules = replace(RULES, min_score=0.95, candidate_count=1, lines=(line(0, **weights),))
        found = rivals_of(captions, rules, language="en").candidates.set_index("query_id")
        assert found.loc["q_a", "image_id"] == first


def test_what_captions_say_whole_is_as_likely_as_people_found_such_pairs() -> None:
    captions = OTHERS | {"a": "a dog by the sea", "b": "two dogs by the sea and a wall"}
    found = rivals_of(captions, replace(RULES, lines=(line(-5),)), language="en").table.set_index("query_id")
    assert (found.loc["q_a", "image_id"], found.loc["q_a", "score"]) == ("img_b", 0.9)


def test_vectors_of_images_count_with_those_of_their_captions() -> None:
    """The captions of a and b have nothing in common; their images are the same."""
    captions = OTHERS | {"a": "a cat", "b": "an old bench"}
    rng = np.random.default_rng(0)
    images = rng.standard_normal((32, 16)).astype(np.float32)
    images[31] = images[30]
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    rules = replace(RULES, candidate_count=40, lines=(line(0, images=1.0),))
    scores = []
    for of_images in (None, images):
        found = rivals_of(captions, rules, language="en", image_vectors=of_images).candidates
        scores.append(found.set_index(["query_id", "image_id"])["score"].get(("q_a", "img_b"), 0.0))
    assert scores[1] > scores[0] + 0.05


def test_vectors_that_do_not_fit_are_refused() -> None:
    queries, qrels, images = world({"a": "一", "b": "二"})
    good = encode(queries["text"])
    for vectors, of_images in ((good[:1], None), (good, good[:1]), (good * np.nan, None)):
        with pytest.raises(ValueError, match="vectors"):
            find_confusable_images(queries, qrels, images, RULES, vectors, of_images)


@pytest.mark.parametrize(
    ("query", "caption"),
    [
        ("a red dog by the sea", "a dog by the sea"),  # no caption says red
        ("two dogs by the sea", "a dog by the sea"),
        ("a dog in the snow", "a dog on the sand"),
        ("a man by the sea", "a woman by the sea"),
        ("a dog without a leash", "a dog and a leash"),
    ],
)
def test_likeness_proposes_a_pair_and_never_merges_it_against_the_words(query: str, caption: str) -> None:
    captions = OTHERS | {"a": query, "b": caption}
    rivals = rivals_of(captions, replace(RULES, max_listed=50, lines=(line(5),)), language="en")
    row = rivals.table.set_index(["query_id", "image_id"]).loc[("q_a", "img_b")]
    assert row["score"] > 0.9 and not row["is_mergeable"]
    queries, qrels, images = world(captions, language="en")
    settled = resolve_ambiguity(queries, qrels, images, rivals, "merge", override_ids=frozenset({"q_a"}))
    assert "q_a" in set(settled.ambiguous_pairs["query_id"]), "it waits for people"


def test_evidence_names_what_captions_lack_as_it_is_written() -> None:
    captions = OTHERS | {"a": "two running horses in white snow", "b": "a brown cow grazing"}
    rules = replace(RULES, max_listed=50, lines=(line(5),))
    row = rivals_of(captions, rules, language="en").table.set_index(["query_id", "image_id"]).loc[("q_a", "img_b")]
    expected = "people say that such captions fit, not said: two running horses white snow: a brown cow grazing"
    assert row["evidence"] == expected


def test_drop_tells_of_each_query_why_it_went() -> None:
    queries, qrels, images = world(SMALL)
    settled = resolve_ambiguity(queries, qrels, images, rivals_of(), "drop")
    assert settled.queries["query_id"].tolist() == ["q_c", "q_d", "q_e"]
    assert set(settled.qrels["query_id"]) == {"q_c", "q_d", "q_e"}
    assert settled.rejections[["item", "bucket", "reason"]].to_numpy().tolist() == [
        ["q_a", "rejected", "ambiguous"],
        ["q_b", "rejected", "ambiguous"],
    ]
    first = settled.rejections.iloc[0]
    assert (first["text"], first["related_item"]) == (SMALL["a"], "img_b")
    assert (first["measure"], first["value"]) == ("confusability", 1.0)
    assert first["detail"] == f"its captions say all of it: {SMALL['b']}"
    assert settled.figures["before"] == {"queries": 5, "ambiguous": 2, "share": 0.4}
    assert settled.figures["after"] == {"queries": 3, "ambiguous": 0, "share": 0.0}


def test_merge_makes_rivals_relevant_and_asks_the_same_once() -> None:
    captions = {**SMALL, "f": SMALL["a"]}
    queries, qrels, images = world(captions)
    settled = resolve_ambiguity(queries, qrels.astype({"query_id": "category"}), images, rivals_of(captions), "merge")
    truth = (
        settled.qrels.astype({"query_id": str})
        .groupby("query_id")["image_id"]
        .agg(lambda ids: "".join(i[-1] for i in ids))
    )
    assert truth.to_dict() == {"q_a": "abcdf", "q_b": "abcdf", "q_c": "c", "q_d": "d", "q_e": "e"}
    assert settled.rejections[["item", "reason"]].to_numpy().tolist() == [["q_f", "repeated_query"]]
    added = settled.qrels[settled.qrels["evidence"].notna()]
    assert (added["relevance"] == 1).all() and (added["judged_by"] == "caption").all() and len(added) == 8


def test_merge_never_leaves_a_truth_with_holes() -> None:
    """A query with more rivals than are listed would count right answers as wrong."""
    captions = dict.fromkeys("abcdefgh", SMALL["a"]) | {"x": SMALL["e"]}
    queries, qrels, images = world(captions)
    rivals = rivals_of(captions, replace(RULES, max_listed=6))
    assert rivals.table.groupby("query_id").size().tolist() == [6] * 8
    settled = resolve_ambiguity(queries, qrels, images, rivals, "merge")
    assert settled.queries["query_id"].tolist() == ["q_x"]
    assert set(settled.rejections["reason"]) == {"too_many_rivals"}
    assert not rivals_of(captions, replace(RULES, max_listed=7)).crowded_query_ids


def test_review_keeps_all_and_lists_them_for_people() -> None:
    queries, qrels, images = world(SMALL)
    settled = resolve_ambiguity(queries, qrels, images, rivals_of(), "review")
    assert len(settled.queries) == 5 and len(settled.qrels) == 5 and not len(settled.rejections)
    assert set(settled.ambiguous_pairs["query_id"]) == {"q_a", "q_b"}
    assert list(settled.ambiguous_pairs) == ["query_id", "text", "image_id", "score", "evidence"]
    assert settled.figures["after"]["ambiguous"] == 2


def test_what_people_want_stays_ambiguous_with_its_own_image_and_is_counted_so() -> None:
    queries, qrels, images = world(SMALL)
    dropped = resolve_ambiguity(
        queries, qrels, images, rivals_of(), "drop", override_ids=frozenset({"q_a", "q_e", "q_gone"})
    )
    assert dropped.queries["query_id"].tolist() == ["q_a", "q_c", "q_d", "q_e"]
    assert dropped.rejections["item"].tolist() == ["q_b"] and len(dropped.qrels) == 4
    assert dropped.figures["after"] == {"queries": 4, "ambiguous": 1, "share": 0.25}
    assert dropped.figures["rescued"] == 1, "the other is clear"
    review = resolve_ambiguity(queries, qrels, images, rivals_of(), "review", override_ids=frozenset({"q_a"}))
    assert set(review.ambiguous_pairs["query_id"]) == {"q_a", "q_b"} and "rescued" not in review.figures


def test_merge_gives_what_people_want_just_its_own_image_where_there_are_too_many() -> None:
    captions = dict.fromkeys("abcdefgh", SMALL["a"]) | {"x": SMALL["e"]}
    queries, qrels, images = world(captions)
    rivals, wanted = rivals_of(captions, replace(RULES, max_listed=6)), frozenset({"q_b", "q_d"})
    settled = resolve_ambiguity(queries, qrels, images, rivals, "merge", override_ids=wanted)
    assert settled.qrels[["query_id", "image_id"]].astype(str).to_numpy().tolist() == [
        ["q_b", "img_b"],
        ["q_d", "img_d"],
        ["q_x", "img_x"],
    ]
    assert settled.figures["after"]["ambiguous"] == settled.figures["rescued"] == 2
    merged = resolve_ambiguity(
        queries, qrels, images, rivals_of(captions, replace(RULES, max_listed=7)), "merge", override_ids=wanted
    )
    assert set(merged.queries["query_id"]) == {"q_b", "q_d", "q_x"}, "of those that read the same the wanted stay"
    assert merged.qrels["query_id"].astype(str).value_counts().to_dict() == {"q_b": 8, "q_d": 8, "q_x": 1}
    assert set(merged.rejections["reason"]) == {"repeated_query"} and len(merged.rejections) == 6


def test_what_people_wrote_is_not_asked_about_again() -> None:
    queries, _, _ = world(SMALL)
    again = build_recaption_requests(queries, rivals_of(), final_query_ids={"q_a"})
    assert again["query_id"].tolist() == ["q_b"] and again["rivals"][0][0] == SMALL["a"], "to others it is a rival"


def test_who_is_asked_again_sees_what_rivals_say() -> None:
    queries, _, _ = world(SMALL)
    again = build_recaption_requests(queries, rivals_of())
    assert again["query_id"].tolist() == ["q_a", "q_b"]
    assert again["rivals"][0][0] == SMALL["b"], "the nearest first"
    assert set(again["rivals"][0]) == {SMALL[c] for c in "bcd"}
    # The second answer tells them apart; the rest goes the way that was chosen.
    better = {**SMALL, "a": "海滩上有一双绿色的拖鞋。"}
    queries, qrels, images = world(better)
    rivals = rivals_of(better)
    assert rivals.ambiguous_query_ids == {"q_b"}
    assert count_ambiguous(queries, rivals.ambiguous_query_ids)["share"] == 0.2
    assert len(resolve_ambiguity(queries, qrels, images, rivals, "drop").queries) == 4


def test_an_unknown_policy_is_a_value_error() -> None:
    queries, qrels, images = world(SMALL)
    with pytest.raises(ValueError, match="'ask'; use one of drop, merge, review"):
        resolve_ambiguity(queries, qrels, images, rivals_of(), "ask")


@pytest.mark.thorough
def test_on_the_album_all_that_captions_can_tell_is_found_and_nothing_else(album: CaptionedAlbum) -> None:
    """Some of the shared captions say what the other image's caption is silent about: no text tells of those."""
    rivals = found(album)
    assert rivals.ambiguous_query_ids < album.shared(), "never one too many"
    assert len(rivals.ambiguous_query_ids) == {36: 31, 13: 11}[len(album.shared())]
    settled = resolve_ambiguity(album.queries, album.qrels, album.images, rivals, "merge")
    truth = settled.qrels.groupby("query_id", observed=True)["image_id"].agg(set)
    exact = {query for query in truth.index if truth[query] == album.fitting_images[query]}
    assert set(truth.index) - exact == album.shared() - rivals.ambiguous_query_ids


@pytest.mark.thorough
def test_on_the_album_the_whole_truth_is_found_where_images_are_described(album: CaptionedAlbum) -> None:
    """What a caption leaves out a longer description says, and then the merged truth is the true one."""
    rivals = found(album, descriptions=album.described)
    assert rivals.ambiguous_query_ids == album.shared()
    settled = resolve_ambiguity(album.queries, album.qrels, album.images, rivals, "merge")
    truth = settled.qrels.groupby("query_id", observed=True)["image_id"].agg(set).to_dict()
    assert truth == {query: album.fitting_images[query] for query in settled.queries["query_id"]}
    gone = set(settled.rejections["item"])
    assert set(settled.rejections["reason"]) == {"repeated_query"}
    assert all(any(album.fitting_images[query] == album.fitting_images[kept] for kept in truth) for query in gone)


def test_people_write_of_one_image_in_five_ways(shared: Callable[[str], Path]) -> None:
    """Real captions, five an image: none is the rival of its own, and few fit another image."""
    lines = shared("captions/flickr8k_test_zh_human_translation.txt").read_text("utf-8").splitlines()[:2500]
    names, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    images = [name.split(".")[0] for name in names]
    queries = pd.DataFrame({"query_id": names, "text": texts, "language": "zh"})
    gallery = pd.DataFrame({"image_id": sorted(set(images)), "duplicate_group": None})
    rivals = find_confusable_images(queries, source_pairs(list(names), images), gallery, RULES, encode(texts))
    assert not (rivals.table["query_id"].str.split(".").str[0] == rivals.table["image_id"]).any()
    assert 0.01 < len(rivals.ambiguous_query_ids) / len(queries) < 0.06


CAPTIONS = st.lists(
    st.sampled_from([*SMALL.values(), "一只狗", "两只狗", "a dog", "a red dog", "红色的狗", "。"]),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60)
@given(
    CAPTIONS,
    st.randoms(use_true_random=False),
    st.sampled_from(["drop", "merge", "review"]),
    st.frozensets(st.sampled_from([f"q_{letter}" for letter in "abcdefghi"]), max_size=3),
)
@pytest.mark.thorough
def test_order_never_matters_and_nothing_is_lost(
    texts: list[str], shuffle: Any, policy: str, wanted: frozenset[str]
) -> None:
    captions = {chr(97 + number): text for number, text in enumerate(texts)}
    queries, qrels, images = world(captions)
    rules = replace(RULES, max_listed=3)
    rivals = find_confusable_images(queries, qrels, images, rules, encode(queries["text"]))
    mixed = [frame.sample(frac=1, random_state=shuffle.randrange(99)) for frame in (queries, qrels, images)]
    again = find_confusable_images(*mixed, rules, encode(mixed[0]["text"]))
    pd.testing.assert_frame_equal(rivals.table, again.table)
    assert rivals.ambiguous_query_ids == again.ambiguous_query_ids
    assert rivals.crowded_query_ids == again.crowded_query_ids
    one = resolve_ambiguity(queries, qrels, images, rivals, policy, override_ids=wanted)
    other = resolve_ambiguity(*mixed, again, policy, override_ids=wanted)
    pd.testing.assert_frame_equal(one.queries, other.queries)
    keys = ["query_id", "image_id"]
    assert (
        one.qrels.astype(str).sort_values(keys).to_numpy().tolist()
        == other.qrels.astype(str).sort_values(keys).to_numpy().tolist()
    )
    assert set(one.queries["query_id"]) | set(one.rejections["item"]) == set(queries["query_id"])
    assert len(one.queries) + len(one.rejections) == len(queries)
    assert set(one.qrels["query_id"]) == set(one.queries["query_id"])
    assert wanted & set(queries["query_id"]) <= set(one.queries["query_id"])


QUERIES, NEAREST, AT_LEAST = 40, 10, 0.8


def candidates() -> ConfusableImages:
    """Of each query ten images that nobody judged, whose captions say nothing of whether they fit."""
    rows = [(f"q{query:02}", f"i{query:02}_{rank}") for query in range(QUERIES) for rank in range(NEAREST)]
    table = pd.DataFrame(rows, columns=["query_id", "image_id"]).assign(score=0.1, is_mergeable=False, evidence="alike")
    return ConfusableImages(table, frozenset(), frozenset(), AT_LEAST, table)


def plant(seed: int) -> tuple[FloatArray, BoolArray]:
    """Scores on a scale of their own, which separate a third of the pairs well."""
    rng = np.random.default_rng(seed)
    fits = rng.random(QUERIES * NEAREST) < 1 / 3
    return 40 * fits + 10 * rng.normal(size=len(fits)), fits


def decide(scores: FloatArray, fits: BoolArray, answered: int, seed: int = 0) -> JudgedPairs:
    asked = candidates().candidates
    keys = list(zip(asked["query_id"], asked["image_id"], strict=True))
    chosen = np.random.default_rng(seed).permutation(len(keys))[:answered]
    return decide_pairs(asked, scores, {keys[place]: bool(fits[place]) for place in chosen}, "eye", AT_LEAST)


@pytest.mark.parametrize("answered", [40, 150, 400])
def test_every_pair_is_merged_or_waits_and_those_merged_fit(answered: int) -> None:
    precisions, found = [], []
    for seed in range(20):
        scores, fits = plant(seed)
        scores[::9] = np.nan
        judged = decide(scores, fits, answered, seed)
        merged = see_through_judge(candidates(), judged).table
        assert len(merged) + len(judged.waiting) == judged.figures["asked"] == len(fits)
        assert judged.figures["merged"] == len(merged) and merged["is_mergeable"].all()
        reasons = judged.waiting.groupby("reason", observed=True).size()
        assert reasons["judge_gave_no_score"] == np.isnan(scores).sum() == judged.figures["without_score"]
        truth = {f"i{place // NEAREST:02}_{place % NEAREST}": fit for place, fit in enumerate(fits.tolist())}
        hits = [truth[image] for image in merged["image_id"]]
        precisions.append(np.mean(hits))
        found.append(sum(hits) / fits.sum())
    assert np.mean(precisions) >= AT_LEAST and np.mean(found) > 0.5


def all_yes(fits: BoolArray) -> BoolArray:
    return np.ones_like(fits)


def as_they_are(fits: BoolArray) -> BoolArray:
    return fits


@pytest.mark.parametrize(("answered", "answers"), [(0, as_they_are), (29, as_they_are), (400, all_yes)])
def test_too_few_or_equal_answers_merge_nothing(answered: int, answers: Callable[[BoolArray], BoolArray]) -> None:
    scores, fits = plant(1)
    judged = decide(scores, answers(fits), answered)
    assert judged.figures["reliability"] is None and not judged.pairs["is_sure"].any()
    assert set(judged.waiting["reason"]) == {"judge_not_calibrated"} and len(judged.waiting) == len(fits)


def test_a_judge_that_sees_nothing_merges_almost_nothing() -> None:
    merged = [decide(np.random.default_rng(seed).normal(size=400), plant(seed)[1], 150, seed) for seed in range(20)]
    assert np.mean([one.figures["merged"] for one in merged]) < 0.02 * 400


def test_what_is_merged_is_relevant_by_the_judge_and_the_rest_waits() -> None:
    scores, fits = plant(2)
    judged = decide(scores, fits, 200)
    ids = [f"q{query:02}" for query in range(QUERIES)]
    queries = pd.DataFrame({"query_id": ids, "text": [f"text {query}" for query in ids], "language": "en"})
    own = pd.DataFrame({"query_id": ids, "image_id": [f"own_{query}" for query in ids], "relevance": np.int8(1)})
    own = own.assign(judged_by="caption", evidence=None)
    images = pd.DataFrame({"image_id": [*own["image_id"], *candidates().table["image_id"]], "duplicate_group": None})
    codes = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    resolved = resolve_ambiguity(queries, own.astype(codes), images, see_through_judge(candidates(), judged), "merge")
    by_judge = resolved.qrels[resolved.qrels["judged_by"] == "judge"]
    assert len(by_judge) == judged.figures["merged"] and len(resolved.queries) == QUERIES
    assert by_judge["evidence"].astype(str).str.match(r"eye: probability 0\.[89]\d|eye: probability 1\.00").all()
    assert len(resolved.ambiguous_pairs) == judged.figures["waiting"]
    assert (resolved.ambiguous_pairs["score"] < AT_LEAST).all()

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

from builders.recall.ambiguity import build_recaption_requests, count_ambiguous, resolve_ambiguity
from builders.recall.calibration import Calibration
from builders.recall.confusable_images import ConfusableImages, find_confusable_images
from builders.recall.confusable_scores import ConfusableRules, QueryImageVectors
from querytruth.array_types import Vectors
from querytruth.backends.models.embedders import char_ngrams
from tests.builders.recall.album_captions import CaptionedAlbum, make_captioned_album, source_pairs

RULES = ConfusableRules(min_caption_cosine=char_ngrams.CharNgramEmbedder.near_duplicate_cosine)
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
    sight = more.pop("sight", QueryImageVectors(captions=encode(queries["text"])))
    return find_confusable_images(queries, qrels, images, rules, sight, **more)


def pairs(rivals: ConfusableImages) -> set[tuple[str, str]]:
    sure = rivals.table
    return set(zip(sure["query_id"], sure["image_id"], strict=True))


PARTS = {"all": slice(None), "every second": slice(1, None, 2)}  # of the scenes


@pytest.fixture(scope="module", params=[(language, part) for language in ("zh", "en") for part in PARTS], ids=" ".join)
def album(request: pytest.FixtureRequest) -> CaptionedAlbum:
    language, part = request.param
    return make_captioned_album(language, PARTS[part])


def found(album: CaptionedAlbum, **more: Any) -> ConfusableImages:
    sight = QueryImageVectors(captions=encode(album.queries["text"]))
    return find_confusable_images(album.queries, album.qrels, album.images, RULES, sight, **more)


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


def test_near_captions_are_judged_by_what_differs() -> None:
    """A spelling is never so near that red is blue; a slip of the pen is none."""
    loose = replace(RULES, min_caption_cosine=0.6)
    table = rivals_of({"c": SMALL["c"], "d": SMALL["d"]}, replace(loose, candidate_count=5)).candidates
    assert table["caption_cosine"].min() > 0.6
    assert table["score"].tolist() == [0, 0]
    assert table["evidence"][0].startswith("captions alike, not said: 红: ")
    slip = rivals_of({"c": "一个男孩在沙滩边玩耍", "d": "一个男孩在沙滩边耍玩"}, loose)
    assert pairs(slip) == {("q_c", "img_d"), ("q_d", "img_c")}
    assert slip.table["score"].between(0.5, 1, inclusive="left").all()


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


def test_captions_of_one_image_are_no_rivals() -> None:
    queries, qrels, images = world({"a": SMALL["a"], "b": SMALL["b"]})
    qrels["image_id"] = "img_a"
    assert not len(
        find_confusable_images(queries, qrels, images, RULES, QueryImageVectors(captions=encode(queries["text"]))).table
    )


def test_what_a_person_judged_wrong_is_no_rival() -> None:
    queries, qrels, images = world({"a": SMALL["a"], "b": SMALL["b"]})
    judged = qrels.iloc[[0]].assign(image_id="img_b", relevance=0, judged_by="human")
    rivals = find_confusable_images(queries, pd.concat([qrels, judged]), images, RULES, QueryImageVectors())
    assert pairs(rivals) == {("q_b", "img_a")}


def test_a_caption_that_says_nothing_is_no_ones_rival() -> None:
    assert not pairs(rivals_of({"a": "。", "b": "。", "c": "有的"}, sight=QueryImageVectors()))


# Images and queries as directions in a plane: an angle is what they show.
def plane(*degrees: float) -> Vectors:
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def test_the_nearest_candidates_are_those_first_in_the_order_of_the_calibration() -> None:
    """By the probability, which knows counts alone, c comes before b; by the order b comes first."""
    captions = {f"x{number}": f"a red lamp number{number}" for number in range(30)}
    captions |= {"a": "a dog by the green sea", "b": "two dogs by the green sea wall", "c": "a dog by a lamp"}
    plain = Calibration(
        "en", (), False, ("count_contradiction",), (0.0,), (1.0,), (-2.0,), -1.0, 0.5, order={"set_words": 1.0}
    )
    rules = replace(RULES, min_score=0.9, candidate_score=0.8, candidate_count=1, calibrations=(plain,))
    found = rivals_of(captions, rules, language="en").candidates.set_index("query_id")
    assert found.loc["q_a", "image_id"] == "img_b"
    covering = captions | {"c": "a dog by a lamp by the green sea and a red lamp and a kite and a bench"}
    likely = rivals_of(covering, replace(rules, calibrations=(replace(plain, covered=0.85),)), language="en")
    assert likely.candidates.set_index("query_id").loc["q_a", "image_id"] == "img_c", "a likely one comes first"


def test_likely_candidates_are_in_the_order_of_the_calibration_too() -> None:
    """Both other images are likely: c by the higher probability, b by the order. A sure one comes before both."""
    captions = {f"x{number}": f"a red lamp number{number}" for number in range(30)}
    captions |= {"a": "a dog by the green sea", "b": "two dogs by the green sea wall", "c": "a dog by a lamp"}
    plain = Calibration(
        "en", (), False, ("count_contradiction",), (0.0,), (1.0,), (-1.0,), 2.1, 0.5, order={"set_words": 1.0}
    )
    rules = replace(RULES, min_score=0.95, candidate_score=0.6, calibrations=(plain,))
    for min_score, first in ((0.95, ["img_b", "img_c"]), (0.85, ["img_c", "img_b"])):
        found = rivals_of(captions, replace(rules, min_score=min_score, max_listed=99), language="en").candidates
        of_a = found[(found["query_id"] == "q_a") & found["image_id"].isin(["img_b", "img_c"])]
        assert (of_a["score"] > 0.6).all()
        assert of_a["image_id"].tolist() == first


def test_a_calibration_with_images_scores_by_its_weights_and_not_by_the_rule() -> None:
    """b's image looks like that of a, which people said means nothing: the rule would call it ambiguous."""
    captions = {f"x{number}": f"a red lamp number{number}" for number in range(30)} | {"a": "a cat", "b": "a bench"}
    sight = QueryImageVectors(queries=plane(0, 1, *[90.0] * 30), images=plane(0, 1, *[90.0] * 30))
    by_images = Calibration(
        "en", (), False, ("image_similarity",), (0.0,), (1.0,), (-1.0,), 0.0, 0.5, image_embedder=("clip",)
    )
    rules = replace(RULES, calibrations=(by_images,), image_embedder=("clip",), candidate_count=50)
    scores = rivals_of(captions, rules, sight=sight, language="en").candidates.set_index(["query_id", "image_id"])[
        "score"
    ]
    assert scores["q_a", "img_b"] == pytest.approx(1 / (1 + np.e), abs=0.001)
    by_rule = rivals_of(captions, replace(rules, calibrations=()), sight=sight, language="en").candidates
    assert by_rule.set_index(["query_id", "image_id"])["score"]["q_a", "img_b"] > 0.9


def test_images_speak_where_captions_are_silent_but_never_across_alone() -> None:
    """q_a lies as near to img_b as to its own image; whether the two images look alike decides."""
    captions = {"a": "一只猫", "b": "一张长椅", "c": "三架飞机"}
    rules = replace(RULES, min_image_cosine=0.95, margin=0.02)
    alike = QueryImageVectors(queries=plane(5, 10, 90), images=plane(0, 10, 90))
    rivals = rivals_of(captions, rules, sight=alike)
    assert ("q_a", "img_b") in pairs(rivals)
    assert rivals.table.loc[0, "evidence"] == "images alike, not said: 猫: 一张长椅"
    unlike = QueryImageVectors(queries=plane(25, 50, 90), images=plane(0, 50, 130))
    table = rivals_of(captions, replace(rules, candidate_count=5), sight=unlike).candidates
    assert table.loc[table["query_id"] == "q_a", "score"].tolist() == [0]
    far = QueryImageVectors(queries=plane(0, 10, 90), images=plane(0, 10, 90))
    assert ("q_a", "img_b") in pairs(rivals_of(captions, rules, sight=far))
    assert not pairs(rivals_of(captions, replace(rules, margin=0.001), sight=far)), "its own is clearly nearer"


def test_images_alone_tell_too() -> None:
    rivals = rivals_of({"a": "一只猫", "b": "一张长椅"}, sight=QueryImageVectors(images=plane(0, 1)))
    assert pairs(rivals) == {("q_a", "img_b"), ("q_b", "img_a")}
    assert rivals.table["query_image_cosine"].isna().all()


def test_vectors_that_do_not_fit_are_refused() -> None:
    for sight in (
        QueryImageVectors(captions=plane(0)),
        QueryImageVectors(images=plane(0, np.nan)),
        QueryImageVectors(queries=plane(0, 1)),
    ):
        with pytest.raises(ValueError, match="vectors"):
            rivals_of({"a": "一", "b": "二"}, sight=sight)


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


def test_likeness_proposes_a_pair_and_never_merges_it_against_the_words() -> None:
    """Two bathrooms look alike, and their captions do; only one has a blue dust pan beside a white commode."""
    captions = {
        "a": "Blue dust pan and broom on the floor next to white commode",
        "b": "A toilet and a sink in a small bathroom",
        "c": "A toilet and a sink",
    }
    queries, qrels, images = world(captions, language="en")
    alike = QueryImageVectors(queries=plane(0, 2, 4), images=plane(0, 2, 4), captions=plane(0, 2, 4))
    rivals = rivals_of(captions, replace(RULES, min_caption_cosine=0.9), sight=alike, language="en")
    assert ("q_a", "img_b") in pairs(rivals)
    settled = resolve_ambiguity(queries, qrels, images, rivals, "merge")
    merged = settled.qrels[settled.qrels["evidence"].notna()]
    assert merged[["query_id", "image_id"]].astype(str).to_numpy().tolist() == [["q_c", "img_b"]], "all of it is said"
    waiting = settled.ambiguous_pairs.set_index(["query_id", "image_id"])["evidence"]
    evidence = "captions alike, images alike, not said: Blue dust pan broom floor next"
    assert waiting["q_a", "img_b"] == f"{evidence} …: {captions['b']}"
    assert settled.figures["after"]["ambiguous"] == 3, "no query is said to be clear of what waits for people"


def test_a_caption_that_says_all_is_not_merged_where_others_of_the_image_contradict_it() -> None:
    """A dog runs on the beach; of another image one caption says beach, and the others say snow."""
    queries = pd.DataFrame(
        {"query_id": ["q_a", "q_b", "q_c", "q_d"], "language": "en"}
        | {"text": ["A dog runs on the beach", "A dog runs on the snow by the beach", "A dog in snow", "The snowy dog"]}
    )
    qrels = source_pairs(["q_a", "q_b", "q_c", "q_d"], ["img_a", "img_b", "img_b", "img_b"])
    images = pd.DataFrame({"image_id": ["img_a", "img_b"], "duplicate_group": [None, None]})
    rivals = find_confusable_images(queries, qrels, images, RULES, QueryImageVectors())
    row = rivals.table.set_index(["query_id", "image_id"]).loc[("q_a", "img_b")]
    assert row["is_covered"] and not row["is_mergeable"]


def test_evidence_says_alike_from_the_cut_on_and_names_words_not_stems() -> None:
    captions = {"a": "two running horses in white snow", "b": "a brown cow grazing"}
    below = QueryImageVectors(captions=plane(0, 60), queries=plane(0, 60), images=plane(0, 60))
    table = rivals_of(captions, replace(RULES, candidate_count=5, margin=1), sight=below, language="en").candidates
    assert not any("alike" in evidence for evidence in table["evidence"])
    near = QueryImageVectors(captions=plane(0, 1), queries=plane(0, 1), images=plane(0, 1))
    first = rivals_of(captions, sight=near, language="en").table.set_index("query_id").loc["q_a"]
    assert (
        first["evidence"]
        == "captions alike, images alike, not said: two running horses white snow: a brown cow grazing"
    )


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
    with pytest.raises(ValueError, match="'ask' is none of drop, merge, review"):
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
    rivals = find_confusable_images(
        queries, source_pairs(list(names), images), gallery, RULES, QueryImageVectors(captions=encode(texts))
    )
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
    rules = replace(RULES, max_listed=3, min_caption_cosine=0.7)
    rivals = find_confusable_images(queries, qrels, images, rules, QueryImageVectors(captions=encode(queries["text"])))
    mixed = [frame.sample(frac=1, random_state=shuffle.randrange(99)) for frame in (queries, qrels, images)]
    again = find_confusable_images(*mixed, rules, QueryImageVectors(captions=encode(mixed[0]["text"])))
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

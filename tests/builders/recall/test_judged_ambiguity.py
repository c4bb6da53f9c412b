"""A judge's scores on candidates, as people's answers calibrate them: what is merged, what waits, and why."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from builders.judged_pairs import JudgedPairs, decide_pairs
from builders.recall.ambiguity import resolve_ambiguity, see_through_judge
from builders.recall.confusable_images import ConfusableImages
from querytruth.array_types import BoolArray, FloatArray

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

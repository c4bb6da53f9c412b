"""The reference systems: chance, perfection, and words."""

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from querytruth.evaluation.baselines import build_lexical_run, build_oracle_run, build_random_run
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import DEFAULT_METRICS, expected_by_chance, score_run
from querytruth.evaluation.metrics import compute_metric, parse_metric
from querytruth.evaluation.ranking import rank_run

IMAGES = [f"img_{n:03}" for n in range(200)]


def judged(queries: int, relevant: int) -> pd.DataFrame:
    rng = random.Random(1)
    rows = [(f"q{n:03}", image, rng.randint(1, 2)) for n in range(queries) for image in rng.sample(IMAGES, relevant)]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"])


def test_random_comes_near_what_is_expected_of_it() -> None:
    truth = index_qrels(judged(400, 20), gallery=IMAGES)
    ranked = rank_run(build_random_run(truth.query_ids.to_pylist(), IMAGES, 200, seed=0), truth)
    for name in ("p@10", "hit@5", "rr", "ndcg@10", "ap", "p@r"):
        value, mean = (
            compute_metric(ranked, parse_metric(name)),
            expected_by_chance(parse_metric(name), truth, 200).mean(),
        )
        assert value.mean() == pytest.approx(mean, abs=4 * value.std() / np.sqrt(400)), name


def test_random_depends_on_the_ids_and_the_seed_alone() -> None:
    def ranking(queries: list[str], images: list[str], seed: int) -> dict[str, list[str]]:
        run = build_random_run(queries, images, 5, seed)
        return run.groupby("query_id", observed=True)["image_id"].agg(list).to_dict()

    first = ranking(["a", "b"], IMAGES, 0)
    assert ranking(["b"], IMAGES[::-1], 0)["b"] == first["b"] != first["a"]
    assert ranking(["a", "b"], IMAGES, 1) != first
    assert all(len(set(images)) == 5 for images in first.values())
    assert len(build_random_run(["a"], ["x", "y"], 5, 0)) == 2
    assert len(build_random_run([], IMAGES, 5, 0)) == 0


def test_the_oracle_is_perfect() -> None:
    qrels = pd.concat([judged(30, 4), pd.DataFrame([("q000", "no", 0)], columns=["query_id", "image_id", "relevance"])])
    means = score_run(rank_run(build_oracle_run(qrels), index_qrels(qrels)), DEFAULT_METRICS).means()
    assert means.pop("p@5") == pytest.approx(0.8)
    assert means.pop("p@10") == pytest.approx(0.4)
    assert set(means.values()) == {1.0}


def test_the_oracle_shows_the_best_first_whatever_the_order_and_the_type_of_the_ids() -> None:
    qrels = pd.DataFrame({"query_id": "q", "image_id": ["a", "b", "c", "d"], "relevance": [1, 2, 1, 0]})
    for table in (qrels, qrels.iloc[::-1].astype({"query_id": "category", "image_id": "category"})):
        run = build_oracle_run(table)
        assert run["image_id"].tolist() == ["b", "c", "a"]
        assert run["score"].tolist() == [2, 1, 1]


# --- words -----------------------------------------------------------------------------------------------------------

TEXTS = pd.DataFrame(
    {
        "image_id": ["i1", "i2", "i3", "i4", "i5"],
        "text": [
            "一只狗在草地上奔跑",
            "两只猫",
            "A dog running on grass",
            "Two cats on a sofa",
            "two cats, ON a sofa!",
        ],
    }
)


def found(text: str, k: int = 5, texts: pd.DataFrame = TEXTS) -> list[str]:
    run = build_lexical_run(pd.DataFrame({"query_id": ["q"], "text": [text]}), texts, k)
    return run["image_id"].astype(str).tolist()


def test_words_find_texts_that_share_them_in_chinese_and_english() -> None:
    assert found("狗在奔跑")[0] == "i1"
    assert found("猫", 1) == ["i2"]
    assert found("running dogs")[0] == "i3"
    assert found("ＴＷＯ　ＣＡＴＳ", 2) == ["i5", "i4"], "of equal texts the highest id is first"
    assert found("зебра") == [], "what shares nothing does not come back"
    assert found("!?") == []


def test_several_texts_of_an_image_are_read_as_one() -> None:
    texts = pd.DataFrame({"image_id": ["a", "b", "a"], "text": ["red car", "red bus", "at night"]})
    assert found("red at night", texts=texts)[0] == "a"
    mixed = build_lexical_run(pd.DataFrame({"query_id": ["q"], "text": ["red"]}), texts.iloc[::-1], 5)
    plain = build_lexical_run(pd.DataFrame({"query_id": ["q"], "text": ["red"]}), texts, 5)
    assert mixed["score"].tolist() == plain["score"].tolist()


def test_scores_are_those_of_a_known_tf_idf() -> None:
    text_features: Any = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is not installed")
    rng = random.Random(2)
    letters = "ab c一二"
    texts = ["x" + "".join(rng.choices(letters, k=rng.randint(1, 12))).strip() for _ in range(40)]
    texts = [" ".join(text.split()) for text in texts]
    vectors = text_features.TfidfVectorizer(analyzer="char", ngram_range=(1, 3))
    documents = vectors.fit_transform(texts)
    ids = [f"i{n:02}" for n in range(40)]
    for query in texts[:10]:
        expected_scores = dict(zip(ids, (documents @ vectors.transform([query]).T).toarray().ravel(), strict=True))
        table = pd.DataFrame({"image_id": ids, "text": texts})
        run = build_lexical_run(pd.DataFrame({"query_id": ["q"], "text": [query]}), table, 40)
        for image, value in zip(run["image_id"], run["score"], strict=True):
            assert value == pytest.approx(expected_scores[image], abs=1e-6)


def test_a_run_of_many_queries_is_cut_and_coded_right(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = pd.DataFrame({"query_id": ["q1", "q2", "q3"], "text": ["dog", "", "two cats"]})
    whole = build_lexical_run(queries, TEXTS, 1)
    assert whole[["query_id", "image_id"]].astype(str).to_numpy().tolist() == [["q1", "i3"], ["q3", "i5"]]
    monkeypatch.setattr("querytruth.evaluation.baselines._CELLS", 1)
    pd.testing.assert_frame_equal(build_lexical_run(queries, TEXTS, 1), whole)
    assert len(build_lexical_run(queries, TEXTS.iloc[:0], 2)) == 0

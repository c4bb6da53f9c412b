"""Every metric once more, as slowly and as near to its definition as it can be written."""

from math import log2
from typing import Any

import pandas as pd

NaiveQrels = dict[str, dict[str, int]]
NaiveRun = dict[str, dict[str, float]]


def qrels_table(qrels: NaiveQrels) -> pd.DataFrame:
    rows = [(query, image, grade) for query, images in qrels.items() for image, grade in images.items()]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"])


def run_table(run: NaiveRun) -> pd.DataFrame:
    rows = [(query, image, score) for query, images in run.items() for image, score in images.items()]
    table = pd.DataFrame(rows, columns=["query_id", "image_id", "score"])
    return table.astype({"query_id": "str", "image_id": "str", "score": float})


def ranking(scores: dict[str, float]) -> list[str]:
    names = sorted(scores, key=lambda name: name.encode(), reverse=True)
    return sorted(names, key=lambda name: -scores[name])  # a stable sort keeps the order of equal scores


def metric_value(
    name: str, cut: int | str | None, options: dict[str, str], qrels: NaiveQrels, query: str, shown: list[str]
) -> float:
    """One query's value for the images that came back, in order."""
    grades = qrels[query]
    top = max(grade for images in qrels.values() for grade in images.values())
    relevant = [grade for grade in grades.values() if grade > 0]
    k: Any = len(relevant) if cut == "r" else len(shown) if cut is None else cut
    first = [grades.get(image, 0) for image in shown[:k]]
    hits = [grade > 0 for grade in first]

    def precision_at(rank: int) -> float:
        return sum(hits[:rank]) / rank

    def dcg(given: list[int]) -> float:
        worth = (lambda g: 2**g - 1) if options.get("gain") == "exp" else (lambda g: g)
        return sum(worth(grade) / log2(rank + 1) for rank, grade in enumerate(given, start=1))

    ranks = [rank for rank, right in enumerate(hits, start=1) if right]
    if name == "p":
        return sum(hits) / k
    if name == "r":
        return sum(hits) / len(relevant)
    if name == "hit":
        return float(any(hits))
    if name == "rr":
        return 1 / ranks[0] if ranks else 0.0
    if name == "ndcg":
        ideal = sorted(relevant, reverse=True)
        return dcg(first) / dcg(ideal if cut is None else ideal[:k])
    if name == "ap":
        divisor = min(len(relevant), k) if options["norm"] == "min" and cut is not None else len(relevant)
        return sum(precision_at(rank) for rank in ranks) / divisor
    if name == "ap_graded":
        one = max(top, 2) if options["scale"] == "fixed" else top
        return sum(precision_at(rank) * first[rank - 1] / one for rank in ranks) / len(relevant)
    if name == "ap_trapezoid":
        before = {rank: precision_at(rank - 1) if rank > 1 else precision_at(1) for rank in ranks}
        return sum((precision_at(rank) + before[rank]) / 2 for rank in ranks) / len(relevant)
    raise AssertionError(name)


def judged_share(qrels: NaiveQrels, query: str, shown: list[str], k: int) -> float:
    known = [image in qrels[query] for image in shown[:k]]
    return sum(known) / len(known) if known else 0.0


def metric_values(
    name: str, cut: int | str | None, options: dict[str, str], qrels: NaiveQrels, run: NaiveRun
) -> dict[str, float]:
    """All queries that have a relevant image."""
    counted = [query for query, images in qrels.items() if any(images.values())]
    return {query: metric_value(name, cut, options, qrels, query, ranking(run.get(query, {}))) for query in counted}

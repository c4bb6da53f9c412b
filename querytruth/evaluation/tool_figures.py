"""The figure that another evaluator would give of the same judgments and the same run, to the last bit.

Seven tools, each with what it does differently from `metrics.py`: which queries count, how ties are broken, what a cut,
a gain and a mean are, and in what precision it adds up. Each follows the arithmetic of the tool's own code, step by
step, so that its figure can be printed where the tool is not installed; tests/evaluation/test_tool_figures.py runs the
tools beside it. docs/conventions.md has the reasons in words.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation.metrics import Metric, parse_metric

_STAGE = "evaluate"


@dataclass(frozen=True, slots=True)
class ToolRanking:
    """The results of one query in a tool's order: the grade of each (0: unjudged) and its score; `judged`: the grades
    of all images that the judgments list for the query."""

    grades: list[int]
    scores: list[float]
    judged: list[int]

    @property
    def relevant(self) -> int:
        """How many relevant images the judgments list."""
        return sum(grade > 0 for grade in self.judged)

    def first(self, k: int | None) -> list[int]:
        """Returns the grades of the first k results; None: of all."""
        return self.grades if k is None else self.grades[:k]


@dataclass(frozen=True, slots=True)
class Tool:
    """An evaluator. `names`: what it calls our metrics (`{k}` is the cut); `queries`: which its mean counts (`run`:
    those that the run and the judgments have, `judged`: all of the judgments, `all`: all of the set, `returned`: those
    of the run); `value` of one query and `mean` of all; `has_tie_rule`: whether equal scores have one order in it;
    `is_single`: whether it holds scores in single precision, but for the metrics in `double`; `needs`: results that
    each query must have."""

    names: Mapping[str, str]
    queries: str
    value: Callable[[Metric, ToolRanking], float]
    mean: Callable[[Metric, Sequence[float]], float]
    has_tie_rule: bool = True
    is_single: bool = False
    double: tuple[str, ...] = ()
    needs: int = 0


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """What a tool gives for a run. `figures`: by our metric its own name and its figure; `queries`: how many its mean
    counts; `tied`: in how many of them two results have the same score, though the tool has no rule for them;
    `unknown`: our metrics that it has not."""

    tool: str
    figures: dict[str, tuple[str, float]]
    queries: int
    tied: int
    unknown: list[str]

    def notes(self) -> Iterator[str]:
        """Yields what makes the figures incomplete or doubtful."""
        if self.unknown:
            yield f"{self.tool} has no {', '.join(self.unknown)}"
        if self.tied:
            text = f"{self.tied:,} queries have tied scores, which {self.tool} has no rule for"
            yield f"warning: {text}: its figure may be another"


def compute_tool_figures(
    tool: str, qrels: pd.DataFrame, run: pd.DataFrame, metrics: Iterable[str], queries: Collection[str] = ()
) -> ToolFigures:
    """Returns the figures of a tool on judgments (query_id, image_id, relevance) and a run (query_id, image_id, score).
    `queries`: all of the set, also those without a judgment. Raises UserError for an unknown tool, and where the tool
    refuses the run."""
    check_tools([tool])
    rules = TOOLS[tool]
    rankings = _rank(rules, qrels, run, queries, is_single=rules.is_single)
    by_double = _rank(rules, qrels, run, queries, is_single=False) if rules.double else rankings
    if short := next((name for name, one in rankings.items() if len(one.grades) < rules.needs), None):
        reason = f"has fewer than {rules.needs} results, which {tool} refuses"
        raise UserError(_STAGE, short, reason, f"give {rules.needs} results for each query, or leave out --as")
    found: dict[str, tuple[str, float]] = {}
    unknown = []
    for metric in map(parse_metric, metrics):
        name = _name_in(rules, metric)
        if name is None:
            unknown.append(str(metric))
        else:
            ranked = by_double if metric.name in rules.double else rankings
            values = [rules.value(metric, one) for one in ranked.values()]
            found[str(metric)] = name, rules.mean(metric, values) if values else math.nan
    ties = sum(len(set(one.scores)) < len(one.scores) for one in rankings.values())
    return ToolFigures(tool, found, len(rankings), 0 if rules.has_tie_rule else ties, unknown)


def check_tools(names: Iterable[str]) -> None:
    """Raises UserError for a name that is no tool of ours."""
    for name in names:
        if name not in TOOLS:
            raise UserError(_STAGE, name, "is no evaluator whose figures are known", suggest_choice(name, list(TOOLS)))


def _name_in(rules: Tool, metric: Metric) -> str | None:
    form = metric.name if metric.cut is None else f"{metric.name}@{'r' if metric.cut == 'r' else 'k'}"
    is_linear = dict(metric.options).get("gain") == "linear"
    name = (rules.names.get(f"{form} linear") if is_linear else None) or rules.names.get(form)
    name = name or rules.names.get(str(metric))
    return None if name is None else name.format(k=metric.cut)


def _rank(
    rules: Tool, qrels: pd.DataFrame, run: pd.DataFrame, queries: Collection[str], *, is_single: bool
) -> dict[str, ToolRanking]:
    """Returns the ranking of each query that the tool counts, in the order of their ids."""
    judged: dict[str, dict[str, int]] = {}
    for query, image, grade in zip(
        *(qrels[name].tolist() for name in ("query_id", "image_id", "relevance")), strict=True
    ):
        judged.setdefault(str(query), {})[str(image)] = int(grade)
    returned: dict[str, list[tuple[float, str]]] = {}
    for query, image, score in zip(*(run[name].tolist() for name in ("query_id", "image_id", "score")), strict=True):
        kept = float(np.float32(score)) if is_single else float(score)
        returned.setdefault(str(query), []).append((kept, str(image)))
    counted = {
        "run": judged.keys() & returned.keys(),
        "judged": judged.keys(),
        "all": judged.keys() | set(queries),
        "returned": returned.keys(),
    }[rules.queries]
    rankings = {}
    for query in sorted(counted):
        grades = judged.get(query, {})
        rows = sorted(returned.get(query, ()), reverse=True)  # by score, then by id, the highest first
        ranked = [grades.get(image, 0) for _, image in rows]
        rankings[query] = ToolRanking(ranked, [score for score, _ in rows], list(grades.values()))
    return rankings


# ---- trec_eval's arithmetic, in double precision from the first result to the last: also that of ir_measures and mteb


def _trec_value(metric: Metric, ranking: ToolRanking) -> float:
    relevant = ranking.relevant
    if not relevant:
        return 0.0
    if metric.name == "ndcg":
        return _linear_dcg(ranking.first(_number(metric))) / _linear_dcg(
            sorted(ranking.judged, reverse=True)[: _number(metric)]
        )
    cut = relevant if metric.cut == "r" else _number(metric)
    grades = ranking.first(cut)
    hits = sum(grade > 0 for grade in grades)
    if metric.name == "p":
        return hits / (cut or len(grades))
    if metric.name == "r":
        return hits / relevant
    if metric.name == "hit":
        return float(hits > 0)
    if metric.name == "rr":
        return next((1.0 / rank for rank, grade in enumerate(grades, start=1) if grade > 0), 0.0)
    return _sum_of_precisions(grades) / relevant


def _number(metric: Metric) -> int | None:
    return metric.cut if isinstance(metric.cut, int) else None


def _linear_dcg(grades: Iterable[int]) -> float:
    total = 0.0
    for rank, grade in enumerate(grades, start=1):
        if grade > 0:
            total += grade / math.log2(rank + 1)
    return total


def _sum_of_precisions(grades: Iterable[int]) -> float:
    total, hits = 0.0, 0
    for rank, grade in enumerate(grades, start=1):
        if grade > 0:
            hits += 1
            total += hits / rank
    return total


def _pairwise_mean(_metric: Metric, values: Sequence[float]) -> float:
    """NumPy's mean, which adds in pairs: that of pytrec_eval and ranx."""
    return float(np.mean(values))


def _plain_mean(_metric: Metric, values: Sequence[float]) -> float:
    """The sum in the order of the queries, divided by their number."""
    return float(sum(values) / len(values))


def _rounded_mean(metric: Metric, values: Sequence[float]) -> float:
    """mteb's: five decimals, but of MRR all."""
    mean = sum(values) / len(values)
    return float(mean) if metric.name == "rr" else round(float(mean), 5)


# ---- ranx: the same definitions; what ends a cut is the end of the list


def _ranx_value(metric: Metric, ranking: ToolRanking) -> float:
    if metric.name != "ndcg" or dict(metric.options)["gain"] == "linear" or not ranking.relevant:
        return _trec_value(metric, ranking)
    cut = _number(metric)
    ideal = sorted((grade for grade in ranking.judged if grade > 0), reverse=True)
    return _exponential_dcg(ranking.first(cut)) / _exponential_dcg(ideal[:cut])


def _exponential_dcg(grades: Sequence[int]) -> float:
    return float(sum((2.0**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1)))


# ---- torchmetrics: single precision, of what a run has alone, and of scores above 0 alone


def _torch_value(metric: Metric, ranking: ToolRanking) -> float:
    cut = _number(metric)
    found = sum(grade > 0 for grade in ranking.grades)
    if metric.name == "ndcg":
        return _tie_averaged_ndcg(ranking, cut)
    if not found:
        return 0.0
    is_masked = metric.name in ("ap", "rr", "r") or (metric.name == "p" and metric.cut != "r")
    hits = [
        grade > 0 and (score > 0 or not is_masked) for grade, score in zip(ranking.grades, ranking.scores, strict=True)
    ]
    first = hits[: found if metric.cut == "r" else cut]
    if metric.name == "hit":
        return float(any(first))
    if metric.name == "rr":
        return float(next((_single(1.0) / _single(rank) for rank, is_hit in enumerate(first, start=1) if is_hit), 0.0))
    if metric.name == "ap":
        ranks = [rank for rank, is_hit in enumerate(first, start=1) if is_hit]
        return _torch_mean([_single(n) / _single(rank) for n, rank in enumerate(ranks, start=1)]) if ranks else 0.0
    by = found if metric.name == "r" or metric.cut == "r" else cut or len(hits)
    return float(_single(sum(first)) / _single(by))


_single = np.float32


def _tie_averaged_ndcg(ranking: ToolRanking, cut: int | None) -> float:
    """nDCG as torchmetrics has it: results of one score share the mean of their discounts, and the ideal order is of
    what the run returned."""
    import torch

    scores = torch.tensor(ranking.scores, dtype=torch.float32)
    grades = torch.tensor(ranking.grades, dtype=torch.float32)
    discount = 1.0 / torch.log2(torch.arange(len(scores)) + 2.0)
    discount[cut if cut is not None else len(scores) :] = 0.0
    best = (discount * grades[torch.tensor(ranking.grades).argsort(descending=True)]).sum()
    if not best:
        return 0.0
    up_to = discount.cumsum(dim=-1)
    _, group, counts = torch.unique(-scores, return_inverse=True, return_counts=True)
    gains = torch.zeros(len(counts)).scatter_add_(0, group, grades) / counts
    last = counts.cumsum(dim=0) - 1
    shares = torch.zeros(len(counts))
    shares[0], shares[1:] = up_to[last[0]], up_to[last].diff()
    return float((gains * shares).sum() / best)


def _torch_mean(values: Sequence[Any]) -> float:
    """The mean in single precision, added up in torch's order."""
    import torch

    return float(torch.tensor([float(one) for one in values], dtype=torch.float32).mean())


def _torch_mean_of(_metric: Metric, values: Sequence[float]) -> float:
    return _torch_mean(values)


def _mean_of_ones(_metric: Metric, values: Sequence[float]) -> float:
    """A share in single precision: CLIP_benchmark's."""
    return float(_single(sum(values)) / _single(len(values)))


def _percent(_metric: Metric, values: Sequence[float]) -> float:
    """Chinese-CLIP's script gives percents."""
    return sum(one > 0 for one in values) * 1.0 / len(values) * 100


TOOLS = {
    "trec_eval": Tool(
        {"p@k": "P_{k}", "r@k": "recall_{k}", "hit@k": "success_{k}", "ndcg@k": "ndcg_cut_{k}", "ndcg": "ndcg"}
        | {"ap": "map", "ap@k": "map_cut_{k}", "rr": "recip_rank", "p@r": "Rprec"},
        "run",
        _trec_value,
        _pairwise_mean,
        is_single=True,
    ),
    "ir_measures": Tool(
        {"p@k": "P@{k}", "r@k": "R@{k}", "hit@k": "Success@{k}", "ndcg@k": "nDCG@{k}", "ndcg": "nDCG"}
        | {"ap": "AP", "ap@k": "AP@{k}", "rr": "RR", "p@r": "Rprec"},
        "judged",
        _trec_value,
        _plain_mean,
        is_single=True,
    ),
    "mteb": Tool(
        {"p@k": "precision_at_{k}", "r@k": "recall_at_{k}", "hit@k": "hit_rate_at_{k}", "ndcg@k": "ndcg_at_{k}"}
        | {"ap@k": "map_at_{k}", "rr@k": "mrr_at_{k}"},
        "run",
        _trec_value,
        _rounded_mean,
        is_single=True,
        double=("rr",),
    ),
    "ranx": Tool(
        {"p@k": "precision@{k}", "r@k": "recall@{k}", "hit@k": "hit_rate@{k}", "ndcg@k": "ndcg_burges@{k}"}
        | {"ndcg@k linear": "ndcg@{k}", "ndcg linear": "ndcg"}
        | {"ndcg": "ndcg_burges", "ap": "map", "ap@k": "map@{k}", "rr": "mrr", "rr@k": "mrr@{k}", "p@r": "r-precision"},
        "judged",
        _ranx_value,
        _pairwise_mean,
        has_tie_rule=False,
    ),
    "clip_benchmark": Tool(
        {"hit@k": "image_retrieval_recall@{k}"},
        "all",
        _trec_value,
        _mean_of_ones,
        has_tie_rule=False,
        is_single=True,
        needs=1,
    ),
    "chinese_clip": Tool({"hit@1": "r1", "hit@5": "r5", "hit@10": "r10"}, "all", _trec_value, _percent, needs=10),
    "torchmetrics": Tool(
        {"p@k": "RetrievalPrecision(top_k={k})", "r@k": "RetrievalRecall(top_k={k})", "ap": "RetrievalMAP()"}
        | {
            "hit@k": "RetrievalHitRate(top_k={k})",
            "ndcg@k": "RetrievalNormalizedDCG(top_k={k})",
            "ndcg": "RetrievalNormalizedDCG()",
        }
        | {"ap@k": "RetrievalMAP(top_k={k})", "rr": "RetrievalMRR()", "rr@k": "RetrievalMRR(top_k={k})"}
        | {"p@r": "RetrievalRPrecision()"},
        "returned",
        _torch_value,
        _torch_mean_of,
        has_tie_rule=False,
        is_single=True,
    ),
}

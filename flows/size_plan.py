"""Plans how many queries a set needs to find a difference of two systems, and what judging them costs."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from querytruth.audit.answers import median_seconds
from querytruth.audit.steps import ASSUMED_SECONDS
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation import metrics, statistics, systems
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view
from querytruth.evaluation.sample_size import plan_for_discordance, plan_for_pilot
from querytruth.evaluation.steps import ScoredSystem, score_on_common_queries
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision

SIZE_STAGE = "plan size"
_USUAL_DEPTH = 10  # results that are judged where the metric names no cut


@dataclass(frozen=True, slots=True)
class SizeSpec:
    """The difference to find, by which metric and with which power; `discordance`: the share of the queries on which
    two systems differ, in place of a pilot."""

    difference: float
    metric: str
    power: float = 0.8
    discordance: float | None = None


@step("plan size")
def plan_set_size(
    judged: JudgedSet, spec: SizeSpec, pilot: tuple[systems.EvaluatedSystem, systems.EvaluatedSystem] | None
) -> dict[str, Any]:
    """Return the plan: queries, judgments and a person's hours. Raises UserError for a plan from both or none of a
    pilot and a discordance."""
    _check_spec(spec, pilot)
    view = build_evaluation_view(judged, "text_to_image", [spec.metric], ())
    if pilot is None:
        size = plan_for_discordance(spec.discordance or 0.0, spec.difference, spec.power)
        per_query = len(judged.qrels) / max(1, judged.qrels["query_id"].nunique())
    else:
        scored = score_on_common_queries(view, pilot)
        first, second = (one.result.per_query[spec.metric] for one in scored)
        clusters = statistics.align_clusters(view.spec.clusters, first.index)
        size = plan_for_pilot(first - second, spec.difference, spec.power, clusters=clusters)
        per_query = _count_pooled(scored, spec.metric) / len(scored[0].result.per_query)
    seconds = (
        None if judged.stored is None else median_seconds(read_decisions(judged.stored.path.parent, QueryDecision))
    )
    judgments = round(size.queries * per_query)
    return {
        "set": judged.description["name"],
        "metric": spec.metric,
        **asdict(size),
        "queries_at_hand": len(view.query_ids),
        "judgments_per_query": round(per_query, 2),
        "judgments": judgments,
        "seconds_per_judgment": ASSUMED_SECONDS if seconds is None else seconds,
        "pace_is_assumed": seconds is None,
        "hours": round(judgments * (ASSUMED_SECONDS if seconds is None else seconds) / 3600, 1),
    }


def _check_spec(spec: SizeSpec, pilot: object) -> None:
    if (spec.discordance is None) == (pilot is None):
        next_step = "give --pilot RUN RUN, or --discordance with the share of queries that differ"
        raise UserError(SIZE_STAGE, "variance", "needs exactly one source", next_step)
    if not 0 < spec.difference < 1 or not 0.5 <= spec.power < 1:
        reason = f"difference {spec.difference:g} and power {spec.power:g} are out of range"
        raise UserError(SIZE_STAGE, spec.metric, reason, "give 0 < difference < 1 and 0.5 <= power < 1")
    if spec.discordance is not None and not spec.difference <= spec.discordance <= 1:
        reason = f"is less than the difference {spec.difference:g}, but only queries that differ can make it"
        raise UserError(SIZE_STAGE, f"--discordance {spec.discordance:g}", reason, "give a larger share, up to 1")
    if spec.discordance is not None and metrics.parse_metric(spec.metric).name != "hit":
        reason = "has differences other than 0 and 1, which a discordance cannot describe"
        raise UserError(SIZE_STAGE, spec.metric, reason, "give --pilot RUN RUN, or plan for hit@K")


def _count_pooled(scored: list[ScoredSystem], metric: str) -> int:
    """Return the pairs that both systems return up to the metric's cut, each once."""
    cut = metrics.parse_metric(metric).cut
    depth = cut if isinstance(cut, int) else _USUAL_DEPTH
    pairs = pd.concat([one.run.loc[one.run["rank"] <= depth, ["query_id", "image_id"]].astype(str) for one in scored])
    return len(pairs.drop_duplicates())

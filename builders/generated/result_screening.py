"""Rules for a query's results, before an image is fetched and for the image: the seed article's rules, and more.

(seeds: 选择返回结果的前24张图片，去除所有广告图片，去除宽或高小于112的图片，去除长短边比大于2的图片)

A placeholder, which hosts send in place of an image, is returned for queries that have nothing in common, each time
from another address. There is no list of known placeholders: images are compared by their hashes alone, and all images
without any structure count as one. Overrides of people precede the rules.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from querytruth.formats.set_card import licence_family
from querytruth.records import list_rows
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import Override
from querytruth.sets.ledger import Ledger, Rejection, rejection_table
from querytruth.sets.manifest import Threshold, describe_threshold

REUSE_POLICIES = ("drop", "merge")
SEARCHED_QUERY_COLUMNS = ["query_id", "text", "reported", "reason", "kind", "detail"]
_REPORTED_COLUMNS = ("page_url", "caption", "width", "height", "licence", "creator", "is_advertisement")
SEARCH_RESULT_COLUMNS = ["query_id", "rank", "url", *_REPORTED_COLUMNS]
LEAST_QUERIES, LEAST_TOPICS = 4, 3  # that a placeholder answers: a few queries may well share an image
LEAST_SHARE = 0.2  # of all queries; of large collections:
LEAST_SHARE_OF_MANY, LEAST_SHARE_OF_TOPICS = 0.05, 0.5
MEDIANS, OUTLIER = 4, 10  # times the median image's queries, and times those of the 95th of a hundred
_NOT_CHOSEN = "nobody accepted that query in the table of objects"
_NOT_FOUND = "it is not among the first results of any query that is searched for"
_STILL_PENDING = "some of its images may still arrive: run the same command again"
_STILL_REJECTED = {
    "too_few_images": "no suitable image was found for it",
    "not_needed": "enough images ranked before it (collect.keep)",
    "query_dropped": "its query was rejected",
    "repeated_url": "its query has the same URL at a better rank",
    "near_duplicate": "its query has another result that shows the same image",
}


@dataclass(frozen=True, slots=True)
class CollectionRules:
    """The article's rules and numbers. `keep`: how many images a query needs and gets. A query with a result at an
    address that an earlier query uses is dropped (`same_url: drop`), or shares the image (`merge`); likewise if it
    shows an image that an earlier one uses (`same_image`). `licences` are families (`licence_family`); None: any."""

    min_results: int = 100
    first: int = 24
    min_side: int = 112
    max_ratio: float = 2.0
    keep: int = 12
    same_url: str = "drop"
    same_image: str = "merge"
    licences: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.keep <= self.first:
            raise ValueError(f"keep ({self.keep}) must not exceed first ({self.first})")
        for name in ("same_url", "same_image"):
            if getattr(self, name) not in REUSE_POLICIES:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(REUSE_POLICIES)}")


def screen_results(
    searched: pd.DataFrame,
    results: pd.DataFrame,
    rules: CollectionRules,
    ledger: Ledger,
    overridden: frozenset[str] = frozenset(),
) -> pd.DataFrame:
    """Return the batches: rows of `results` (columns RESULTS) that may be fetched, with their query's text, sorted by
    query_id and rank. `searched` (columns SEARCHED) has all queries, with `reason` and `kind` (of the failure) if there
    was no answer. Addresses have one spelling. `overridden`: query_ids and addresses that people want despite these
    rules: a query with any remaining result, and a result that is the query's first at its address."""
    answered = _answered(searched, rules, ledger, overridden)
    taken = results[results["query_id"].isin(answered["query_id"])].sort_values(["query_id", "rank"], ignore_index=True)
    taken = taken.groupby("query_id", sort=False).head(rules.first).reset_index(drop=True)
    taken["text"] = taken["query_id"].map(dict(zip(answered["query_id"], answered["text"], strict=True)))
    again = taken.duplicated(["query_id", "url"])
    problems = [
        _problem(row, bool(twice), rules, overridden) for row, twice in zip(list_rows(taken), again, strict=True)
    ]
    bad = np.array([problem is not None for problem in problems], dtype=bool)
    rejections = rejection_table(problem for problem in problems if problem is not None)
    batches = taken[~bad].reset_index(drop=True)
    ledger.record_stage("results", "result", len(taken), len(batches), rejections)
    return _large_enough(batches, answered, rules, ledger, overridden)


def reject_result(row: dict[str, Any], reason: str, bucket: str = "rejected", **columns: Any) -> Rejection:
    """Return the ledger's row of a search result: its address, or query and rank where it has none."""
    name = row["url"] or f"{row['text']} #{row['rank']}"
    return Rejection(name, bucket, reason, rank=row["rank"], text=row["text"], **columns)


def reject_query(row: dict[str, Any], reason: str, bucket: str = "rejected", **columns: Any) -> Rejection:
    """Return the ledger's row of a query of that query_id and text."""
    return Rejection(row["query_id"], bucket, reason, item_id=row["query_id"], text=row["text"], **columns)


def find_size_problem(width: int, height: int, rules: CollectionRules) -> dict[str, Any] | None:
    """Return reason, measure, value and threshold where an image is too small or too long. A side of 112 and a ratio of
    2 are still good."""
    short, long = min(width, height), max(width, height)
    if short < rules.min_side:
        return {"reason": "too_small", "measure": "shorter_side", "value": short, "threshold": rules.min_side}
    if long > Fraction(str(rules.max_ratio)) * short:
        elongation = {"measure": "longer_to_shorter_side", "value": round(long / short, 4)}
        return {"reason": "too_elongated", "threshold": rules.max_ratio, **elongation}
    return None


def list_collection_thresholds(rules: CollectionRules) -> list[Threshold]:
    """Return the cuts of the collection, for the manifest."""
    return [
        describe_threshold("collect.min_results", "at least", rules.min_results),
        describe_threshold("collect.first", "at most", rules.first),
        describe_threshold("collect.min_side", "at least", rules.min_side),
        describe_threshold("collect.max_ratio", "at most", rules.max_ratio),
        describe_threshold("collect.keep", "at least", rules.keep),
    ]


def _answered(
    searched: pd.DataFrame, rules: CollectionRules, ledger: Ledger, overridden: frozenset[str]
) -> pd.DataFrame:
    """Return the queries for which the service reports enough results."""
    ordered = searched.sort_values("query_id", ignore_index=True)
    rejections: list[Rejection] = []
    kept = []
    for row in list_rows(ordered):
        if row["reason"]:
            bucket = "rejected" if row["kind"] == "final" else "pending"
            rejections.append(reject_query(row, row["reason"], bucket, detail=row["detail"]))
        elif row["query_id"] in overridden:
            kept.append(row["query_id"])
        elif row["reported"] is None:
            rejections.append(reject_query(row, "results_not_reported"))
        elif row["reported"] < rules.min_results:
            counts = {"measure": "reported_results", "value": row["reported"], "threshold": rules.min_results}
            rejections.append(reject_query(row, "too_few_results", **counts))
        else:
            kept.append(row["query_id"])
    ledger.record_stage("search", "query", len(ordered), len(kept), rejection_table(rejections))
    return ordered[ordered["query_id"].isin(kept)]


def _large_enough(
    batches: pd.DataFrame, answered: pd.DataFrame, rules: CollectionRules, ledger: Ledger, overridden: frozenset[str]
) -> pd.DataFrame:
    sizes = batches["query_id"].value_counts()
    rejections = [
        reject_query(row, "too_few_images", measure="remaining_results", value=left, threshold=rules.keep)
        for row in list_rows(answered)
        if (left := int(sizes.get(row["query_id"], 0))) < (1 if row["query_id"] in overridden else rules.keep)
    ]
    ledger.record_stage("batches", "query", len(answered), len(answered) - len(rejections), rejection_table(rejections))
    return batches[~batches["query_id"].isin([rejection.item for rejection in rejections])].reset_index(drop=True)


def _problem(
    row: dict[str, Any], is_repeated: bool, rules: CollectionRules, overridden: frozenset[str]
) -> Rejection | None:
    if not row["url"]:
        return reject_result(row, "no_image_url")
    if row["url"] not in overridden:
        if row["is_advertisement"]:
            return reject_result(row, "advertisement")
        if row["width"] and row["height"] and (problem := find_size_problem(row["width"], row["height"], rules)):
            return reject_result(row, **problem)
        if rules.licences is not None and not row["licence"]:
            return reject_result(row, "licence_unknown")
        if rules.licences is not None and licence_family(row["licence"]) not in rules.licences:
            return reject_result(row, "licence_not_allowed", detail=row["licence"])
    return reject_result(row, "repeated_url") if is_repeated else None


def find_placeholders(
    answers: Iterable[tuple[Hashable, str, str, str | None]], query_count: int
) -> dict[Hashable, int]:
    """Return placeholder images, with the number of queries that each answers. `answers`: image, address, query_id and
    topic (None: the query is a topic of its own) of each fetched result; `query_count`: of all queries.

    An image is a placeholder if it occurs at four addresses or more and answers at least four queries of three topics:
    a fifth of all queries, or a twentieth of them in half of the topics.
    """
    found: dict[Hashable, tuple[set[str], set[str], set[str]]] = defaultdict(lambda: (set(), set(), set()))
    all_topics: set[str] = set()
    for image, address, query_id, topic in answers:
        own = found[image]
        for values, value in zip(own, (address, query_id, topic or query_id), strict=True):
            values.add(value)
        all_topics.add(topic or query_id)
    return {
        image: len(queries)
        for image, (addresses, queries, topics) in found.items()
        if min(len(addresses), len(queries)) >= LEAST_QUERIES
        and len(topics) >= LEAST_TOPICS
        and _is_large_share(len(queries) / max(1, query_count), len(topics) / len(all_topics))
    }


def _is_large_share(of_queries: float, of_topics: float) -> bool:
    is_of_many = of_queries >= LEAST_SHARE_OF_MANY and of_topics >= LEAST_SHARE_OF_TOPICS
    return is_of_many or of_queries >= LEAST_SHARE


def find_implausible_answers(counts: Sequence[int], query_count: int) -> list[int]:
    """Return the places of images that are right for implausibly many of a set's queries. `counts`: per image that is
    right for any the number of its queries.

    It is at least four, four times that of the median image, and a fifth of all queries or ten times that of an image
    which 95% do not exceed: in sets with several captions an image, all images have as many.
    """
    if not len(counts):
        return []
    values = np.asarray(counts)
    is_high = (values >= LEAST_QUERIES) & (values >= MEDIANS * np.median(values))
    is_high &= (values >= LEAST_SHARE * query_count) | (values >= OUTLIER * np.quantile(values, 0.95, method="lower"))
    return np.flatnonzero(is_high).tolist()


def summarize_overrides(overrides: Mapping[str, Override], kept: pd.DataFrame, ledger: Ledger) -> DecisionOutcome:
    """Return the overrides that the set follows, and why the others are stale. `kept`: a row per query and relevant
    image of the set."""
    if not overrides:
        return DecisionOutcome()
    rows = ledger.rows()
    inside = {*kept["query_id"], *kept["url"]}
    ordered = sorted(overrides.items())
    rows_of_overrides = rows[rows["kind"].isin(["query", "result"]) & rows["item"].isin(list(overrides))]
    rejections = {row.item: (str(row.bucket), str(row.reason)) for row in rows_of_overrides.itertuples(index=False)}
    stale = [(override, _stale_reason(item, rejections.get(item))) for item, override in ordered if item not in inside]
    return DecisionOutcome([override for item, override in ordered if item in inside], stale)


def _stale_reason(item: str, rejection: tuple[str, str] | None) -> str:
    if rejection is None:
        return _NOT_CHOSEN if item.startswith("q_") else _NOT_FOUND
    bucket, reason = rejection
    return _STILL_PENDING if bucket == "pending" else _STILL_REJECTED.get(reason, f"rejected again: {reason}")

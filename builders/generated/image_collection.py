"""Assigns the images that an image search found to queries, by the rules of the seed article.

The order of fetching has no effect: queries are processed by id and their results by rank. Every rejected result and
query has a reason.
(seeds: 若当前batch图片中的任意一个url已经被下载过，…直接抛弃该Query)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from builders.gallery.near_duplicates import DuplicateGroups
from builders.generated import result_screening
from querytruth.backends.images.image_views import have_views
from querytruth.formats.set_card import licence_family
from querytruth.records import image_id_of_bytes, list_rows
from querytruth.sets.ledger import Ledger, Rejection, rejection_table

# The outcome of each URL of a batch. `kind` is transient or final where there is a `reason`; the rest as in SCANNED.
FETCHED_IMAGE_COLUMNS = ["url", "reason", "kind", "detail", "sha256", "pixels", "views", "thumbnail"]
FETCHED_IMAGE_COLUMNS += ["width", "height"]
_TYPES = {"url": "str", "sha256": "str", "pixels": "str", "width": "int64", "height": "int64"}  # also of an empty table
GENERATED_SET_GRADES = {"1": "among the first results of the image search for the query"}
_NOT_ALLOWED = ("forbidden_by_robots", "forbidden_by_robots_tag")
_NOT_ASKED = "not_fetched"

GroupDuplicates = Callable[[pd.DataFrame], DuplicateGroups]  # `find_duplicates` with its options
_Record = dict[str, Any]
_Problem = dict[str, Any]  # reason, and further fields of a `Rejection`


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """`relevant_results`: a row per query and relevant image, with the columns of the result and of the image (image_id
    is the representative's). `images`: a row per image of the gallery, with duplicate_group. `duplicates`: the
    DUPLICATES table."""

    query_ids: list[str]
    relevant_results: pd.DataFrame
    images: pd.DataFrame
    duplicates: pd.DataFrame
    figures: dict[str, Any]


class _FetchedImages:
    """The outcome of fetched URLs: the problem of each, or the image that it shows."""

    def __init__(
        self,
        fetched_images: pd.DataFrame,
        batches: pd.DataFrame,
        rules: result_screening.CollectionRules,
        group_duplicates: GroupDuplicates,
        overridden: frozenset[str],
    ) -> None:
        table = fetched_images.drop_duplicates("url").sort_values("url", ignore_index=True)
        rows = list_rows(table)
        self.rejection_by_url = {row["url"]: _find_image_problem(row, rules, overridden) for row in rows}
        is_good = np.array([self.rejection_by_url[row["url"]] is None for row in rows], dtype=bool)
        good = table[is_good].reset_index(drop=True)
        good = good.drop(columns=["reason", "kind", "detail"]).astype(_TYPES)
        good = good.assign(item=good["url"], image_id=good["sha256"].map(image_id_of_bytes))
        groups = [name or own for name, own in zip(group_duplicates(good).group, good["image_id"], strict=True)]
        self.group_by_url = dict(zip(good["url"], groups, strict=True))
        self.sha256_by_url = dict(zip(good["url"], good["sha256"], strict=True))
        self.images_by_url = good.set_index("url")
        for url, count in _find_placeholder_urls(good, batches, self.group_by_url).items():
            if url not in overridden:
                counts = {"measure": "answered_queries", "value": count, "threshold": result_screening.LEAST_QUERIES}
                self.rejection_by_url[url] = {"reason": "placeholder", **counts}


def _find_placeholder_urls(good: pd.DataFrame, batches: pd.DataFrame, group_by_url: dict[str, str]) -> dict[str, int]:
    """Return the addresses of placeholders, with the number of queries that each answers."""
    is_blank = ~have_views(good["views"])
    keys = ["blank" if blank else group_by_url[url] for url, blank in zip(good["url"], is_blank, strict=True)]
    key_by_url = dict(zip(good["url"], keys, strict=True))
    rows = batches[batches["url"].isin(good["url"])]
    topics = rows["topic"].tolist() if "topic" in rows else [None] * len(rows)
    each = zip(rows["url"], rows["query_id"], topics, strict=True)
    answers = [
        (key_by_url[url], url, query_id, topic if isinstance(topic, str) else None) for url, query_id, topic in each
    ]
    placeholders = result_screening.find_placeholders(answers, batches["query_id"].nunique())
    return {url: placeholders[key] for url, key in key_by_url.items() if key in placeholders}


def list_urls_to_fetch(
    batches: pd.DataFrame,
    fetched_images: pd.DataFrame,
    rules: result_screening.CollectionRules,
    group_duplicates: GroupDuplicates,
    overridden: frozenset[str] = frozenset(),
) -> list[str]:
    """Return the URLs to fetch next, sorted; to be called again with the fetched images until it returns none. A query
    that can no longer have enough images needs none, unless it is in `overridden` (see `assign_images`)."""
    known = _FetchedImages(fetched_images, batches, rules, group_duplicates, overridden)
    needed: set[str] = set()
    for query_id, batch in _by_query(batches):
        good, unknown, _ = _choose(batch, known, rules.keep)
        if query_id in overridden or len(good) + len(unknown) >= rules.keep:
            needed |= {row["url"] for row in unknown}
    return sorted(needed)


def assign_images(
    batches: pd.DataFrame,
    fetched_images: pd.DataFrame,
    rules: result_screening.CollectionRules,
    group_duplicates: GroupDuplicates,
    ledger: Ledger,
    overridden: frozenset[str] = frozenset(),
) -> CollectionResult:
    """Return the relevant images of every query with enough images. `batches`: from `screen_results`;
    `fetched_images` (FETCHED_IMAGE_COLUMNS): at least the URLs of `list_urls_to_fetch`. A column topic of the batches
    says which queries are related: an image that answers unrelated ones is a placeholder, which answers none.

    `overridden`: query_ids and URLs that people accept. Such a query is accepted with any number of good images, such
    an image with any size, and neither causes the rejection of another query.
    """
    fetched = _FetchedImages(fetched_images, batches, rules, group_duplicates, overridden)
    kept: list[_Record] = []
    rejected: list[Rejection] = []
    rejected_queries: list[Rejection] = []
    used_urls: dict[str, str] = {}
    used_images: dict[str, str] = {}
    entered = 0
    for query_id, batch in _by_query(batches):
        entered += 1
        good, unknown, dismissed = _choose(batch, fetched, rules.keep)
        rejected += dismissed
        is_overridden = query_id in overridden
        waiting = [rejection.reason for rejection in dismissed if rejection.bucket == "pending"]
        problem = _too_few(len(good), len(unknown), waiting, rules.keep, is_overridden)
        without_override = [row for row in good if row["url"] not in overridden]
        if not problem and not is_overridden:
            problem = _find_reuse(batch, without_override, fetched, rules, used_urls, used_images)
        if problem:
            rejected_queries.append(result_screening.reject_query(batch[0], **problem))
            rejected += [result_screening.reject_result(row, "query_dropped") for row in (*good, *unknown)]
            continue
        kept += good
        for row in () if is_overridden else without_override:
            used_urls.setdefault(row["url"], row["text"])
            used_images.setdefault(fetched.group_by_url[row["url"]], row["text"])
    ledger.record_stage("queries", "query", entered, entered - len(rejected_queries), rejection_table(rejected_queries))
    ledger.record_stage("images", "result", len(batches), len(kept), rejection_table(rejected))
    placeholders = sum(rejection.reason == "placeholder" for rejection in rejected)
    return _merge_shared_images(kept, fetched, group_duplicates, ledger, placeholders)


def _choose(
    batch: list[_Record], fetched: _FetchedImages, keep: int
) -> tuple[list[_Record], list[_Record], list[Rejection]]:
    """Return of a batch by rank the first good images, the results to fetch for enough images, and the rejections."""
    kept: list[_Record] = []
    unknown: list[_Record] = []
    rejected: list[Rejection] = []
    first_by_group: dict[str, _Record] = {}
    for row in batch:
        if len(kept) + len(unknown) == keep:
            rejected.append(result_screening.reject_result(row, "not_needed"))
        elif row["url"] not in fetched.rejection_by_url:
            unknown.append(row)
        elif problem := fetched.rejection_by_url[row["url"]]:
            rejected.append(result_screening.reject_result(row, **problem))
        elif first := first_by_group.get(fetched.group_by_url[row["url"]]):
            is_same = fetched.sha256_by_url[first["url"]] == fetched.sha256_by_url[row["url"]]
            reason = "exact_duplicate" if is_same else "near_duplicate"
            rejected.append(result_screening.reject_result(row, reason, related_item=first["url"]))
        else:
            first_by_group[fetched.group_by_url[row["url"]]] = row
            kept.append(row)
    return kept, unknown, rejected


def _find_image_problem(
    image: _Record, rules: result_screening.CollectionRules, overridden: frozenset[str]
) -> _Problem | None:
    """Return why an image is missing or does not match the rules; None if it is good."""
    if image["reason"]:
        bucket = "pending" if image["kind"] == "transient" else "quarantined"
        bucket = "rejected" if image["reason"] in _NOT_ALLOWED else bucket
        return {"bucket": bucket, "reason": image["reason"], "detail": image["detail"] or None}
    if image["url"] in overridden:
        return None
    return result_screening.find_size_problem(image["width"], image["height"], rules)


def _too_few(good: int, unknown: int, waiting: list[str], keep: int, is_overridden: bool) -> _Problem | None:
    """Return a problem if a batch has too few suitable images, by the number of results that are still unknown and the
    reasons why others wait; pending if a later run may fetch enough. A query with an override may have fewer once all
    its images were requested."""
    if good >= keep:
        return None
    may_come = unknown + len(waiting)
    is_pending = good + may_come >= keep
    if is_overridden and not is_pending:
        is_pending = bool(may_come and not good) or bool(unknown) or _NOT_ASKED in waiting
        if good and not is_pending:
            return None
    counts = {"measure": "good_images", "value": good, "threshold": keep}
    return {"bucket": "pending" if is_pending else "rejected", "reason": "too_few_images", **counts}


def _find_reuse(
    batch: list[_Record],
    kept: list[_Record],
    known: _FetchedImages,
    rules: result_screening.CollectionRules,
    used_urls: dict[str, str],
    used_images: dict[str, str],
) -> _Problem | None:
    """Return a problem if an earlier query uses a URL of the batch, or an image of those that are kept."""
    if rules.same_url == "drop":
        for row in batch:
            if row["url"] in used_urls:
                user = used_urls[row["url"]]
                return {"reason": "url_used_before", "related_item": user, "detail": row["url"]}
    if rules.same_image == "drop":
        for row in kept:
            if (group_name := known.group_by_url[row["url"]]) in used_images:
                user = used_images[group_name]
                return {"reason": "image_used_before", "related_item": user, "detail": row["url"]}
    return None


def _merge_shared_images(
    kept: list[_Record],
    fetched: _FetchedImages,
    group_duplicates: GroupDuplicates,
    ledger: Ledger,
    placeholders: int,
) -> CollectionResult:
    """Merge duplicate images: one gallery image is relevant to all queries that found it."""
    rows = pd.DataFrame(kept, columns=list(kept[0]) if kept else ["query_id", "text", "rank", "url", "licence"])
    image_columns = fetched.images_by_url.loc[rows["url"]].reset_index(drop=True)
    whole = pd.concat([rows.drop(columns=["width", "height"], errors="ignore"), image_columns], axis=1)
    ordered = whole.sort_values(["image_id", "rank", "query_id"], ignore_index=True)
    distinct = ordered.drop_duplicates("url", ignore_index=True)
    duplicates = group_duplicates(distinct)
    ledger.record_stage("duplicates", "image", len(distinct), int(duplicates.is_kept.sum()), duplicates.rejections)
    grouped = list(zip(duplicates.group, distinct["image_id"], duplicates.is_kept, strict=True))
    first = {name: own for name, own, stays in grouped if stays}
    whole["image_id"] = whole["image_id"].map({own: first[name] if name else own for name, own, _ in grouped})
    images = distinct.assign(duplicate_group=duplicates.group)[duplicates.is_kept].reset_index(drop=True)
    whole = whole.sort_values(["query_id", "rank"], ignore_index=True)
    names = sorted(set(whole["query_id"]))
    figures = _figures(whole, images, len(distinct)) | {"placeholders": placeholders}
    return CollectionResult(names, whole, images, duplicates.table, figures)


def _figures(kept: pd.DataFrame, images: pd.DataFrame, distinct: int) -> dict[str, Any]:
    sharing = kept.groupby("image_id")["query_id"].nunique() if len(kept) else pd.Series(dtype=int)
    shared = set(sharing[sharing > 1].index)
    licences = images["licence"].map(lambda text: licence_family(text) if isinstance(text, str) else "not stated")
    return {
        "queries": int(kept["query_id"].nunique()),
        "pictures": len(images),
        "same_picture_at_other_addresses": distinct - len(images),
        "pictures_of_several_queries": len(shared),
        "queries_that_share_images": int(kept.loc[kept["image_id"].isin(shared), "query_id"].nunique()),
        "licences": {str(name): int(count) for name, count in sorted(licences.value_counts().items())},
    }


def _by_query(batches: pd.DataFrame) -> Iterator[tuple[str, list[_Record]]]:
    for query_id, rows in groupby(list_rows(batches), key=lambda row: row["query_id"]):
        yield query_id, list(rows)

"""Which of the pictures that an image search found become a query's truth: the seed article's rules, in one order.

Pictures are fetched at any time and in any order; what is made of them is not: queries are settled one after the other
by their ids, their results by rank, and every result and query that goes has its reason.
(seeds: 若当前batch图片中的任意一个url已经被下载过，…直接抛弃该Query)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from builders.gallery.near_duplicates import Duplicates
from builders.generated.result_rules import CollectionRules, booked, licence_family, result_names, size_problem
from builders.ledger import Ledger
from builders.records import image_ids_of_bytes

# Of a batch's address: what came of it. `kind` is transient or final where there is a `reason`; the rest is as SCANNED.
PICTURES = ["url", "reason", "kind", "detail", "sha256", "pixels", "phash", "outline", "width", "height"]
_TYPES = {"url": "str", "sha256": "str", "pixels": "str", "width": "int64", "height": "int64"}  # of no rows, too
GRADES = {"1": "among the first results of the image search for the query"}
_NOT_ALLOWED = ("forbidden_by_robots", "forbidden_by_robots_tag")
_NOT_ASKED = "not_fetched"

Group = Callable[[pd.DataFrame], Duplicates]  # `find_duplicates`, with what counts as the same picture
Row = dict[str, Any]
Away = tuple[Row, str, str, str]  # a result with bucket, reason, detail


@dataclass(frozen=True, slots=True)
class Collected:
    """`kept`: the results that are truth, a row per query and picture, with image_id (the representative's, where
    pictures are the same), the picture's columns and the result's. `images`: a row per picture of the gallery, of the
    result that stands for all that show it, with duplicate_group. `duplicates`: the DUPLICATES table."""

    query_ids: list[str]
    kept: pd.DataFrame
    images: pd.DataFrame
    duplicates: pd.DataFrame
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A batch read by rank: the first good pictures, what would have to be fetched to have enough, and the rest."""

    kept: list[Row]
    unknown: list[Row]
    away: list[Away]


class _Known:
    """What came of addresses: why one is no good, and which picture it shows."""

    def __init__(self, pictures: pd.DataFrame, rules: CollectionRules, group: Group, wanted: frozenset[str]) -> None:
        table = pictures.drop_duplicates("url").sort_values("url", ignore_index=True)
        rows = _records(table)
        self.problem = {row["url"]: _problem(row, rules, wanted) for row in rows}
        is_good = np.array([self.problem[row["url"]] is None for row in rows], dtype=bool)
        good = table[is_good].reset_index(drop=True)
        good = good.drop(columns=["reason", "kind", "detail"]).astype(_TYPES)
        good = good.assign(item=good["url"], image_id=image_ids_of_bytes(good["sha256"]))
        groups = [name or own for name, own in zip(group(good).group, good["image_id"], strict=True)]
        self.group = dict(zip(good["url"], groups, strict=True))
        self.sha256 = dict(zip(good["url"], good["sha256"], strict=True))
        self.pictures = good.set_index("url")


def next_to_fetch(
    batches: pd.DataFrame,
    pictures: pd.DataFrame,
    rules: CollectionRules,
    group: Group,
    wanted: frozenset[str] = frozenset(),
) -> list[str]:
    """The addresses without which it cannot be told which pictures are kept, sorted; to be asked again when they are
    fetched, until there are none. A query that can no longer come to enough pictures needs nothing more, unless people
    want it (`wanted`, as of `settle`)."""
    known = _Known(pictures, rules, group, wanted)
    needed: set[str] = set()
    for query_id, batch in _by_query(batches):
        chosen = _choose(batch, known, rules.keep)
        if query_id in wanted or len(chosen.kept) + len(chosen.unknown) >= rules.keep:
            needed |= {row["url"] for row in chosen.unknown}
    return sorted(needed)


def settle(
    batches: pd.DataFrame,
    pictures: pd.DataFrame,
    rules: CollectionRules,
    group: Group,
    ledger: Ledger,
    wanted: frozenset[str] = frozenset(),
) -> Collected:
    """The truth of every query that keeps enough pictures. `batches` come from `screen`, `pictures` (columns PICTURES)
    hold what `next_to_fetch` asked for; what else they hold does not matter.

    `wanted`: query_ids and addresses that people want all the same. Such a query is kept with what good pictures there
    are, such a picture whatever its size; and no other query goes because of what they show.
    """
    known = _Known(pictures, rules, group, wanted)
    kept: list[Row] = []
    away: list[Away] = []
    gone: list[tuple[str, str, str, str]] = []
    used_urls: dict[str, str] = {}
    used_pictures: dict[str, str] = {}
    entered = 0
    for query_id, batch in _by_query(batches):
        entered += 1
        chosen = _choose(batch, known, rules.keep)
        away += chosen.away
        free = query_id in wanted
        problem = _too_few(batch, chosen, rules.keep, free)
        if not problem and not free:
            problem = _used(batch, chosen, known, rules, wanted, used_urls, used_pictures)
        if problem:
            bucket, reason, detail = problem
            gone.append((query_id, bucket, reason, f"{batch[0]['text']}: {detail}"))
            dropped = (*chosen.kept, *chosen.unknown)
            away += [(row, "rejected", "query_dropped", f"{row['text']} #{row['rank']}: {reason}") for row in dropped]
            continue
        kept += chosen.kept
        for row in () if free else _by_rules(chosen.kept, wanted):
            used_urls.setdefault(row["url"], row["text"])
            used_pictures.setdefault(known.group[row["url"]], row["text"])
    ledger.close("queries", "query", entered, entered - len(gone), booked(gone))
    names = result_names(pd.DataFrame([one[0] for one in away], columns=["url", "text", "rank"]))
    told = [(name, bucket, reason, detail) for name, (_, bucket, reason, detail) in zip(names, away, strict=True)]
    ledger.close("pictures", "result", len(batches), len(kept), booked(told))
    return _shared(kept, known, group, ledger)


def _choose(batch: list[Row], known: _Known, keep: int) -> _Chosen:
    kept: list[Row] = []
    unknown: list[Row] = []
    away: list[Away] = []
    shown: dict[str, Row] = {}
    for row in batch:
        place = f"{row['text']} #{row['rank']}"
        if len(kept) + len(unknown) == keep:
            away.append((row, "rejected", "not_needed", place))
        elif row["url"] not in known.problem:
            unknown.append(row)
        elif problem := known.problem[row["url"]]:
            away.append((row, problem[0], problem[1], f"{place}: {problem[2]}" if problem[2] else place))
        elif first := shown.get(known.group[row["url"]]):
            is_same = known.sha256[first["url"]] == known.sha256[row["url"]]
            reason = "exact_duplicate" if is_same else "near_duplicate"
            away.append((row, "rejected", reason, f"{place}: of {first['url']}"))
        else:
            shown[known.group[row["url"]]] = row
            kept.append(row)
    return _Chosen(kept, unknown, away)


def _by_rules(rows: list[Row], wanted: frozenset[str]) -> list[Row]:
    """Without the results that are there because people want them."""
    return [row for row in rows if row["url"] not in wanted]


def _problem(picture: Row, rules: CollectionRules, wanted: frozenset[str]) -> tuple[str, str, str] | None:
    """Bucket, reason and detail of a picture that is not there, or is not what was said of it."""
    if picture["reason"]:
        bucket = "pending" if picture["kind"] == "transient" else "quarantined"
        bucket = "rejected" if picture["reason"] in _NOT_ALLOWED else bucket
        return bucket, picture["reason"], picture["detail"] or ""
    if picture["url"] in wanted:
        return None
    problem = size_problem(picture["width"], picture["height"], rules)
    return problem and ("rejected", *problem)


def _too_few(batch: list[Row], chosen: _Chosen, keep: int, free: bool) -> tuple[str, str, str] | None:
    """Pending where the next run may have more luck. A query that people want is `free` to have fewer where no luck
    would make them enough, once all its pictures were asked for."""
    if len(chosen.kept) >= keep:
        return None
    waiting = [reason for _, bucket, reason, _ in chosen.away if bucket == "pending"]
    may_come = len(chosen.unknown) + len(waiting)
    is_pending = len(chosen.kept) + may_come >= keep
    if free and not is_pending:
        is_pending = bool(may_come and not chosen.kept) or bool(chosen.unknown) or _NOT_ASKED in waiting
        if chosen.kept and not is_pending:
            return None
    told = f"{len(chosen.kept)} of {len(batch)} pictures are good, {keep} are needed"
    return ("pending" if is_pending else "rejected"), "too_few_pictures", told


def _used(
    batch: list[Row],
    chosen: _Chosen,
    known: _Known,
    rules: CollectionRules,
    wanted: frozenset[str],
    urls: dict[str, str],
    pictures: dict[str, str],
) -> tuple[str, str, str] | None:
    """Any address of the batch counts, also of one that would not be kept; of pictures those that would be."""
    if rules.same_url == "drop":
        for row in batch:
            if row["url"] in urls:
                return "rejected", "url_used_before", f"{row['url']} by {urls[row['url']]}"
    if rules.same_picture == "drop":
        for row in _by_rules(chosen.kept, wanted):
            if (shown := known.group[row["url"]]) in pictures:
                return "rejected", "picture_used_before", f"{row['url']} by {pictures[shown]}"
    return None


def _shared(kept: list[Row], known: _Known, group: Group, ledger: Ledger) -> Collected:
    """The same picture of several queries is in the gallery once, and true for all of them."""
    rows = pd.DataFrame(kept, columns=list(kept[0]) if kept else ["query_id", "text", "rank", "url", "licence"])
    shown = known.pictures.loc[rows["url"]].reset_index(drop=True)
    whole = pd.concat([rows.drop(columns=["width", "height"], errors="ignore"), shown], axis=1)
    ordered = whole.sort_values(["image_id", "rank", "query_id"], ignore_index=True)
    distinct = ordered.drop_duplicates("url", ignore_index=True)
    found = group(distinct)
    ledger.close("duplicates", "picture", len(distinct), int(found.stays.sum()), found.away)
    grouped = list(zip(found.group, distinct["image_id"], found.stays, strict=True))
    first = {name: own for name, own, stays in grouped if stays}
    whole["image_id"] = whole["image_id"].map({own: first[name] if name else own for name, own, _ in grouped})
    images = distinct.assign(duplicate_group=found.group)[found.stays].reset_index(drop=True)
    whole = whole.sort_values(["query_id", "rank"], ignore_index=True)
    names = sorted(set(whole["query_id"]))
    return Collected(names, whole, images, found.table, _figures(whole, images, len(distinct)))


def _figures(kept: pd.DataFrame, images: pd.DataFrame, distinct: int) -> dict[str, Any]:
    sharing = kept.groupby("image_id")["query_id"].nunique() if len(kept) else pd.Series(dtype=int)
    shared = set(sharing[sharing > 1].index)
    licences = images["licence"].map(lambda text: licence_family(text) if isinstance(text, str) else "not stated")
    return {
        "queries": int(kept["query_id"].nunique()),
        "pictures": len(images),
        "same_picture_at_other_addresses": distinct - len(images),
        "pictures_of_several_queries": len(shared),
        "queries_that_share_pictures": int(kept.loc[kept["image_id"].isin(shared), "query_id"].nunique()),
        "licences": {str(name): int(count) for name, count in sorted(licences.value_counts().items())},
    }


def _by_query(batches: pd.DataFrame) -> Iterator[tuple[str, list[Row]]]:
    for query_id, rows in groupby(_records(batches), key=lambda row: row["query_id"]):
        yield query_id, list(rows)


def _records(frame: pd.DataFrame) -> list[Row]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[no-any-return]

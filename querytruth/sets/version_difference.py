"""Differences between two versions of a set: whether figures stay comparable, what a build lost, and what took it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from querytruth.array_types import RowIndices
from querytruth.sets.benchmark_set import Tables

RowDict = dict[str, Any]
_SHOWN = 3  # reasons
# Where the image is gone and the ledger does not mention it: its source does not list it.
_UNEXPLAINED = {"images": "not listed", "queries": "whose image is not listed"}


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """Rows that were added, removed or changed; judgments whose grade is the same and whose judge or evidence is
    another are confirmed. Judgments of queries or images that were added or removed are not listed;
    `judgments_with_them` is their number."""

    queries_added: list[RowDict] = field(default_factory=list)
    queries_removed: list[RowDict] = field(default_factory=list)
    queries_changed: list[RowDict] = field(default_factory=list)
    images_added: list[str] = field(default_factory=list)
    images_removed: list[str] = field(default_factory=list)
    images_changed: list[RowDict] = field(default_factory=list)
    judgments_added: list[RowDict] = field(default_factory=list)
    judgments_removed: list[RowDict] = field(default_factory=list)
    judgments_changed: list[RowDict] = field(default_factory=list)
    judgments_confirmed: list[RowDict] = field(default_factory=list)
    judgments_with_them: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether the versions are the same."""
        return not any(getattr(self, name) for name in self.__slots__)

    @property
    def comparability(self) -> str:
        """Return a sentence on whether figures on the two versions are comparable."""
        if self.is_empty:
            return "the versions have the same content: figures are comparable"
        if self.images_added or self.images_removed:
            return "the galleries differ: figures are not comparable"
        if self.queries_added or self.queries_removed:
            return "the queries differ: compare figures only on queries that both versions have"
        if self.judgments_added or self.judgments_removed or self.judgments_changed:
            return "judgments differ: score every system on both versions before comparing figures"
        if any("text" in row for row in self.queries_changed):
            return "query texts differ: run every system again before comparing figures"
        return "only provenance differs: figures are comparable"


def compare_versions(before: Tables, after: Tables) -> VersionDifference:
    """Return all differences between the versions, sorted by id."""
    queries = _rows(before.queries, after.queries, "query_id", ["text", "language", "style", "level", "labels"])
    content = [c for c in before.images.columns if c not in ("image_id", "path", "file_name")]
    images = _rows(before.images, after.images, "image_id", content)
    both, elsewhere = _judgments(before, after)
    differing = both[(both["_merge"] == "both") & (both["differs_old"] != both["differs_new"])]
    is_regraded = differing["relevance_old"] != differing["relevance_new"]
    return VersionDifference(
        queries_added=queries[0],
        queries_removed=queries[1],
        queries_changed=queries[2],
        images_added=[row["image_id"] for row in images[0]],
        images_removed=[row["image_id"] for row in images[1]],
        images_changed=images[2],
        judgments_added=_judgment_rows(both[both["_merge"] == "right_only"], "_new"),
        judgments_removed=_judgment_rows(both[both["_merge"] == "left_only"], "_old"),
        judgments_changed=_judgment_pairs(differing[is_regraded]),
        judgments_confirmed=_judgment_pairs(differing[~is_regraded]),
        judgments_with_them=elsewhere,
    )


def _judgments(before: Tables, after: Tables) -> tuple[pd.DataFrame, int]:
    """Return the judgments that differ between the queries and images of both versions, side by side; and the number
    of judgments of queries or images that only one version has. Equal rows, possibly millions, are compared as numbers.
    """
    sides = [before.qrels, after.qrels]
    shared = {
        "query_id": sorted(set(before.queries["query_id"]) & set(after.queries["query_id"])),
        "image_id": sorted(set(before.images["image_id"]) & set(after.images["image_id"])),
    }
    names = ("judged_by", "evidence")
    categories = {name: sorted({text for side in sides for text in side[name].cat.categories}) for name in names}
    judges = categories["judged_by"]
    images = max(len(shared["image_id"]), 1)
    frames, elsewhere = [], 0
    for side in sides:
        query, image = (_codes(side[name], shared[name]) for name in shared)
        judge, why = (_codes(side[name], categories[name]) for name in categories)
        lasting = (query >= 0) & (image >= 0)
        elsewhere += int((~lasting).sum())
        key = query * images + image
        # One number a judgment: evidence 2, judge 1 and grade 1 are 3 * 1024 + 2 * 128 + 1.
        differs = (why + 1) * 1024 + (judge + 1) * 128 + side["relevance"].to_numpy()
        frames.append(pd.DataFrame({"key": key, "differs": differs})[lasting])
    same = pd.merge(*frames, on=["key", "differs"])["key"]
    frames = [frame[~frame["key"].isin(same)] for frame in frames]
    both = frames[0].merge(frames[1], on="key", how="outer", suffixes=("_old", "_new"), indicator=True)
    both["query_id"] = [shared["query_id"][key // images] for key in both["key"]]
    both["image_id"] = [shared["image_id"][key % images] for key in both["key"]]
    for end in ("_old", "_new"):
        packed = both[f"differs{end}"].fillna(-1).astype(np.int64)
        both[f"relevance{end}"] = packed % 128
        both[f"judged_by{end}"] = [judges[code // 128 % 8 - 1] if code >= 0 else None for code in packed]
    return both, elsewhere


def _rows(
    before: pd.DataFrame, after: pd.DataFrame, key: str, columns: list[str]
) -> tuple[list[RowDict], list[RowDict], list[RowDict]]:
    sides = (side[[key, *columns]].to_dict("records") for side in (before, after))
    old, new = ({row[key]: {name: _plain(row[name]) for name in row} for row in rows} for rows in sides)
    both = sorted(old.keys() & new.keys())
    cells = {name: {c: (old[name][c], new[name][c]) for c in columns if old[name][c] != new[name][c]} for name in both}
    changed = [{key: name, **cells[name]} for name in both if cells[name]]
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    return [new[name] for name in added], [old[name] for name in removed], changed


def _codes(column: pd.Series, categories: list[str]) -> RowIndices:
    codes: RowIndices = column.cat.set_categories(categories).cat.codes.to_numpy().astype(np.int64)
    return codes


def _plain(value: object) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


def _judgment_rows(rows: pd.DataFrame, side: str) -> list[RowDict]:
    return [
        {
            "query_id": row["query_id"],
            "image_id": row["image_id"],
            "relevance": int(row[f"relevance{side}"]),
            "judged_by": row[f"judged_by{side}"],
        }
        for row in rows.to_dict("records")
    ]


def _judgment_pairs(rows: pd.DataFrame) -> list[RowDict]:
    return [
        {
            "query_id": row.query_id,
            "image_id": row.image_id,
            "relevance": (int(row.relevance_old), int(row.relevance_new)),
            "judged_by": (row.judged_by_old, row.judged_by_new),
        }
        for row in rows.itertuples()
    ]


class VersionLosses(NamedTuple):
    """`kind`: queries, or images for a set without queries. `lost_count` of the `total` items of the last version are
    gone; `reasons` describes them with the most frequent reason first."""

    kind: str
    lost_count: int
    total: int
    reasons: str


def find_losses(before: Tables, after: Tables) -> VersionLosses:
    """Return the lost queries of the version `before` (its images, if it has no queries). What a person dropped,
    or called the same as another image, is not lost."""
    items, names, kind = before.images.rename(columns={"image_id": "id"}), before.images, "images"
    kept_ids = after.images["image_id"]
    if len(before.queries):
        items, kind = before.queries.rename(columns={"query_id": "id"}), "queries"
        kept_ids = after.queries["query_id"]
    reviewed = after.ledger.loc[after.ledger["stage"].astype(str) == "review", "item_id"]
    joined = after.duplicates.loc[after.duplicates["matched_by"] == "person", "image_id"]
    is_decided = items["id"].isin(reviewed) | items["source_image_id" if len(before.queries) else "id"].isin(joined)
    lost = items[~items["id"].isin(kept_ids) & ~is_decided]
    if lost.empty:
        return VersionLosses(kind, 0, len(items), "")
    file_names = dict(zip(names["image_id"], names["file_name"], strict=True))
    kept_images = set(after.images["image_id"])
    known_reasons = _read_reasons(after.ledger)
    reasons, places = Counter[str](), Counter[str]()
    for item in lost.to_dict("records"):
        image_id = item["id"] if kind == "images" else item["source_image_id"]
        file_name = file_names.get(image_id)
        keys = [item["id"], item["source_id"], file_name, image_id, *_labels(item)]
        is_image_gone = image_id in file_names and image_id not in kept_images
        default = _UNEXPLAINED[kind] if is_image_gone else "not generated again"
        reasons[next((known_reasons[key] for key in keys if key in known_reasons), default)] += 1
        places.update(_place(item.get("topic"), file_name))
    ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))[:_SHOWN]
    parts = [", ".join(f"{count:,} {reason}" for reason, count in ranked)]
    if places:
        place, count = min(places.items(), key=lambda pair: (-pair[1], pair[0]))
        parts.append(f"{count:,} in {place}")
    return VersionLosses(kind, len(lost), len(items), "; ".join(parts))


def _read_reasons(ledger: pd.DataFrame) -> dict[str, str]:
    """Return the first reason of each item, by its name, its id and the id of its image."""
    reasons: dict[str, str] = {}
    for column in ("item_id", "item", "image_id"):
        rows = ledger.loc[ledger[column].notna(), [column, "reason"]].astype(str)
        for key, reason in zip(rows[column], rows["reason"], strict=True):
            reasons.setdefault(key, reason.replace("_", " "))
    return reasons


def _labels(item: dict[str, Any]) -> list[str]:
    return [] if item.get("labels") is None else list(item["labels"])


def _place(topic: object, file_name: object) -> Iterator[str]:
    """Yield the topic of a query, or the folder of an image; nothing where it has neither."""
    if isinstance(topic, str) and topic:
        yield topic
    elif isinstance(file_name, str) and (folder := str(PurePosixPath(file_name).parent)) != ".":
        yield f"{folder}/"

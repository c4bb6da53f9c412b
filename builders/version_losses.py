"""The items that a build does not have any more, and what took them: reasons of its ledger, and folders or topics."""

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pandas as pd

from builders.benchmark_set import Tables

_SHOWN = 3  # reasons
# Where the image is gone and the ledger does not mention it: its source does not list it.
_UNEXPLAINED = {"pictures": "not listed", "queries": "whose picture is not listed"}


class VersionLosses(NamedTuple):
    """`kind`: queries, or pictures for a set without queries. `lost_count` of the `total` items of the last version are
    gone; `reasons` describes them with the most frequent reason first."""

    kind: str
    lost_count: int
    total: int
    reasons: str


def find_losses(before: Tables, after: Tables) -> VersionLosses:
    """Returns the lost queries of the version `before` (its images, if it has no queries). What a person dropped,
    or called the same as another image, is not lost."""
    items, names, kind = before.images.rename(columns={"image_id": "id"}), before.images, "pictures"
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
        image_id = item["id"] if kind == "pictures" else item["source_image_id"]
        file_name = file_names.get(image_id)
        keys = [item["id"], item["source_id"], file_name, image_id, *_labels(item)]
        is_image_gone = image_id in file_names and image_id not in kept_images
        default = _UNEXPLAINED[kind] if is_image_gone else "not made again"
        reasons[next((known_reasons[key] for key in keys if key in known_reasons), default)] += 1
        places.update(_place(item.get("topic"), file_name))
    ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))[:_SHOWN]
    parts = [", ".join(f"{count:,} {reason}" for reason, count in ranked)]
    if places:
        place, count = min(places.items(), key=lambda pair: (-pair[1], pair[0]))
        parts.append(f"{count:,} in {place}")
    return VersionLosses(kind, len(lost), len(items), "; ".join(parts))


def _read_reasons(ledger: pd.DataFrame) -> dict[str, str]:
    """Returns the first reason of each item, by its name, its id and the id of its image."""
    reasons: dict[str, str] = {}
    for column in ("item_id", "item", "image_id"):
        rows = ledger.loc[ledger[column].notna(), [column, "reason"]].astype(str)
        for key, reason in zip(rows[column], rows["reason"], strict=True):
            reasons.setdefault(key, reason.replace("_", " "))
    return reasons


def _labels(item: dict[str, Any]) -> list[str]:
    return [] if item.get("labels") is None else list(item["labels"])


def _place(topic: Any, file_name: Any) -> Iterator[str]:
    """Yields the topic of a query, or the folder of a picture; nothing where it has neither."""
    if isinstance(topic, str) and topic:
        yield topic
    elif isinstance(file_name, str) and (folder := str(PurePosixPath(file_name).parent)) != ".":
        yield f"{folder}/"

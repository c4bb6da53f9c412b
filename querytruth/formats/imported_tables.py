"""The tables of a set from the files of another publisher: every entry is accepted, or listed in the ledger.

Ids are replaced by ours and stored as source_id, unless they are ours already. Images with the same bytes become one
image with the judgments of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA, content_id, image_id_of_bytes, image_id_of_source
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger, Rejection, rejection_rows, rejection_table

_READ = ("sha256", "width", "height", "taken_at", "latitude", "longitude")
_LARGEST_SIDE = (1 << 31) - 1
LARGEST_GRADE = 127  # a relevance is a signed byte
_FAR = 1 << 31  # the ledger has a larger one as this
SourceRejections = Sequence[tuple[str, str, str, str]]


@dataclass(frozen=True, slots=True)
class ImportedSource:
    """The entries of the files, with their original ids. `queries`: query, text, language, style, level, … `images`:
    image, file_name, … `qrels`: query, image, relevance, judged_by, evidence. `rejections`: kind, item, reason and
    detail of entries that could not be read. `keeps_ids`: the ids are ours already, and the tables stay as they are."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    rejections: SourceRejections
    keeps_ids: bool


def join_imported_tables(source: ImportedSource, read_images: pd.DataFrame | None, ledger: Ledger) -> Tables:
    """Return the set's tables and record four stages: queries, images, judgments, and queries that are left without
    a relevant image.

    `read_images` has a row per row of `source.images` (path, sha256, width, height, taken_at, latitude, longitude,
    reason, detail; a reason where the image cannot be used); None where images are not read.
    """
    queries = _queries(source, ledger)
    images, stands_for = _images(source, read_images, ledger)
    rows, reasons = _map_judgments(source, queries, images, stands_for)
    without_truth = _without_truth(source, queries, rows)
    reasons = np.where((reasons == "") & rows["query_id"].isin(without_truth), "query_not_accepted", reasons)
    _record_judgments(rows, reasons, ledger)
    lost = queries[queries["query_id"].isin(without_truth)]
    rejections = rejection_rows(lost["query"], "rejected", "no_image_left", item_id=lost["query_id"], text=lost["text"])
    kept = queries[~queries["query_id"].isin(without_truth)]
    ledger.record_stage("truth", "query", len(queries), len(kept), rejections)
    qrels = _qrels(source, rows[reasons == ""])
    return Tables(_with_images(kept, qrels, source).drop(columns="query"), images.drop(columns="image"), qrels)


def _queries(source: ImportedSource, ledger: Ledger) -> pd.DataFrame:
    """Return the queries with their ids; of several with one id the one with the smallest text."""
    frame = source.queries.sort_values(["query", "text"], kind="stable").reset_index(drop=True)
    empty = frame["text"].str.strip() == ""
    twice = ~empty & frame["query"].where(~empty).duplicated()
    reason = np.select([empty, twice], ["empty_text", "doubled_query"], "")
    bad = frame[reason != ""]
    bucket = np.where(reason[reason != ""] == "empty_text", "quarantined", "rejected")
    rejections = rejection_rows(bad["query"], bucket, reason[reason != ""], text=bad["text"])
    unread = _unread(source, "query")
    kept = frame[reason == ""].reset_index(drop=True)
    ledger.record_stage("queries", "query", len(frame) + len(unread), len(kept), rejections, unread)
    if source.keeps_ids:
        kept["query_id"] = kept["query"]
    else:
        pairs = zip(kept["query"], kept["language"], strict=True)
        kept["query_id"] = [content_id("q", "source", query, language) for query, language in pairs]
        kept["source_id"] = kept["query"]
    return _filled(kept, ["query", *QUERIES_SCHEMA.names])


def _images(source: ImportedSource, images: pd.DataFrame | None, ledger: Ledger) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the accepted images with their ids, and the id of each usable image of the files."""
    frame = source.images.reset_index(drop=True)
    if images is not None:
        read = images.reset_index(drop=True)
        frame = _with_decoded_sizes(frame, read, source.keeps_ids)
        frame = frame.assign(path=read["path"], reason=read["reason"].fillna(""), detail=read["detail"])
    else:
        frame = frame.assign(path=None, reason="", detail=None)
    frame["image_id"] = _image_ids(frame, source.keeps_ids)
    if not source.keeps_ids:
        frame["source_id"] = frame["image"]
    frame = frame.sort_values(["image", "file_name", "image_id"], kind="stable").reset_index(drop=True)
    good = frame["reason"] == ""
    frame.loc[good & frame["image"].where(good).duplicated(), "reason"] = "doubled_image"
    frame = frame.sort_values(["file_name", "image"], kind="stable").reset_index(drop=True)
    good = frame["reason"] == ""
    same = good & frame["image_id"].where(good).duplicated()
    frame.loc[same, "reason"] = "same_bytes"
    frame["related_item"] = frame["image_id"].where(same)
    bad, kept = frame[frame["reason"] != ""], frame[frame["reason"] == ""]
    bucket = np.where(bad["reason"].isin(_REJECTED), "rejected", "quarantined")
    columns = {"related_item": bad["related_item"], "detail": bad["detail"]}
    rejections = rejection_rows(bad["image"], bucket, bad["reason"], **columns)
    unread = _unread(source, "image")
    ledger.record_stage("imported_images", "image", len(frame) + len(unread), len(kept), rejections, unread)
    stands_for = frame.loc[good, ["image", "image_id"]]
    kept = _filled(kept, ["image", *IMAGES_SCHEMA.names]).sort_values("image_id", ignore_index=True)
    sizes = {side: _numbers(kept[side]).fillna(0).astype("int32") for side in ("width", "height")}
    return kept.assign(**sizes), dict(zip(stands_for["image"], stands_for["image_id"], strict=True))


def _filled(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return the frame with these columns; the missing ones are null."""
    missing = {name: pd.Series([None] * len(frame), frame.index, "object") for name in columns if name not in frame}
    return frame.assign(**missing)[columns]


_REJECTED = {"doubled_image", "same_bytes", "image_missing", "found_in_several_folders", "not_a_relative_name"}


def _with_decoded_sizes(frame: pd.DataFrame, read: pd.DataFrame, keeps_ids: bool) -> pd.DataFrame:
    """Return the frame with the sizes and metadata that were read from the images. Where ids are kept only missing
    sizes are taken from there, since the image may be a reduced copy."""
    if not keeps_ids:
        return frame.assign(**{name: read[name] for name in _READ})
    sizes = {}
    for side in ("width", "height"):
        source_size = _numbers(frame[side]) if side in frame else pd.Series(0, index=frame.index)
        sizes[side] = source_size.where(source_size > 0, read[side])
    return frame.assign(**sizes)


def _numbers(sizes: pd.Series) -> pd.Series:
    """Return sizes in pixels, as floats if some are missing; an impossible size counts as missing."""
    numbers = pd.to_numeric(sizes, errors="coerce")
    return numbers.where(numbers.between(0, _LARGEST_SIDE))


def _image_ids(frame: pd.DataFrame, keeps_ids: bool) -> list[str]:
    if keeps_ids:
        return list(frame["image"])
    digests = frame["sha256"] if "sha256" in frame else pd.Series(None, index=frame.index, dtype="object")
    return [
        image_id_of_bytes(digest) if isinstance(digest, str) else image_id_of_source(name, image)
        for digest, name, image in zip(digests, frame["file_name"], frame["image"], strict=True)
    ]


def _map_judgments(
    source: ImportedSource, queries: pd.DataFrame, images: pd.DataFrame, stands_for: dict[str, str]
) -> tuple[pd.DataFrame, Any]:
    """Return the judgments with our ids, and per judgment (n,) the reason why it is rejected ("": it is accepted).
    Grades below 0 become 0."""
    qrels = source.qrels.reset_index(drop=True)
    known_images = {*source.images["image"], *(item for kind, item, _, _ in source.rejections if kind == "image")}
    known_queries = {*source.queries["query"], *(item for kind, item, _, _ in source.rejections if kind == "query")}
    ids = dict(zip(queries["query"], queries["query_id"], strict=True))
    mapped = {"query_id": qrels["query"].map(ids), "image_id": qrels["image"].map(stands_for)}
    rows = qrels.assign(**mapped, relevance=qrels["relevance"].clip(0, _FAR))
    keys = ["query_id", "image_id", "relevance", "query", "image"]
    order = rows.sort_values(keys, ascending=[True, True, False, True, True])
    pair = order[["query_id", "image_id"]]
    first = order["relevance"].groupby([pair["query_id"], pair["image_id"]]).transform("first").reindex(rows.index)
    again = pair.duplicated().reindex(rows.index) & rows["query_id"].notna() & rows["image_id"].notna()
    checks = [
        ("unknown_query", ~rows["query"].isin(known_queries)),
        ("unknown_image", ~rows["image"].isin(known_images)),
        ("query_not_accepted", rows["query_id"].isna()),
        ("image_not_accepted", rows["image_id"].isna()),
        ("grade_out_of_range", rows["relevance"] > LARGEST_GRADE),
        ("contradicting_judgment", again & (rows["relevance"] != first)),
        ("doubled_judgment", again),
    ]
    reasons = np.select([failed.to_numpy(dtype=bool) for _, failed in checks], [name for name, _ in checks], "")
    return rows, reasons.astype(object)


def _without_truth(source: ImportedSource, queries: pd.DataFrame, rows: pd.DataFrame) -> set[str]:
    """Return the queries that have relevant images in the files, but none among the accepted images."""
    positive = rows[rows["relevance"] > 0]
    had = set(positive["query_id"].dropna())
    return set() if source.keeps_ids else had - set(positive.loc[positive["image_id"].notna(), "query_id"].dropna())


def _record_judgments(rows: pd.DataFrame, reasons: Any, ledger: Ledger) -> None:
    good = reasons == ""
    bad = rows[~good]
    items = [f"{query} {image}" for query, image in zip(bad["query"], bad["image"], strict=True)]
    bucket = np.where(np.isin(reasons[~good], list(_DANGLING)), "quarantined", "rejected")
    relevance = {"measure": "relevance", "value": bad["relevance"].to_numpy()}
    rejections = rejection_rows(items, bucket, reasons[~good], **relevance)
    ledger.record_stage("judgments", "judgment", len(rows), int(good.sum()), rejections)


_DANGLING = {"unknown_query", "unknown_image", "grade_out_of_range"}


def _qrels(source: ImportedSource, rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows.sort_values(["query_id", "image_id"], ignore_index=True)
    evidence = kept["evidence"] if source.keeps_ids else kept["evidence"].fillna("query " + kept["query"])
    kept = kept.assign(evidence=evidence, relevance=kept["relevance"].astype("int8"))
    kept = kept.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    return kept[["query_id", "image_id", "relevance", "judged_by", "evidence"]]


def _with_images(queries: pd.DataFrame, qrels: pd.DataFrame, source: ImportedSource) -> pd.DataFrame:
    """Return the queries with `source_image_id` where they are captions."""
    if source.keeps_ids or not (queries["style"] == "caption").all():
        return queries
    only = qrels[~qrels["query_id"].duplicated(keep=False)]
    written = dict(zip(only["query_id"].astype(str), only["image_id"].astype(str), strict=True))
    return queries.assign(source_image_id=queries["query_id"].map(written))


def _unread(source: ImportedSource, kind: str) -> pd.DataFrame:
    rows = sorted(row[1:] for row in source.rejections if row[0] == kind)
    return rejection_table(Rejection(item, "quarantined", reason, detail=detail) for item, reason, detail in rows)

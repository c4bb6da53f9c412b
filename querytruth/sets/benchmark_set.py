"""A benchmark set in memory: its tables, sizes of images, two digests, manifest, and the canary made of them.

The canary is a text that finds copies of a card or manifest in a text corpus.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pandas as pd
import pyarrow as pa

from querytruth.backends.files.text_formats import canonical_json as canonical_json
from querytruth.errors import UserError
from querytruth.records import codes_of, empty_frame, from_arrow, is_ascending, join_ranks, rank_texts, to_arrow
from querytruth.sets.manifest import Counts, Manifest
from querytruth.sets.manifest import manifest_digest as manifest_digest
from querytruth.sets.manifest_notes import Render

SCHEMA_VERSION = 2
_NOT_CONTENT = {"path", "file_name", "source_id"}  # where a file is stored and what others call it is no content
PERSONAL_KINDS = ("person", "event", "place", "album", "keyword", "text")  # of facts: dates and cameras are not
_TEXTS_AT_ONCE = 1 << 16
_KEYS = {"queries": ["query_id"], "images": ["image_id"], "qrels": ["query_id", "image_id"]}
RENDERED_SIZE_COLUMNS = ["rendered_width", "rendered_height"]
_SQUARE_MODES = ("squash", "fit", "crop")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a set (columns: querytruth.records). `duplicates` lists the duplicate groups, with the images that
    the gallery leaves out; `candidate_judgments` lists pairs that nobody judged; `boxes` lists the positions of
    objects; `query_aliases` has the publisher's further ids of queries, where a log has several lines of one query."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    ledger: pd.DataFrame = field(default_factory=lambda: empty_frame("ledger"))
    duplicates: pd.DataFrame = field(default_factory=lambda: empty_frame("duplicates"))
    candidate_judgments: pd.DataFrame = field(default_factory=lambda: empty_frame("candidate_judgments"))
    boxes: pd.DataFrame = field(default_factory=lambda: empty_frame("boxes"))
    query_aliases: pd.DataFrame = field(default_factory=lambda: empty_frame("query_aliases"))

    def count_places(self) -> int:
        """Return of how many images the place is known where they were taken."""
        return int(self.images[["latitude", "longitude"]].notna().any(axis=1).sum())

    def refuse_facts(self, stage: str, item: object, next_step: str, *, places: bool, names: bool) -> None:
        """Raise UserError where the place of an image is known, or a query names people, places or texts of an album,
        unless they are allowed: nobody publishes that without a word."""
        if not places and (placed := self.count_places()):
            raise UserError(stage, item, f"contains the places where {placed:,} of its images were taken", next_step)
        if not names and (named := len(self.list_naming())):
            raise UserError(stage, item, f"names people, places or texts in {named:,} queries", next_step)

    def without_places(self) -> "Tables":
        """Return the tables without the places where images were taken."""
        return replace(self, images=self.images.assign(latitude=np.nan, longitude=np.nan))

    def list_naming(self) -> pd.Series:
        """Return the ids of the queries that name people, places or texts of an album."""
        kinds = self.queries["fact_kinds"].explode() if "fact_kinds" in self.queries else pd.Series(dtype="str")
        return self.queries["query_id"][kinds[kinds.isin(PERSONAL_KINDS)].index.unique()]

    def without_names(self) -> "Tables":
        """Return the tables without the queries that name people, places or texts of an album, and all that was noted
        about these."""
        out = self.list_naming()
        if not len(out):
            return self
        parts = {name: getattr(self, name) for name in ("queries", "qrels", "candidate_judgments")}
        kept = {name: table[~table["query_id"].isin(out)] for name, table in parts.items()}
        return replace(self, **kept, boxes=self.boxes.head(0), ledger=self.ledger.head(0))

    def to_arrow_tables(self) -> dict[str, pa.Table]:
        """Return all tables by name, sorted by id. Raises ValueError where one does not fit its schema or has an id
        twice."""
        return {name: _ordered(name, to_arrow(name, getattr(self, name))) for name in self.__slots__}

    @classmethod
    def from_arrow_tables(cls, tables: dict[str, pa.Table]) -> "Tables":
        """Return the tables of a version from all of its tables in Arrow."""
        return cls(**{name: from_arrow(table) for name, table in tables.items()})


def _ordered(name: str, table: pa.Table) -> pa.Table:
    if name not in _KEYS:
        return table
    ranks = [rank_texts(table[key])[0] for key in _KEYS[name]]
    if is_ascending(ranks):  # the usual case, for which 25 million judgments need no sorting
        return table
    keys = join_ranks(ranks)
    order = np.argsort(keys, kind="stable")  # which merges, where judgments were added at the end of sorted ones
    keys = keys[order]
    if (same := keys[1:] == keys[:-1]).any():
        row = int(order[np.flatnonzero(same)[0]])
        key = ", ".join(str(table[column][row].as_py()) for column in _KEYS[name])
        raise ValueError(f"table {name}: {key} occurs twice")
    return table.take(order)


def content_digest(tables: dict[str, pa.Table]) -> str:
    """Return the sha256 over a canonical encoding of queries, images and qrels (described in docs/set-format.md).

    Tables and columns are ordered by name. A text column is its distinct values in byte order, each with its length,
    and a rank per row; numbers are little-endian int32 or float64. Times, hosts, paths, the order of rows and their
    encoding in Arrow have no influence: `tables` come from `Tables.to_arrow_tables`, which sorts them. A column
    without values is skipped, so that a column added by a later version of the format keeps older digests valid.
    """
    digest = hashlib.sha256()
    for name in sorted(_KEYS):
        table = tables[name]
        digest.update(f"{name}:{table.num_rows}\n".encode())
        for column in sorted(set(table.column_names) - _NOT_CONTENT):
            if table[column].null_count < table.num_rows:
                digest.update(f"{name}.{column}\n".encode())
                _digest_column(digest, table[column])
    return digest.hexdigest()


def _digest_column(digest: Any, column: pa.ChunkedArray) -> None:
    if pa.types.is_integer(column.type):
        digest.update(np.ascontiguousarray(column.to_numpy(), dtype="<i4"))
        return
    if pa.types.is_floating(column.type):
        values = column.fill_null(float("nan")).to_numpy().astype("<f8")
        digest.update(np.where(np.isnan(values), np.nan, values).tobytes())
        return
    if pa.types.is_list(column.type):
        texts = [None if row is None else json.dumps(row, ensure_ascii=False) for row in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    ranks, distinct = rank_texts(column)
    digest.update(len(distinct).to_bytes(8, "little"))
    for start in range(0, len(distinct), _TEXTS_AT_ONCE):
        texts = distinct[start : start + _TEXTS_AT_ONCE].to_pylist()
        digest.update(b"".join([len(text).to_bytes(8, "little") + text for text in texts]))
    digest.update(np.ascontiguousarray(ranks))


def build_digest(content: str, configuration: object, inputs: object, code: str, models: object) -> str:
    """Return the digest that a rebuild must reproduce: of the content digest and all that the content depends on."""
    whole = {"content": content, "configuration": configuration, "inputs": inputs, "code": code, "models": models}
    return hashlib.sha256(canonical_json(whole)).hexdigest()


def count_set(tables: Tables) -> Counts:
    """Return the counts of the manifest and the card: sizes, and the judgments by grade and by judge."""
    qrels = tables.qrels
    counts = np.bincount(codes_of(qrels["query_id"].astype("category"))[qrels["relevance"].to_numpy() > 0])
    positives = counts[counts > 0]
    by_grade = qrels["relevance"].value_counts().sort_index(ascending=False)
    return {
        "queries": len(tables.queries),
        "images": len(tables.images),
        "judgments": len(qrels),
        "duplicate_groups": int(tables.images["duplicate_group"].nunique()),
        "by_level": _tally(tables.queries["level"]),
        "by_style": _tally(tables.queries["language"] + "/" + tables.queries["style"]),
        "by_grade": {str(grade): int(number) for grade, number in by_grade.items()},
        "by_judge": _tally(qrels["judged_by"]),
        "relevant_per_query": {
            "least": int(positives.min()) if len(positives) else 0,
            "median": float(np.median(positives)) if len(positives) else 0.0,
            "most": int(positives.max()) if len(positives) else 0,
        },
    }


def _tally(column: Any) -> dict[str, int]:
    counts = {str(value): int(number) for value, number in column.value_counts().items() if number}
    return dict(sorted(counts.items()))


def open_candidate_judgments(tables: Tables) -> pd.DataFrame:
    """Return the candidate judgments (pairs that may be relevant and that nobody judged when the set was built) that
    still wait, those with the highest score first: without pairs that are judged by now, and without those of a query
    or image that the set no longer has."""
    candidates = tables.candidate_judgments
    if candidates.empty:  # skips the search in millions of judgments
        return candidates
    queries, images = tables.queries["query_id"], tables.images["image_id"]
    candidates = candidates[candidates["query_id"].isin(queries) & candidates["image_id"].isin(images)]
    judged = tables.qrels[tables.qrels["query_id"].isin(candidates["query_id"])]
    pairs = pd.MultiIndex.from_arrays([candidates["query_id"].astype("str"), candidates["image_id"].astype("str")])
    known = pd.MultiIndex.from_arrays([judged["query_id"].astype("str"), judged["image_id"].astype("str")])
    waiting = candidates[~pairs.isin(known)]
    return waiting.sort_values(["score", "query_id", "image_id"], ascending=[False, True, True], ignore_index=True)


def make_canary(content_digest: str) -> str:
    """Return the canary; each content has its own."""
    return f"querytruth-canary {uuid5(NAMESPACE_URL, f'querytruth:{content_digest}')}"


def get_render_options(manifest: Manifest | None) -> Render:
    """Return `size` and `mode` of the rendered images of the set, rendered by its own build or by that of its gallery;
    nothing where they are not rendered."""
    return {} if manifest is None else manifest["configuration"].get("render") or manifest["notes"].get("render") or {}


def is_square_mode(mode: str | None) -> bool:
    """Return whether all images of this mode are squares of the same size, so that the images table need not list
    it."""
    return mode in _SQUARE_MODES


def find_rendered_sizes(images: pd.DataFrame, manifest: Manifest | None) -> pd.DataFrame:
    """Return rendered_width and rendered_height in pixels per row of the images table; missing where an image was not
    rendered."""
    if all(name in images and images[name].notna().any() for name in RENDERED_SIZE_COLUMNS):
        return images[RENDERED_SIZE_COLUMNS]
    render = get_render_options(manifest)
    side = (
        np.where(images["path"].notna(), render.get("size") or np.nan, np.nan)
        if is_square_mode(render.get("mode"))
        else np.nan
    )
    sizes = pd.DataFrame(dict.fromkeys(RENDERED_SIZE_COLUMNS, side), index=images.index, dtype="float64")
    return sizes.astype("int32") if len(sizes) and sizes.notna().all(axis=None) else sizes


def list_squashed_sizes(images: pd.DataFrame, manifest: Manifest) -> dict[str, tuple[int, int]]:
    """Return width and height of the original by the id of each image that was squashed to a square."""
    known = images[is_squashed(images, manifest)]
    sizes = zip(known["width"].tolist(), known["height"].tolist(), strict=True)
    return dict(zip(known["image_id"].tolist(), sizes, strict=True))


def is_squashed(images: pd.DataFrame, manifest: Manifest) -> pd.Series:
    """Return by row of the images table whether the image was squashed to a square from another size that is known."""
    is_known: pd.Series = images["path"].notna() & (images["width"] > 0) & (images["height"] > 0)
    return is_known & (get_render_options(manifest).get("mode") == "squash")

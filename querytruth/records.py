"""Arrow schemas of the tables that pass between steps as pandas frames, and the ids in them."""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.array_types import Hashes

IMAGES_SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),
        ("path", pa.string()),  # of the file: inside the set, or (by reference) outside it
        ("file_name", pa.string()),  # as the source lists it
        ("sha256", pa.string()),  # of the source's bytes; null where only annotations were given
        pa.field("width", pa.int32(), nullable=False),  # of the source, upright
        pa.field("height", pa.int32(), nullable=False),
        ("rendered_width", pa.int32()),  # of the image in the set; null where the definition's `render` gives it
        ("rendered_height", pa.int32()),
        ("taken_at", pa.string()),  # ISO 8601, with an offset only where the camera wrote one
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("duplicate_group", pa.string()),
        ("source_url", pa.string()),
        ("page_url", pa.string()),
        ("licence", pa.string()),
        ("creator", pa.string()),
        ("caption", pa.string()),  # from the web page
        ("source_id", pa.string()),  # another publisher's id; never part of a path
    ]
)
QUERIES_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        pa.field("style", pa.string(), nullable=False),
        pa.field("level", pa.int8(), nullable=False),
        ("labels", pa.list_(pa.string())),
        ("family", pa.string()),  # of a question about more than labels, with its kind: count/2, spatial/left
        ("twin", pa.string()),  # query_id of the same question without number, size, place, absence or attribute
        ("source", pa.string()),  # of a question about facts: picture, file or both
        ("fact_kinds", pa.list_(pa.string())),  # of a question about facts: person, place, date …
        ("topic", pa.string()),
        ("source_image_id", pa.string()),  # the image that a caption describes
        ("source_id", pa.string()),  # another publisher's id
        ("searches", pa.float64()),  # how often a log has the query
        ("stratum", pa.string()),  # head, torso or tail of the log
        ("inclusion", pa.float64()),  # the probability with which it was drawn from the log
    ]
)
_code = pa.dictionary(pa.int32(), pa.string())
QRELS_SCHEMA = pa.schema(
    [
        pa.field("query_id", _code, nullable=False),
        pa.field("image_id", _code, nullable=False),
        pa.field("relevance", pa.int8(), nullable=False),
        pa.field("judged_by", _code, nullable=False),
        pa.field("evidence", _code),
    ]
)
LEDGER_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),  # as the source lists it, or its id
        ("item_id", pa.string()),  # an image_id or a query_id
        pa.field("kind", _code, nullable=False),
        pa.field("stage", _code, nullable=False),
        pa.field("bucket", _code, nullable=False),
        pa.field("reason", _code, nullable=False),
        ("measure", _code),  # of which quantity `value` is: shorter_side, brightness, reported_results …
        ("value", pa.float64()),
        ("threshold", pa.float64()),  # that the value does not pass
        ("related_item", pa.string()),  # the representative, the confusable image, the query that has the image
        ("rank", pa.int32()),  # of a search result, from 1
        ("image_id", pa.string()),  # that a caption describes
        ("language", pa.string()),  # of a caption
        ("text", pa.string()),  # of a query, a caption or a reply; of a search result its query's
        ("detail", pa.string()),  # free text: an error's message, a note, the evidence
    ]
)
DUPLICATES_SCHEMA = pa.schema(
    [
        pa.field("duplicate_group", pa.string(), nullable=False),
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),  # as the source lists it
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("is_representative", pa.bool_(), nullable=False),
        ("matched_by", pa.string()),  # bytes, pixels, views, embedding or person; null on the representative
        ("distance", pa.int16()),  # bits in which the nearest views differ, where those matched
        ("edit", pa.string()),  # border, crop, overlay (joined by +) or copy, where views matched
    ]
)
CANDIDATE_JUDGMENTS_SCHEMA = pa.schema(  # pairs that nobody judged and that may be relevant
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),  # 0 to 1
        pa.field("evidence", pa.string(), nullable=False),
    ]
)
BOXES_SCHEMA = pa.schema(  # of a precision set with images: where its labels were marked
    [
        pa.field("image_id", _code, nullable=False),
        pa.field("label", _code, nullable=False),
        pa.field("counts_for", _code, nullable=False),  # JSON list of the labels and parents that a query may ask for
        *(pa.field(side, pa.float32(), nullable=False) for side in ("left", "top", "right", "bottom")),  # shares
        ("score", pa.float32()),  # of a detector; null where the annotations have the box
        ("source", _code),  # the detector's file; null where the annotations have the box
    ]
)
QUERY_ALIASES_SCHEMA = pa.schema(  # of a log: the ids of the other lines that were joined into a query
    [pa.field("query_id", pa.string(), nullable=False), pa.field("source_id", pa.string(), nullable=False)]
)
TABLE_SCHEMAS = {
    "queries": QUERIES_SCHEMA,
    "images": IMAGES_SCHEMA,
    "qrels": QRELS_SCHEMA,
    "ledger": LEDGER_SCHEMA,
    "duplicates": DUPLICATES_SCHEMA,
    "candidate_judgments": CANDIDATE_JUDGMENTS_SCHEMA,
    "boxes": BOXES_SCHEMA,
    "query_aliases": QUERY_ALIASES_SCHEMA,
}

# What is read from a file; a row per listed item. `reason` is set where the image cannot be used.
SCANNED_IMAGES_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        ("size", pa.int64()),  # bytes
        ("modified", pa.int64()),  # nanoseconds
        ("head", pa.string()),  # digest of the first bytes: shows with size and time whether the file changed
        ("sha256", pa.string()),
        ("pixels", pa.string()),  # digest of the upright pixels: two files that differ in metadata share it
        (
            "views",
            pa.binary(),
        ),  # boxes and hashes that duplicates are found by (`querytruth.backends.images.image_views`)
        ("thumbnail", pa.binary()),  # a small JPEG of what is inside borders (the same)
        ("details", pa.binary()),  # of flat images: whether it is a page or a screen, and grey pixels; null for others
        ("width", pa.int32()),  # after orientation
        ("height", pa.int32()),
        ("orientation", pa.int8()),  # as EXIF numbers it, 1 to 8
        ("format", pa.string()),
        ("taken_at", pa.string()),
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("brightness", pa.float32()),  # quality scores, 0 to 1
        ("contrast", pa.float32()),
        ("sharpness", pa.float32()),
        ("flatness", pa.float32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)

# For to_pandas, which by default makes floats of hashes with nulls, without their lowest bits, and objects of bytes.
ARROW_TO_PANDAS_TYPES = {
    pa.uint64(): pd.UInt64Dtype(),
    pa.binary(): pd.ArrowDtype(pa.binary()),
}

_ID_COLUMNS = {"image_id", "query_id", "source_image_id", "item_id"}
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # cannot lead anywhere as a part of a path
_OWN_ID = {kind: re.compile(rf"{kind}_[0-9a-f]{{20}}") for kind in ("img", "q")}

_ID_HEX = 20  # 80 bits: ten million images collide with a chance of 4e-11


def to_arrow(name: str, frame: pd.DataFrame) -> pa.Table:
    """Return the frame as an Arrow table of the declared schema; a nullable column may be missing. Raises ValueError,
    with table and column, for another missing or unknown column, a null in a column without nulls, or a wrong type."""
    schema = TABLE_SCHEMAS[name]
    if missing := [field.name for field in schema if field.name not in frame.columns and not field.nullable]:
        raise ValueError(f"table {name}: column {missing[0]!r} is missing (has {list(frame.columns)})")
    if unknown := [column for column in frame.columns if column not in schema.names]:
        raise ValueError(f"table {name}: column {unknown[0]!r} is not in the schema")
    columns = []
    for field in schema:
        if field.name not in frame.columns:
            columns.append(pa.nulls(len(frame), field.type))
            continue
        try:
            column = pa.Array.from_pandas(frame[field.name], type=field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"table {name}, column {field.name}: {error}") from None
        if not field.nullable and column.null_count:
            raise ValueError(f"table {name}, column {field.name}: {column.null_count} empty values")
        columns.append(column)
    table = pa.Table.from_arrays(columns, schema=schema)
    check_ids(name, table)
    return table


def check_ids(name: str, table: pa.Table) -> None:
    """Raise ValueError, with table and column, for an id that is not of the safe alphabet. Every table that is read or
    published is checked here: ids become parts of paths and of addresses."""
    for column in _ID_COLUMNS & set(table.column_names):
        for chunk in table[column].chunks:
            ids = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            is_wrong = pc.invert(pc.match_substring_regex(ids, f"^(?:{_SAFE_ID.pattern})$"))
            if pc.any(is_wrong).as_py():
                wrong = str(ids.filter(is_wrong)[0].as_py())
                raise ValueError(f"table {name}, column {column}: {wrong[:80]!a} is not a valid id")


_KEYS = {"queries": ["query_id"], "images": ["image_id"], "qrels": ["query_id", "image_id"]}
_KEYS["candidate_judgments"] = _KEYS["qrels"]
_NAMES = {"queries": ("language", "style", "family")}  # become headings, keys and parts of charts
_ROWS_AT_ONCE = 1 << 20  # that are compared: what comes between is in the processor's cache
_NO_NAME = r"[\p{Cc}\p{Zl}\p{Zp}]"
_NUMBERS = {"boxes": ("left", "top", "right", "bottom"), "candidate_judgments": ("score",)}


def check_rows(name: str, table: pa.Table) -> None:
    """Raise ValueError, with table and column, for rows that no build writes: a duplicate id or pair, an empty label, a
    question of a family without labels, an invalid number, a control character or a line separator in a name. Every
    table that is read is checked here: code that counts, draws and compares relies on it."""
    if name in _KEYS and len(table) > 1:
        ranks = [rank_texts(table[column])[0] for column in _KEYS[name]]
        # Published tables are sorted: only others need the hash table.
        if not is_ascending(ranks) and (is_twice := pd.Series(join_ranks(ranks)).duplicated().to_numpy()).any():
            row = table.select(_KEYS[name]).slice(int(np.argmax(is_twice)), 1).to_pylist()[0]
            raise ValueError(f"table {name}: {', '.join(map(str, row.values()))} occurs twice")
    for column in _NUMBERS.get(name, ()):
        if pc.all(pc.is_finite(table[column])).as_py() is False:
            raise ValueError(f"table {name}, column {column}: contains a value that is not a number")
    for column in _NAMES.get(name, ()):
        distinct_names = pc.unique(table[column])
        if pc.any(pc.match_substring_regex(distinct_names, _NO_NAME)).as_py():
            raise ValueError(f"table {name}, column {column}: contains a control character or a line separator")
    if name == "queries":
        if pc.list_flatten(table["labels"]).null_count:
            raise ValueError(f"table {name}, column labels: contains an empty label")
        lengths = pc.fill_null(pc.list_value_length(table["labels"]), 0)
        if pc.any(pc.and_(pc.is_valid(table["family"]), pc.equal(lengths, 0))).as_py():
            raise ValueError(f"table {name}, column labels: a query with a family has no labels")


def rank_texts(column: pa.ChunkedArray) -> tuple[Any, pa.Array]:
    """Return per row (n,) the rank of its text among the column's distinct texts, and these as sorted UTF-8 bytes.
    The rank of a null is -1. Texts stay in Arrow: a million Python strings would need more memory than the table."""
    rows = column.combine_chunks()
    if not pa.types.is_dictionary(rows.type):
        return _ranked(rows)
    texts = rows.dictionary.cast(pa.binary())
    indices = rows.indices.fill_null(len(texts)) if rows.null_count else rows.indices
    codes = indices.to_numpy(zero_copy_only=False)
    is_used = np.zeros(len(texts) + 1, dtype=bool)
    is_used[codes] = True
    is_used[-1] = False  # the code of a null
    distinct = texts if is_used[:-1].all() else texts.filter(pa.array(is_used[:-1]))
    if not distinct.null_count and pc.all(pc.less(distinct[:-1], distinct[1:])).as_py() is not False:
        if len(distinct) == len(texts) and not rows.null_count:
            return codes.astype("<i4", copy=False), texts  # the codes are the ranks already
        return np.where(is_used, np.cumsum(is_used, dtype="<i4") - 1, -1).astype("<i4")[codes], distinct
    rank, distinct = _ranked(pc.if_else(pa.array(is_used[:-1]), texts, None))
    return np.append(rank, np.int32(-1))[codes], distinct


def is_ascending(ranks: Sequence[Any]) -> bool:
    """Return whether each row's ranks (n,), from the first key on, are above those of the row before."""
    for start in range(0, len(ranks[0]) - 1, _ROWS_AT_ONCE):
        is_higher: Any = False
        for rank in reversed([one[start : start + _ROWS_AT_ONCE + 1] for one in ranks]):
            is_higher = (rank[1:] > rank[:-1]) | ((rank[1:] == rank[:-1]) & is_higher)
        if not is_higher.all():
            return False
    return True


def join_ranks(ranks: Sequence[Any]) -> Any:
    """Return a number per row (n,) that orders the rows as their ranks (n,) do, compared from the first key on."""
    keys = ranks[0].astype(np.int64)
    for rank in ranks[1:]:
        keys = keys * (int(rank.max()) + 1) + rank
    return keys


def _ranked(texts: pa.Array) -> tuple[Any, pa.Array]:
    """Return the ranks and the distinct texts of a plain column."""
    texts = texts.cast(pa.binary() if pa.types.is_string(texts.type) else texts.type)
    if not texts.null_count and pc.all(pc.less(texts[:-1], texts[1:])).as_py() is not False:  # as we publish ids
        return np.arange(len(texts), dtype="<i4"), texts
    order = pc.sort_indices(texts).to_numpy()[: len(texts) - texts.null_count]  # nulls are last
    values = texts.take(pa.array(order))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    rank = np.full(len(texts), -1, dtype="<i4")
    rank[order] = np.cumsum(is_new, dtype="<i4") - 1
    return rank, values if is_new.all() else values.filter(pa.array(is_new))


class RowsById:
    """Finds the row of an id by bisection. A dictionary of a million ids takes seconds to make, and 200 MB."""

    def __init__(self, ids: pd.Series) -> None:
        self._ids = pa.array(ids, type=pa.string())
        self._order: pa.Array | None = None
        if pc.all(pc.less_equal(self._ids[:-1], self._ids[1:])).as_py() is False:  # no table that we publish
            self._order = pc.sort_indices(self._ids)
            self._ids = self._ids.take(self._order)

    def get(self, name: str) -> int | None:
        """Return the row of an id; None without one."""
        place = bisect_left(self._ids, name, key=pa.StringScalar.as_py)
        if place == len(self._ids) or self._ids[place].as_py() != name:
            return None
        return place if self._order is None else int(self._order[place].as_py())


def codes_of(column: pd.Series) -> Any:
    """Return the codes (n,) of a column of categories, -1 for a missing value; `column.cat.codes` copies them."""
    return cast(pd.Categorical, column.array).codes


def list_used(column: pd.Series) -> pd.Index:
    """Return the categories that occur in a column; `unique` sorts."""
    categories: pd.Index = column.cat.categories
    is_used = np.zeros(len(categories) + 1, dtype=bool)
    is_used[codes_of(column)] = True
    return categories[is_used[:-1]]


def is_any_of(column: pd.Series, values: Iterable[str]) -> Any:
    """Return which rows (n,) of a column of categories have one of the values; `isin` takes five times as long."""
    is_wanted = np.append(column.cat.categories.isin(list(values)), False)  # the last one: of a missing value
    return is_wanted[codes_of(column)]


def are_own_ids(image_ids: Iterable[str], query_ids: Iterable[str]) -> bool:
    """Return whether all ids have the form of this program's ids."""
    return all(map(_OWN_ID["img"].fullmatch, image_ids)) and all(map(_OWN_ID["q"].fullmatch, query_ids))


def from_arrow(table: pa.Table, *, consumed: bool = False) -> pd.DataFrame:
    """Return a pandas frame of the table; dictionary columns become categories, nulls stay missing values. A table
    that is `consumed` gives up each column as soon as it is converted, and cannot be used afterwards."""
    texts = dict[str, pd.Index]()
    for name in [field.name for field in table.schema if pa.types.is_dictionary(field.type)]:
        column = table[name].chunk(0) if table[name].num_chunks == 1 else table[name].combine_chunks()
        codes = column.indices.fill_null(-1) if column.null_count else column.indices
        table = table.set_column(table.schema.get_field_index(name), name, codes)
        texts[name] = pd.Index(column.dictionary.to_pandas(), dtype="str" if len(column.dictionary) else "object")
    frame = table.to_pandas(split_blocks=consumed, self_destruct=consumed)
    # As Arrow makes categories, it makes a Python string of each.
    coded = {name: pd.Categorical.from_codes(frame[name].to_numpy(), index) for name, index in texts.items()}
    return pd.DataFrame({name: coded.get(name, frame[name]) for name in frame}, copy=False) if coded else frame


def empty_frame(name: str) -> pd.DataFrame:
    """Return a frame of the schema without rows."""
    return _make_empty_frame(name).copy(deep=False)


@cache
def _make_empty_frame(name: str) -> pd.DataFrame:
    return from_arrow(TABLE_SCHEMAS[name].empty_table())


def content_id(prefix: str, *parts: str) -> str:
    """Return an id from the digest of its parts; these are length-prefixed, so different lists give different ids."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join([len(part).to_bytes(8, "little") + part for part in encoded])
    return f"{prefix}_{hashlib.sha256(whole).hexdigest()[:_ID_HEX]}"


def image_id_of_bytes(sha256: str) -> str:
    """Return the id of an image from the digest of its bytes."""
    return f"img_{sha256[:_ID_HEX]}"


def image_ids_of_bytes(sha256: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the ids of images from a column of digests."""
    return pc.binary_join_element_wise("img_", pc.utf8_slice_codeunits(sha256, 0, _ID_HEX), "")


def digest_start_of_image_id(image_id: str) -> str:
    """Return the first digits of the digest of an image's bytes, from its `image_id_of_bytes`."""
    return image_id.removeprefix("img_")


def image_id_of_source(file_name: str, source_id: str) -> str:
    """Return the id of an image that is known from annotations alone."""
    return content_id("img", "source", file_name, source_id)


def stable_hash(*parts: str) -> int:
    """Return a 64-bit hash of the parts, which orders samples and shuffles."""
    encoded = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big")


def mix_bits(values: Hashes) -> Hashes:
    """Return hashes of 64-bit numbers (n,) by the finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit
    affects every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def categorical_from_codes(values: Iterable[str], codes: object) -> pd.Categorical:
    """Return a category column from its distinct values and a code per row (n,)."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(values), dtype="str"))


def drop_unused_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without categories that no row has: digests and sizes depend on no larger table."""
    categorical = frame.select_dtypes("category")
    return frame.assign(**{name: categorical[name].cat.remove_unused_categories() for name in categorical})


def list_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries of plain values, None for missing ones."""
    rows: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows

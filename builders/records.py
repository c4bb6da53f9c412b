"""The tables that flow between steps: pandas frames with declared Arrow schemas, and the ids in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pyarrow as pa

IMAGES_SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),
        ("path", pa.string()),  # where the bytes lie: inside the set, or (by reference) outside it
        ("file_name", pa.string()),  # as the source lists it
        ("sha256", pa.string()),  # of the source's bytes; null where only annotations were given
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        ("taken_at", pa.string()),  # ISO 8601, with an offset only where the camera wrote one
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("duplicate_group", pa.string()),
        ("source_url", pa.string()),
        ("page_url", pa.string()),
        ("licence", pa.string()),
        ("creator", pa.string()),
        ("caption", pa.string()),  # what the web page says of it
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
        ("topic", pa.string()),
        ("source_image_id", pa.string()),  # the picture that a caption was written of
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
        ("measure", _code),  # what `value` is: shorter_side, brightness, reported_results …
        ("value", pa.float64()),
        ("threshold", pa.float64()),  # that the value did not pass
        ("related_item", pa.string()),  # the representative, the confusable image, the query that used the image before
        ("rank", pa.int32()),  # of a search result, from 1
        ("image_id", pa.string()),  # that a caption was asked for of
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
        ("matched_by", pa.string()),  # bytes, pixels, hash, embedding or person; null on the representative
        ("distance", pa.int16()),  # Hamming, between perceptual hashes, where those matched
    ]
)
CANDIDATE_JUDGMENTS_SCHEMA = pa.schema(  # pairs that nobody judged and that may well be right: for people to look at
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),  # 0 to 1
        pa.field("evidence", pa.string(), nullable=False),
    ]
)
TABLE_SCHEMAS = {
    "queries": QUERIES_SCHEMA,
    "images": IMAGES_SCHEMA,
    "qrels": QRELS_SCHEMA,
    "ledger": LEDGER_SCHEMA,
    "duplicates": DUPLICATES_SCHEMA,
    "candidate_judgments": CANDIDATE_JUDGMENTS_SCHEMA,
}

SCANNED_IMAGES_SCHEMA = (
    pa.schema(  # what a file says of itself; a row per listed item, `reason` set where it is no good
        [
            pa.field("item", pa.string(), nullable=False),
            ("size", pa.int64()),  # bytes
            ("modified", pa.int64()),  # nanoseconds
            ("head", pa.string()),  # digest of the first bytes: with size and time, whether a file is what it was
            ("sha256", pa.string()),
            ("pixels", pa.string()),  # digest of the upright pixels: two files that differ in metadata share it
            ("phash", pa.uint64()),  # null where the picture shows nothing to tell it by
            ("outline", pa.binary(64)),  # the 64 coefficients that phash is made of, one signed byte each; null with it
            ("turned", pa.list_(pa.uint64(), 7)),  # rotated 90, 180, 270; mirrored, and that rotated 90, 180, 270
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
)

# For to_pandas, which else makes floats of hashes in a column that has gaps (they would lose their lowest bits), and
# Python objects of bytes.
ARROW_TO_PANDAS_TYPES = {pa.uint64(): pd.UInt64Dtype(), pa.binary(64): pd.ArrowDtype(pa.binary(64))}

_ID_HEX = 20  # 80 bits: ten million pictures collide with a chance of 4e-11


def to_arrow(name: str, frame: pd.DataFrame) -> pa.Table:
    """The frame as an Arrow table of the declared schema. A column that may be empty may be missing; another that is,
    a null where none may be, or a value of another type is a ValueError that names table and column."""
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
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(f"table {name}, column {field.name}: {error}") from None
        if not field.nullable and column.null_count:
            raise ValueError(f"table {name}, column {field.name}: {column.null_count} empty values")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """A pandas frame of the table; dictionary columns become categories, nulls stay missing values."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


def empty_frame(name: str) -> pd.DataFrame:
    """A frame of the schema without rows."""
    return from_arrow(TABLE_SCHEMAS[name].empty_table())


def content_id(prefix: str, *parts: str) -> str:
    """An id that is the digest of its parts; the parts are length-prefixed, so no two lists of parts meet."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join([len(part).to_bytes(8, "little") + part for part in encoded])
    return f"{prefix}_{hashlib.sha256(whole).hexdigest()[:_ID_HEX]}"


def image_id_of_bytes(sha256: str) -> str:
    """The identity of a picture whose bytes are known."""
    return f"img_{sha256[:_ID_HEX]}"


def image_ids_of_bytes(sha256: pd.Series) -> pd.Series:
    """The same for a column of digests."""
    ids: pd.Series = "img_" + sha256.str[:_ID_HEX]
    return ids


def image_id_of_source(file_name: str, source_id: str) -> str:
    """The identity of a picture that is known from annotations alone."""
    return content_id("img", "source", file_name, source_id)


def stable_hash(*parts: str) -> int:
    """64 bits that depend on the parts alone: what every sample and every shuffle is drawn by."""
    return int.from_bytes(
        hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def categorical_from_codes(values: Iterable[str], codes: object) -> pd.Categorical:
    """A category column from its distinct values and a code per row."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(values), dtype="str"))


def list_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain values by column name, None where one is missing."""
    rows: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows

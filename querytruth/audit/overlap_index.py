"""An index: the hashes of images, and their vectors if wanted, in one Parquet file that its owner can publish."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.audit import overlap_sources
from querytruth.audit.overlap_pairs import read_vectors
from querytruth.backends.files.durable_files import replace_atomically
from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet_schema
from querytruth.backends.models.embedders import Embedder
from querytruth.errors import UserError, translate_read_errors, translate_write_errors

_PDQ_FIELD = pa.field("pdq", pa.binary(32))
_EMBEDDER_KEY = b"querytruth.embedder"
_ROWS, _ROWS_WITH_VECTORS = 1 << 16, 1 << 14  # read at once


def write_index(images: str, file: Path, features: overlap_sources.ImageFeatures) -> int:
    """Writes the hashes of a source's images, and what `features` names, without any image; returns how many. Raises
    UserError, also where there are none."""
    schema, counts = _make_schema(features), overlap_sources.ReadCounts()

    def write(opened: IO[bytes]) -> None:
        with pq.ParquetWriter(opened, schema) as writer:
            for table in overlap_sources.hash_images(overlap_sources.list_images(images), features, counts):
                writer.write_table(pa.Table.from_pandas(table, schema, preserve_index=False))
        if not counts.read:
            raise overlap_sources.no_image_error(images)

    with translate_write_errors("write index", file):
        replace_atomically(file, write)
    overlap_sources.report_skipped(images, counts)
    return counts.read


def _make_schema(features: overlap_sources.ImageFeatures) -> pa.Schema:
    schema = overlap_sources.INDEX_SCHEMA.append(_PDQ_FIELD) if features.with_pdq else overlap_sources.INDEX_SCHEMA
    if features.embedder is None:
        return schema
    vector = pa.field("vector", pa.binary(4 * features.embedder.dimensions))
    return schema.append(vector).with_metadata({_EMBEDDER_KEY: features.embedder.fingerprint.encode()})


def is_index(file: Path) -> bool:
    """Whether a file is an index of hashes."""
    return file.suffix == ".parquet" and set(overlap_sources.INDEX_SCHEMA.names) <= set(_read_schema(file).names)


def has_pdq(file: Path) -> bool:
    """Whether an index has PDQ hashes."""
    return _PDQ_FIELD.name in _read_schema(file).names


def check_embedder(file: Path, embedder: Embedder) -> None:
    """Raises UserError for an index without vectors, and for one whose vectors are of other weights."""
    used = (_read_schema(file).metadata or {}).get(_EMBEDDER_KEY, b"").decode("utf-8", "replace")
    if not used:
        raise UserError(
            overlap_sources.STAGE, file, "has no vectors", "leave out --embedder, or index the images with it"
        )
    # By the revision: a folder of the same weights may have another name.
    if used.rpartition("@")[2] != embedder.revision:
        raise UserError(
            overlap_sources.STAGE, file, f"has vectors of {used}, not of {embedder.fingerprint}", "name that embedder"
        )


def read_index(file: Path, embedder: Embedder | None = None) -> Iterator[pd.DataFrame]:
    """Yields an index in batches, with the vectors of the embedder that it was made with, if named. Raises UserError
    for a damaged one."""
    schema = overlap_sources.INDEX_SCHEMA.append(_PDQ_FIELD) if has_pdq(file) else overlap_sources.INDEX_SCHEMA
    if embedder is not None:
        schema = schema.append(pa.field("vector", pa.binary(4 * embedder.dimensions)))
    with translate_read_errors(overlap_sources.STAGE, file, also=(pa.ArrowException,)):
        for batch in iterate_parquet(file, schema.names, _ROWS if embedder is None else _ROWS_WITH_VECTORS):
            table = overlap_sources.to_frame(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
            if embedder is not None:
                _check_vectors(file, table["vector"].dropna())
            yield table


def _check_vectors(file: Path, column: pd.Series) -> None:
    vectors = read_vectors(column)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) if len(vectors) else np.ones(0)
    if not (np.abs(lengths - 1) < 1e-3).all():  # also of NaN
        raise UserError(
            overlap_sources.STAGE,
            file,
            "has vectors that are not of length one",
            "ask its owner, or index the images anew",
        )


def _read_schema(file: Path) -> pa.Schema:
    with translate_read_errors(overlap_sources.STAGE, file, also=(pa.ArrowException,)):
        return read_parquet_schema(file)

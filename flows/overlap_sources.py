"""The other side of an overlap: images in a folder, a list or shards, an index of hashes, captions, or another set."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from backends.bounded_parquet import iterate_parquet, read_parquet_schema
from backends.durable_files import replace_atomically
from backends.file_errors import translate_read_errors, translate_write_errors
from backends.file_formats import refuse_repeated_columns
from backends.images.crop_hashes import hash_crops
from backends.images.image_reading import read_image
from backends.images.pdq_hashes import PdqHash, hash_pdq
from backends.regular_files import open_regular
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet
from backends.sources.image_sources import open_source
from backends.sources.shard_files import Shard, find_shards, is_shard
from backends.workers.worker_processes import WorkerFailure, map_in_workers
from builders.errors import UserError
from flows.overlap_shards import ReadCounts, iterate_image_files
from flows.steps import current_run

STAGE = "find overlap"
INDEX_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        ("sha256", pa.string()),
        ("pixels", pa.string()),
        ("phash", pa.uint64()),
        ("mirrored", pa.uint64()),
        ("outline", pa.binary(64)),
    ]
)
_PDQ_FIELD = pa.field("pdq", pa.binary(32))
_TEXT_COLUMNS = ("text", "caption")
_BATCH = 5_000  # images of a folder whose hashes are compared at once
_MIRRORED = 3  # place of the mirrored hash in ScannedImage.turned


def hash_set_images(stored: StoredSet, with_pdq: bool) -> pd.DataFrame:
    """Returns INDEX_SCHEMA of the images of a set that can be read; with pdq and pdq_mirrored, if wanted."""
    located = [(one.image_id, one.location) for one in locate_images(stored) if one.location is not None]
    return _hash_files(located, with_pdq, ReadCounts())


def hash_set_crops(stored: StoredSet) -> pd.DataFrame:
    """Returns item, phash and outline of the images of a set with edges cut off, several rows per image."""
    located = [(one.image_id, one.location) for one in locate_images(stored) if one.location is not None]
    hashed = map_in_workers(hash_crops, [location for _, location in located])
    rows = [
        {"item": item, "phash": one.phash, "outline": one.outline}
        for (item, _), crops in zip(located, hashed, strict=True)
        if isinstance(crops, list)
        for one in crops
    ]
    return _to_frame(pa.Table.from_pylist(rows, INDEX_SCHEMA))


class SourceImages(NamedTuple):
    """What a source of images lists: shards, and (item, place) of other files."""

    shards: list[Shard]
    located: list[tuple[str, str]]


def list_images(images: str) -> SourceImages:
    """Lists a folder, a list, a table or shards. Raises UserError where it is none of them."""
    if shards := find_shards(STAGE, images):
        return SourceImages(shards, [])
    source = open_source(images)
    items = source.list_items().items.to_pylist()
    located = zip(items, source.locate_all(items), strict=True)
    places = [(item, place) for item, place in located if isinstance(place, str)]
    shards = [Shard(item, Path(place)) for item, place in places if is_shard(item)]
    return SourceImages(shards, [(item, place) for item, place in places if not is_shard(item)])


def hash_images(listed: SourceImages, with_pdq: bool, counts: ReadCounts) -> Iterator[pd.DataFrame]:
    """Yields INDEX_SCHEMA of the images that can be read, in batches; with pdq and pdq_mirrored, if wanted. Raises
    UserError for a damaged shard."""
    for batch in iterate_image_files(listed.shards, STAGE, counts):
        yield _hash_files(batch, with_pdq, counts)
    for start in range(0, len(listed.located), _BATCH):
        yield _hash_files(listed.located[start : start + _BATCH], with_pdq, counts)


def write_index(images: str, file: Path, with_pdq: bool) -> int:
    """Writes the hashes of a source's images, without any image; returns how many. Raises UserError, also where there
    are none."""
    schema, counts = INDEX_SCHEMA.append(_PDQ_FIELD) if with_pdq else INDEX_SCHEMA, ReadCounts()

    def write(opened: IO[bytes]) -> None:
        with pq.ParquetWriter(opened, schema) as writer:
            for table in hash_images(list_images(images), with_pdq, counts):
                writer.write_table(pa.Table.from_pandas(table, schema, preserve_index=False))
        if not counts.read:
            raise no_image_error(images)

    with translate_write_errors("write index", file):
        replace_atomically(file, write)
    report_skipped(images, counts)
    return counts.read


def no_image_error(images: str) -> UserError:
    """Returns the error for a collection without anything to compare."""
    return UserError(STAGE, images, "holds no image that can be read", "give a folder or shards of images")


def report_skipped(images: str, counts: ReadCounts) -> None:
    """Reports why images and texts of a collection were not compared, if any."""
    if counts.skipped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.skipped.items()))
        current_run().reporter.log(f"{images}: not compared: {reasons}")


def is_index(file: Path) -> bool:
    """Whether a file is an index of hashes."""
    return file.suffix == ".parquet" and set(INDEX_SCHEMA.names) <= set(_parquet_columns(file))


def has_pdq(file: Path) -> bool:
    """Whether an index has PDQ hashes."""
    return _PDQ_FIELD.name in _parquet_columns(file)


def read_index(file: Path) -> Iterator[pd.DataFrame]:
    """Yields an index in batches. Raises UserError for a damaged one."""
    schema = INDEX_SCHEMA.append(_PDQ_FIELD) if has_pdq(file) else INDEX_SCHEMA
    with translate_read_errors(STAGE, file, also=(pa.ArrowException,)):
        for batch in iterate_parquet(file, schema.names):
            yield _to_frame(pa.Table.from_batches([batch]).select(schema.names).cast(schema))


def find_text_column(file: Path) -> str | None:
    """Returns the column of captions that a .csv or .parquet file has, or None."""
    if file.suffix == ".parquet":
        columns = _parquet_columns(file)
    else:
        with translate_read_errors(STAGE, file, also=(csv.Error,)), _open_text(file) as lines:
            columns = next(csv.reader(lines), [])
    refuse_repeated_columns(STAGE, file, columns, _TEXT_COLUMNS)
    return next((name for name in _TEXT_COLUMNS if name in columns), None)


def read_texts(file: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yields (`row N`, text) of a table of captions; holds one batch of rows in memory. Raises UserError."""
    row = 0
    with translate_read_errors(STAGE, file, also=(pa.ArrowException, csv.Error)):
        for texts in _text_batches(file, column):
            for text in texts:
                row += 1
                if isinstance(text, str):
                    yield f"row {row}", text


def _text_batches(file: Path, column: str) -> Iterator[list[str | None]]:
    if file.suffix == ".parquet":
        for batch in iterate_parquet(file, [column]):
            yield batch.column(0).to_pylist()
        return
    with _open_text(file) as lines:
        for record in csv.DictReader(lines):
            yield [record[column]]


def _open_text(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_regular(file), "utf-8-sig", newline="")


def _parquet_columns(file: Path) -> list[str]:
    with translate_read_errors(STAGE, file, also=(pa.ArrowException,)):
        return list(read_parquet_schema(file).names)


def _hash_files(located: Sequence[tuple[str, str]], with_pdq: bool, counts: ReadCounts) -> pd.DataFrame:
    scanned = map_in_workers(read_image, [location for _, location in located])
    rows = []
    for (item, _), one in zip(located, scanned, strict=True):
        if isinstance(one, WorkerFailure) or one.reason is not None:
            counts.skipped[str(one.reason)] += 1
            continue
        hashes = {name: getattr(one, name) for name in ("sha256", "pixels", "phash", "outline")}
        rows.append({**hashes, "item": item, "mirrored": one.turned[_MIRRORED] if one.turned else None})
    counts.read += len(rows)
    table = _to_frame(pa.Table.from_pylist(rows, INDEX_SCHEMA))
    if not with_pdq:
        return table
    places = dict(located)
    hashed = map_in_workers(hash_pdq, [places[item] for item in table["item"]])
    found = [one if isinstance(one, PdqHash) else PdqHash() for one in hashed]
    return table.assign(**{name: [getattr(one, name) for one in found] for name in PdqHash._fields})


def _to_frame(table: pa.Table) -> pd.DataFrame:
    unsigned = {pa.uint64(): pd.UInt64Dtype()}
    return table.to_pandas(types_mapper=unsigned.get)

"""Tables as Parquet in shards of a bounded size, named as on Hugging Face (`test-00000-of-00003.parquet`)."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet_schema
from querytruth.backends.files.text_files import import_error
from querytruth.errors import UserError
from querytruth.formats.set_images import SetImage

SHARD_BYTES = 400 << 20  # of a file; Hugging Face's own tools write at most 500 MB
ROW_GROUP_BYTES = 32 << 20  # of a row group, which a writer, or a reader of one row, holds in memory
ROW_GROUP_ROWS = 1 << 17
RecordBatches = Iterator[pa.RecordBatch]
IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # Hugging Face's Image in Parquet


def write_shards(folder: Path, split: str, schema: pa.Schema, batches: RecordBatches) -> list[Path]:
    """Write each batch as a row group, in at least one shard; return the files in order."""
    folder.mkdir(parents=True)
    shards: list[Path] = []
    upcoming = next(batches, None)
    while upcoming is not None or not shards:
        shards.append(folder / f"{split}-{len(shards):05}.parquet")
        with _writer(shards[-1], schema) as writer:
            while upcoming is not None:
                writer.write_batch(upcoming, row_group_size=len(upcoming) or 1)
                upcoming = next(batches, None)
                if shards[-1].stat().st_size >= SHARD_BYTES:
                    break
    return [path.rename(path.with_stem(f"{path.stem}-of-{len(shards):05}")) for path in shards]


def write_table(folder: Path, split: str, table: pa.Table) -> None:
    """Write a table in shards without dictionary encoding, since some readers do not support it."""
    schema = schema_without_dictionaries(table.schema)
    batches = (batch.cast(schema) for batch in table.to_batches(max_chunksize=ROW_GROUP_ROWS))
    write_shards(folder, split, schema, batches)


def write_images_table(folder: Path, split: str, table: pa.Table, images: Iterable[SetImage | None]) -> None:
    """Write a table in shards, with a column `image` before the others."""
    write_shards(folder, split, schema_with_image(table.schema), add_images(table, images))


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer that gives images no compression, dictionary or statistics: they are compressed and distinct."""
    columns = [name for name in schema.names if name != "image"]
    codecs = dict.fromkeys(columns, "zstd") | {"image.bytes": "none", "image.path": "zstd"}
    plain = {} if "image" not in schema.names else {"use_dictionary": columns, "write_statistics": columns}
    return pq.ParquetWriter(path, schema, compression="zstd" if not plain else codecs, **plain)


def schema_without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types of the values instead of dictionaries."""
    return pa.schema(
        [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema]
    )


def schema_with_image(schema: pa.Schema) -> pa.Schema:
    """Return the schema with a first column `image`, described as such for `datasets`."""
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    features |= {field.name: {"dtype": _DTYPES[field.type], "_type": "Value"} for field in schema}
    described = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([pa.field("image", IMAGE_TYPE), *schema], metadata=described)


_DTYPES = {pa.string(): "string", pa.int32(): "int32", pa.float64(): "float64"}


def add_images(table: pa.Table, images: Iterable[SetImage | None]) -> RecordBatches:
    """Yield the table's rows with a first column `image`, in row groups of bounded size."""
    schema = schema_with_image(table.schema)
    start, size, held = 0, 0, list[dict[str, Any] | None]()
    for image in images:
        held.append({"bytes": image.data, "path": image.image_id + image.suffix} if image else None)
        size += len(image.data) if image else 0
        if size >= ROW_GROUP_BYTES or len(held) >= ROW_GROUP_ROWS:
            rows = _with_images(table.slice(start, len(held)), held, schema)
            start, size, held = start + len(held), 0, []  # before the rows are written: they hold the images, too
            yield rows
    if held:
        yield _with_images(table.slice(start, len(held)), held, schema)


def _with_images(rows: pa.Table, held: list[dict[str, Any] | None], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(held, IMAGE_TYPE), *[column.combine_chunks() for column in rows.columns]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_shards(paths: list[Path], columns: Iterable[str], optional: Iterable[str] = ()) -> RecordBatches:
    """Yield the rows of all shards with these columns and the optional ones that exist. Raises UserError."""
    for path in paths:
        try:
            names = read_parquet_schema(path).names
            if missing := [name for name in columns if name not in names]:
                raise import_error(path, f"has no column {missing[0]!r} (it has {', '.join(names)})")
            wanted = [*columns, *(name for name in optional if name in names)]
            yield from iterate_parquet(path, wanted, 256 if "image" in wanted else ROW_GROUP_ROWS)
        except (OSError, pa.ArrowException) as error:
            raise _damaged_file_error(path, error) from None


def _damaged_file_error(path: Path, error: Exception) -> UserError:
    return import_error(path, f"is not a complete Parquet file ({str(error).splitlines()[0][:150]})")


def has_column(path: Path, name: str) -> bool:
    """Return whether the file has the column. Raises UserError for a damaged file."""
    try:
        return name in read_parquet_schema(path).names
    except (OSError, pa.ArrowException) as error:
        raise _damaged_file_error(path, error) from None


def table_from_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, where: object) -> pa.Table:
    """Return the batches as one table, with the schema's types for their columns. Raises UserError where a value does
    not fit."""
    parts = []
    for batch in batches:
        fields = [schema_without_dictionaries(schema).field(name) for name in batch.schema.names]
        for column, field in zip(batch.columns, fields, strict=True):
            if column.null_count and not field.nullable:
                raise import_error(where, f"column {field.name!r} has {column.null_count} rows without a value")
        try:
            parts.append(batch.cast(pa.schema(fields)))
        except pa.ArrowException as error:
            raise import_error(where, f"has a value of the wrong type ({str(error).splitlines()[0][:150]})") from None
    return pa.Table.from_batches(parts) if parts else schema_without_dictionaries(schema).empty_table()


def extract_images(
    batches: Iterable[pa.RecordBatch], put: Callable[[bytes], str], places: list[str | None]
) -> RecordBatches:
    """Yield the batches without their column `image`; gives images to `put` and adds the results to `places`."""
    for batch in batches:
        if "image" not in batch.schema.names:
            places += [None] * len(batch)
            yield batch
            continue
        kind = batch.schema.field("image").type
        if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
            raise import_error("column 'image'", f"is {kind}, not an image as Hugging Face stores them")
        data = batch.column("image").field("bytes")
        places += [put(image.as_py()) if image.is_valid else None for image in data]
        yield batch.drop_columns(["image"]).take(pa.array(range(len(batch))))  # a copy, which holds no images

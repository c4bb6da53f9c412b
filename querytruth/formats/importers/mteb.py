"""MTEB's retrieval layout in Parquet: configs corpus (id, image), queries (id, text), qrels (query-id, corpus-id,
score) of its data sets on Hugging Face and of our own export `mteb`, which has further columns.

Layout: embeddings-benchmark/mteb 2.26, mteb/abstasks/retrieval_dataset_loaders.py; also with `query` for `queries`,
`default` for `qrels` and `_id` for `id`.
"""

from pathlib import Path

import pandas as pd
import pyarrow as pa

from querytruth.backends.files.text_files import import_error
from querytruth.backends.files.text_formats import detect_language
from querytruth.formats import import_layouts, importers, parquet_shards, set_description, set_images
from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA, empty_frame

_CONFIGS = (("corpus",), ("queries", "query"), ("qrels", "default"))
_SCORES = [
    pa.field("query-id", pa.string(), nullable=False),
    pa.field("corpus-id", pa.string(), nullable=False),
    pa.field("score", pa.int64(), nullable=False),
]
_QRELS_SCHEMA = pa.schema([*_SCORES, ("judged-by", pa.string()), ("evidence", pa.string())])
_QRELS_COLUMNS = {"query-id": "query_id", "corpus-id": "image_id", "score": "relevance", "judged-by": "judged_by"}


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read a split, by default `test` or the only one; ignores texts in the corpus."""
    files = set_description.find_config_files(source, split or "test")
    corpus, queries = (_config(files, source, *names) for names in _CONFIGS[:2])
    qrels = next((files[name] for name in _CONFIGS[2] if files.get(name)), [])  # none: judgments are to come
    places: list[str | None] = []
    batches = _ids(corpus, ["image"])
    images = _table(parquet_shards.extract_images(batches, image_store.put, places), "image_id", corpus[0])
    query_frame = _table(_ids(queries, ["text"]), "query_id", queries[0])
    judged = (
        parquet_shards.read_shards(qrels, [field.name for field in _SCORES], ["judged-by", "evidence"])
        if qrels
        else iter(())
    )
    qrels_table = parquet_shards.table_from_batches(judged, _QRELS_SCHEMA, qrels[0] if qrels else source)
    scores = qrels_table.to_pandas().rename(columns=_QRELS_COLUMNS)
    details = [files.get(name, []) for name in ("image-details", "query-details")]
    tables = {
        "images": _merge_details(images, details[0], IMAGES_SCHEMA, "image_id"),
        "queries": _merge_details(query_frame, details[1], QUERIES_SCHEMA, "query_id"),
        "qrels": scores if "judged_by" in scores else scores.assign(judged_by="publisher", evidence=None),
        "duplicates": empty_frame("duplicates"),
    }
    files_read = [*corpus, *queries, *qrels, *details[0], *details[1]]
    return import_layouts.restore_tables(tables, places, source, files_read, source.resolve().name)


def _config(files: dict[str, list[Path]], source: Path, *names: str) -> list[Path]:
    for name in names:
        if files.get(name):
            return files[name]
    raise import_error(source, f"has no config {names[0]!r} with this split (it has {', '.join(sorted(files))})")


def _ids(files: list[Path], columns: list[str]) -> parquet_shards.RecordBatches:
    """Yield the batches with the column `id`, which the files may call `_id`."""
    old = parquet_shards.has_column(files[0], "_id")
    for batch in parquet_shards.read_shards(files, ["_id" if old else "id", *columns]):
        yield batch.rename_columns(["id", *columns]) if old else batch


def _table(batches: parquet_shards.RecordBatches, key: str, where: Path) -> pd.DataFrame:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("text", pa.string(), nullable=False)])
    frame: pd.DataFrame = parquet_shards.table_from_batches(batches, schema, where).to_pandas()
    return frame.rename(columns={"id": key})


def _merge_details(frame: pd.DataFrame, files: list[Path], schema: pa.Schema, key: str) -> pd.DataFrame:
    """Return the rows with the columns of the details files, or with default values if there are no such files."""
    if not files:
        if key == "image_id":
            return frame.assign(file_name=frame[key], width=0, height=0)
        return frame.assign(language=[detect_language(text) for text in frame["text"]], style="query", level=1)
    names = [name for name in schema.names if name not in (key, "path", "text")]
    shards = parquet_shards.read_shards(files, ["id"], names)
    batches = (batch.rename_columns([key, *batch.schema.names[1:]]) for batch in shards)
    details = parquet_shards.table_from_batches(batches, schema, files[0]).to_pandas()
    if sorted(details[key]) != sorted(frame[key]):
        raise import_error(files[0], "has ids that the corpus or the queries do not have", "export the set again")
    return frame.merge(details, on=key, how="left", sort=False)

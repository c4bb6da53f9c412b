"""A set as Hugging Face's Parquet: the configs images, queries, qrels (and duplicates) of our own exports
`huggingface` and `croissant`, with the set's own columns and ids.

For MTEB's configs corpus, queries and qrels, choose `mteb`.
"""

from pathlib import Path

import pandas as pd

from querytruth.backends.files.text_files import import_error
from querytruth.formats import import_layouts, importers, parquet_shards, set_description, set_images
from querytruth.records import TABLE_SCHEMAS


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read a downloaded or exported folder; all columns of the format are restored."""
    files = set_description.find_config_files(source, split or "test")
    if "images" not in files:
        known = ", ".join(sorted(files))
        next_step = "choose mteb" if "corpus" in files else "give the folder of an export"
        raise import_error(source, f"has no config 'images' (it has {known})", next_step)
    tables, places = {}, list[str | None]()
    for name in ("queries", "images", "qrels", "duplicates"):
        tables[name] = _read_table(name, files.get(name, []), image_store, places)
    return import_layouts.restore_tables(
        tables, places, source, [path for name in tables for path in files.get(name, [])]
    )


def _read_table(
    name: str, files: list[Path], image_store: set_images.ImageStore, places: list[str | None]
) -> pd.DataFrame:
    schema = TABLE_SCHEMAS[name]
    needed = [field.name for field in schema if not field.nullable]
    optional = [field.name for field in schema if field.nullable and field.name != "path"]
    batches = parquet_shards.read_shards(files, needed, ["image", *optional] if name == "images" else optional)
    if name == "images":
        batches = parquet_shards.extract_images(batches, image_store.put, places)
    frame: pd.DataFrame = parquet_shards.table_from_batches(batches, schema, files[0] if files else name).to_pandas()
    return frame

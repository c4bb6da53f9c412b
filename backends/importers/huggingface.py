"""A set as Hugging Face's Parquet: the configs images, queries, qrels (and duplicates) of our own exports
`huggingface` and `croissant`, with the set's own columns and ids.

For MTEB's configs corpus, queries and qrels, which any data set may have, choose `mteb`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from backends.importers import Imported
from backends.interchange import parquet_shards
from backends.interchange.own_tables import read_own
from backends.interchange.picture_store import PictureStore
from backends.interchange.set_description import NAME, config_files, read_description
from backends.interchange.text_files import broken
from builders.records import SCHEMAS


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a downloaded or exported folder; whatever the format holds comes back as it was."""
    files = config_files(source, split or "test")
    if "images" not in files:
        known = ", ".join(sorted(files))
        next_step = "choose mteb" if "corpus" in files else "give the folder of an export"
        raise broken(source, f"has no config 'images' (it has {known})", next_step)
    tables, places = {}, list[str | None]()
    for name in ("queries", "images", "qrels", "duplicates"):
        tables[name] = _table(name, files.get(name, []), unpack, places)
    read = [path for name in tables for path in files.get(name, [])]
    described = read_description(source)
    return read_own(tables, places, [*read, source / NAME] if described else read, described)


def _table(name: str, files: list[Path], unpack: PictureStore, places: list[str | None]) -> pd.DataFrame:
    schema = SCHEMAS[name]
    needed = [field.name for field in schema if not field.nullable]
    optional = [field.name for field in schema if field.nullable and field.name != "path"]
    if name == "images":
        batches = parquet_shards.read_shards(files, needed, ["image", *optional])
        batches = parquet_shards.unpack_pictures(batches, unpack.put, places)
    else:
        batches = parquet_shards.read_shards(files, needed, optional)
    frame: pd.DataFrame = parquet_shards.as_table(batches, schema, files[0] if files else name).to_pandas()
    return frame

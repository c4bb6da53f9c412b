"""Hugging Face: Parquet by config, loaded by `datasets.load_dataset(FOLDER, "images")` as it stands.

Configs images (with the pictures), queries, qrels and duplicates hold the set's own columns; README.md names the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backends.interchange import parquet_shards, set_description
from backends.interchange.set_pictures import has_pictures, pictures
from backends.sets.set_files import StoredSet
from builders.records import to_arrow

SPLIT = "test"
_HOW = """## How to load

```python
from datasets import load_dataset
images = load_dataset("path/to/this/folder", "images", split="test")
queries = load_dataset("path/to/this/folder", "queries", split="test")
qrels = load_dataset("path/to/this/folder", "qrels", split="test")
```
"""


def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
    """Write all tables, and the pictures where they are at hand; everything is kept but the ledger."""
    names = held(stored)
    for name in names:
        table = to_arrow(name, getattr(stored.tables, name))
        if name != "images":
            batches = parquet_shards.plain_batches(table)
            parquet_shards.write_shards(out / name, SPLIT, parquet_shards.plain_schema(table.schema), batches)
            continue
        table = table.drop_columns(["path"])
        if has_pictures(stored):
            schema = parquet_shards.picture_schema(table.schema)
            batches = parquet_shards.picture_batches(table, pictures(stored))
        else:
            schema, batches = table.schema, parquet_shards.plain_batches(table)
        parquet_shards.write_shards(out / name, SPLIT, schema, batches)
    set_description.write_description(stored, out)
    set_description.write_readme(stored, out, configs(stored, names), _HOW)
    return set_description.unheld(stored)


def held(stored: StoredSet) -> list[str]:
    """The tables that have rows: `datasets` fails on a file without any."""
    return [name for name in ("images", "queries", "qrels", "duplicates") if len(getattr(stored.tables, name))]


def configs(stored: StoredSet, names: Sequence[str]) -> list[dict[str, object]]:
    """A README's configs, the first of them the default.

    The description is there for `datasets`: it caches a folder by its last name and by what its configs say, so that
    without it the next version, or another set in a folder of that name, would silently load as the one before.
    """
    listed: list[dict[str, object]] = []
    for name in names:
        entry: dict[str, object] = {"config_name": name, "description": f"set {stored.manifest['manifest_digest']}"}
        entry["data_files"] = [{"split": SPLIT, "path": f"{name}/{SPLIT}-*.parquet"}]
        listed.append(entry if listed else {**entry, "default": True})
    return listed

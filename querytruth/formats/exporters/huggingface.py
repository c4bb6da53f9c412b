"""Hugging Face: Parquet by config, for `datasets.load_dataset(FOLDER, "images")`.

Configs images (with their bytes), queries, qrels and duplicates hold the set's own columns; README.md names the files.
"""

from collections.abc import Sequence
from pathlib import Path

from querytruth.formats import parquet_shards, set_description
from querytruth.formats.set_description import NO_LEDGER, FormatLimits
from querytruth.formats.set_images import has_images, iterate_set_images, list_images_with_sizes
from querytruth.records import to_arrow
from querytruth.sets.set_files import StoredSet

SPLIT = "test"
_USAGE = Path(__file__).with_name("huggingface_usage.txt").read_text("utf-8")

LIMITS = FormatLimits(needs_queries=False, omissions=NO_LEDGER)


def export(stored: StoredSet, out: Path) -> None:
    """Write all tables, and the images that are available; leaves out the ledger only."""
    names = nonempty_tables(stored)
    for name in names:
        table = to_arrow(name, list_images_with_sizes(stored) if name == "images" else getattr(stored.tables, name))
        if name == "images":
            table = table.drop_columns(["path"])
        if name == "images" and has_images(stored):
            parquet_shards.write_images_table(out / name, SPLIT, table, iterate_set_images(stored))
        else:
            parquet_shards.write_table(out / name, SPLIT, table)
    set_description.write_description(stored, out)
    set_description.write_readme(stored, out, readme_configs(stored, names), _USAGE)


def nonempty_tables(stored: StoredSet) -> list[str]:
    """Return the names of the tables with rows: `datasets` fails on a file without any."""
    return [name for name in ("images", "queries", "qrels", "duplicates") if len(getattr(stored.tables, name))]


def readme_configs(stored: StoredSet, names: Sequence[str]) -> list[dict[str, object]]:
    """Return the configs of a README; the first is the default.

    The description is for `datasets`, which caches a folder by its base name and its configs: without it, the
    next version, or another set in a folder of that name, would silently load as the previous one.
    """
    listed: list[dict[str, object]] = []
    for name in names:
        entry: dict[str, object] = {"config_name": name, "description": f"set {stored.manifest['manifest_digest']}"}
        entry["data_files"] = [{"split": SPLIT, "path": f"{name}/{SPLIT}-*.parquet"}]
        listed.append(entry if listed else {**entry, "default": True})
    return listed

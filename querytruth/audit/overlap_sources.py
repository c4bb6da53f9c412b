"""The images and texts that an overlap compares: of the set, and of a folder, a table or another set."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from querytruth.backends.files import text_formats
from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.backends.images import image_sources, worker_starts
from querytruth.backends.images.image_reading import hash_crops, read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.steps import current_run
from querytruth.errors import UserError
from querytruth.sets.published_files import newest_version
from querytruth.sets.set_files import StoredSet, locate_images

STAGE = "find overlap"
HASHES_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        ("sha256", pa.string()),
        ("pixels", pa.string()),
        ("phash", pa.uint64()),
        ("mirrored", pa.uint64()),
        ("outline", pa.binary(64)),
    ]
)
_DIGEST_SCHEMA = pa.schema([("item", pa.string()), ("sha256", pa.string())])
_BATCH = 5_000  # images of a folder whose hashes are compared at once
_MIRRORED = 3  # place of the mirrored hash in ScannedImage.turned
_TEXT_COLUMNS = ("text", "caption")


def is_set(against: str) -> bool:
    """Whether a collection is a set: its folder, a version of it, or a name that is no path."""
    path = Path(against)
    return (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists()


def hash_set_images(stored: StoredSet) -> pd.DataFrame:
    """Returns HASHES_SCHEMA of the images of a set that can be read; and a row with the sha256 alone for each source
    file that the set's own copy is not the same as: a rendered image has other bytes."""
    located = [(one.image_id, one.location) for one in locate_images(stored) if one.location is not None]
    hashed = _hash_files(located, Counter())
    images = stored.tables.images
    sources = _to_frame(pa.table({"item": images["image_id"], "sha256": images["sha256"]}).cast(_DIGEST_SCHEMA))
    sources = sources.dropna()
    is_new = ~pd.MultiIndex.from_frame(sources).isin(pd.MultiIndex.from_frame(hashed[_DIGEST_SCHEMA.names]))
    own = _to_frame(pa.Table.from_pylist(sources[is_new].to_dict("records"), HASHES_SCHEMA))
    return pd.concat([hashed, own], ignore_index=True)


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
    return _to_frame(pa.Table.from_pylist(rows, HASHES_SCHEMA))


def list_images(images: str) -> list[tuple[str, str]]:
    """Returns (item, place) of the images of a folder, a list or a table. Raises UserError where it is none of them."""
    source = image_sources.open_source(images)
    items = source.list_items().items.to_pylist()
    located = zip(items, source.locate_all(items), strict=True)
    return [(item, place) for item, place in located if isinstance(place, str)]


def hash_images(images: str) -> Iterator[pd.DataFrame]:
    """Yields HASHES_SCHEMA of the images of a folder, a list or a table that can be read, in batches, and reports why
    others were not. Raises UserError where none can be read."""
    located, count, skipped = list_images(images), 0, Counter[str]()
    for start in range(0, len(located), _BATCH):
        table = _hash_files(located[start : start + _BATCH], skipped)
        count += len(table)
        yield table
    if not count:
        raise UserError(STAGE, images, "holds no image that can be read", "give a folder of images")
    if skipped:
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(skipped.items()))
        current_run().reporter.log(f"{images}: not compared: {reasons}")


def _hash_files(located: Sequence[tuple[str, str]], skipped: Counter[str]) -> pd.DataFrame:
    """Returns HASHES_SCHEMA of the files that can be read, and counts in `skipped` why others are not."""
    scanned = map_in_workers(read_image, [location for _, location in located])
    rows = []
    for (item, _), one in zip(located, scanned, strict=True):
        if (
            isinstance(one, worker_starts.WorkerFailure) or one.sha256 is None
        ):  # a damaged JPEG has all that is compared
            skipped[str(one.reason)] += 1
            continue
        hashes = {name: getattr(one, name) for name in ("sha256", "pixels", "phash", "outline")}
        rows.append({**hashes, "item": item, "mirrored": one.turned[_MIRRORED] if one.turned else None})
    return _to_frame(pa.Table.from_pylist(rows, HASHES_SCHEMA))


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Returns a table of hashes as a frame; hashes that are missing stay whole numbers."""
    unsigned = {pa.uint64(): pd.UInt64Dtype()}
    return table.to_pandas(types_mapper=unsigned.get)


def find_text_column(file: Path) -> str | None:
    """Returns the column of captions that a table has, or None."""
    columns = read_columns(file, STAGE)
    text_formats.refuse_repeated_columns(STAGE, file, columns, _TEXT_COLUMNS)
    return next((name for name in _TEXT_COLUMNS if name in columns), None)


def read_texts(file: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yields (`row N`, text) of a table of captions; holds one batch of rows in memory. Raises UserError."""
    for number, (_, row) in enumerate(iterate_rows(file, [column], stage=STAGE), start=1):
        if isinstance(row[column], str):
            yield f"row {number}", row[column]

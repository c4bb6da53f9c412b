"""The other side of an overlap: images in a folder, a list or shards, an index of hashes, captions, or another set."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from backends.embedders import ImageTextEmbedder
from backends.images.crop_hashes import hash_crops
from backends.images.image_reading import read_image
from backends.images.pdq_hashes import PdqHash, hash_pdq
from backends.images.rendering import PixelsJob
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet
from backends.sources.image_sources import open_source
from backends.sources.shard_files import Shard, find_shards, is_shard
from backends.workers.worker_processes import WorkerFailure, map_in_workers
from builders.errors import UserError
from flows.images.decoded_images import DecodedImages
from flows.overlap.shards import ReadCounts, iterate_image_files
from flows.scoring.encoded_sets import MAX_IMAGE_SIDE
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
_DIGEST_SCHEMA = pa.schema([("item", pa.string()), ("sha256", pa.string())])
_BATCH = 5_000  # images of a folder whose hashes are compared at once
_MIRRORED = 3  # place of the mirrored hash in ScannedImage.turned


class ImageFeatures(NamedTuple):
    """What is computed of images besides INDEX_SCHEMA: pdq and pdq_mirrored, and vector, the float32 bytes of an
    embedder's vectors of length one."""

    with_pdq: bool = False
    embedder: ImageTextEmbedder | None = None


def hash_set_images(stored: StoredSet, features: ImageFeatures) -> pd.DataFrame:
    """Returns INDEX_SCHEMA of the images of a set that can be read, with the columns of `features`; and a row with the
    sha256 alone for each source file that the set's own copy is not the same as: a rendered image has other bytes."""
    located = [(one.image_id, one.location) for one in locate_images(stored) if one.location is not None]
    hashed = _hash_files(located, features, ReadCounts())
    images = stored.tables.images
    sources = to_frame(pa.table({"item": images["image_id"], "sha256": images["sha256"]}).cast(_DIGEST_SCHEMA)).dropna()
    is_new = ~pd.MultiIndex.from_frame(sources).isin(pd.MultiIndex.from_frame(hashed[_DIGEST_SCHEMA.names]))
    own = to_frame(pa.Table.from_pylist(sources[is_new].to_dict("records"), INDEX_SCHEMA))
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
    return to_frame(pa.Table.from_pylist(rows, INDEX_SCHEMA))


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


def hash_images(listed: SourceImages, features: ImageFeatures, counts: ReadCounts) -> Iterator[pd.DataFrame]:
    """Yields INDEX_SCHEMA of the images that can be read, in batches, with the columns of `features`. Raises UserError
    for a damaged shard."""
    for batch in iterate_image_files(listed.shards, STAGE, counts):
        yield _hash_files(batch, features, counts)
    for start in range(0, len(listed.located), _BATCH):
        yield _hash_files(listed.located[start : start + _BATCH], features, counts)


def no_image_error(images: str) -> UserError:
    """Returns the error for a collection without anything to compare."""
    return UserError(STAGE, images, "holds no image that can be read", "give a folder or shards of images")


def report_skipped(images: str, counts: ReadCounts) -> None:
    """Reports why images and texts of a collection were not compared, if any."""
    if counts.skipped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.skipped.items()))
        current_run().reporter.log(f"{images}: not compared: {reasons}")


def _hash_files(located: Sequence[tuple[str, str]], features: ImageFeatures, counts: ReadCounts) -> pd.DataFrame:
    scanned = map_in_workers(read_image, [location for _, location in located])
    rows = []
    for (item, _), one in zip(located, scanned, strict=True):
        if isinstance(one, WorkerFailure) or one.sha256 is None:  # a damaged JPEG has all that is compared
            counts.skipped[str(one.reason)] += 1
            continue
        hashes = {name: getattr(one, name) for name in ("sha256", "pixels", "phash", "outline")}
        rows.append({**hashes, "item": item, "mirrored": one.turned[_MIRRORED] if one.turned else None})
    counts.read += len(rows)
    table = to_frame(pa.Table.from_pylist(rows, INDEX_SCHEMA))
    places = dict(located)
    files = [places[item] for item in table["item"]]
    if features.with_pdq:
        hashed = map_in_workers(hash_pdq, files)
        found = [one if isinstance(one, PdqHash) else PdqHash() for one in hashed]
        table = table.assign(**{name: [getattr(one, name) for one in found] for name in PdqHash._fields})
    if features.embedder is not None:
        table = table.assign(vector=_encode_files(features.embedder, files, table["sha256"].tolist()))
    return table


def _encode_files(embedder: ImageTextEmbedder, files: list[str], digests: list[str]) -> list[bytes | None]:
    """Returns the vector of each image as bytes; None where it cannot be decoded, or has changed."""
    jobs = [PixelsJob(file, MAX_IMAGE_SIDE, digest) for file, digest in zip(files, digests, strict=True)]
    decoded = DecodedImages(jobs, lambda _count: None)
    vectors = iter(embedder.encode_images(decoded).astype("<f4"))
    return [None if number in decoded.failures else next(vectors).tobytes() for number in range(len(jobs))]


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Returns a table of hashes as a frame; hashes that are missing stay whole numbers."""
    unsigned = {pa.uint64(): pd.UInt64Dtype()}
    return table.to_pandas(types_mapper=unsigned.get)

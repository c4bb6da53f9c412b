"""The other side of an overlap, read as a stream: images, shards, hashes, captions, or another set."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from querytruth.backends.files import text_formats
from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.backends.files.tar_files import MAX_TEXT_BYTES, Shard, TarMember, find_shards, is_shard, iterate_members
from querytruth.backends.images import image_sources, rendering, worker_starts
from querytruth.backends.images.image_reading import MAX_FILE_BYTES, PdqHash, hash_crops, hash_pdq, read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models.embedders import ImageTextEmbedder
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, translate_write_errors
from querytruth.evaluation.encoded_sets import MAX_IMAGE_SIDE
from querytruth.sets.image_vectors import DecodedImages
from querytruth.sets.set_files import StoredSet, locate_images

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
_CAPTION_KEYS = ("caption", "text")
_BATCH_FILES, _BATCH_BYTES = 512, 256 << 20  # of images that are on disk at once
_COPIED_BYTES = 1 << 30  # of the images that a page shows
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
_TEXT_COLUMNS = ("text", "caption")


@dataclass(slots=True)
class ReadCounts:
    """How many images and texts of a collection were read, and how many were not, by reason."""

    read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def iterate_image_files(shards: Iterable[Shard], stage: str, counts: ReadCounts) -> Iterator[list[tuple[str, str]]]:
    """Yields the images of shards in batches of (item, path); the files are gone after the next step. An item is
    `<shard>/<member>`. Counts why members are not read. Raises UserError for a damaged shard."""
    with tempfile.TemporaryDirectory(prefix="querytruth-shards-") as folder:
        batch, size = list[tuple[str, str]](), 0
        for item, member in _iterate(shards, stage, is_image_name, MAX_FILE_BYTES, counts):
            # A number in place of the member's name, which may lead anywhere.
            file = _write(Path(folder) / str(len(batch)), member.data, stage)
            batch.append((item, file))
            size += len(member.data)
            if len(batch) == _BATCH_FILES or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch


def iterate_captions(shards: Iterable[Shard], stage: str, counts: ReadCounts) -> Iterator[tuple[str, str]]:
    """Yields (`<shard>/<key>`, text): each line of a `.txt`, and `caption` and `text` of a `.json`, a string or a list
    of strings, line by line, too. A text that its key repeats comes once. Counts why members are not read. Raises
    UserError for a damaged shard."""
    key, known = "", set[str]()
    for item, member in _iterate(shards, stage, _is_caption_name, MAX_TEXT_BYTES, counts):
        if (its_key := item[: item.index(".", item.rindex("/"))]) != key:
            key, known = its_key, set()
        try:
            texts = _read_captions(member)
        except ValueError:  # also of UTF-8
            counts.skipped["no_utf_8_or_json"] += 1
            continue
        for text in texts:
            if text.strip() and text not in known:
                known.add(text)
                counts.read += 1
                yield key, text


def copy_members(shards: Iterable[Shard], items: Iterable[str], folder: Path, stage: str) -> dict[str, str]:
    """Copies images of shards, by their items, into a folder, and returns the file of each; at most 1 GB. Raises
    UserError for a damaged shard."""
    wanted, found, left = set(items), dict[str, str](), _COPIED_BYTES
    for shard in shards:
        start = f"{shard.name}/"
        names = {item.removeprefix(start) for item in wanted if item.startswith(start)}
        for item, member in _iterate([shard] if names else [], stage, names.__contains__, MAX_FILE_BYTES, ReadCounts()):
            left -= len(member.data)
            if item not in found and left >= 0:
                found[item] = _write(folder / str(len(found)), member.data, stage)
    return found


def is_image_name(name: str) -> bool:
    """Whether a member is an image by its name."""
    return name.lower().endswith(_IMAGE_SUFFIXES)


def _is_caption_name(name: str) -> bool:
    return name.lower().endswith((".txt", ".json"))


def _iterate(
    shards: Iterable[Shard], stage: str, is_wanted: Callable[[str], bool], most: int, counts: ReadCounts
) -> Iterator[tuple[str, TarMember]]:
    """Yields (item, member) for the members of these names that can be read."""

    def limit_of(name: str) -> int | None:
        return most if is_wanted(name) else None

    def error(item: object, reason: str) -> UserError:
        return UserError(stage, item, reason, "download the shard again, or leave it out")

    for shard in shards:
        for member in iterate_members(shard.path, limit_of, error):
            if member.defect is None:
                yield f"{shard.name}/{member.name}", member
            else:
                counts.skipped[member.defect] += 1


def _read_captions(member: TarMember) -> list[str]:
    """Returns the texts of a member. Raises ValueError for one that is no UTF-8 or no JSON."""
    if member.name.lower().endswith(".txt"):
        return member.data.decode("utf-8-sig").splitlines()
    value = text_formats.parse_bounded_json(member.data)
    given = [value.get(key) for key in _CAPTION_KEYS] if isinstance(value, dict) else []
    texts = [text for one in given for text in (one if isinstance(one, list) else [one])]
    return [line for text in texts if isinstance(text, str) for line in text.splitlines()]


def _write(file: Path, data: bytes, stage: str) -> str:
    with translate_write_errors(stage, file, "or set TMPDIR to a folder with more room"):
        file.write_bytes(data)
    return str(file)


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
    source = image_sources.open_source(images)
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
        if (
            isinstance(one, worker_starts.WorkerFailure) or one.sha256 is None
        ):  # a damaged JPEG has all that is compared
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
    jobs = [rendering.PixelsJob(file, MAX_IMAGE_SIDE, digest) for file, digest in zip(files, digests, strict=True)]
    decoded = DecodedImages(jobs, lambda _count: None)
    vectors = iter(embedder.encode_images(decoded).astype("<f4"))
    return [None if number in decoded.failures else next(vectors).tobytes() for number in range(len(jobs))]


def to_frame(table: pa.Table) -> pd.DataFrame:
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

"""WebDataset shards as the other side of an overlap: images and captions, a bounded part of them at a time."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from backends.file_errors import translate_write_errors
from backends.images.image_reading import MAX_FILE_BYTES
from backends.sources.shard_files import Shard
from backends.sources.tar_members import MAX_TEXT_BYTES, TarMember, iterate_members
from builders.errors import UserError
from builders.strict_json import parse_bounded_json

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
_CAPTION_KEYS = ("caption", "text")
_BATCH_FILES, _BATCH_BYTES = 512, 256 << 20  # of images that are on disk at once
_COPIED_BYTES = 1 << 30  # of the images that a page shows


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
    value = parse_bounded_json(member.data)
    given = [value.get(key) for key in _CAPTION_KEYS] if isinstance(value, dict) else []
    texts = [text for one in given for text in (one if isinstance(one, list) else [one])]
    return [line for text in texts if isinstance(text, str) for line in text.splitlines()]


def _write(file: Path, data: bytes, stage: str) -> str:
    with translate_write_errors(stage, file, "or set TMPDIR to a folder with more room"):
        file.write_bytes(data)
    return str(file)

"""CLIP_benchmark's retrieval layout: {split}/0.tar … with an image and its texts, a line each, under one name.

Layout: LAION-AI/CLIP_benchmark 48de38c, clip_benchmark/datasets/builder.py (`build_wds_dataset`). In our own exports
a third file, .json, has the ids of the exported set.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from querytruth.backends.files.tar_files import MAX_TEXT_BYTES, iterate_members
from querytruth.backends.files.text_files import find_file, import_error, iterate_lines
from querytruth.backends.files.text_formats import refuse_repeated_keys
from querytruth.backends.images.image_reading import MAX_FILE_BYTES
from querytruth.formats.import_layouts import CaptionLine, build_caption_set
from querytruth.formats.importers import ImportedTables, ImportRejection, ImportRow, build_image_table
from querytruth.formats.set_images import ImageStore, find_image_defect

_IMAGES = ("webp", "png", "jpg", "jpeg")  # in CLIP_benchmark's order
_LIMITS = dict.fromkeys(_IMAGES, MAX_FILE_BYTES) | {"txt": MAX_TEXT_BYTES, "json": MAX_TEXT_BYTES}  # bytes, by suffix


class SampleIds(msgspec.Struct):
    """The ids of a sample in our own exports."""

    image_id: str
    query_ids: list[str]


@dataclass(slots=True)
class _ShardContents:
    """The content of the shards."""

    caption_lines: list[CaptionLine] = field(default_factory=list)
    rows: list[ImportRow] = field(default_factory=list)
    rejections: list[ImportRejection] = field(default_factory=list)
    has_own_ids: bool = True


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, by default `test`."""
    folder = source / (split or "test")
    _, line = next(iterate_lines(find_file(folder, ["nshards.txt"], "number of shards")), (0, ""))
    number = line.strip()
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        raise import_error(folder / "nshards.txt", f"has {number[:40]!r} instead of a number")
    shards = [find_file(folder, [f"{shard}.tar"], f"shard {shard} of {number}") for shard in range(int(number))]
    contents = _ShardContents()
    for shard in shards:
        for name, files in _samples(shard):
            if not files:
                contents.rejections.append(("image", f"{shard.name} {name}", "unknown_member", ""))
                continue
            _add_sample(contents, f"{shard.name} {name}", name, files, image_store)
    read_files = [folder / "nshards.txt", *shards]
    title = f"{source.resolve().name}, {split or 'test'}"
    imported = build_caption_set(contents.caption_lines, build_image_table(contents.rows), read_files, None, title)
    imported = replace(imported, rejections=contents.rejections)
    if not contents.has_own_ids or not contents.rows:
        return imported
    return replace(imported, queries=imported.queries.drop_duplicates(["query", "text"]), keeps_ids=True)


def _add_sample(
    contents: _ShardContents, where: str, name: str, files: dict[str, bytes], image_store: ImageStore
) -> None:
    data = next((files[suffix] for suffix in _IMAGES if suffix in files), b"")
    try:
        texts = files.get("txt", b"").decode("utf-8").splitlines()
        ids = msgspec.json.decode(files["json"], type=SampleIds) if "json" in files else None
        refuse_repeated_keys(files.get("json", b"{}"))
    except UnicodeDecodeError:
        raise import_error(f"{where}.txt", "is not UTF-8 (possibly GBK)") from None
    except msgspec.DecodeError:
        ids = None  # a .json of another publisher
    except (ValueError, RecursionError) as error:
        raise import_error(f"{where}.json", f"is invalid: {error}") from None
    if ids is None or len(ids.query_ids) != len(texts):
        contents.has_own_ids, ids = False, SampleIds(name, [f"{name}#{number}" for number in range(len(texts))])
    if reason := find_image_defect(data):
        contents.rejections.append(("image", ids.image_id, reason, where))
    else:
        contents.rows.append((ids.image_id, name, image_store.put(data)))
    queries = zip(ids.query_ids, texts, strict=True)
    contents.caption_lines += [(query, text.strip(), ids.image_id) for query, text in queries]


class _Place(NamedTuple):
    """The sample that a member belongs to, and its suffix."""

    sample: str
    suffix: str


def _samples(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield name and files by suffix of consecutive members of one sample; of a member that belongs to none its name
    and no file."""
    places = _find_places([member.name for member in iterate_members(path, lambda _name: None, import_error)])
    name, files = "", dict[str, bytes]()
    for member, data in _members(path, places):
        place = places.get(member)
        if place is None:
            yield member, {}
            continue
        if place.sample != name and files:
            yield name, files
            files = {}
        name = place.sample
        files[place.suffix] = data
    if files:
        yield name, files


def _find_places(members: list[str]) -> dict[str, _Place]:
    """Return the sample and the kind of each member. As in WebDataset, a name ends at its first dot: 1.jpg and 1.txt
    are a sample, and 1.mask.png is another part of it. But if an image and a text share more (trip.2024.jpg,
    trip.2024.txt), or no sample has the shorter name, the name contains dots."""
    plain, dotted = dict[str, _Place](), dict[str, _Place]()
    for member in members:
        start, _, rest = member.rpartition("/")[2].partition(".")
        folder, suffix = member[: member.rfind("/") + 1], rest.rpartition(".")[2].lower()
        if rest.lower() in _LIMITS:
            plain[member] = _Place(folder + start, rest.lower())
        elif suffix in _LIMITS:
            dotted[member] = _Place(member[: -len(suffix) - 1], suffix)
    names, kinds = {place.sample for place in plain.values()}, defaultdict[str, set[bool]](set)
    for place in dotted.values():
        kinds[place.sample].add(place.suffix in _IMAGES)
    for member, place in dotted.items():
        folder, slash, last = place.sample.rpartition("/")
        if len(kinds[place.sample]) == 2 or folder + slash + last.partition(".")[0] not in names:
            plain[member] = place
    return plain


def _members(path: Path, places: Mapping[str, _Place]) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the members of a shard, of those without a place no bytes. Raises UserError where it is
    cut or damaged, and for an image or a text that is too large."""

    def limit_of(member: str) -> int | None:
        return _LIMITS[places[member].suffix] if member in places else None

    for member in iterate_members(path, limit_of, import_error):
        if member.defect in ("sparse", "too_large"):
            size = "sparse" if member.defect == "sparse" else f"{member.size} bytes"
            raise import_error(f"{path} {member.name}", f"is not an image or a text of this layout ({size})")
        if member.defect is None or member.name not in places:
            yield member.name, member.data

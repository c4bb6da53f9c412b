"""CLIP_benchmark's retrieval layout: {split}/0.tar … with a picture and its texts, a line each, under one name.

Layout: LAION-AI/CLIP_benchmark 48de38c, clip_benchmark/datasets/builder.py (`build_wds_dataset`). In our own exports
a third file, .json, names the ids of the set that was exported.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from backends.importers import Imported, Row, picture_table
from backends.interchange.caption_lists import Said, caption_set
from backends.interchange.picture_store import PictureStore, acceptable
from backends.interchange.text_files import broken, language_of, one_of, text_lines
from backends.pictures.picture_reading import MAX_BYTES

_PICTURES = ("webp", "png", "jpg", "jpeg")  # in CLIP_benchmark's order


class Ids(msgspec.Struct):
    """What our own exports say of a sample."""

    image_id: str
    query_ids: list[str]


@dataclass(slots=True)
class _Read:
    """What the shards held."""

    said: list[Said] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    away: list[tuple[str, str, str, str]] = field(default_factory=list)
    ours: bool = True


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise."""
    folder = source / (split or "test")
    _, line = next(text_lines(one_of(folder, ["nshards.txt"], "number of shards")), (0, ""))
    number = line.strip()
    if not number.isascii() or not number.isdigit():
        raise broken(folder / "nshards.txt", f"says {number[:40]!r}, which is no number")
    shards = [one_of(folder, [f"{shard}.tar"], f"shard {shard} of {number}") for shard in range(int(number))]
    found = _Read()
    for shard in shards:
        for name, files in _samples(shard):
            _take(found, f"{shard.name} {name}", name, files, unpack)
    languages = [language_of(text) for _, text, _ in found.said]
    title = f"{source.resolve().name}, {split or 'test'}"
    made = caption_set(found.said, picture_table(found.rows), [folder / "nshards.txt", *shards], "", title)
    made = replace(made, queries=made.queries.assign(language=languages), away=found.away)
    if not found.ours or not found.rows:
        return made
    return replace(made, queries=made.queries.drop_duplicates(["query", "text"]), keeps_ids=True)


def _take(found: _Read, where: str, name: str, files: dict[str, bytes], unpack: PictureStore) -> None:
    data = next((files[suffix] for suffix in _PICTURES if suffix in files), b"")
    try:
        texts = files.get("txt", b"").decode("utf-8").splitlines()
        ids = msgspec.json.decode(files["json"], type=Ids) if "json" in files else None
    except UnicodeDecodeError:
        raise broken(f"{where}.txt", "is no UTF-8 (GBK, perhaps)") from None
    except msgspec.DecodeError:
        ids = None  # others put there what they like
    if ids is None or len(ids.query_ids) != len(texts):
        found.ours, ids = False, Ids(name, [f"{name}#{number}" for number in range(len(texts))])
    if reason := acceptable(data):
        found.away.append(("picture", ids.image_id, reason, where))
    else:
        found.rows.append((ids.image_id, name, unpack.put(data)))
    found.said += [(query, text.strip(), ids.image_id) for query, text in zip(ids.query_ids, texts, strict=True)]


def _samples(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Name and files by suffix of every run of members that share a name up to the first point."""
    name, files = "", dict[str, bytes]()
    for member, data in _members(path):
        folder, slash, last = member.rpartition("/")
        start, _, suffix = last.partition(".")
        if folder + slash + start != name and files:
            yield name, files
            files = {}
        name = folder + slash + start
        files[suffix.lower()] = data
    if files:
        yield name, files


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the regular files of a tar, which must come to its end."""
    at = "its first member"
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                at = member.name
                if member.isreg():
                    file = tar.extractfile(member)
                    if member.size > MAX_BYTES or file is None:
                        raise broken(f"{path} {at}", f"has {member.size} bytes: more than any picture")
                    yield member.name, file.read()
                tar.members.clear()  # type: ignore[attr-defined]
            end = tar.offset
    except (tarfile.TarError, OSError, EOFError) as error:
        raise broken(path, f"is cut or damaged at {at} ({error})") from None
    with path.open("rb") as opened:
        opened.seek(end)
        if opened.read(512) != bytes(512):  # tarfile takes a header that was cut, or none, for the end of the archive
            raise broken(path, f"is cut or damaged after {at}")

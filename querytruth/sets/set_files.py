"""Finding, reading and verifying sets on disk (querytruth/sets/set_publishing.py writes them), images included.

<name>/v<N>/…           immutable; manifest.json is written last, its presence means complete
<name>/latest           names the newest version
<name>/decisions.jsonl  querytruth/sets/decision_log.py
<name>/.rendered/       images rendered so far; versions hold hard links to them

An image is in the set or in its source; its file must have its digest before a version or a question uses it.
The record of rendered images has a line `<path> <sha256>` per rendering, as it was written; a path may have several.
Images without a record are rendered again.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
import pyarrow as pa

from querytruth.backends.files.durable_files import append_lines, file_sha256, open_log, read_lines
from querytruth.backends.files.parquet_files import read_own_table, read_parquet, read_stated_table
from querytruth.backends.files.safe_paths import contained_file, contained_path, is_contained_name
from querytruth.backends.images import image_sources
from querytruth.backends.images.source_names import decode_item, is_url, is_web_url
from querytruth.errors import UserError, first_line, translate_read_errors
from querytruth.records import TABLE_SCHEMAS, check_ids, check_rows, empty_frame, from_arrow
from querytruth.sets.benchmark_set import Tables, canonical_json, content_digest, make_canary
from querytruth.sets.manifest import (
    ListedFile,
    Manifest,
    check_manifest,
    is_undamaged_manifest,
    parse_manifest,
    read_manifest,
    read_manifest_bytes,
)
from querytruth.sets.published_files import CHECKSUMS, is_allowed_image_path, is_own_manifest, is_own_version
from querytruth.sets.set_places import describe_place as describe_place
from querytruth.sets.set_places import find_set as find_set

_NAME = "rendered.txt"
_READ_AHEAD = 3  # tables
_RESTORE = "run verify on the set, then restore the file"


def record_digests(folder: Path, digests: Iterable[tuple[str, str]]) -> None:
    """Add (path, sha256) pairs, all or none, and return when they are on disk. Raises OSError."""
    with open_log(folder / _NAME, wait=True) as handle:
        append_lines(handle, [f"{path} {sha256}" for path, sha256 in digests])


def read_recorded_digests(folder: Path) -> dict[str, set[str]]:
    """Return the digests of each path in the record, without its damaged lines. Raises OSError."""
    recorded = defaultdict[str, set[str]](set)
    try:
        lines, _ = read_lines(folder / _NAME)
    except FileNotFoundError:
        return {}
    for line in lines:
        path, _, sha256 = line.decode("utf-8", "replace").partition(" ")
        recorded[path].add(sha256)
    return dict(recorded)


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A version of a set, read from disk. `is_own`: published by this user, here. `is_private`: its images are read
    without the metadata in their files."""

    path: Path
    tables: Tables
    manifest: Manifest
    is_own: bool = False
    is_private: bool = False

    @property
    def own_definition(self) -> dict[str, Any]:
        """Return the definition of this user's build; empty where the set is from elsewhere: that may name any
        folder."""
        return (self.manifest["envelope"].get("definition") or {}) if self.is_own else {}


def read_set(path: Path, names: tuple[str, ...] = tuple(TABLE_SCHEMAS)) -> StoredSet:
    """Read a version's manifest and tables. Tables that are not named, or that an older version lacks, are empty. A
    path of an image that leads out of a set from elsewhere becomes null. Raises UserError."""
    tables, data = {name: empty_frame(name) for name in TABLE_SCHEMAS}, read_manifest_bytes(path)
    is_own = is_own_manifest(data)  # the very bytes that state the digests
    listed = {file["path"]: file["sha256"] for file in check_manifest(data, path / "manifest.json")["files"]}
    largest_first = sorted(names, key=lambda name: name not in ("qrels", "images"))  # they are decoded side by side
    stored = {f"{name}.parquet": name for name in largest_first}
    for file, read in _read_ahead(path, {file: listed[file] for file in stored if file in listed}, is_own):
        name = stored[file]
        try:
            table = _add_missing_columns(read, TABLE_SCHEMAS[name])
            if not is_own:  # where it is, these are the bytes of tables that were checked when they were published
                check_ids(name, table)
                check_rows(name, table)
            del read
            tables[name] = from_arrow(table, consumed=True)
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise UserError("read set", path / file, first_line(error), _RESTORE) from None
    return hold_set(path, Tables(**tables))


def _read_ahead(path: Path, digests: dict[str, str], is_own: bool) -> Iterator[tuple[str, pa.Table]]:
    """Yield each file and its table in order of completion; two workers decode the next ones while the caller processes
    this one."""
    left, reads = list(digests.items())[::-1], set[Future[tuple[str, pa.Table]]]()
    with ThreadPoolExecutor(max_workers=2) as readers:
        while left or reads:
            while left and len(reads) < _READ_AHEAD:
                reads.add(readers.submit(_read_table, path, *left.pop(), is_own))
            done, reads = wait(reads, return_when=FIRST_COMPLETED)
            while done:
                yield done.pop().result()  # and nothing here keeps it in memory


def _read_table(path: Path, file: str, digest: str, is_own: bool) -> tuple[str, pa.Table]:
    return file, (read_own_table if is_own else read_stated_table)(path, file, digest, "read set", _RESTORE)


def hold_set(path: Path, tables: Tables) -> StoredSet:
    """Return the version whose tables are these, as `read_set` does. Raises UserError where it has no manifest."""
    is_own = is_own_version(path)
    tables = replace(tables, images=_without_foreign_paths(tables.images, is_own))
    return StoredSet(path, tables, read_manifest(path), is_own)


def read_image_digests(path: Path, manifest: Manifest) -> dict[str, str]:
    """Return the sha256 of each image file in the version with this manifest, by its path there; empty where it holds
    none. Raises UserError where the list is damaged or cannot be read."""
    listed = {file["path"]: file["sha256"] for file in manifest["files"]}
    if CHECKSUMS not in listed:
        return {}
    table = read_stated_table(path, CHECKSUMS, listed[CHECKSUMS], "read set", _RESTORE, ["path", "sha256"])
    return dict(zip(table["path"].to_pylist(), table["sha256"].to_pylist(), strict=True))


def _without_foreign_paths(images: pd.DataFrame, is_own: bool) -> pd.DataFrame:
    """Return the images with null for each path that leads out of the set and that nobody allowed. Web addresses stay:
    nothing opens them."""
    paths = images["path"].dropna()
    foreign = paths[[not _is_image_name(name) and not is_web_url(name) for name in paths]]
    if not len(foreign):
        return images
    refused = foreign[[not is_allowed_image_path(name, is_own=is_own) for name in foreign]]
    return images.assign(path=images["path"].where(~images.index.isin(refused.index), None))


def _is_image_name(name: str) -> bool:
    return name.startswith("images/") and name != CHECKSUMS and is_contained_name(name)


def _add_missing_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add columns of later schemas, with nulls where the schema allows them."""
    for field in schema:
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)  # which looks at every text


def verify_set(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[str]:
    """Yield a line per problem of a version: checksums, content digest, files that are not listed."""
    damaged = set()
    try:
        raw = read_manifest_bytes(path)
        manifest = parse_manifest(raw, path / "manifest.json")
    except UserError:
        yield "manifest.json: cannot be read as the manifest of a set"
        return
    if not is_undamaged_manifest(raw) or raw != canonical_json(json.loads(raw)):
        damaged.add("manifest.json")
        yield "manifest.json: its checksum does not match"
    listed = {str(file["path"]): file for file in manifest["files"]}
    for name, file in sorted(listed.items()):
        if problem := _check_file(path, name, file, progress):
            damaged.add(name)
            yield f"{name}: {problem}"
    if CHECKSUMS in listed and CHECKSUMS not in damaged:
        try:
            rows = read_parquet(path / CHECKSUMS).select(["path", "bytes", "sha256"]).to_pylist()
        except (OSError, pa.ArrowException, KeyError) as error:
            yield f"{CHECKSUMS}: cannot be read ({first_line(error)})"
            rows = []
        for row in rows:
            row["path"] = str(row["path"])
            listed[row["path"]] = row
            if problem := _check_file(path, row["path"], row, progress):
                yield f"{row['path']}: {problem}"
    for extra in sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_symlink() or not p.is_dir()):
        is_unknown = CHECKSUMS in damaged and extra.startswith("images/")  # only the checksums list the images
        if extra not in listed and extra != "manifest.json" and not is_unknown:
            yield f"{extra}: is not listed in the manifest"
    published = manifest["content_digest"]
    if manifest["canary"] != make_canary(published):
        yield "manifest.json: its canary belongs to other content"
    if not damaged and (digest := content_digest(read_set(path).tables.to_arrow_tables())) != published:
        yield f"content digest is {digest}, but the manifest states {published}"


def _check_file(folder: Path, name: str, listed: ListedFile, progress: Callable[[int], None]) -> str:
    try:
        file = contained_file(folder, name, "verify")
        size = file.stat().st_size
        sha256 = file_sha256(file, progress)[0] if size == listed["bytes"] else ""
    except UserError as error:
        return error.reason
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if size != listed["bytes"]:
        return f"has {size} bytes, but was published with {listed['bytes']}"
    return "" if sha256 == listed["sha256"] else "its checksum does not match"


@dataclass(frozen=True, slots=True)
class ImageLocation:
    """A path or an fsspec URL, and the sha256 of its bytes (None: unknown). Without a location, `reason` is `no_image`,
    `on_the_web` or `outside_the_set`."""

    image_id: str
    location: str | None
    sha256: str | None
    reason: str = ""


def locate_images(stored: StoredSet) -> list[ImageLocation]:
    """Return a location per image, in the order of the set's table. The files may be missing."""
    images, checksums = stored.tables.images, read_image_digests(stored.path, stored.manifest)
    root = stored.path.resolve()
    rows = zip(images["image_id"].tolist(), images["path"].tolist(), images["sha256"].tolist(), strict=True)
    return [_place(root, image_id, path, sha256, checksums) for image_id, path, sha256 in rows]


def _place(root: Path, image_id: str, path: object, sha256: object, checksums: dict[str, str]) -> ImageLocation:
    if not isinstance(path, str) or not path:
        return ImageLocation(image_id, None, None, "no_image")
    if is_web_url(path):
        return ImageLocation(image_id, None, None, "on_the_web")
    if is_url(path) or PurePosixPath(path).is_absolute():
        return ImageLocation(image_id, path, sha256 if isinstance(sha256, str) else None)
    try:
        return ImageLocation(image_id, str(contained_path(root, path, "read set")), checksums.get(path))
    except UserError:
        return ImageLocation(image_id, None, None, "outside_the_set")


def locate_set_images(stored: StoredSet, image_ids: Collection[str]) -> dict[str, str]:
    """Return the path or URL of each of these images that can be read here, by image id, in the order of the ids."""
    rows = stored.tables.images[stored.tables.images["image_id"].isin(image_ids)]
    root = stored.path.resolve()
    named = zip(rows["image_id"].tolist(), rows["path"].tolist(), strict=True)
    places = {image_id: _place(root, image_id, path, None, {}) for image_id, path in named}
    locations = {image_id: place.location for image_id, place in places.items() if place.location is not None}
    return {image_id: locations[image_id] for image_id in image_ids if _is_readable(locations.get(image_id))}


def _is_readable(location: str | None) -> bool:
    """Return whether a location is a URL or an existing regular file."""
    try:
        return location is not None and (is_url(location) or Path(location).is_file())
    except (OSError, ValueError):  # too long for a file name, or with a null byte
        return False


def locate_source_items(images: object, items: Iterable[str]) -> dict[str, str]:
    """Return the locations of items of a definition's `images`, by item. Leaves out items outside a source that is a
    folder, items on the web, and all items where the source is unknown or missing."""
    locations: dict[str, str] = {}
    if not isinstance(images, str):
        return locations
    try:
        source = image_sources.open_source(images)
    except UserError:
        return locations
    for item in items:
        with suppress(ValueError):  # not a possible file name
            if source.kind == "folder" and (is_url(item) or decode_item(item).startswith(b"/")):
                continue
            location = source.locate(item)
            if isinstance(location, str) and not is_web_url(location):
                locations[item] = location
    return locations


def read_intact_digests(folder: Path) -> Mapping[str, Collection[str]] | None:
    """Return the digests that an intact image file may have, by path: from the list of a version, or from the record of
    a folder of rendered images. None for another folder, which has no list. Raises UserError."""
    if (folder / "manifest.json").is_file():
        return {path: (sha256,) for path, sha256 in read_image_digests(folder, read_manifest(folder)).items()}
    with translate_read_errors("read images", folder, "fix that, then run the same command"):
        return read_recorded_digests(folder) or None

"""Finding, reading and verifying sets on disk (backends/sets/set_publishing.py writes them).

<name>/v<N>/…           immutable; manifest.json is written last, its presence means complete
<name>/latest           names the newest version
<name>/decisions.jsonl  backends/sets/decision_log.py
<name>/.rendered/       images rendered so far; versions hold hard links to them
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from backends.bounded_parquet import read_parquet
from backends.contained_paths import contained_file, contained_path, is_contained_name
from backends.durable_files import file_sha256
from backends.file_errors import translate_read_errors
from backends.object_storage.object_cache import FETCH_FIRST
from backends.object_storage.set_download import fetch_version
from backends.object_storage.set_urls import SetUrl, join_set_url
from backends.sets.manifest_reading import (
    is_undamaged_manifest,
    parse_manifest,
    read_manifest,
    read_manifest_bytes,
)
from backends.sets.published_files import CHECKSUMS
from backends.sets.trusted_sources import is_allowed_image_path, is_own_version
from backends.sets.version_numbers import newest_version
from backends.sources.source_names import is_web_url
from builders.benchmark_set import Tables, canonical_json, content_digest
from builders.canary import make_canary
from builders.errors import UserError, first_line
from builders.records import TABLE_SCHEMAS, check_ids, check_rows, from_arrow

RemoteUse = Literal["refused", "tables", "whole"]


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A version of a set, read from disk."""

    path: Path
    tables: Tables
    manifest: dict[str, Any]
    is_own: bool = False  # published by this user, here

    @property
    def own_definition(self) -> dict[str, Any]:
        """The definition of this user's build; empty where the set is from elsewhere: that may name any folder."""
        return (self.manifest["envelope"].get("definition") or {}) if self.is_own else {}


def find_set(spec: str, out: Path = Path("datasets"), *, remote: RemoteUse = "refused") -> Path:
    """Returns the version's folder for `name`, `name/v3` or a path; for a URL in object storage that of a copy, where
    nothing may be written, with all files or without those of images. Raises UserError where there is none, and for a
    URL unless `remote` allows it."""
    if (url := join_set_url(spec, str(out))) is not None:
        if remote == "refused":
            raise UserError("find set", SetUrl.parse(url), "is in object storage; this works on disk", FETCH_FIRST)
        return fetch_version(url, with_images=remote == "whole")
    for folder in (Path(spec), out / spec):
        if (folder / "manifest.json").is_file():
            return folder
        if (version := newest_version(folder)) is not None:
            return contained_path(folder, f"v{version}", "find set")
    known = sorted(p.name for p in out.iterdir() if newest_version(p) is not None) if out.is_dir() else []
    next_step = f"choose from {', '.join(known) or 'none yet: build one'}"
    raise UserError("find set", spec, f"no published version there or below {out}", next_step)


def read_set(path: Path, names: tuple[str, ...] = tuple(TABLE_SCHEMAS)) -> StoredSet:
    """Reads a version's manifest and tables. Tables that are not named, or that an older version lacks, are empty. A
    path of an image that leads out of a set from elsewhere becomes null. Raises UserError."""
    tables = {}
    manifest, is_own = read_manifest(path), is_own_version(path)
    listed = {file["path"]: file["sha256"] for file in manifest["files"]}
    for name in names:
        file = path / f"{name}.parquet"
        if file.name not in listed:
            tables[name] = from_arrow(TABLE_SCHEMAS[name].empty_table())
            continue
        contained_file(path, file.name, "read set")
        _check_undamaged(file, listed[file.name])
        try:
            stored = _add_missing_columns(read_parquet(file), TABLE_SCHEMAS[name])
            check_ids(name, stored)
            check_rows(name, stored)
            tables[name] = from_arrow(stored)
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            raise UserError("read set", file, first_line(error), "run verify on the set, restore the file") from None
    for name in set(TABLE_SCHEMAS) - set(names):
        tables[name] = from_arrow(TABLE_SCHEMAS[name].empty_table())
    tables["images"] = _without_foreign_paths(tables["images"], is_own)
    return StoredSet(path, Tables(**tables), manifest, is_own)


def read_image_digests(path: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Returns the sha256 of each image file in the version with this manifest, by its path there; empty where it holds
    none. Raises UserError where the list is damaged or cannot be read."""
    listed = {file["path"]: file["sha256"] for file in manifest["files"]}
    if CHECKSUMS not in listed:
        return {}
    file = contained_file(path, CHECKSUMS, "read set")
    _check_undamaged(file, listed[CHECKSUMS])
    with translate_read_errors("read set", file, "run verify on the set, restore the file", also=(pa.ArrowException,)):
        table = read_parquet(file, ["path", "sha256"])
    return dict(zip(table["path"].to_pylist(), table["sha256"].to_pylist(), strict=True))


def _check_undamaged(file: Path, sha256: str) -> None:
    """Raises UserError where a listed file of a version does not have the bytes that were published."""
    with translate_read_errors("read set", file, "run verify on the set, restore the file"):
        is_undamaged = file_sha256(file)[0] == sha256
    if not is_undamaged:
        reason = "is damaged: its checksum is not the manifest's"
        raise UserError("read set", file, reason, "run verify on the set, restore the file")


def _without_foreign_paths(images: pd.DataFrame, is_own: bool) -> pd.DataFrame:
    """Returns the images with null for each path that leads out of the set and that nobody allowed. Web addresses stay:
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
    """Adds columns of later schemas, with nulls where the schema allows them."""
    for field in schema:
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def verify_set(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[str]:
    """Yields a line per problem of a version: checksums, content digest, files that are not listed."""
    damaged = set()
    try:
        raw = read_manifest_bytes(path)
        manifest = parse_manifest(raw, path / "manifest.json")
    except UserError:
        yield "manifest.json: cannot be read as the manifest of a set"
        return
    if not is_undamaged_manifest(raw) or raw != canonical_json(json.loads(raw)):
        damaged.add("manifest.json")
        yield "manifest.json: its own checksum differs"
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
    if manifest.get("canary") not in (None, make_canary(published)):
        yield "manifest.json: its canary is of another content"
    if not damaged and (digest := content_digest(read_set(path).tables.to_arrow_tables())) != published:
        yield f"content digest is {digest}, the manifest says {published}"


def _check_file(folder: Path, name: str, listed: dict[str, Any], progress: Callable[[int], None]) -> str:
    try:
        file = contained_file(folder, name, "verify")
        size = file.stat().st_size
        sha256 = file_sha256(file, progress)[0] if size == listed["bytes"] else ""
    except UserError as error:
        return error.reason
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if size != listed["bytes"]:
        return f"has {size} bytes, {listed['bytes']} were published"
    return "" if sha256 == listed["sha256"] else "its checksum differs"

"""A set on disk, found, read back and verified (backends/sets/set_publishing.py writes it).

<name>/v<N>/…           immutable; manifest.json is written last, its presence means complete
<name>/latest           names the newest version
<name>/decisions.jsonl  backends/sets/decision_log.py
<name>/.rendered/       pictures rendered so far; versions hold hard links to them
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backends.durable_files import file_sha256
from backends.sets import version_1
from builders.benchmark_set import Tables, canonical_json, content_digest, manifest_digest
from builders.errors import UserError, first_line
from builders.records import TABLE_SCHEMAS, from_arrow

_VERSION = re.compile(r"v([1-9][0-9]*)")
CHECKSUMS = "images/checksums.parquet"


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A version read back."""

    path: Path
    tables: Tables
    manifest: dict[str, Any]

    @property
    def definition(self) -> dict[str, Any]:
        """The definition that this version was built from; empty where the manifest does not hold it."""
        return self.manifest["envelope"].get("definition") or {}


def find_set(spec: str, out: Path = Path("datasets")) -> Path:
    """The version's folder for `name`, `name/v3` or a path."""
    for folder in (Path(spec), out / spec):
        if (folder / "manifest.json").is_file():
            return folder
        if (version := newest_version(folder)) is not None:
            return folder / f"v{version}"
    known = sorted(p.name for p in out.iterdir() if newest_version(p) is not None) if out.is_dir() else []
    raise UserError(
        "find set",
        spec,
        f"no published version there or below {out}",
        f"choose from {', '.join(known) or 'none yet: build one'}",
    )


def read_set(path: Path, names: tuple[str, ...] = tuple(TABLE_SCHEMAS)) -> StoredSet:
    """A version's manifest and tables; tables not named stay empty, and so does what an older version lacks."""
    tables = {}
    manifest = read_manifest(path)
    listed = {file["path"] for file in manifest["files"]}
    for name in names:
        is_older = manifest.get("schema_version") == 1
        file = path / f"{version_1.TABLE_NAMES.get(name, name) if is_older else name}.parquet"
        try:
            stored = pq.read_table(file) if file.name in listed else TABLE_SCHEMAS[name].empty_table()
            tables[name] = from_arrow(_add_missing_columns(stored, TABLE_SCHEMAS[name]))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise UserError("read set", file, first_line(error), "run verify on the set, restore the file") from None
    for name in set(TABLE_SCHEMAS) - set(names):
        tables[name] = from_arrow(TABLE_SCHEMAS[name].empty_table())
    if manifest.get("schema_version") == 1:
        tables["ledger"] = version_1.upgrade_ledger(tables["ledger"], tables["images"], manifest["configuration"])
    return StoredSet(path, Tables(**tables), manifest)


def _add_missing_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """With columns that came later: empty, where they may be."""
    for field in schema:
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def read_manifest(path: Path) -> dict[str, Any]:
    """A version's manifest, with the keys of this schema version whatever the files are of."""
    try:
        manifest: dict[str, Any] = json.loads((path / "manifest.json").read_bytes())
    except (OSError, ValueError) as error:
        raise UserError("read set", path / "manifest.json", first_line(error), "run verify on the set") from None
    return version_1.upgrade_manifest(manifest) if manifest.get("schema_version") == 1 else manifest


def verify_set(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[str]:
    """What is wrong with a version, a line each: every checksum again, tables against digest, nothing extra."""
    raw = (path / "manifest.json").read_bytes()
    try:
        manifest = json.loads(raw)
        listed = {str(file["path"]): file for file in manifest["files"]}
        sound = manifest["manifest_digest"] == manifest_digest(manifest) and raw == canonical_json(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        yield "manifest.json: cannot be read as the manifest of a set"
        return
    if not sound:
        yield "manifest.json: its own checksum differs"
    intact = True
    for name, file in sorted(listed.items()):
        if problem := _check_file(path / name, file["bytes"], file["sha256"], progress):
            intact = False
            yield f"{name}: {problem}"
    if CHECKSUMS in listed and intact:
        for row in pq.read_table(path / CHECKSUMS).to_pylist():
            listed[row["path"]] = row
            if problem := _check_file(path / row["path"], row["bytes"], row["sha256"], progress):
                yield f"{row['path']}: {problem}"
    for extra in sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir()):
        if extra not in listed and extra != "manifest.json":
            yield f"{extra}: is not listed in the manifest"
    if intact and (digest := content_digest(read_set(path).tables.to_arrow_tables())) != manifest["content_digest"]:
        yield f"content digest is {digest}, the manifest says {manifest['content_digest']}"


def _check_file(path: Path, size: int, sha256: str, progress: Callable[[int], None]) -> str:
    try:
        actual, found_size = file_sha256(path, progress)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if found_size != size:
        return f"has {found_size} bytes, {size} were published"
    return "" if actual == sha256 else "its checksum differs"


def newest_version(folder: Path) -> int | None:
    """The highest number of a complete version in a set's folder."""
    if not folder.is_dir():
        return None
    versions = [
        int(m[1]) for p in folder.iterdir() if (m := _VERSION.fullmatch(p.name)) and (p / "manifest.json").is_file()
    ]
    return max(versions, default=None)

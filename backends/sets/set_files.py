"""Finding, reading and verifying sets on disk (backends/sets/set_publishing.py writes them).

<name>/v<N>/…           immutable; manifest.json is written last, its presence means complete
<name>/latest           names the newest version
<name>/decisions.jsonl  backends/sets/decision_log.py
<name>/.rendered/       images rendered so far; versions hold hard links to them
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from backends.bounded_parquet import read_parquet
from backends.durable_files import file_sha256
from backends.regular_files import read_regular
from backends.sets import version_1
from builders.benchmark_set import Tables, canonical_json, content_digest, manifest_digest
from builders.errors import UserError, first_line
from builders.records import TABLE_SCHEMAS, from_arrow

_VERSION = re.compile(r"v([1-9][0-9]*)")
_MAX_MANIFEST_BYTES = 256 << 20
CHECKSUMS = "images/checksums.parquet"


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A version of a set, read from disk."""

    path: Path
    tables: Tables
    manifest: dict[str, Any]

    @property
    def definition(self) -> dict[str, Any]:
        """The definition of the build; empty where the manifest has none."""
        return self.manifest["envelope"].get("definition") or {}


def find_set(spec: str, out: Path = Path("datasets")) -> Path:
    """Returns the version's folder for `name`, `name/v3` or a path. Raises UserError where there is none."""
    for folder in (Path(spec), out / spec):
        if (folder / "manifest.json").is_file():
            return folder
        if (version := newest_version(folder)) is not None:
            return folder / f"v{version}"
    known = sorted(p.name for p in out.iterdir() if newest_version(p) is not None) if out.is_dir() else []
    next_step = f"choose from {', '.join(known) or 'none yet: build one'}"
    raise UserError("find set", spec, f"no published version there or below {out}", next_step)


def read_set(path: Path, names: tuple[str, ...] = tuple(TABLE_SCHEMAS)) -> StoredSet:
    """Reads a version's manifest and tables. Tables that are not named, or that an older version lacks, are empty.
    Raises UserError."""
    tables = {}
    manifest = read_manifest(path)
    is_version_1 = manifest.get("schema_version") == 1
    listed = {file["path"] for file in manifest["files"]}
    for name in names:
        file = path / f"{version_1.TABLE_NAMES.get(name, name) if is_version_1 else name}.parquet"
        try:
            stored = read_parquet(file) if file.name in listed else TABLE_SCHEMAS[name].empty_table()
            tables[name] = from_arrow(_add_missing_columns(stored, TABLE_SCHEMAS[name]))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise UserError("read set", file, first_line(error), "run verify on the set, restore the file") from None
    for name in set(TABLE_SCHEMAS) - set(names):
        tables[name] = from_arrow(TABLE_SCHEMAS[name].empty_table())
    if is_version_1:
        tables["ledger"] = version_1.upgrade_ledger(tables["ledger"], tables["images"], manifest["configuration"])
    return StoredSet(path, Tables(**tables), manifest)


def _add_missing_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Adds columns of later schemas, with nulls where the schema allows them."""
    for field in schema:
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads a version's manifest, with the keys of the current schema version. Raises UserError."""
    try:
        manifest: dict[str, Any] = json.loads(read_regular(path / "manifest.json", _MAX_MANIFEST_BYTES))
    except (OSError, ValueError) as error:
        raise UserError("read set", path / "manifest.json", first_line(error), "run verify on the set") from None
    return version_1.upgrade_manifest(manifest) if manifest.get("schema_version") == 1 else manifest


def verify_set(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[str]:
    """Yields a line per problem of a version: checksums, content digest, files that are not listed."""
    try:
        raw = read_regular(path / "manifest.json", _MAX_MANIFEST_BYTES)
        manifest = json.loads(raw)
        listed = {str(file["path"]): file for file in manifest["files"]}
        is_intact = manifest["manifest_digest"] == manifest_digest(manifest) and raw == canonical_json(manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        yield "manifest.json: cannot be read as the manifest of a set"
        return
    if not is_intact:
        yield "manifest.json: its own checksum differs"
    damaged = set()
    for name, file in sorted(listed.items()):
        if problem := _check_file(path / name, file["bytes"], file["sha256"], progress):
            damaged.add(name)
            yield f"{name}: {problem}"
    if CHECKSUMS in listed and CHECKSUMS not in damaged:
        for row in read_parquet(path / CHECKSUMS).to_pylist():
            listed[row["path"]] = row
            if problem := _check_file(path / row["path"], row["bytes"], row["sha256"], progress):
                yield f"{row['path']}: {problem}"
    for extra in sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir()):
        is_unknown = CHECKSUMS in damaged and extra.startswith("images/")  # only the checksums list the images
        if extra not in listed and extra != "manifest.json" and not is_unknown:
            yield f"{extra}: is not listed in the manifest"
    published = manifest["content_digest"]
    if not damaged and (digest := content_digest(read_set(path).tables.to_arrow_tables())) != published:
        yield f"content digest is {digest}, the manifest says {published}"


def _check_file(path: Path, size: int, sha256: str, progress: Callable[[int], None]) -> str:
    try:
        found_size = path.stat().st_size
        actual = file_sha256(path, progress)[0] if found_size == size else ""
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if found_size != size:
        return f"has {found_size} bytes, {size} were published"
    return "" if actual == sha256 else "its checksum differs"


def newest_version(folder: Path) -> int | None:
    """Returns the highest number of a complete version in a set's folder; None where there is none."""
    if not folder.is_dir():
        return None
    complete = [path.parent.name for path in folder.glob("*/manifest.json") if path.is_file()]
    return max((int(match[1]) for name in complete if (match := _VERSION.fullmatch(name))), default=None)

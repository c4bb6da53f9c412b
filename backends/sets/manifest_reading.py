"""Reads manifest.json of a version, and checks every key of it, as it may be a stranger's."""

import json
from pathlib import Path
from typing import Any

import msgspec

from backends.contained_paths import contained_file
from backends.regular_files import read_regular
from builders.benchmark_set import manifest_digest
from builders.errors import UserError, first_line
from builders.manifest_schema import Manifest
from builders.strict_json import parse_bounded_json

_STAGE = "read set"
MAX_MANIFEST_BYTES = 256 << 20


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads a version's manifest, with the keys of the current schema version. Raises UserError with file and key, and
    where the manifest is damaged."""
    data, file = read_manifest_bytes(path), path / "manifest.json"
    manifest = parse_manifest(data, file)
    if not is_undamaged_manifest(data):
        raise _wrong(file, "is damaged: its own checksum differs")
    return manifest


def read_manifest_bytes(path: Path) -> bytes:
    """Returns the bytes of a version's manifest. Raises UserError where it is no regular file, or is too large."""
    file = contained_file(path, "manifest.json", _STAGE)
    try:
        return read_regular(file, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise _wrong(file, f"cannot be read ({error.strerror or error})") from None


def parse_manifest(data: bytes, file: Path) -> dict[str, Any]:
    """Returns the manifest in these bytes; `file` is for messages. Raises UserError with file and key. Its digest is
    not checked."""
    try:
        manifest = parse_bounded_json(data)
    except ValueError as error:
        raise _wrong(file, f"is no manifest ({first_line(error)})") from None
    try:
        msgspec.convert(manifest, Manifest)
    except msgspec.ValidationError as error:
        raise _wrong(file, f"is not as expected: {str(error).replace('`$.', '`')[:300]}") from None
    checked: dict[str, Any] = manifest
    return checked


def is_undamaged_manifest(data: bytes) -> bool:
    """Whether the digest in the bytes of a manifest is that of all its other keys."""
    manifest = json.loads(data)  # as it is stored: an older one without the keys of the current version
    return bool(manifest["manifest_digest"] == manifest_digest(manifest))


def _wrong(file: Path, reason: str) -> UserError:
    return UserError(_STAGE, file, reason, "run verify on the set, or ask for it again")

"""The location of a set: the folder of a version, by name, path or URL.

Apart from the tables, so that a command that reads a manifest alone starts without the libraries of tables.
"""

import re
from pathlib import Path
from typing import Literal

from querytruth.backends.files.bucket_urls import FETCH_FIRST, SetUrl, join_set_url
from querytruth.backends.files.safe_paths import contained_path
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError
from querytruth.sets.published_files import newest_version

RemoteUse = Literal["refused", "tables", "whole"]


def find_set(spec: str, out: Path = DATASETS_FOLDER, *, remote: RemoteUse = "refused") -> Path:
    """Return the version's folder for `name`, `name/v3` or a path; for a URL in object storage the folder of a
    read-only copy, with or without image files. Raises UserError where there is no such set, and for a URL unless
    `remote` allows it."""
    if (url := join_set_url(spec, str(out))) is not None:
        if remote == "refused":
            raise UserError("find set", SetUrl.parse(url), "is in object storage; this works on disk only", FETCH_FIRST)
        from querytruth.sets.bucket_reading import fetch_version

        return fetch_version(url, with_images=remote == "whole")
    for folder in (Path(spec), out / spec):
        if (folder / "manifest.json").is_file():
            return folder
        if (version := newest_version(folder)) is not None:
            return contained_path(folder, f"v{version}", "find set")
    for folder in (Path(spec), out / spec):
        if re.fullmatch(r"v\d+", folder.name) and (newest := newest_version(folder.parent)) is not None:
            there = sorted(int(p.parent.name[1:]) for p in folder.parent.glob("v*/manifest.json"))
            versions = ", ".join(f"v{number}" for number in there[-20:])
            raise UserError("find set", spec, f"the newest version is v{newest}", f"choose from {versions}")
    known = sorted(p.name for p in out.iterdir() if newest_version(p) is not None) if out.is_dir() else []
    next_step = f"choose from {', '.join(known) or 'none yet: build one'}"
    raise UserError("find set", spec, f"has no published version there or in {out}", next_step)


def describe_place(spec: str, out: Path, version: Path) -> str:
    """Return the folder of a version, or its URL where `version` is a copy of one in object storage."""
    url = join_set_url(spec, str(out))
    return str(version) if url is None else str(SetUrl.parse(url).at_version(int(version.name.removeprefix("v"))))

"""Descriptions of a set in exports: querytruth.json, and README.md with Hugging Face's configs."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from backends.bounded_yaml import load_yaml
from backends.contained_paths import is_contained_name
from backends.file_errors import translate_read_errors
from backends.interchange.text_files import import_error, read_json_file, require_file
from backends.regular_files import read_regular
from backends.sets.set_files import StoredSet
from builders.benchmark_set import canonical_json
from builders.rendered_sizes import get_render_options
from builders.set_card import render_set_card

DESCRIPTION_FILE = "querytruth.json"
_LONGEST_PATTERN = 500
_LARGEST_README = 64 << 20  # bytes


class RenderDescription(msgspec.Struct):
    """The `render` of a definition."""

    size: int
    mode: str


class SetDescription(msgspec.Struct):
    """The identity of a set, the meaning of its grades, and how its images were rendered."""

    name: str
    version: int
    kind: str
    title: str
    licence: str
    content_digest: str
    grades: dict[str, str]
    known_limitations: list[str] = msgspec.field(name="faults")
    render: RenderDescription | None = None


def write_description(stored: StoredSet, out: Path) -> None:
    """Writes the description into an export's folder."""
    fields = {name: stored.manifest[name] for name in SetDescription.__struct_fields__ if name != "render"}
    render = get_render_options(stored.manifest)
    described = SetDescription(**fields, render=RenderDescription(**render) if render else None)
    (out / DESCRIPTION_FILE).write_bytes(canonical_json(msgspec.to_builtins(described)))


def read_description(folder: Path) -> SetDescription | None:
    """Returns the description in an export's folder, None where there is none. Raises UserError for a wrong one."""
    path = folder / DESCRIPTION_FILE
    return read_json_file(path, SetDescription) if path.is_file() else None


def write_readme(stored: StoredSet, out: Path, configs: list[dict[str, Any]], how_to_load: str) -> None:
    """Writes the set's card, with a front matter that names the files of every config. The card is made again: that of
    a received set may say anything."""
    manifest = stored.manifest
    front = {
        "pretty_name": manifest["title"],
        "license": manifest["licence"].lower().replace(" ", "-") or "other",
        "language": sorted(set(stored.tables.queries["language"])),
        "tags": ["text-to-image-retrieval", "querytruth"],
        "configs": configs,
    }
    _, _, body = render_set_card(manifest, stored.tables).removeprefix("---\n").partition("\n---\n")
    text = f"---\n{yaml.safe_dump(front, allow_unicode=True, sort_keys=False)}---\n{body.rstrip()}\n\n{how_to_load}"
    (out / "README.md").write_text(text, "utf-8", newline="\n")


def find_config_files(folder: Path, split: str) -> dict[str, list[Path]]:
    """Returns the Parquet files of every config: those in the README's front matter, else those of each folder."""
    if not folder.is_dir():
        raise import_error(folder, "is no folder", "give the folder that holds README.md and the Parquet files")
    files_by_config = {name: _files(folder, data, split) for name, data in _named_configs(folder / "README.md")}
    if not files_by_config:
        folders = sorted({path.parent for path in folder.rglob("*.parquet")})
        files_by_config = {
            path.name: _files(folder, str(path.relative_to(folder) / "*.parquet"), split) for path in folders
        }
    if not any(files_by_config.values()):
        next_step = "check the path; a repository's large files may be missing"
        raise import_error(folder, "holds no Parquet files", next_step)
    return files_by_config


def _named_configs(readme: Path) -> list[tuple[str, Any]]:
    text = ""
    if readme.is_file():
        with translate_read_errors("import", readme, "remove the file"):
            text = read_regular(require_file(readme), _LARGEST_README).decode("utf-8", "replace")
    if not text.startswith("---\n"):
        return []
    try:
        front = load_yaml(text[4:].partition("\n---")[0])
        return [(str(entry["config_name"]), entry["data_files"]) for entry in front.get("configs", [])]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
        raise import_error(readme, "has a front matter that names no configs", "fix it, or remove the file") from None


def _files(folder: Path, data: Any, split: str) -> list[Path]:
    """Returns the files of the split, or of the only split."""
    if isinstance(data, list) and data and all(isinstance(entry, dict) for entry in data):
        by_split = {str(entry.get("split")): entry.get("path") for entry in data}
        data = by_split[split] if split in by_split else next(iter(by_split.values())) if len(by_split) == 1 else []
    patterns = [data] if isinstance(data, str) else data
    root, matches = folder.resolve(), set[Path]()
    for pattern in patterns if isinstance(patterns, list) else []:
        if isinstance(pattern, str) and is_contained_name(pattern) and _is_simple(pattern):
            matches |= {path for path in folder.glob(pattern) if path.is_file() and path.suffix == ".parquet"}
    return sorted(path for path in matches if path.resolve().is_relative_to(root))


def _is_simple(pattern: str) -> bool:
    """Whether a search for the pattern walks through every folder once at most."""
    return len(pattern) <= _LONGEST_PATTERN and pattern.count("**") <= 1

"""The commented definitions that `querytruth init` writes."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from string import Template
from typing import Literal

from backends.annotations.label_tables import DATASETS_FOLDER, find_fitting_table, list_shipped_tables
from flows.set_names import propose_set_name

DEFAULT_OUT = Path("datasets")  # of a definition
_TEXT_EMBEDDERS = {"zh": "BAAI/bge-small-zh-v1.5", "en": "sentence-transformers/all-MiniLM-L6-v2"}  # calibrated
_TEMPLATES = DATASETS_FOLDER / "starters"


def list_starter_kinds() -> list[str]:
    """The kinds of sets that have a starter definition, `training`, `audit`, and `prefect` for the deployments."""
    return sorted(path.stem for path in _TEMPLATES.glob("*.yaml"))


@dataclass(frozen=True, slots=True)
class CaptionWriter:
    """The model that writes the captions of a recall set: behind an endpoint, or on this machine (None); `key_env` is
    the variable of the endpoint's key."""

    model: str = "Qwen/Qwen3-VL-8B-Instruct"
    endpoint: str | None = None
    key_env: str | None = None
    language: Literal["zh", "en"] = "zh"

    def keys(self) -> dict[str, str]:
        """The keys of the starter."""
        place = {"base_url": self.endpoint, "name": self.model, "key_env": self.key_env}
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in place.items() if value is not None)
        model = "qwen_vl" if self.endpoint is None else "openai_compatible"
        keys = {"model": model, "options": "{" + given + "}", "language": self.language}
        return keys | {"embedder": _TEXT_EMBEDDERS[self.language]}


def render_starter(
    kind: str,
    annotations: Sequence[Path] | None,
    images: str | None,
    folder: Path,
    writer: CaptionWriter = CaptionWriter(),
) -> str:
    """The text of a starter definition, with paths relative to `folder`. Raises UserError for a damaged annotation
    file."""
    if kind == "precision":
        return _precision(annotations, images, folder)
    if kind in ("prefect", "audit"):
        return (_TEMPLATES / f"{kind}.yaml").read_text("utf-8")
    if kind == "generated":
        return _fill_template(kind, name="my-topics")
    place = "pictures" if images is None else _quoted(images, folder)
    keys = writer.keys() if kind == "recall" else {}
    return _fill_template(kind, name=derive_set_name(images or "my-pictures"), images=place, **keys)


def _fill_template(kind: str, **values: object) -> str:
    name = propose_set_name(str(values.pop("name")), kind, DEFAULT_OUT)
    return Template((_TEMPLATES / f"{kind}.yaml").read_text("utf-8")).substitute(values, name=name)


def derive_set_name(source: str) -> str:
    """A set name from the path or URL of its images."""
    stem = PurePosixPath(source.rstrip("/")).name.rsplit(".", 1)[0]
    return _name(stem) or "my-pictures"


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.casefold()).strip("-")[:48]


def _precision(annotations: Sequence[Path] | None, images: str | None, folder: Path) -> str:
    """The categories of the annotation files determine the label table, their images the minimum number of images."""
    name, labels, minimum, listed = "my-objects", "from_annotations", 10, "instances.json"
    if annotations:
        labels, minimum, name = _inspect_annotations(annotations)
        quoted = [_quoted(str(path), folder) for path in annotations]
        listed = quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"
    tables = list_shipped_tables()
    is_shipped = labels in tables
    return _fill_template(
        "precision",
        name=name,
        annotations=listed,
        images=_quoted(images, folder) if images else "null",
        labels=labels,
        tables=", ".join(tables),
        compatible=labels if is_shipped else "null",
        languages="[zh, en]" if is_shipped else "null",
        minimum=minimum,
    )


def _inspect_annotations(paths: Sequence[Path]) -> tuple[str, int, str]:
    """Returns the label table that has the categories of all files, the minimum number of images, and a set name, which
    is that of the first file."""
    from backends.annotations.coco_annotations import read_annotations

    files = [read_annotations(path) for path in paths]
    labels = find_fitting_table(name for file in files for name in file.categories["name"]) or "from_annotations"
    path = paths[0]
    stem = path.absolute().parent.name if path.stem.casefold() in ("annotations", "instances") else path.stem
    return labels, 10 if sum(len(file.images) for file in files) >= 1000 else 3, _name(stem) or "my-objects"


def _quoted(source: str, folder: Path) -> str:
    relative = source if "://" in source else os.path.relpath(source, str(folder))
    return '"' + relative.replace("\\", "\\\\").replace('"', '\\"') + '"'

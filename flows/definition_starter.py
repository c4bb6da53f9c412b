"""The commented definitions that `querytruth init` writes."""

import os
from pathlib import Path, PurePosixPath
from string import Template

from backends.annotations.label_tables import DATASETS_FOLDER, find_fitting_table, list_shipped_tables
from flows.set_names import propose_set_name

DEFAULT_OUT = Path("datasets")  # of a definition
_TEMPLATES = DATASETS_FOLDER / "starters"


def list_starter_kinds() -> list[str]:
    """The kinds of sets that have a starter definition."""
    return sorted(path.stem for path in _TEMPLATES.glob("*.yaml"))


def render_starter(kind: str, annotations: Path | None, images: str | None, folder: Path) -> str:
    """The text of a starter definition, with paths relative to `folder`. Raises UserError for a damaged annotation
    file."""
    if kind == "precision":
        return _precision(annotations, images, folder)
    if kind == "generated":
        return _fill_template(kind, name="my-topics")
    place = "pictures" if images is None else _quoted(images, folder)
    return _fill_template(kind, name=derive_set_name(images or "my-pictures"), images=place)


def _fill_template(kind: str, **values: object) -> str:
    name = propose_set_name(str(values.pop("name")), kind, DEFAULT_OUT)
    return Template((_TEMPLATES / f"{kind}.yaml").read_text("utf-8")).substitute(values, name=name)


def derive_set_name(source: str) -> str:
    """A set name from the path or URL of its images."""
    stem = PurePosixPath(source.rstrip("/")).name.rsplit(".", 1)[0]
    return _name(stem) or "my-pictures"


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.casefold()).strip("-")[:48]


def _precision(annotations: Path | None, images: str | None, folder: Path) -> str:
    """The categories of the annotation file determine the label table, its size the minimum number of images."""
    name, labels, minimum = "my-objects", "from_annotations", 10
    if annotations is not None:
        labels, minimum, name = _inspect_annotations(annotations)
    tables = list_shipped_tables()
    is_shipped = labels in tables
    return _fill_template(
        "precision",
        name=name,
        annotations=_quoted(str(annotations), folder) if annotations else "instances.json",
        images=_quoted(images, folder) if images else "null",
        labels=labels,
        tables=", ".join(tables),
        compatible=labels if is_shipped else "null",
        languages="[zh, en]" if is_shipped else "null",
        minimum=minimum,
    )


def _inspect_annotations(path: Path) -> tuple[str, int, str]:
    from backends.annotations.coco_annotations import read_annotations

    file = read_annotations(path)
    labels = find_fitting_table(file.categories["name"]) or "from_annotations"
    stem = path.absolute().parent.name if path.stem.casefold() in ("annotations", "instances") else path.stem
    return labels, 10 if len(file.images) >= 1000 else 3, _name(stem) or "my-objects"


def _quoted(source: str, folder: Path) -> str:
    relative = source if "://" in source else os.path.relpath(source, str(folder))
    return '"' + relative.replace("\\", "\\\\").replace('"', '\\"') + '"'

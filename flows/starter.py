"""The commented definition that `querytruth init` writes."""

from __future__ import annotations

import os
from pathlib import Path

from backends.label_tables import read_table, shipped, table_folder

_PRECISION = """\
# A precision set: annotated objects become queries that many pictures answer.
# Next: querytruth build precision FILE --plan, then the same without --plan.
# Only name, kind and annotations are needed; for the rest the defaults are shown, or what suits the file.

name: {name}
kind: precision
title: {name}
# Of the set; the pictures keep their own.
licence: ""

# COCO-form JSON (COCO, Objects365 ...): a file or a list of files; paths are relative to this file.
annotations: {annotations}
# The pictures' folder; null: a set of annotations alone, without pictures.
images: {images}

# The label table with its tag tree: {tables}, a folder with labels.csv and tree.csv,
# from_annotations (names as they stand) or from_supercategories (with their groups as a tree).
labels: {labels}
# Which labels answer for which: a shipped map ({tables}), a CSV file, or null.
compatible: {compatible}
# Whether the tree's nodes are queries, too (animal: every dog, cat ...).
parents: true
# Whether boxes count that mark a crowd, or a picture or a toy of the thing.
boxes: {{crowd: true, fake: true}}

# A label is searchable with min_images pictures and a box over area_ratio on one of them (count: any)
# or on min_images of them (count: prominent).
searchable: {{area_ratio: 0.10, min_images: {minimum}, count: any}}
# Several labels at once. sampled: `draws` others per seed, drawn by hash; exhaustive: all. cap: mixes kept a level.
# near_misses: judged zeros per mix, on pictures that hold all labels but one.
mixes: {{levels: 3, mode: sampled, draws: 5, cap: null, min_images: {minimum}, near_misses: 100}}

# word: dog&car; sentence: a picture of a dog and a car
texts: [word, sentence]
# zh, en; null: what the label table is named in.
languages: {languages}
# graded: 2 prominent, 1 present; binary: 1
grades: graded
# Pictures as the set holds them: squash | fit | crop; null: the set only names them.
render: {{size: 512, mode: squash}}
seed: 0
"""


def starter(kind: str, annotations: Path | None, images: Path | None, folder: Path) -> str:
    """The definition's text. With an annotation file its categories choose the label table, and its size the
    least number of pictures."""
    name, labels, minimum = "my-objects", "from_annotations", 10
    if annotations is not None:
        labels, minimum, name = _look_at(annotations)
    tabled = labels in shipped()
    return _PRECISION.format(
        name=name,
        annotations=_quoted(annotations, folder) if annotations else "instances.json",
        images=_quoted(images, folder) if images else "null",
        labels=labels,
        tables=", ".join(shipped()),
        compatible=labels if tabled else "null",
        languages="[zh, en]" if tabled else "null",
        minimum=minimum,
    )


def _look_at(path: Path) -> tuple[str, int, str]:
    from backends.annotations import read_annotations

    file = read_annotations(path)
    names = {name.strip().casefold() for name in file.categories["name"]}
    labels = "from_annotations"
    for table in shipped():
        known, _ = read_table(table_folder(table) / "labels.csv")
        if names <= {name.strip().casefold() for name in known["name"]}:
            labels = table
            break
    stem = path.absolute().parent.name if path.stem.casefold() in ("annotations", "instances") else path.stem
    word = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem.casefold()).strip("-")
    return labels, 10 if len(file.images) >= 1000 else 3, word[:48] or "my-objects"


def _quoted(path: Path, folder: Path) -> str:
    relative = os.path.relpath(str(path), str(folder))
    return '"' + relative.replace("\\", "\\\\").replace('"', '\\"') + '"'

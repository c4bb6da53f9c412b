"""The commented definitions that `querytruth init` writes."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

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
# All pictures stay, for all are annotated; those that are alike bear a common group, and lint tells where only one of
# them is right. distance: of perceptual hashes, in bits of 64; embedder: the name or folder of a CLIP model.
near_duplicates: {{distance: 6, flips: false, rotations: false, embedder: null, cosine: 0.95}}
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

_GALLERY = """\
# A gallery: pictures, read, filtered, freed of duplicates, selected; what recall and generated sets start from.
# Next: querytruth build gallery FILE --plan, then the same without --plan.
# Only name, kind and images are needed; for the rest the defaults are shown.

name: {name}
kind: gallery
title: {name}
# Of the set; the pictures keep their own.
licence: ""

# A folder with all below it, a list file (.txt, a path or URL a line), a table (.csv or .parquet with a column `path`),
# or an fsspec URL of one of these (s3://..., zip://...); paths are relative to this file.
images: {images}

# Kept: min_side <= sides < max_side (pixels), min_ratio < width / height < max_ratio.
# The others are scores from 0 to 1, null: not cut. Brightness: mean; contrast: low is nearly uniform; sharpness: low is
# blurred; flatness: high is a screenshot or a page of text. A new cut needs no new scan.
filter: {{min_side: 1, max_side: 5000, min_ratio: 0.2, max_ratio: 5, min_brightness: null, max_brightness: null,
         min_contrast: null, min_sharpness: null, max_flatness: null}}
# One picture of each group of alike ones stays: same bytes, same pixels, perceptual hashes within `distance` of 64 bits
# (null: not compared), mirrored and turned ones if wanted, or a cosine of two picture embeddings (embedder: the name or
# folder of a CLIP model, e.g. OFA-Sys/chinese-clip-vit-base-patch16).
near_duplicates: {{distance: 6, flips: false, rotations: false, embedder: null, cosine: 0.95}}
# count null: all. Else as many different places as possible, then different places or times, then any.
# A place is a cell of so many degrees; time: year | month | day | hour.
select: {{count: null, place_degrees: 0.01, time: day}}
# Pictures as the set holds them: squash | fit | crop; null: the set only names them.
render: {{size: 512, mode: squash}}
seed: 0
"""


def starter(kind: str, annotations: Path | None, images: str | None, folder: Path) -> str:
    """The definition's text for a kind of set, its paths relative to `folder`."""
    return _gallery(images, folder) if kind == "gallery" else _precision(annotations, images, folder)


def _gallery(images: str | None, folder: Path) -> str:
    place = "pictures" if images is None else _quoted(images, folder)
    return _GALLERY.format(name=name_of(images or "my-pictures"), images=place)


def name_of(source: str) -> str:
    """A set's name from where its pictures lie."""
    stem = PurePosixPath(source.rstrip("/")).name.rsplit(".", 1)[0]
    return _name(stem) or "my-pictures"


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.casefold()).strip("-")[:48]


def _precision(annotations: Path | None, images: str | None, folder: Path) -> str:
    """With an annotation file its categories choose the label table, and its size the least number of pictures."""
    name, labels, minimum = "my-objects", "from_annotations", 10
    if annotations is not None:
        labels, minimum, name = _look_at(annotations)
    tabled = labels in shipped()
    return _PRECISION.format(
        name=name,
        annotations=_quoted(str(annotations), folder) if annotations else "instances.json",
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
    return labels, 10 if len(file.images) >= 1000 else 3, _name(stem) or "my-objects"


def _quoted(source: str, folder: Path) -> str:
    relative = source if "://" in source else os.path.relpath(source, str(folder))
    return '"' + relative.replace("\\", "\\\\").replace('"', '\\"') + '"'

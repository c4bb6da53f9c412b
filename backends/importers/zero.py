"""Zero's four tasks: JSON lines of {text, image_path} (ICR: long texts, IQR: short ones) and of {text, image_path,
label} (ICM, IQM), in {split}/long_itr_{split}.json, short_itr_…, long_itm_… and short_itm_….

Layout: zero.so.com/detail.html; yuxie11/R2D2 c7127fa, README.md, data/icr_dataset.py, iqr_dataset.py and
matching_datasets.py. Pictures lie in IQR_IQM_ICR_ICM_images under the last part of their path.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec

from backends.importers import Imported, judgment_table, query_table
from backends.interchange.caption_lists import FAULT, GRADES, named_pictures
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, json_lines

_TASKS = {"ICR": "long_itr", "IQR": "short_itr", "ICM": "long_itm", "IQM": "short_itm"}


_LABELS = {"1": "people said that they belong together", "0": "people said that they do not"}


class Pair(msgspec.Struct):
    """A line; `label` says, in ICM and IQM, whether text and picture belong together."""

    text: str
    image_path: str
    label: int | None = None


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a task's file, or that of its folder (ICR, IQR, ICM or IQM) for a split, `val` unless said otherwise."""
    path = source if source.is_file() else _file(source, split or "val")
    lines = [(number, line, PurePosixPath(line.image_path).name) for number, line in json_lines(path, Pair)]
    labelled = [line for _, line, _ in lines if line.label is not None]
    if labelled and len(labelled) < len(lines):
        number = next(number for number, line, _ in lines if line.label is None)
        raise broken(f"{path} line {number}", "has no label, though others have one")
    task = next((task for task, start in _TASKS.items() if path.name.startswith(start)), path.stem)
    judged = _matches(lines) if labelled else _retrieval(lines)
    return Imported(
        queries=query_table(judged[0], "caption" if task in ("ICR", "ICM") else "query", "zh"),
        images=named_pictures([("", "", name) for _, _, name in lines]),
        qrels=judgment_table(judged[1], "human" if labelled else "caption", None),
        files=[path],
        grades=_LABELS if labelled else GRADES,
        title=f"Zero {task}, {split or 'val'}",
        faults=[] if labelled else [FAULT],
    )


Lines = list[tuple[int, Pair, str]]
Judged = tuple[list[tuple[str, str]], list[tuple[str, str, int]]]


def _file(source: Path, split: str) -> Path:
    found = [
        path
        for start in _TASKS.values()
        for folder in ("", f"{split}/")
        if (path := source / f"{folder}{start}_{split}.json").is_file()
    ]
    if len(found) != 1:
        reason = f"holds {len(found)} files of the split {split!r} ({{long,short}}_{{itr,itm}}_{split}.json)"
        raise broken(source, reason, "give a task's own folder, such as ICR, or its file")
    return found[0]


def _retrieval(lines: Lines) -> Judged:
    """Every line is a query of its own, as in the publisher's evaluation."""
    queries = [(f"{name} {line.text}", line.text.strip()) for _, line, name in lines]
    return queries, [(f"{name} {line.text}", name, 1) for _, line, name in lines]


def _matches(lines: Lines) -> Judged:
    """A text that stands with several pictures is one query."""
    texts = dict.fromkeys(line.text for _, line, _ in lines)
    return [(text, text.strip()) for text in texts], [
        (line.text, name, int(line.label == 1)) for _, line, name in lines
    ]

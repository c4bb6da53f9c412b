"""Zero's four tasks: JSON lines of {text, image_path} (ICR: long texts, IQR: short ones) and of {text, image_path,
label} (ICM, IQM), in {split}/long_itr_{split}.json, short_itr_…, long_itm_… and short_itm_….

Layout: zero.so.com/detail.html; yuxie11/R2D2 c7127fa, README.md, data/icr_dataset.py, iqr_dataset.py and
matching_datasets.py. Images are in IQR_IQM_ICR_ICM_images, under the base name of their path.
"""

from pathlib import Path, PurePosixPath

import msgspec

from querytruth.backends.files.text_files import import_error, iterate_json_lines
from querytruth.formats.import_layouts import CAPTION_GRADES, SINGLE_IMAGE_LIMITATION, build_named_images
from querytruth.formats.importers import ImportedTables, build_judgment_table, build_query_table
from querytruth.formats.set_images import ImageStore

_TASKS = {"ICR": "long_itr", "IQR": "short_itr", "ICM": "long_itm", "IQM": "short_itm"}
_LABELS = {"1": "people judged it relevant", "0": "people judged it not relevant"}


class ZeroPair(msgspec.Struct):
    """A line; in ICM and IQM, `label` is 1 where text and image belong together."""

    text: str
    image_path: str
    label: int | None = None


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read the file of a task, or that of a split, by default `val`, in the task's folder."""
    path = source if source.is_file() else _find_task_file(source, split or "val")
    lines = [(number, line, PurePosixPath(line.image_path).name) for number, line in iterate_json_lines(path, ZeroPair)]
    labelled = [line for _, line, _ in lines if line.label is not None]
    if labelled and len(labelled) < len(lines):
        number = next(number for number, line, _ in lines if line.label is None)
        raise import_error(f"{path} line {number}", "has no label, though others have one")
    task = next((task for task, start in _TASKS.items() if path.name.startswith(start)), path.stem)
    judged = _matches(lines) if labelled else _retrieval(lines)
    return ImportedTables(
        queries=build_query_table(judged[0], "caption" if task in ("ICR", "ICM") else "query", "zh"),
        images=build_named_images([("", "", name) for _, _, name in lines]),
        qrels=build_judgment_table(judged[1], "human" if labelled else "caption"),
        files=[path],
        grades=_LABELS if labelled else CAPTION_GRADES,
        title=f"Zero {task}, {split or 'val'}",
        known_limitations=[] if labelled else [SINGLE_IMAGE_LIMITATION],
    )


_Lines = list[tuple[int, ZeroPair, str]]
_QueriesAndJudgments = tuple[list[tuple[str, str]], list[tuple[str, str, int]]]


def _find_task_file(source: Path, split: str) -> Path:
    files = [
        path
        for start in _TASKS.values()
        for folder in ("", f"{split}/")
        if (path := source / f"{folder}{start}_{split}.json").is_file()
    ]
    if len(files) != 1:
        reason = f"has {len(files)} files of the split {split!r} ({{long,short}}_{{itr,itm}}_{split}.json)"
        raise import_error(source, reason, "give the folder of a task, such as ICR, or its file")
    return files[0]


def _retrieval(lines: _Lines) -> _QueriesAndJudgments:
    """Return every line as a query of its own, as in the publisher's evaluation."""
    queries = [(f"{name} {line.text}", line.text.strip()) for _, line, name in lines]
    return queries, [(f"{name} {line.text}", name, 1) for _, line, name in lines]


def _matches(lines: _Lines) -> _QueriesAndJudgments:
    """Return the queries and judgments; a text with several images is one query."""
    queries = [(text, text.strip()) for text in dict.fromkeys(line.text for _, line, _ in lines)]
    return queries, [(line.text, name, int(line.label == 1)) for _, line, name in lines]

"""The sample album: drawn to a folder, so that everything can be tried without a picture of one's own."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from backends.annotations.label_tables import SHIPPED
from backends.durable_files import write_atomically
from backends.sets import set_files
from builders.sample_album import (
    AlbumPicture,
    CaptionCheck,
    captions_table,
    check_captions,
    coco_annotations,
    descriptions_table,
    draw_album,
    fitting_table,
)
from flows.steps import current, step

DEFINITIONS = SHIPPED / "sample-album"


@step("draw album")
def draw_sample_album(folder: Path, scenes: int = 240) -> list[AlbumPicture]:
    """Write pictures/, annotations.json and three tables: captions.csv, descriptions.csv, which name all that is to be
    seen, and fitting.csv, the true answer to which captions fit which other pictures. What is there already is written
    again, the same."""
    drawn = []
    with current().reporter.bar("draw the sample album", scenes, "pictures") as advance:
        for picture in draw_album(scenes):
            write_atomically(folder / "pictures" / picture.file_name, picture.data)
            drawn.append(picture)
            advance(1)
    _write_table(folder / "captions.csv", captions_table(drawn))
    _write_table(folder / "descriptions.csv", descriptions_table(drawn))
    _write_table(folder / "fitting.csv", fitting_table(drawn))
    annotations = json.dumps(coco_annotations(drawn), ensure_ascii=False)
    write_atomically(folder / "annotations.json", annotations.encode())
    return drawn


def check_sample_captions(path: Path, album: Path) -> CaptionCheck:
    """The set at `path`, made of the album's captions, beside what is known of them."""
    tables = set_files.read(path, ("queries", "images", "qrels", "suspicions")).tables
    with (album / "fitting.csv").open(encoding="utf-8", newline="") as file:
        return check_captions(tables, [(row["file_name"], row["fits"]) for row in csv.DictReader(file)])


def _write_table(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())

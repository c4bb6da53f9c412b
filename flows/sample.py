"""The sample album: drawn to a folder, so that everything can be tried without a picture of one's own."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from backends.durable_files import write_atomically
from backends.label_tables import SHIPPED
from builders.sample_album import AlbumPicture, captions_table, coco_annotations, draw_album
from flows.steps import current, step

DEFINITIONS = SHIPPED / "sample-album"


@step("draw album")
def draw_sample_album(folder: Path, scenes: int = 240) -> list[AlbumPicture]:
    """Write pictures/, annotations.json and captions.csv; what is there already is written again, the same."""
    drawn = []
    with current().reporter.bar("draw the sample album", scenes, "pictures") as advance:
        for picture in draw_album(scenes):
            write_atomically(folder / "pictures" / picture.file_name, picture.data)
            drawn.append(picture)
            advance(1)
    text = io.StringIO()
    writer = csv.DictWriter(text, ["file_name", "language", "caption"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(captions_table(drawn))
    write_atomically(folder / "captions.csv", text.getvalue().encode())
    annotations = json.dumps(coco_annotations(drawn), ensure_ascii=False)
    write_atomically(folder / "annotations.json", annotations.encode())
    return drawn

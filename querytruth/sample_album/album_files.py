"""The sample album, whose images, captions and annotations every command can be tried with: writes it, and answers its
reviews.
"""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from builders.precision.label_files import SHIPPED_FOLDER
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.sample_album.album import AlbumImage, read_album, read_annotations, read_table
from querytruth.sets import review_csv

_NAMES = {"blue": "Anna", "white": "Ben", "pink": "王芳", "orange": "Carla", "yellow": "David", "red": "小明"}
SAMPLE_DEFINITIONS_FOLDER = SHIPPED_FOLDER / "sample-album"


@step("write album")
def write_sample_album(folder: Path, scenes: int | None = None) -> list[AlbumImage]:
    """Write images/, annotations.json, captions.csv, descriptions.csv (all that is on each image) and fitting.csv
    (the other images that each caption fits), of all scenes or of the first ones. The same call writes the same
    files."""
    album_images = read_album(scenes)
    with current_run().reporter.bar("write the sample album", len(album_images), "images") as advance:
        for image in album_images:
            write_atomically(folder / "images" / image.file_name, image.data, sync=False)
            advance(1)
    for name in ("captions", "descriptions", "fitting"):
        _write_table(folder / f"{name}.csv", read_table(name, album_images))
    annotations = json.dumps(read_annotations(album_images), ensure_ascii=False)
    write_atomically(folder / "annotations.json", annotations.encode())
    return album_images


@step("write photos")
def write_sample_photos(folder: Path, album_images: Iterable[AlbumImage]) -> None:
    """Write the whole images of the album into a folder per place, and beside each, in the form of Google Takeout, who
    is on it: people have their names by what they wear."""
    for image in album_images:
        if image.defect is None:
            path = folder / image.place.replace("_", " ") / Path(image.file_name).name
            worn = {colour for label, colour, _ in image.facts if label == "Person"}
            people = [{"name": name} for colour, name in _NAMES.items() if colour in worn]
            write_atomically(path, image.data, sync=False)
            document = json.dumps({"title": path.name, "geoData": {}, "people": people}, ensure_ascii=False)
            write_atomically(path.with_name(f"{path.name}.json"), document.encode(), sync=False)


def fill_in_answers(table: Path, stage: str) -> int:
    """Write the sample album's answers into a review table of the stage, as a person would in a spreadsheet, and return
    how many. Raises UserError where the table lacks a row."""
    with (SAMPLE_DEFINITIONS_FOLDER / "answers.csv").open(encoding="utf-8", newline="") as file:
        answers = {(row["topic"], row["text"]): row for row in csv.DictReader(file) if row["stage"] == stage}
    filled = review_csv.read_review_csv(table)
    rows = filled.rows.reset_index(drop=True)
    matched_answers = [answers.pop(key, {}) for key in zip(rows["topic"], rows["text"], strict=True)]
    if answers:
        reason = f"has no row {', '.join(text for _, text in answers)}"
        raise UserError("fill in answers", table, reason, "fix datasets/sample-album/answers.csv")
    for column in ("decision", "new_text", "note"):
        pairs = zip(matched_answers, rows[column], strict=True)
        rows[column] = [answer.get(column) or current for answer, current in pairs]
    review_csv.write_review_csv(replace(filled, rows=rows), table)
    return sum(bool(answer) for answer in matched_answers)


def _write_table(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())

"""What is read for tags of facts: the photos of a gallery with their cameras, named places, texts that were written
into images, and objects of annotation files.
"""

from collections import defaultdict
from pathlib import Path

import pandas as pd

from builders.precision.annotation_files import read_annotations
from builders.precision.file_facts import NamedPlace
from querytruth.backends.files.safe_paths import contained_path, open_regular
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.images.exif import find_camera
from querytruth.backends.images.source_names import decode_item
from querytruth.errors import UserError

_STAGE = "list facts"
_LARGEST = {"latitude": 90.0, "longitude": 180.0, "km": 20_100.0}  # half the way around the earth is 20,015 km
_HEAD_BYTES = 1 << 20  # of a photo: where EXIF stands


def read_places(path: Path) -> list[NamedPlace]:
    """Returns the places of a table (name, latitude, longitude, km). Raises UserError with the row of one that cannot
    be."""
    places = []
    for where, row in iterate_rows(path, ("name", *_LARGEST), stage=_STAGE):
        try:
            numbers = {column: float(row[column]) for column in _LARGEST}
        except (TypeError, ValueError):
            numbers = {}
        name = str(row["name"] or "").strip()
        if not name or not numbers or any(not abs(numbers[one]) <= most for one, most in _LARGEST.items()):
            raise UserError(_STAGE, where, "is no place", "give a name, degrees, and the km around it")
        places.append(NamedPlace(name, numbers["latitude"], numbers["longitude"], numbers["km"]))
    return places


def read_texts(path: Path) -> dict[str, list[str]]:
    """Returns the texts that were written into images by file name, of a table (file_name, text)."""
    texts: dict[str, list[str]] = defaultdict(list)
    for _, row in iterate_rows(path, ("file_name", "text"), stage=_STAGE):
        if text := str(row["text"] or "").strip():
            texts[str(row["file_name"])].append(text)
    return dict(texts)


def read_objects(path: Path, at_least: float = 0.5) -> dict[str, set[str]]:
    """Returns the labels of each image by file name, of annotations in COCO's form or tags of whole images."""
    read = read_annotations(path, least_tag_score=at_least)
    images = dict(zip(read.images["id"], read.images["file_name"], strict=True))
    names = dict(zip(read.categories["id"], read.categories["name"], strict=True))
    found: dict[str, set[str]] = defaultdict(set)
    for image, category in zip(read.boxes["image"], read.boxes["category"], strict=True):
        if image in images and category in names:
            found[str(images[image])].add(str(names[category]))
    return dict(found)


def read_photos(images: pd.DataFrame, folder: Path | None, texts: Path | None) -> pd.DataFrame:
    """Returns the images of a gallery (file_name, taken_at, latitude, longitude) with `camera`, read from the files in
    their folder (null without one), and `texts` of a table. A file that is missing has no camera."""
    photos = images[["file_name", "taken_at", "latitude", "longitude"]].dropna(subset=["file_name"])
    cameras = [None if folder is None else _read_camera(folder, str(name)) for name in photos["file_name"]]
    written = {} if texts is None else read_texts(texts)
    return photos.assign(camera=cameras, texts=[written.get(str(name), []) for name in photos["file_name"]])


def _read_camera(folder: Path, name: str) -> str | None:
    try:
        path = contained_path(folder, decode_item(name).decode("utf-8", "surrogateescape"), _STAGE)
        with open_regular(path) as file:
            return find_camera(file.read(_HEAD_BYTES))
    except (OSError, UserError):
        return None

"""COCO captions: captions_val2017.json and its kin ({images: [{id, file_name, …}], annotations: [{id, image_id,
caption}]}).

Layout: https://cocodataset.org/#format-data, "Image Captioning".
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from backends.importers import Imported, picture_table
from backends.interchange.caption_lists import caption_set
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, json_document


class Caption(msgspec.Struct):
    """An entry of `annotations`."""

    id: int | str
    image_id: int | str
    caption: str


class Picture(msgspec.Struct):
    """An entry of `images`."""

    id: int | str
    file_name: str
    width: int = 0
    height: int = 0
    license: int | str | None = None
    flickr_url: str | None = None
    coco_url: str | None = None


class Licence(msgspec.Struct):
    """An entry of `licenses`."""

    id: int | str
    name: str


class Captions(msgspec.Struct):
    """The whole file, as far as it is read."""

    images: list[Picture]
    annotations: list[Caption]
    licenses: list[Licence] = []


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read the file, or of a folder captions_{split}.json, below annotations/ or not (val2017 unless said)."""
    path = source
    if source.is_dir():
        names = [f"{folder}captions_{split or 'val2017'}.json" for folder in ("", "annotations/")]
        path = next((source / name for name in names if (source / name).is_file()), source / names[0])
    data = json_document(path, Captions)
    if not data.annotations:
        raise broken(path, "holds no captions (instances_….json is for precision sets)")
    licences = {entry.id: entry.name for entry in data.licenses}
    columns = ("width", "height", "licence", "source_url")
    pictures = picture_table(
        (
            (str(row.id), row.file_name, None, row.width, row.height, licence(row, licences), url(row))
            for row in data.images
        ),
        columns,
    )
    said = [(str(row.id), row.caption.strip(), str(row.image_id)) for row in data.annotations]
    return caption_set(said, pictures, [path], "en", path.stem)


def licence(picture: Picture, names: dict[int | str, str]) -> str | None:
    """The name of the licence that the picture is under."""
    return None if picture.license is None else names.get(picture.license)


def url(picture: Picture) -> str | None:
    """Where the picture came from."""
    return picture.flickr_url or picture.coco_url

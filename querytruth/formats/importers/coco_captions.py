"""COCO captions: files like captions_val2017.json ({images: [{id, file_name, …}], annotations: [{id, image_id,
caption}]}).

Layout: https://cocodataset.org/#format-data, "Image Captioning".
"""

from pathlib import Path

import msgspec

from querytruth.backends.files.text_files import import_error, read_json_file
from querytruth.formats import import_layouts, importers, set_images


class CocoCaption(msgspec.Struct):
    """An entry of `annotations`."""

    id: int | str
    image_id: int | str
    caption: str | None = None  # some have none


class CocoCaptionImage(msgspec.Struct):
    """An entry of `images`."""

    id: int | str
    file_name: str
    width: int = 0
    height: int = 0
    license: int | str | None = None
    flickr_url: str | None = None
    coco_url: str | None = None


class CocoLicence(msgspec.Struct):
    """An entry of `licenses`."""

    id: int | str
    name: str


class CocoCaptionsFile(msgspec.Struct):
    """The keys of the file that are read."""

    images: list[CocoCaptionImage]
    annotations: list[CocoCaption]
    licenses: list[CocoLicence] = []


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read the file, or of a folder captions_{split}.json, also in annotations/; by default val2017."""
    path = source
    if source.is_dir():
        names = [f"{folder}captions_{split or 'val2017'}.json" for folder in ("", "annotations/")]
        path = next((source / name for name in names if (source / name).is_file()), source / names[0])
    data = read_json_file(path, CocoCaptionsFile)
    if not data.annotations:
        raise import_error(path, "holds no captions (instances_….json is for precision sets)")
    licences: dict[int | str | None, str] = {entry.id: entry.name for entry in data.licenses}
    rows = [
        (
            str(row.id),
            row.file_name,
            None,
            row.width,
            row.height,
            licences.get(row.license),
            row.flickr_url or row.coco_url,
        )
        for row in data.images
    ]
    images = importers.build_image_table(rows, ("width", "height", "licence", "source_url"))
    caption_lines = [(str(row.id), (row.caption or "").strip(), str(row.image_id)) for row in data.annotations]
    return import_layouts.build_caption_set(caption_lines, images, [path], "en", path.stem)

"""The layout of MUGE and Chinese-CLIP: texts as JSON lines, images as base64 in a TSV."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from backends.importers import (
    ImportedTables,
    ImportRejection,
    ImportRow,
    build_image_table,
    build_judgment_table,
    build_query_table,
)
from backends.interchange.image_store import ImageStore, decode_base64_image
from backends.interchange.text_files import import_error, iterate_json_lines, iterate_lines


class ChineseClipText(msgspec.Struct):
    """A line of Chinese-CLIP's files."""

    text_id: int | str
    text: str
    image_ids: list[int | str] | None = None


class MugeQuery(msgspec.Struct):
    """A line of MUGE's own files."""

    text_id: int | str = msgspec.field(name="query_id")
    text: str = msgspec.field(name="query_text")
    image_ids: list[int | str] | None = msgspec.field(name="item_ids", default=None)


def read_texts(path: Path) -> list[tuple[str, str, list[str]]]:
    """Reads id, text and relevant image ids of every line. Raises UserError for a line without image ids."""
    record_type: type[MugeQuery | ChineseClipText] = MugeQuery if path.name.startswith("MR_") else ChineseClipText
    rows = []
    for number, line in iterate_json_lines(path, record_type):
        if line.image_ids is None:
            reason = f"has no {record_type.__struct_encode_fields__[2]}: the publisher keeps the truth of this split"
            raise import_error(f"{path} line {number}", reason, "read another split, such as valid")
        rows.append((str(line.text_id), line.text.strip(), [str(image) for image in line.image_ids]))
    return rows


def read_base64_images(path: Path, image_store: ImageStore) -> tuple[list[ImportRow], list[ImportRejection]]:
    """Stores the images; returns a row (id, file name, place) per image, and a rejection per line without one."""
    rows: list[ImportRow] = []
    rejections: list[ImportRejection] = []
    for number, line in iterate_lines(path):
        image, tab, text = line.partition("\t")
        if not tab or not image.strip():
            raise import_error(f"{path} line {number}", "is no id and picture with a tab between them")
        data = decode_base64_image(text)
        if isinstance(data, str):
            rejections.append(("image", image.strip(), data, f"{path.name} line {number}"))
        else:
            rows.append((image.strip(), image.strip(), image_store.put(data)))
    return rows, rejections


def read_split(
    texts_path: Path,
    images_file: Path,
    image_store: ImageStore,
    *,
    language: str | None,
    title: str,
    judged_by: str,
    style: str,
) -> ImportedTables:
    """Reads a split; where there is no `images_file`, the images are those that the texts name."""
    lines = read_texts(texts_path)
    rejections: Sequence[ImportRejection] = ()
    if images_file.is_file():
        rows, rejections = read_base64_images(images_file, image_store)
    else:
        named = dict.fromkeys(image for _, _, images in lines for image in images)
        rows = [(image, image, None) for image in named]
    return ImportedTables(
        queries=build_query_table(((query, text) for query, text, _ in lines), style, language),
        images=build_image_table(rows),
        qrels=build_judgment_table(((query, image, 1) for query, _, images in lines for image in images), judged_by),
        files=[path for path in (texts_path, images_file) if path.is_file()],
        grades={"1": "right, as the publisher says"},
        title=title,
        rejections=rejections,
    )

"""The layout that MUGE came in and that Chinese-CLIP made its own: texts as JSON lines, pictures as base64 in a TSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from backends.importers import Imported, Row, judgment_table, picture_table, query_table
from backends.interchange.picture_store import PictureStore, picture_of_base64
from backends.interchange.text_files import broken, json_lines, text_lines

Away = tuple[str, str, str, str]


class Text(msgspec.Struct):
    """A line as Chinese-CLIP writes it."""

    text_id: int | str
    text: str
    image_ids: list[int | str] | None = None


class Query(msgspec.Struct):
    """The same as MUGE's first publication names it."""

    query_id: int | str
    query_text: str
    item_ids: list[int | str] | None = None


def read_texts(path: Path) -> list[tuple[str, str, list[str]]]:
    """Id, text and ids of right pictures of every line."""
    form = Query if path.name.startswith("MR_") else Text
    found = []
    for number, line in json_lines(path, form):
        query, text, images = (getattr(line, name) for name in form.__struct_fields__)
        if images is None:
            reason = f"has no {form.__struct_fields__[2]}: the publisher keeps the truth of this split"
            raise broken(f"{path} line {number}", reason, "read another split, such as valid")
        found.append((str(query), text.strip(), [str(image) for image in images]))
    return found


def read_pictures(path: Path, unpack: PictureStore) -> tuple[list[Row], list[Away]]:
    """A row per line: id, no file name, place; and the lines that hold no picture."""
    rows: list[Row] = []
    away: list[Away] = []
    for number, line in text_lines(path):
        image, tab, text = line.partition("\t")
        if not tab or not image.strip():
            raise broken(f"{path} line {number}", "is no id and picture with a tab between them")
        data = picture_of_base64(text)
        if isinstance(data, str):
            away.append(("picture", image.strip(), data, f"{path.name} line {number}"))
        else:
            rows.append((image.strip(), image.strip(), unpack.put(data)))
    return rows, away


def read_split(
    texts: Path, pictures: Path, unpack: PictureStore, *, language: str, title: str, judged_by: str, style: str
) -> Imported:
    """A whole split. Without the pictures' file the pictures are those that texts name."""
    lines = read_texts(texts)
    away: Sequence[Away] = ()
    if pictures.is_file():
        rows, away = read_pictures(pictures, unpack)
    else:
        named = dict.fromkeys(image for _, _, images in lines for image in images)
        rows = [(image, image, None) for image in named]
    return Imported(
        queries=query_table(((query, text) for query, text, _ in lines), style, language),
        images=picture_table(rows),
        qrels=judgment_table(((query, image) for query, _, images in lines for image in images), judged_by),
        files=[path for path in (texts, pictures) if path.is_file()],
        grades={"1": "right, as the publisher says"},
        title=title,
        away=away,
    )

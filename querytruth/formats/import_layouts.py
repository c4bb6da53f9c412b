"""Layouts that several importers share: MUGE's and Chinese-CLIP's, caption sets, and our own exports with all columns.

The first has texts as JSON lines and images as base64 in a TSV; texts of a caption set each describe one image.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pandas as pd

from querytruth.backends.files import text_files
from querytruth.formats import importers
from querytruth.formats.set_description import DESCRIPTION_FILE, read_description
from querytruth.formats.set_images import ImageStore, decode_base64_image
from querytruth.sets.benchmark_set import RENDERED_SIZE_COLUMNS, is_square_mode

_KEYS = {"query_id": "query", "image_id": "image"}
_GRADES = {"1": "relevant according to the publisher"}
CAPTION_GRADES = {"1": "the text was written for this image"}
SINGLE_IMAGE_LIMITATION = (
    "Only the image that a text was written for counts as relevant, although the text may also fit others."
)
CaptionLine = tuple[str, str, str]  # the text's id, the text, the image's id


def restore_tables(
    tables: dict[str, pd.DataFrame], places: Sequence[str | None], source: Path, files: Sequence[Path], title: str = ""
) -> importers.ImportedTables:
    """Return the tables, with the places of the images in the image store, and the description in `source`."""
    description = read_description(source)
    render = msgspec.to_builtins(description.render) if description and description.render else {}
    queries, images, qrels = (tables[name].rename(columns=_KEYS) for name in ("queries", "images", "qrels"))
    if is_square_mode(render.get("mode")):  # listed for other readers; a set's own table leaves them out
        images = images.drop(columns=RENDERED_SIZE_COLUMNS, errors="ignore")
    return importers.ImportedTables(
        queries=queries,
        images=images.assign(place=pd.Series(list(places), index=images.index, dtype="object")),
        qrels=qrels if "evidence" in qrels else qrels.assign(evidence=None),
        duplicates=tables["duplicates"],
        files=[*files, source / DESCRIPTION_FILE] if description else files,
        grades=description.grades if description else _GRADES,
        title=description.title if description else title,
        licence=description.licence if description else "",
        known_limitations=description.known_limitations if description else (),
        render=render,
        keeps_ids=True,
    )


def build_caption_set(
    caption_lines: Sequence[CaptionLine], images: pd.DataFrame, files: Sequence[Path], language: str | None, title: str
) -> importers.ImportedTables:
    """Return a set in which each text has one relevant image; without `language`, the language of each text is
    detected."""
    return importers.ImportedTables(
        queries=importers.build_query_table(((query, text) for query, text, _ in caption_lines), "caption", language),
        images=images,
        qrels=importers.build_judgment_table(((query, image, 1) for query, _, image in caption_lines), "caption"),
        files=files,
        grades=CAPTION_GRADES,
        title=title,
        known_limitations=[SINGLE_IMAGE_LIMITATION],
    )


def build_caption_split(
    caption_lines: Sequence[CaptionLine],
    listed: Sequence[str] | None,
    files: Sequence[Path],
    language: str,
    title: str,
    suffix: str = "",
) -> importers.ImportedTables:
    """Return the caption set of the listed images (None: of all); `suffix` makes an image's id its file name."""
    if listed is not None:
        wanted = set(listed)
        caption_lines = [line for line in caption_lines if line[2] in wanted]
    images = build_named_images(caption_lines, listed or (), suffix)
    return build_caption_set(caption_lines, images, files, language, title)


def build_named_images(
    caption_lines: Iterable[CaptionLine], listed: Iterable[str] = (), suffix: str = ""
) -> pd.DataFrame:
    """Return the listed images or, without a list, those of the texts, each once."""
    names = list(listed) or dict.fromkeys(image for _, _, image in caption_lines)
    return importers.build_image_table((name, name + suffix, None) for name in names)


def read_token_lines(path: Path) -> list[CaptionLine]:
    """Read the lines `image#number text` (Flickr's token files, COCO-CN) or `image#kind#number text` (Flickr8k-CN)."""
    caption_lines = []
    for number, line in text_files.iterate_lines(path):
        if line.strip():
            query, text = text_files.split_id_and_text(line, path, number)
            if "#" not in query:
                raise text_files.import_error(
                    f"{path} line {number}", f"begins with {query[:60]!r}, not with image#number"
                )
            caption_lines.append((query, text, query.partition("#")[0]))
    return caption_lines


def read_name_list(path: Path) -> list[str]:
    """Read a name per line."""
    return [line.strip() for _, line in text_files.iterate_lines(path) if line.strip()]


def find_split_list(folder: Path, split: str, patterns: Sequence[str]) -> Path:
    """Return the file with the list of a split's images. Raises UserError where no pattern fits a file."""
    return text_files.find_file(folder, [pattern.format(split) for pattern in patterns], f"list of the split {split!r}")


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
    """Read id, text and relevant image ids of every line. Raises UserError for a line without image ids."""
    record_type: type[MugeQuery | ChineseClipText] = MugeQuery if path.name.startswith("MR_") else ChineseClipText
    rows = []
    for number, line in text_files.iterate_json_lines(path, record_type):
        if line.image_ids is None:
            reason = f"has no {record_type.__struct_encode_fields__[2]}: the ground truth of this split is not public"
            raise text_files.import_error(f"{path} line {number}", reason, "read another split, such as valid")
        rows.append((str(line.text_id), line.text.strip(), [str(image) for image in line.image_ids]))
    return rows


def read_base64_images(
    path: Path, image_store: ImageStore
) -> tuple[list[importers.ImportRow], list[importers.ImportRejection]]:
    """Store the images; return a row (id, file name, place) per image, and a rejection per line without one."""
    rows: list[importers.ImportRow] = []
    rejections: list[importers.ImportRejection] = []
    for number, line in text_files.iterate_lines(path):
        image, tab, text = line.partition("\t")
        if not tab or not image.strip():
            raise text_files.import_error(f"{path} line {number}", "is not an id and an image separated by a tab")
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
    style: str,
) -> importers.ImportedTables:
    """Read a split of queries judged by their publisher, or of captions (`style`). Without `images_file`, the images
    are those that the texts name."""
    lines = read_texts(texts_path)
    rejections: Sequence[importers.ImportRejection] = ()
    if images_file.is_file():
        rows, rejections = read_base64_images(images_file, image_store)
    else:
        named = dict.fromkeys(image for _, _, images in lines for image in images)
        rows = [(image, image, None) for image in named]
    return importers.ImportedTables(
        queries=importers.build_query_table(((query, text) for query, text, _ in lines), style, language),
        images=importers.build_image_table(rows),
        qrels=importers.build_judgment_table(
            ((query, image, 1) for query, _, images in lines for image in images),
            "caption" if style == "caption" else "publisher",
        ),
        files=[path for path in (texts_path, images_file) if path.is_file()],
        grades={"1": "relevant according to the publisher"},
        title=title,
        rejections=rejections,
    )

"""Caption sets: texts that each describe one image, from any files."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from backends.importers import ImportedTables, build_image_table, build_judgment_table, build_query_table
from backends.interchange.text_files import find_file, import_error, iterate_lines, split_id_and_text

CAPTION_GRADES = {"1": "the text was written of this picture"}
SINGLE_IMAGE_LIMITATION = (
    "Only the picture that a text was written of counts as right, though the text may fit others as well."
)
CaptionLine = tuple[str, str, str]  # the text's id, the text, the image's id


def build_caption_set(
    caption_lines: Sequence[CaptionLine], images: pd.DataFrame, files: Sequence[Path], language: str | None, title: str
) -> ImportedTables:
    """Returns a set in which each text has one relevant image; without `language`, that of each text is detected."""
    return ImportedTables(
        queries=build_query_table(((query, text) for query, text, _ in caption_lines), "caption", language),
        images=images,
        qrels=build_judgment_table(((query, image, 1) for query, _, image in caption_lines), "caption"),
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
) -> ImportedTables:
    """Returns the caption set of the listed images (None: of all); `suffix` makes an image's id its file name."""
    if listed is not None:
        wanted = set(listed)
        caption_lines = [line for line in caption_lines if line[2] in wanted]
    images = build_named_images(caption_lines, listed or (), suffix)
    return build_caption_set(caption_lines, images, files, language, title)


def build_named_images(
    caption_lines: Iterable[CaptionLine], listed: Iterable[str] = (), suffix: str = ""
) -> pd.DataFrame:
    """Returns the listed images, or, where there is no list, those of the texts; once each."""
    names = dict.fromkeys(listed) or dict.fromkeys(image for _, _, image in caption_lines)
    return build_image_table((name, name + suffix, None) for name in names)


def read_token_lines(path: Path) -> list[CaptionLine]:
    """Reads the lines `image#number text` (Flickr's token files, COCO-CN) or `image#kind#number text` (Flickr8k-CN)."""
    caption_lines = []
    for number, line in iterate_lines(path):
        if line.strip():
            query, text = split_id_and_text(line, path, number)
            if "#" not in query:
                raise import_error(f"{path} line {number}", f"begins with {query[:60]!r}, which is no picture#number")
            caption_lines.append((query, text, query.partition("#")[0]))
    return caption_lines


def read_name_list(path: Path) -> list[str]:
    """Reads a name per line."""
    return [line.strip() for _, line in iterate_lines(path) if line.strip()]


def find_split_list(folder: Path, split: str, patterns: Sequence[str]) -> Path:
    """Returns the file with the list of a split's images. Raises UserError where no pattern fits a file."""
    return find_file(folder, [pattern.format(split) for pattern in patterns], f"list of the split {split!r}")

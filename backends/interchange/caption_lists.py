"""Caption sets: texts that were each written of one picture, whatever files they come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from backends.importers import ImportedTables, build_image_table, build_judgment_table, build_query_table
from backends.interchange.text_files import find_file, import_error, iterate_lines, split_id_and_text

CAPTION_GRADES = {"1": "the text was written of this picture"}
SINGLE_IMAGE_LIMITATION = (
    "Only the picture that a text was written of counts as right, though the text may fit others as well."
)
CaptionLine = tuple[str, str, str]  # the text's id, the text, the picture's id


def build_caption_set(
    caption_lines: Sequence[CaptionLine], images: pd.DataFrame, files: Sequence[Path], language: str | None, title: str
) -> ImportedTables:
    """A set of texts and pictures, each text with its picture as the one right answer; language None: each text's."""
    return ImportedTables(
        queries=build_query_table(((query, text) for query, text, _ in caption_lines), "caption", language),
        images=images,
        qrels=build_judgment_table(((query, image) for query, _, image in caption_lines), "caption"),
        files=files,
        grades=CAPTION_GRADES,
        title=title,
        known_limitations=[SINGLE_IMAGE_LIMITATION],
    )


def build_named_images(
    caption_lines: Iterable[CaptionLine], listed: Iterable[str] = (), suffix: str = ""
) -> pd.DataFrame:
    """The pictures that a split lists, or, where there is no list, those that texts name; once each."""
    names = dict.fromkeys(listed) or dict.fromkeys(image for _, _, image in caption_lines)
    return build_image_table((name, name + suffix, None) for name in names)


def read_token_lines(path: Path) -> list[CaptionLine]:
    """The lines `picture#number text` (Flickr's token files, COCO-CN) or `picture#kind#number text` (Flickr8k-CN)."""
    caption_lines = []
    for number, line in iterate_lines(path):
        if line.strip():
            query, text = split_id_and_text(line, path, number)
            if "#" not in query:
                raise import_error(f"{path} line {number}", f"begins with {query[:60]!r}, which is no picture#number")
            caption_lines.append((query, text, query.partition("#")[0]))
    return caption_lines


def read_name_list(path: Path) -> list[str]:
    """A name per line."""
    return [line.strip() for _, line in iterate_lines(path) if line.strip()]


def select_split(caption_lines: list[CaptionLine], listed: Sequence[str]) -> list[CaptionLine]:
    """The texts of the listed pictures."""
    wanted = set(listed)
    return [row for row in caption_lines if row[2] in wanted]


def find_split_list(folder: Path, split: str, patterns: Sequence[str]) -> Path:
    """The file that lists a split's pictures, its name made of one of the patterns."""
    return find_file(folder, [pattern.format(split) for pattern in patterns], f"list of the split {split!r}")

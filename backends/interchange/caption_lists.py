"""Caption sets: texts that were each written of one picture, whatever files they come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from backends.importers import Imported, judgment_table, picture_table, query_table
from backends.interchange.text_files import broken, one_of, split_id, text_lines

GRADES = {"1": "the text was written of this picture"}
FAULT = "Only the picture that a text was written of counts as right, though the text may fit others as well."
Said = tuple[str, str, str]  # the text's id, the text, the picture's id


def caption_set(
    said: Sequence[Said], pictures: pd.DataFrame, files: Sequence[Path], language: str, title: str
) -> Imported:
    """A set of texts and pictures, each text with its picture as the one right answer."""
    return Imported(
        queries=query_table(((query, text) for query, text, _ in said), "caption", language),
        images=pictures,
        qrels=judgment_table(((query, image) for query, _, image in said), "caption"),
        files=files,
        grades=GRADES,
        title=title,
        faults=[FAULT],
    )


def named_pictures(said: Iterable[Said], listed: Iterable[str] = (), suffix: str = "") -> pd.DataFrame:
    """The pictures that a split lists, or, where there is no list, those that texts name; once each."""
    names = dict.fromkeys(listed) or dict.fromkeys(image for _, _, image in said)
    return picture_table((name, name + suffix, None) for name in names)


def token_lines(path: Path) -> list[Said]:
    """The lines `picture#number text` (Flickr's token files, COCO-CN) or `picture#kind#number text` (Flickr8k-CN)."""
    said = []
    for number, line in text_lines(path):
        if line.strip():
            query, text = split_id(line, path, number)
            if "#" not in query:
                raise broken(f"{path} line {number}", f"begins with {query[:60]!r}, which is no picture#number")
            said.append((query, text, query.partition("#")[0]))
    return said


def listed_names(path: Path) -> list[str]:
    """A name per line."""
    return [line.strip() for _, line in text_lines(path) if line.strip()]


def of_split(said: list[Said], listed: Sequence[str], suffix: str = "") -> list[Said]:
    """The texts of the listed pictures; lists name them with or without the suffix."""
    wanted = {name.removesuffix(suffix) for name in listed}
    return [row for row in said if row[2].removesuffix(suffix) in wanted]


def the_list_of(folder: Path, split: str, patterns: Sequence[str]) -> Path:
    """The file that lists a split's pictures, its name made of one of the patterns."""
    return one_of(folder, [pattern.format(split) for pattern in patterns], f"list of the split {split!r}")

"""TaiSu, which has only a training part: a CSV with url and a text, or filtered_captions.txt, whose lines are an id,
the name of an image without its suffix, and texts. Two texts of an image, from the web and from a captioning model, are
one cell with #$# between them.

Layout: ksOAn6g5/TaiSu, README.md, download_tool/download.py (the column url, and how a file is named after it),
train/loader.py (#$#), issues 6 and 7 (filtered_captions.txt). The README does not name the column of the texts:
caption, text and similar names are accepted.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.backends.files.text_files import find_file, import_error, iterate_lines, split_id_and_text
from querytruth.formats.import_layouts import SINGLE_IMAGE_LIMITATION
from querytruth.formats.importers import ImportedTables, build_image_table, build_judgment_table, build_query_table
from querytruth.formats.set_images import ImageStore

_FILES = ("filtered_captions.txt", "filtered_caption.txt", "taisu.csv", "TaiSu.csv")
_TEXT_COLUMNS = ("caption", "captions", "text", "txt", "title")
_BETWEEN = "#$#"
_NEXT_STEP = "give a number, such as --split 1000 for its first 1,000 lines"
_MOST = 1_000_000  # lines of a set; TaiSu has 166 million
_REMOVED = str.maketrans("", "", "/=.,")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read the file, or the one in a folder. `split`: how many of its first lines are read, as TaiSu has no parts."""
    path = source if source.is_file() else find_file(source, list(_FILES), "list of images and texts")
    if split is not None and not split.isdecimal():
        raise import_error(path, f"has no split {split!r}: it has a single part", _NEXT_STEP)
    lines = list(islice(_read_lines(path), int(split) if split is not None else _MOST + 1))
    if split is None and len(lines) > _MOST:
        raise import_error(path, f"has more than {_MOST:,} lines", _NEXT_STEP)
    texts = [
        (f"{name} {number}", text.strip(), name)
        for name, cell, _ in lines
        for number, text in enumerate(cell.split(_BETWEEN))
    ]
    urls = {name: url for name, _, url in lines}
    return ImportedTables(
        queries=build_query_table(((query, text) for query, text, _ in texts), "web", "zh"),
        images=build_image_table(((name, f"{name}.jpg", None, url) for name, url in urls.items()), ["source_url"]),
        qrels=build_judgment_table(((query, name, 1) for query, _, name in texts), "web"),
        files=[path],
        grades={"1": "the text appeared with this image on the web, or a captioning model wrote it for the image"},
        title="TaiSu",
        licence="CC BY-NC-SA 4.0",
        known_limitations=[
            SINGLE_IMAGE_LIMITATION,
            "TaiSu is made for training: its texts come from the web and from a model, and nobody judged them.",
        ],
    )


_Line = tuple[str, str, str | None]  # the image's name, its texts, its address


def _read_lines(path: Path) -> Iterator[_Line]:
    if path.suffix.lower() == ".txt":
        for number, line in iterate_lines(path):
            if line.strip():
                name, texts = split_id_and_text(line, path, number)
                yield name.removesuffix(".jpg"), texts, None
        return
    names = read_columns(path)
    if (column := next((name for name in _TEXT_COLUMNS if name in names), None)) is None:
        raise import_error(path, f"has no column of texts (it has {', '.join(names)})", "name it caption")
    for place, row in iterate_rows(path, ["url", column]):
        if not (url := str(row["url"]).strip()):
            raise import_error(place, "has no url")
        yield url[8:48].translate(_REMOVED), str(row[column]), url

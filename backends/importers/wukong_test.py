"""Noah-Wukong's test set: wukong_test.csv with the columns dir (the picture's file name), url and text.

Layout: wukong-dataset.github.io (Wukong-Test, 33,365 pairs); the columns as public code reads them. The pictures have
to be fetched from the URLs, and many are gone: about 23,000 are left.
"""

from __future__ import annotations

from pathlib import Path

from backends.importers import Imported, judgment_table, picture_table, query_table
from backends.interchange.caption_lists import FAULT
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import csv_rows, one_of


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read the file, or the one in a folder. Pictures are named as in `dir`."""
    path = source if source.is_file() else one_of(source, ["wukong_test.csv"], "list of pairs")
    rows = [row for _, row in csv_rows(path, ["dir", "url", "text"])]
    names = [row["dir"].strip() for row in rows]
    return Imported(
        queries=query_table(((name, row["text"].strip()) for name, row in zip(names, rows, strict=True)), "web", "zh"),
        images=picture_table(
            ((name, name, None, row["url"].strip() or None) for name, row in zip(names, rows, strict=True)),
            ["source_url"],
        ),
        qrels=judgment_table(((name, name) for name in names), "web"),
        files=[path],
        grades={"1": "the text stood beside this picture on the web"},
        title="Noah-Wukong test",
        faults=[FAULT, "Texts are the web's own: of every style, and not written to be searched for."],
    )

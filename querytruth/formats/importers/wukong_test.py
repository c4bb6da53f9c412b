"""Noah-Wukong's test set: wukong_test.csv with the columns dir (the image's file name), url and text.

Layout: wukong-dataset.github.io (Wukong-Test, 33,365 pairs); the columns as public code reads them. The images must be
downloaded from the URLs; about 23,000 of them still work.
"""

from pathlib import Path

from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_files import find_file
from querytruth.formats.import_layouts import SINGLE_IMAGE_LIMITATION
from querytruth.formats.importers import ImportedTables, build_image_table, build_judgment_table, build_query_table
from querytruth.formats.set_images import ImageStore


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read the file, or the one in a folder. Images are named as in `dir`."""
    path = source if source.is_file() else find_file(source, ["wukong_test.csv"], "list of pairs")
    rows = [row for _, row in iterate_rows(path, ["dir", "url", "text"])]
    pairs = [(row["dir"].strip(), row["text"].strip(), row["url"].strip() or None) for row in rows]
    return ImportedTables(
        queries=build_query_table(((name, text) for name, text, _ in pairs), "web", "zh"),
        images=build_image_table(((name, name, None, url) for name, _, url in pairs), ["source_url"]),
        qrels=build_judgment_table(((name, name, 1) for name, _, _ in pairs), "web"),
        files=[path],
        grades={"1": "the text appeared with this image on the web"},
        title="Noah-Wukong test",
        known_limitations=[
            SINGLE_IMAGE_LIMITATION,
            "The texts come from the web: they are of every style and were not written as queries.",
        ],
    )

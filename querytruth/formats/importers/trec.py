"""TREC: qrels.txt (`query 0 image grade`) and queries.tsv (`query<tab>text`), as trec_eval reads them.

Layout: usnistgov/trec_eval, README; our own export `trec` has the same layout. Without a list of images, the gallery
consists of the judged images.
"""

from collections.abc import Iterator
from pathlib import Path

from querytruth.backends.files.text_files import find_file, import_error, iterate_lines, split_id_and_text
from querytruth.formats import importers
from querytruth.formats.import_layouts import read_name_list
from querytruth.formats.set_images import ImageStore
from querytruth.records import are_own_ids

_LIST = "images.txt"
JUDGED_GALLERY_LIMITATION = "The gallery holds the judged images only: other images that were searched are unknown."


def read(source: Path, split: str | None, image_store: ImageStore) -> importers.ImportedTables:
    """Read the folder. A grade below 0 counts as not relevant. `images.txt`, where it is there, lists the gallery by
    an id a line; with it, judgments may still be to come."""
    listed = read_name_list(source / _LIST) if (source / _LIST).is_file() else []
    names = ["qrels.txt", f"qrels.{split or 'test'}.txt", "qrels"]
    has_qrels = not listed or any((source / name).is_file() for name in names)
    qrels = [find_file(source, names, "judgments or images.txt")] if has_qrels else []
    queries = find_file(source, ["queries.tsv", "topics.tsv", f"queries.{split or 'test'}.tsv"], "queries")
    judged = [row for path in qrels for row in _judgments(path)]
    query_rows = [split_id_and_text(line, queries, number) for number, line in iterate_lines(queries) if line.strip()]
    known = set(listed)
    images = [*listed, *dict.fromkeys(image for _, image, _ in judged if image not in known)]
    return importers.ImportedTables(
        queries=importers.build_query_table(query_rows, "query"),
        images=importers.build_image_table((image, image, None) for image in images),
        qrels=importers.build_judgment_table(judged, "publisher"),
        files=[*qrels, queries, *([source / _LIST] if listed else [])],
        grades=importers.list_grades((relevance for _, _, relevance in judged), "grade"),
        title=source.resolve().name,
        known_limitations=[] if listed else [JUDGED_GALLERY_LIMITATION],
        keeps_ids=are_own_ids(images, dict(query_rows)),
    )


def _judgments(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in iterate_lines(path):
        if not line.strip():
            continue
        cells = line.split()
        if len(cells) != 4:
            raise import_error(f"{path} line {number}", f"has {len(cells)} columns, not 4 (query 0 image grade)")
        try:
            yield cells[0], cells[2], int(cells[3])
        except ValueError:
            raise import_error(f"{path} line {number}", f"grade {cells[3][:40]!r} is not a whole number") from None

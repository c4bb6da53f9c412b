"""Chinese-CLIP's layout: {split}_texts.jsonl ({text_id, text, image_ids}) and {split}_imgs.tsv (number, base64).

Layout: OFA-Sys/Chinese-CLIP 31863c7, README.md (数据集格式预处理). Our own exports also map the numbers to ids
(test_image_ids.tsv, test_text_ids.tsv): then the ids are those of the exported set.
"""

from dataclasses import replace
from pathlib import Path

from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_files import find_file, import_error
from querytruth.formats.import_layouts import read_split
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, by default `test`; the images are inside the files."""
    split = split or "test"
    texts = find_file(source, [f"{split}_texts.jsonl"], f"texts of the split {split!r}")
    images = source / f"{split}_imgs.tsv"
    title = f"{source.resolve().name}, {split}"
    imported = read_split(texts, images, image_store, language=None, title=title, style="query")
    names = [source / f"{split}_image_ids.tsv", source / f"{split}_text_ids.tsv"]
    return _with_exported_ids(imported, *names) if all(name.is_file() for name in names) else imported


def _with_exported_ids(imported: ImportedTables, images: Path, texts: Path) -> ImportedTables:
    """Return the tables with ids instead of numbers. Raises UserError for a number without id."""
    image_ids, query_ids = _read_id_table(images, "image_id"), _read_id_table(texts, "query_id")

    def ids_of_numbers(ids: dict[str, str], numbers: list[str], path: Path) -> list[str]:
        if unknown := [number for number in numbers if number not in ids]:
            raise import_error(path, f"has no id for the number {unknown[0]}", "export the set again")
        return [ids[number] for number in numbers]

    return replace(
        imported,
        queries=imported.queries.assign(query=ids_of_numbers(query_ids, list(imported.queries["query"]), texts)),
        images=imported.images.assign(image=ids_of_numbers(image_ids, list(imported.images["image"]), images)),
        qrels=imported.qrels.assign(
            query=ids_of_numbers(query_ids, list(imported.qrels["query"]), texts),
            image=ids_of_numbers(image_ids, list(imported.qrels["image"]), images),
        ),
        files=[*imported.files, images, texts],
        keeps_ids=True,
    )


def _read_id_table(path: Path, column: str) -> dict[str, str]:
    return {row["number"]: row[column] for _, row in iterate_rows(path, ["number", column])}

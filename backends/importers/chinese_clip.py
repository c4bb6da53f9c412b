"""Chinese-CLIP's layout: {split}_texts.jsonl ({text_id, text, image_ids}) and {split}_imgs.tsv (number, base64).

Layout: OFA-Sys/Chinese-CLIP 31863c7, README.md (数据集格式预处理). Our own exports of it also say which number is whose
id (test_image_ids.tsv, test_text_ids.tsv): then the ids are those of the set that was exported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from backends.importers import Imported
from backends.interchange.chinese_clip_files import read_split
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, csv_rows, language_of, one_of


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise; the pictures come inside the files."""
    split = split or "test"
    texts = one_of(source, [f"{split}_texts.jsonl"], f"texts of the split {split!r}")
    pictures = source / f"{split}_imgs.tsv"
    title = f"{source.resolve().name}, {split}"
    read = read_split(texts, pictures, unpack, language="", title=title, judged_by="publisher", style="query")
    languages = [language_of(text) for text in read.queries["text"]]
    read = replace(read, queries=read.queries.assign(language=languages))
    names = [source / f"{split}_image_ids.tsv", source / f"{split}_text_ids.tsv"]
    return _renamed(read, *names) if all(name.is_file() for name in names) else read


def _renamed(read: Imported, images: Path, texts: Path) -> Imported:
    """The same with the ids that the numbers stand for."""
    image_ids, query_ids = _numbers(images, "image_id"), _numbers(texts, "query_id")

    def own(ids: dict[str, str], numbers: list[str], path: Path) -> list[str]:
        if unknown := [number for number in numbers if number not in ids]:
            raise broken(path, f"does not say whose number {unknown[0]} is", "export the set again")
        return [ids[number] for number in numbers]

    return replace(
        read,
        queries=read.queries.assign(query=own(query_ids, list(read.queries["query"]), texts)),
        images=read.images.assign(image=own(image_ids, list(read.images["image"]), images)),
        qrels=read.qrels.assign(
            query=own(query_ids, list(read.qrels["query"]), texts),
            image=own(image_ids, list(read.qrels["image"]), images),
        ),
        files=[*read.files, images, texts],
        keeps_ids=True,
    )


def _numbers(path: Path, column: str) -> dict[str, str]:
    return {row["number"]: row[column] for _, row in csv_rows(path, ["number", column], delimiter="\t")}

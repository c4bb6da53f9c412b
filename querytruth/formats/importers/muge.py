"""MUGE's e-commerce retrieval: MR_{split}_queries.jsonl ({query_id, query_text, item_ids}) and MR_{split}_imgs.tsv.

Layout: the competition's list of files (tianchi.aliyun.com/competition/entrance/532031), and OFA-Sys/Chinese-CLIP
31863c7, README.md, which publishes it as {split}_texts.jsonl and {split}_imgs.tsv. The ground truth of `test` is not
public; `valid` has 5,000 queries and 30,000 images.
"""

from pathlib import Path

from querytruth.backends.files.text_files import find_file
from querytruth.formats import import_layouts, importers, set_images


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read a split, by default `valid`; the images are inside the files."""
    split = split or "valid"
    texts = find_file(source, [f"MR_{split}_queries.jsonl", f"{split}_texts.jsonl"], f"queries of the split {split!r}")
    images = source / (f"MR_{split}_imgs.tsv" if texts.name.startswith("MR_") else f"{split}_imgs.tsv")
    title = f"MUGE retrieval, {split}"
    return import_layouts.read_split(texts, images, image_store, language="zh", title=title, style="query")

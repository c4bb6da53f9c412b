"""Chinese-CLIP: test_imgs.tsv (number, image in base64) and test_texts.jsonl ({text_id, text, image_ids}).

Layout: OFA-Sys/Chinese-CLIP 31863c7, README.md (数据集格式预处理), cn_clip/preprocess/build_lmdb_dataset.py and
cn_clip/eval/evaluation.py. Its ids are integers: test_image_ids.tsv and test_text_ids.tsv map them to ours.
"""

import base64
import json
from pathlib import Path

from querytruth.formats import set_description
from querytruth.formats.set_images import iterate_set_images
from querytruth.sets.set_files import StoredSet

LIMITS = set_description.FormatLimits(
    needs_images=True,
    changes_figures=(set_description.graded_relevance, set_description.judged_zeros, set_description.no_relevant_image),
    omissions=set_description.NO_METADATA,
)


def export(stored: StoredSet, out: Path) -> None:
    """Write texts, images and ids. Texts keep several relevant images; grades and judged zeros are left out."""
    image_ids = sorted(stored.tables.images["image_id"])
    numbers = {image_id: number for number, image_id in enumerate(image_ids)}
    _write_numbers(out / "test_image_ids.tsv", "image_id", image_ids)
    with (out / "test_imgs.tsv").open("wb") as file:
        for image in iterate_set_images(stored):
            assert image is not None
            file.write(b"%d\t%b\n" % (numbers[image.image_id], base64.b64encode(image.data)))
    _write_texts(stored, out, numbers)


def _write_texts(stored: StoredSet, out: Path, numbers: dict[str, int]) -> None:
    right: dict[str, list[int]] = {}
    for row in set_description.relevant_pairs(stored).itertuples():
        right.setdefault(str(row.query_id), []).append(numbers[str(row.image_id)])
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    query_ids = sorted(right)
    _write_numbers(out / "test_text_ids.tsv", "query_id", query_ids)
    with (out / "test_texts.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for number, query_id in enumerate(query_ids):
            line = {"text_id": number, "text": texts[query_id], "image_ids": sorted(right[query_id])}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_numbers(path: Path, name: str, ids: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"number\t{name}\n")
        file.writelines(f"{number}\t{own}\n" for number, own in enumerate(ids))

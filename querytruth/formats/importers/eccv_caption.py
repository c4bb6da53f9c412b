"""ECCV Caption: eccv_caption_to_image.json ({caption id: [relevant image ids]}) over COCO's 5,000 test images.

Layout: naver-ai/eccv-caption b51f56c, eccv_caption/data/ and metrics.py, also for `original` and `cxc`
(CrissCrossed Captions). The gallery is that of original_caption_to_image.json. The files have no texts: these come from
COCO's captions_*.json (2014, or any with these captions) in the same folder.
"""

from pathlib import Path

from querytruth.backends.files.text_files import find_file, import_error, read_json_file
from querytruth.formats.importers import ImportedTables, build_image_table, build_judgment_table, build_query_table
from querytruth.formats.importers.coco_captions import CocoCaptionsFile
from querytruth.formats.set_images import ImageStore

_TITLES = {"eccv": "ECCV Caption", "cxc": "CrissCrossed Captions", "original": "COCO captions, 5,000 test images"}
_NO_TEXTS = "The texts of the queries were not available: each query shows the number of its COCO caption instead."
_SOME_TEXTS = "Captions whose text was not available show the number of the COCO caption instead."


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read the ground truth `eccv` (the default), `cxc` or `original`."""
    split = split or "eccv"
    if split not in _TITLES:
        raise import_error(f"{source} {split}", "is not one of its ground truths", f"choose from {', '.join(_TITLES)}")
    path = find_file(source, [f"{split}_caption_to_image.json"], "ground truth from captions to images")
    gallery = find_file(source, ["original_caption_to_image.json"], "ground truth that lists all images")
    truth = read_json_file(path, dict[str, list[int]])
    images = set[int]().union(*read_json_file(gallery, dict[str, list[int]]).values())
    if wrong := [caption for caption in truth if not caption.isdecimal()]:
        raise import_error(path, f"caption {wrong[0][:40]!a} is not a number")
    texts, names, files = _read_coco_captions(source)
    unknown = sum(caption not in texts for caption in truth)
    in_order = sorted(truth, key=lambda caption: (len(caption), caption))
    queries = ((caption, texts.get(caption, f"COCO caption {caption}")) for caption in in_order)
    pairs = ((caption, str(image), 1) for caption, image_numbers in truth.items() for image in image_numbers)
    return ImportedTables(
        queries=build_query_table(queries, "caption", "en"),
        images=build_image_table((str(image), names.get(image, f"{image:012}.jpg"), None) for image in sorted(images)),
        qrels=build_judgment_table(pairs, "caption" if split == "original" else "human"),
        files=[path, *([] if gallery == path else [gallery]), *files],
        grades={"1": "people judged it relevant" if split != "original" else "the caption was written for this image"},
        title=_TITLES[split],
        known_limitations=[] if not unknown else [_NO_TEXTS if unknown == len(truth) else _SOME_TEXTS],
    )


def _read_coco_captions(source: Path) -> tuple[dict[str, str], dict[int, str], list[Path]]:
    """Return texts by caption, file names by image, and the files that were read."""
    files = sorted({*source.glob("captions_*.json"), *source.glob("annotations/captions_*.json")})
    texts: dict[str, str] = {}
    names: dict[int, str] = {}
    for path in files:
        data = read_json_file(path, CocoCaptionsFile)
        texts |= {str(row.id): (row.caption or "").strip() for row in data.annotations}
        names |= {row.id: row.file_name for row in data.images if isinstance(row.id, int)}
    return texts, names, files

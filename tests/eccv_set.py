"""The captions of ECCV Caption as a set with COCO's own truth: each query has the one image that it was written of."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA, content_id
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import StoredSet
from tests.small_sets import publish_small_set


@dataclass(frozen=True, slots=True)
class EccvSet:
    """The published set, ECCV's positives by query, and run files of planted systems."""

    stored: StoredSet
    truth: dict[str, set[str]]
    runs: list[Path]


def publish_eccv_set(folder: Path, shared: Callable[[str], Path], *, depth: int = 60) -> EccvSet:
    """Two systems, which find ECCV's positives among the others with more and with less noise, all within `depth`."""
    read = [
        json.loads(shared(f"multi_positive_gt/{name}_caption_to_image.json").read_text())
        for name in ("eccv", "original")
    ]
    eccv, coco = ({query_id(query): {image_id(i) for i in images} for query, images in one.items()} for one in read)
    coco = {query: coco[query] for query in eccv}
    images = sorted(set().union(*eccv.values(), *coco.values()))
    tables = Tables(
        pd.DataFrame(
            {"query_id": list(eccv), "text": [f"caption {query}" for query in eccv], "language": "en",
             "style": "caption", "level": 1}
        ).reindex(columns=QUERIES_SCHEMA.names).assign(labels=None, fact_kinds=None)
         .sort_values("query_id", ignore_index=True),
        pd.DataFrame({"image_id": images, "file_name": images, "width": 640, "height": 480}).reindex(
            columns=IMAGES_SCHEMA.names
        ),
        pd.DataFrame(
            [(query, image, 1, "coco") for query, marked in coco.items() for image in sorted(marked)],
            columns=["query_id", "image_id", "relevance", "judged_by"],
        ).astype({"query_id": "category", "image_id": "category", "relevance": "int8", "judged_by": "category"}),
    )  # fmt: skip
    stored = publish_small_set(folder, tables, images=False, name="eccv")
    runs = []
    for name, noise in (("sharp", 0.4), ("blunt", 1.0)):
        rng = np.random.default_rng(len(runs))
        lines = []
        for query, relevant in eccv.items():
            others = [images[place] for place in rng.choice(len(images), depth, replace=False)]
            results = sorted(relevant) + [image for image in others if image not in relevant]
            scores = np.array([image in relevant for image in results]) + noise * rng.normal(size=len(results))
            lines += [f"{query} Q0 {image} 0 {score:.6f} {name}" for image, score in zip(results, scores, strict=True)]
        runs.append(folder / f"{name}.trec")
        runs[-1].write_text("\n".join(lines) + "\n")
    return EccvSet(stored, eccv, runs)


def query_id(caption: object) -> str:
    """The id of a query of the set."""
    return content_id("q", str(caption))


def image_id(image: object) -> str:
    """The id of an image of the set."""
    return content_id("img", str(image))

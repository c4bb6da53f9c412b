"""The judgments of the sample album's search log: a scripted person looks at what a search might show, and knows the
scenes.
"""

from collections.abc import Iterable
from pathlib import Path

from builders.publication import BuildResult, publish_decisions
from querytruth.records import stable_hash
from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.query_evaluation import find_fitting_images
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import read_set

_LOOKED_AT = 10  # images beside the right ones: as many as say that a query has no answer


def judge_sample_log(version: Path, album: Iterable[AlbumImage]) -> BuildResult:
    """Judges every image that fits a query, and ten others, and publishes the next version."""
    tables = read_set(version, ("queries", "images")).tables
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    images = sorted(tables.images["image_id"])
    decisions = []
    for query, fitting in find_fitting_images(tables, album).items():
        right = fitting or set()
        others = sorted(set(images) - right, key=lambda image: stable_hash("look", query, image))[:_LOOKED_AT]
        decisions += [
            QueryDecision(
                query, texts[query], "grade", image, relevance=int(image in right), reviewer="scripted person"
            )
            for image in [*sorted(right), *others]
        ]
    append_decisions(version.parent, decisions)
    return publish_decisions(version)

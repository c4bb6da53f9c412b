"""How right sets of the sample album are, by its data, which state what each caption fits and each scene shows."""

import csv
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.fitting_images import find_fitting_images
from querytruth.sets import set_files


def count_exact_captions(path: Path, album: Path) -> tuple[int, int]:
    """Return how many captions of the set at `path` have just the relevant images that they fit by the fitting.csv of
    `album`, and how many there are. Images of one duplicate group, and those outside the gallery, do not count."""
    tables = set_files.read_set(path, ("queries", "images", "qrels")).tables
    images = tables.images
    name = dict(zip(images["image_id"], images["file_name"], strict=True))
    group = dict(zip(images["file_name"], images["duplicate_group"].fillna(images["image_id"]), strict=True))
    truth = {image: {image} for image in group}
    with (album / "fitting.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one, other = row["file_name"], row["fits"]
            if one in group and other in group and group[one] != group[other]:
                truth[one].add(other)
    judged = _list_relevant(tables.qrels)
    sources = tables.queries.set_index("query_id")["source_image_id"].map(name)
    exact = sum({name[image] for image in judged[query]} == truth[source] for query, source in sources.items())
    return exact, len(sources)


def count_relevant(path: Path, album: Iterable[AlbumImage]) -> tuple[int, int]:
    """Return how many judgments over 0 of the set at `path` are right by the album's scenes, and how many there are."""
    tables = set_files.read_set(path, ("queries", "images", "qrels")).tables
    fitting, judged = find_fitting_images(tables, album), _list_relevant(tables.qrels)
    return sum(len(images & (fitting[query] or set())) for query, images in judged.items()), sum(
        map(len, judged.values())
    )


def _list_relevant(qrels: pd.DataFrame) -> dict[str, set[str]]:
    relevant = qrels[qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    by_query: dict[str, set[str]] = relevant.groupby("query_id")["image_id"].agg(set).to_dict()
    return by_query

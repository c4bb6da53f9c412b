"""How right sets of the sample album are, by its data, which state what each caption fits and each scene shows."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.fitting_images import find_fitting_images
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables


@dataclass(frozen=True, slots=True)
class CaptionEvaluation:
    """`ambiguous`: captions of the gallery's images, in all languages of the set, that also fit another image. Queries
    of the set: `reported` as ambiguous (by several relevant images, or a candidate judgment), `truly_ambiguous`,
    `correctly_reported` (both), and `exactly_judged` (the relevant images are exactly those that the caption fits)."""

    ambiguous: int
    queries: int
    reported: int
    correctly_reported: int
    truly_ambiguous: int
    exactly_judged: int

    @property
    def precision(self) -> float:
        """Return the share of the reported queries that is correct."""
        return self.correctly_reported / self.reported if self.reported else 1.0

    @property
    def recall(self) -> float:
        """Return the share of the truly ambiguous queries that is reported."""
        return self.correctly_reported / self.truly_ambiguous if self.truly_ambiguous else 1.0


def evaluate_captions(tables: Tables, fitting: Iterable[tuple[str, str]]) -> CaptionEvaluation:
    """`fitting`: pairs of file names, an image and another image that its caption also fits. An image that is the same
    as the caption's own, or is not in the gallery, does not count."""
    gallery, queries = tables.images, tables.queries
    name = dict(zip(gallery["image_id"], gallery["file_name"], strict=True))
    truth = _fitting_by_image(tables, fitting)
    source_file = dict(zip(queries["query_id"], queries["source_image_id"].map(name), strict=True))
    judged: dict[str, set[str]] = {query: set() for query in source_file}
    positive = tables.qrels[tables.qrels["relevance"] > 0].astype({"query_id": "object", "image_id": "object"})
    for query, image_id in zip(positive["query_id"], positive["image_id"], strict=True):
        judged[query].add(name[image_id])
    reported = {query for query, images in judged.items() if len(images) > 1}
    reported |= set(tables.candidate_judgments["query_id"])
    truly_ambiguous = {query for query, image in source_file.items() if len(truth[image]) > 1}
    return CaptionEvaluation(
        ambiguous=sum(len(images) > 1 for images in truth.values()) * queries["language"].nunique(),
        queries=len(source_file),
        reported=len(reported),
        correctly_reported=len(reported & truly_ambiguous),
        truly_ambiguous=len(truly_ambiguous),
        exactly_judged=sum(judged[query] == truth[image] for query, image in source_file.items()),
    )


def _fitting_by_image(tables: Tables, fitting: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return per image of the gallery those that its caption fits, itself first."""
    images = tables.images
    group = dict(zip(images["file_name"], images["duplicate_group"].fillna(images["image_id"]), strict=True))
    truth = {image: {image} for image in group}
    for one, other in fitting:
        if one in group and other in group and group[one] != group[other]:
            truth[one].add(other)
    return truth


@dataclass(frozen=True, slots=True)
class QueryEvaluation:
    """`judged`: relevant images of the set; `truly_relevant`: those that show what their query asks for;
    `unjudged_relevant`: other images of the set that show it and are not judged; `unparsed_queries`: queries with words
    that the album does not use."""

    judged: int
    truly_relevant: int
    unjudged_relevant: int
    unparsed_queries: tuple[str, ...]


def evaluate_queries(tables: Tables, album: Iterable[AlbumImage]) -> QueryEvaluation:
    """Return the judgments of a set made of the album's images, each beside the scene that was drawn."""
    fitting_by_query = find_fitting_images(tables, album)
    relevant = tables.qrels[tables.qrels["relevance"] > 0]
    relevant_ids = relevant.groupby("query_id")["image_id"].agg(set).to_dict()
    judged = truly_relevant = unjudged_relevant = 0
    unread = []
    for query_id, text in zip(tables.queries["query_id"], tables.queries["text"], strict=True):
        judged += len(relevant_ids.get(query_id, ()))
        fitting = fitting_by_query[query_id]
        if fitting is None:
            unread.append(text)
            continue
        truly_relevant += len(fitting & relevant_ids.get(query_id, set()))
        unjudged_relevant += len(fitting - relevant_ids.get(query_id, set()))
    return QueryEvaluation(judged, truly_relevant, unjudged_relevant, tuple(unread))


def check_sample_captions(path: Path, album: Path) -> CaptionEvaluation:
    """Return the set at `path`, built from the captions of `album`, evaluated against its fitting.csv."""
    tables = set_files.read_set(path, ("queries", "images", "qrels", "candidate_judgments")).tables
    with (album / "fitting.csv").open(encoding="utf-8", newline="") as file:
        return evaluate_captions(tables, [(row["file_name"], row["fits"]) for row in csv.DictReader(file)])


def check_sample_queries(path: Path, album_images: Iterable[AlbumImage]) -> QueryEvaluation:
    """Return the judgments of the generated set at `path`, evaluated against the album's scenes."""
    return evaluate_queries(set_files.read_set(path, ("queries", "images", "qrels")).tables, album_images)

"""How well a set made of the album's captions knows which of them fit several images."""

from collections.abc import Iterable
from dataclasses import dataclass

from querytruth.sets.benchmark_set import Tables


@dataclass(frozen=True, slots=True)
class CaptionEvaluation:
    """`ambiguous`: captions of the gallery's images, in all languages of the set, that fit another image, too. Of
    the set's queries: `reported` as ambiguous (by several relevant images, or a suspicion), `truly_ambiguous`: those
    that are, `correctly_reported`: both; `exactly_judged`: those whose relevant images are just the ones that the
    caption fits."""

    ambiguous: int
    queries: int
    reported: int
    correctly_reported: int
    truly_ambiguous: int
    exactly_judged: int

    @property
    def precision(self) -> float:
        """Of the reported ones, the share that is right."""
        return self.correctly_reported / self.reported if self.reported else 1.0

    @property
    def recall(self) -> float:
        """Of the true ones, the share that is reported."""
        return self.correctly_reported / self.truly_ambiguous if self.truly_ambiguous else 1.0


def evaluate_captions(tables: Tables, fitting: Iterable[tuple[str, str]]) -> CaptionEvaluation:
    """`fitting` are pairs of file names: an image, and another that its caption fits, too. One that is the same
    image as the caption's own, or is not in the gallery, does not count."""
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
    """Per image of the gallery those that its caption fits, itself first."""
    images = tables.images
    group = dict(zip(images["file_name"], images["duplicate_group"].fillna(images["image_id"]), strict=True))
    truth = {image: {image} for image in group}
    for one, other in fitting:
        if one in group and other in group and group[one] != group[other]:
            truth[one].add(other)
    return truth

"""Likely causes of a query's failure, from the facts that the tables of its set have: not proofs.

They are about the results before the first relevant one, or the first five without one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

import pandas as pd

from querytruth.review.page_parts import labels_or_empty, translate
from querytruth.review.query_selection import MIDDLE_MAX_RANK, SUCCESS, RankedItem, SelectedQuery, collect_judgments
from querytruth.sets.benchmark_set import Tables

# A hub image is wrongly among the first five of so many queries, and so many times more often than by chance.
_HUB_MIN_QUERIES, _HUB_MIN_RATIO = 5, 5.0
CaptureMoment = tuple[datetime, float, float]  # when and where: degrees north and east
_FEW = 0.5  # share of the first ten that is judged, below which a figure is unreliable
_SIMILAR_TEXTS = 0.75  # Dice coefficient of two texts' pairs of characters
_LABELS = 3  # named of an image, and images named
_TWIN_SECONDS, _TWIN_DEGREES = 60, 0.0005  # two shots of one moment; the place within about 50 metres


@dataclass(frozen=True, slots=True)
class FailureContext:
    """Facts by query id and image id. `image_captions`: texts of the queries that an image is relevant for, by query
    id; `image_labels`: labels from queries for one label; `duplicate_groups`: group, or digest of the bytes;
    `candidate_judgments`: evidence by (query_id, image_id); `has_negatives`: whether the set has judgments of grade 0;
    `hub_images`: number of queries with the image wrongly among the first five."""

    query_texts: dict[str, str] = field(default_factory=dict)
    query_labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    image_captions: dict[str, dict[str, str]] = field(default_factory=dict)
    image_labels: dict[str, frozenset[str]] = field(default_factory=dict)
    duplicate_groups: dict[str, str] = field(default_factory=dict)
    moments: dict[str, CaptureMoment] = field(default_factory=dict)
    candidate_judgments: dict[tuple[str, str], str] = field(default_factory=dict)
    relevant_images: dict[str, frozenset[str]] = field(default_factory=dict)
    has_negatives: bool = True
    hub_images: dict[str, int] = field(default_factory=dict)


def collect_failure_context(
    queries: Sequence[SelectedQuery], ranked: pd.DataFrame, tables: Tables | None
) -> FailureContext:
    """Collect the facts on these queries and their results."""
    hub_images = find_hub_images(ranked, ranked["image_id"].nunique())
    if tables is None:
        return FailureContext(hub_images=hub_images)
    names = [one.query_id for one in queries]
    truth = collect_judgments(names, tables.qrels)
    results = {one.item_id for query in queries for one in query.results}
    right = {name: frozenset(image for image, j in pairs.items() if j.relevance > 0) for name, pairs in truth.items()}
    images = results.union(*right.values()) if right else results
    candidates = tables.candidate_judgments[tables.candidate_judgments["query_id"].isin(names)]
    captions, labels = _captions(results, tables)
    wanted = {*names, *results, *(name for pairs in captions.values() for name in pairs), *images}
    rows = tables.queries[tables.queries["query_id"].isin(wanted)]
    texts = dict(zip(rows["query_id"].astype("str"), rows["text"], strict=True))
    return FailureContext(
        query_texts=texts,
        query_labels=dict(zip(texts, map(labels_or_empty, rows["labels"]), strict=True)),
        image_captions={
            image: {name: texts[name] for name in query_ids if name in texts} for image, query_ids in captions.items()
        },
        image_labels=labels,
        duplicate_groups=_groups(images, tables),
        moments=_moments(tables.images[tables.images["image_id"].isin(images)]),
        candidate_judgments={(str(r.query_id), str(r.image_id)): str(r.evidence) for r in candidates.itertuples()},
        relevant_images=right,
        has_negatives=bool((tables.qrels["relevance"] == 0).any()),
        hub_images=hub_images,
    )


def find_hub_images(ranked: pd.DataFrame, gallery_size: int) -> dict[str, int]:
    """Return images that are wrongly among the first five of far more queries than by chance, and how many."""
    first = ranked[ranked["rank"] <= MIDDLE_MAX_RANK]
    counts = first.loc[first["relevance"] <= 0, "image_id"].value_counts()
    least = max(_HUB_MIN_QUERIES, _HUB_MIN_RATIO * len(first) / max(gallery_size, 1))
    return {str(name): int(number) for name, number in counts[counts >= least].items()}


def _captions(images: set[str], tables: Tables) -> tuple[dict[str, list[str]], dict[str, frozenset[str]]]:
    """Return per image the queries it is relevant for, and the labels of those for a single label."""
    mine = tables.qrels[(tables.qrels["relevance"] > 0) & tables.qrels["image_id"].isin(images)]
    pairs = sorted(zip(mine["image_id"].astype("str"), mine["query_id"].astype("str"), strict=True))
    asking = tables.queries[tables.queries["query_id"].isin({name for _, name in pairs})]
    single = {
        str(name): labels[0]
        for name, value in zip(asking["query_id"], asking["labels"], strict=True)
        if len(labels := labels_or_empty(value)) == 1
    }
    captions: dict[str, list[str]] = {}
    labels_of: dict[str, set[str]] = {}
    for image, name in pairs:
        captions.setdefault(image, []).append(name)
        if name in single:
            labels_of.setdefault(image, set()).add(single[name])
    return captions, {image: frozenset(image_labels) for image, image_labels in labels_of.items()}


def _groups(image_ids: set[str], tables: Tables) -> dict[str, str]:
    images = tables.images[tables.images["image_id"].isin(image_ids)]
    group_by_image: dict[str, str] = {}
    for frame, column in ((images, "sha256"), (images, "duplicate_group"), (tables.duplicates, "duplicate_group")):
        mine = frame[frame["image_id"].isin(image_ids) & frame[column].notna()]
        group_by_image |= dict(zip(mine["image_id"].astype("str"), mine[column].astype("str"), strict=True))
    return group_by_image


def _moments(images: pd.DataFrame) -> dict[str, CaptureMoment]:
    known = images[images["taken_at"].notna() & images["latitude"].notna() & images["longitude"].notna()]
    moments = {}
    for row in known.itertuples(index=False):
        try:
            moments[str(row.image_id)] = (datetime.fromisoformat(row.taken_at), row.latitude, row.longitude)
        except ValueError:  # a camera may write the 31st of February
            continue
    return moments


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A short code, its description, and the ranks of the results that it is about."""

    code: str
    description: str
    ranks: tuple[int, ...] = ()


def find_failure_causes(query: SelectedQuery, context: FailureContext) -> list[FailureCause]:
    """Return the likely causes of a query's failure, the most specific first; an empty list for a success."""
    if query.bin == SUCCESS:
        return []
    if not query.results:
        return [FailureCause("nothing_came_back", "The system returned nothing for this query.")]
    before = list(takewhile(lambda one: one.judgment.relevance <= 0, query.results[:MIDDLE_MAX_RANK]))
    causes = [cause for find_causes in _CAUSE_FINDERS for cause in find_causes(query, before, context)]
    if len(causes) > 1 and not context.has_negatives:  # sets without negatives leave nearly all unjudged
        causes = [cause for cause in causes if cause.code != "unjudged"]
    description = "The set gives no reason: as far as its tables say, the system is wrong."
    return causes or [FailureCause("none_found", description)]


def _unjudged(query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    open_ = [
        one
        for one in before
        if one.judgment.relevance < 0
        and (query.query_id, one.item_id) not in context.candidate_judgments
        and not (context.query_labels.get(query.query_id) and one.item_id in context.image_labels)
    ]
    first = query.results[:10]
    judged = sum(one.judgment.relevance >= 0 for one in first)
    code, description = "unjudged", "Never judged: does it fit?"
    if not context.has_negatives:
        description = "Never judged, because this set has relevant images only: does it fit?"
    elif judged < _FEW * len(first):
        code, description = "few_judged", f"Never judged; only {judged} of the first {len(first)} are."
    if open_:
        yield FailureCause(code, description, _ranks(open_))


def _candidate_judgments(
    query: SelectedQuery, before: list[RankedItem], context: FailureContext
) -> Iterator[FailureCause]:
    for one in before:
        if evidence := context.candidate_judgments.get((query.query_id, one.item_id)):
            yield FailureCause("ambiguous_query", f"The set suspects that it fits ({evidence}).", _ranks([one]))


def _near_duplicates(query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    right = context.relevant_images.get(query.query_id, frozenset())
    groups = {context.duplicate_groups[name] for name in right if name in context.duplicate_groups}
    same = [one for one in before if context.duplicate_groups.get(one.item_id) in groups]
    if same:
        description = "A near-duplicate of a relevant image: it should be relevant, too."
        yield FailureCause("near_duplicate", description, _ranks(same))
    moments = [context.moments[name] for name in right if name in context.moments]
    timed = [
        (one, context.moments[one.item_id]) for one in before if one not in same and one.item_id in context.moments
    ]
    shots = [one for one, moment in timed if any(_is_twin(moment, other) for other in moments)]
    if shots:
        yield FailureCause(
            "same_moment", "Taken within a minute of a relevant image, at the same place.", _ranks(shots)
        )


def _is_twin(one: CaptureMoment, other: CaptureMoment) -> bool:
    if (one[0].tzinfo is None) != (other[0].tzinfo is None):
        return False
    apart = abs((one[0] - other[0]).total_seconds())
    return apart <= _TWIN_SECONDS and max(abs(one[1] - other[1]), abs(one[2] - other[2])) <= _TWIN_DEGREES


def _all_but_one(query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    """Find images with all labels but one, by the judgments of other queries, else by the evidence."""
    wanted = context.query_labels.get(query.query_id, ())
    lacking: dict[str, list[RankedItem]] = {}
    for one in before:
        missing_labels = [label for label in wanted if label not in context.image_labels.get(one.item_id, frozenset())]
        if len(wanted) > 1 and len(missing_labels) == 1:
            lacking.setdefault(f"All labels but one match: {missing_labels[0]} is missing.", []).append(one)
        elif len(wanted) > 1 and one.judgment.relevance == 0 and one.judgment.evidence:
            lacking.setdefault(f"Judged not relevant: {one.judgment.evidence}.", []).append(one)
    for description, ones in lacking.items():
        yield FailureCause("all_but_one_label", description, _ranks(ones))


def _other_labels(query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    """Find images with other labels than those of the query, by the judgments of other queries."""
    wanted = set(context.query_labels.get(query.query_id, ()))
    shown = []
    for one in before:
        seen = sorted(context.image_labels.get(one.item_id, frozenset()))
        if seen and len(wanted.difference(seen)) > min(1, len(wanted) - 1):
            labels = ", ".join(seen[:_LABELS]) + (" …" if len(seen) > _LABELS else "")
            shown.append(translate("rank %(rank)s has %(labels)s", rank=one.rank, labels=labels))
    if wanted and shown:
        description = "; ".join(shown[:_LABELS]) + (translate("; and so on") if len(shown) > _LABELS else "")
        yield FailureCause("other_labels", f"Judging by other queries, {description}.")


def _similar_texts(query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    """Find images that are relevant for another query of nearly the same text; where texts are searched, texts similar
    to a relevant one. Queries for labels are left out: they all have one form."""
    if context.query_labels.get(query.query_id):
        return
    mine = [context.query_texts[query.query_id]] if query.query_id in context.query_texts else []
    right = sorted(context.relevant_images.get(query.query_id, frozenset()))
    mine += [context.query_texts[name] for name in right if name in context.query_texts]
    for one in before:
        theirs = [context.query_texts[one.item_id]] if one.item_id in context.query_texts else []
        theirs += context.image_captions.get(one.item_id, {}).values()
        alike = max(((compute_text_similarity(a, b), b) for a in mine for b in theirs), default=(0.0, ""))
        if alike[0] >= _SIMILAR_TEXTS:
            yield FailureCause(
                "ambiguous_words", f"Relevant for a query with nearly the same words: {alike[1]}", _ranks([one])
            )


def _tied(query: SelectedQuery, before: list[RankedItem], _context: FailureContext) -> Iterator[FailureCause]:
    right = next((one for one in query.results if one.judgment.relevance > 0), None)
    tied = [one for one in before if right is not None and one.score == right.score]
    if tied:
        description = "Same score as the first relevant image: only the ids decide the order."
        yield FailureCause("tied", description, _ranks(tied))


def _hub_images(_query: SelectedQuery, before: list[RankedItem], context: FailureContext) -> Iterator[FailureCause]:
    numbers = {one: context.hub_images[one.item_id] for one in before if one.item_id in context.hub_images}
    if numbers:
        many = sorted(numbers.values())
        often = f"{many[0]:,}" if many[0] == many[-1] else f"{many[0]:,} to {many[-1]:,}"
        description = f"Among the first five results of {often} queries that ask for something else."
        yield FailureCause("comes_for_everything", description, _ranks(list(numbers)))


CauseFinder = Callable[[SelectedQuery, list[RankedItem], FailureContext], Iterator[FailureCause]]
_CAUSE_FINDERS: tuple[CauseFinder, ...] = (
    _near_duplicates,
    _candidate_judgments,
    _all_but_one,
    _similar_texts,
    _tied,
    _hub_images,
    _other_labels,
    _unjudged,
)


def _ranks(results: Sequence[RankedItem]) -> tuple[int, ...]:
    return tuple(one.rank for one in results if one.rank is not None)


def compute_text_similarity(one: str, other: str) -> float:
    """Return the similarity of two texts, 0 to 1: the Dice coefficient of their character bigrams, without case and
    blanks."""
    a, b = (_pairs("".join(text.casefold().split())) for text in (one, other))
    return 2 * (a & b).total() / (a.total() + b.total()) if a or b else 0.0


def _pairs(text: str) -> Counter[str]:
    return Counter(text[n : n + 2] for n in range(len(text) - 1))

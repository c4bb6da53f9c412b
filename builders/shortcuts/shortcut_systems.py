"""Systems that answer queries without a look at any image, each by one thing that a set gives with its images."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import FloatArray, RowIndices
from builders.overlap.text_pairs import split_tokens
from builders.records import stable_hash
from builders.shortcuts.judged_sample import JudgedSample

_NAME_PARTS = re.compile(r"[\W_]+|(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)|(?<=[a-z])(?=[A-Z])")
_SHAPES = ("width", "height")


@dataclass(frozen=True, slots=True)
class ShortcutSystem:
    """`scores` (rows, images), the best highest; `row` (queries,): the row that answers a query, -1 where none does and
    the query is not measured."""

    name: str
    scores: FloatArray
    row: RowIndices


def list_systems(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """Yields the systems that the set has something for."""
    yield from _by_names(sample)
    yield from _by_position(sample)
    yield from _by_shape(sample)
    yield from _by_other_queries(sample)
    yield from _by_texts(sample)


def _by_names(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """The file names: words of the query, its id, and the order."""
    names = sample.images["file_name"].fillna("").astype(str)
    if not names.any():
        return
    parts = [_name_parts(name) for name in names]
    yield _match_words(sample, "words in file names", list(map(_stems, sample.queries["text"])), parts)
    ids = [sample.queries[column] for column in ("query_id", "source_id") if column in sample.queries]
    named = [{str(one).lstrip("0").casefold() for one in row if one is not None} for row in zip(*ids, strict=True)]
    stems = [{_stem(name).lstrip("0").casefold(), *part} for name, part in zip(names, parts, strict=True)]
    yield _match_words(sample, "query id in file names", named, stems)
    yield from _both_ways(sample, "order of file names", names.rank().to_numpy(), "first", "last")
    places = names.rank().to_numpy() / len(names)
    yield _nearest(sample, "query order as order of file names", places)


def _by_position(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    places = sample.images["place"].to_numpy()
    yield from _both_ways(sample, "gallery position", places, "first", "last")
    yield _nearest(sample, "query order as gallery position", places)


def _by_shape(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    width, height = (sample.images[name].to_numpy(np.float64) for name in _SHAPES)
    yield from _both_ways(sample, "image size", width * height, "small", "large")
    yield from _both_ways(sample, "image shape", width / np.maximum(height, 1), "narrow", "wide")
    same = sample.images.groupby(list(_SHAPES))["image_id"].transform("size").to_numpy(np.float64)
    yield from _both_ways(sample, "how common the image size is", same, "rare", "common")


def _by_other_queries(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """What images of other subjects' truth have in common: each half of the subjects answers for the other."""
    halves = [{stable_hash("half", part) % 2 for part in subject} for subject in sample.subject]
    half = np.array([one.pop() if len(one) == 1 else -1 for one in halves])
    row = np.where(half >= 0, 1 - half, -1)
    counts = [np.bincount(sample.image[half[sample.query] == side], minlength=len(sample.images)) for side in (0, 1)]
    if not all(count.any() for count in counts):
        return
    yield ShortcutSystem("popularity", np.array(counts, dtype=np.float64), row)
    largest = []
    for side in (0, 1):
        sizes = np.where(half == side, sample.relevant_counts(), 0)
        largest.append(np.bincount(sample.image[sample.query == sizes.argmax()], minlength=len(sample.images)))
    if len(np.unique(sample.relevant_counts())) > 1:
        yield ShortcutSystem("most common label", np.array(largest, dtype=np.float64), row)
    names = sample.images["file_name"].fillna("").astype(str)
    folders, suffixes = names.str.rpartition("/")[0], names.str.extract(r"(\.\w+)$")[0].fillna("").str.lower()
    for name, values in (("folder", folders), ("file type", suffixes)):
        codes, distinct = pd.factorize(values)
        if 1 < len(distinct) <= len(names) // 2:
            sizes = np.bincount(codes)
            shares = [(np.bincount(codes, count, minlength=len(sizes)) / sizes)[codes] for count in counts]
            yield ShortcutSystem(name, np.array(shares), row)


def _by_texts(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """The query's words in the captions of web pages, and in labels; a label is the text of a query of one label."""
    wanted = list(map(_stems, sample.queries["text"]))
    if "caption" in sample.images and sample.images["caption"].notna().any():
        texts = [_stems(text) for text in sample.images["caption"].fillna("")]
        yield _match_words(sample, "words in captions", wanted, texts)
    labels = sample.queries["labels"] if "labels" in sample.queries else [None] * len(sample.queries)
    family = sample.queries["family"].notna() if "family" in sample.queries else np.zeros(len(wanted), dtype=bool)
    is_label = np.array([own is not None and len(own) == 1 for own in labels]) & ~np.asarray(family)
    if is_label.any() and not is_label.all():
        texts = [set() for _ in range(len(sample.images))]
        for query, image in zip(sample.query, sample.image, strict=True):
            if is_label[query]:
                texts[image] |= wanted[query]
        system = _match_words(sample, "words in labels", wanted, texts)
        yield ShortcutSystem(system.name, system.scores, np.where(is_label, -1, system.row))


def _both_ways(sample: JudgedSample, name: str, values: FloatArray, low: str, high: str) -> Iterator[ShortcutSystem]:
    if np.ptp(values) > 0:
        row = np.zeros(len(sample.queries), dtype=np.int64)
        yield ShortcutSystem(f"{name}: {low} ones", -values[None].astype(np.float64), row)
        yield ShortcutSystem(f"{name}: {high} ones", values[None].astype(np.float64), row)


def _nearest(sample: JudgedSample, name: str, places: FloatArray) -> ShortcutSystem:
    distances = np.abs(sample.queries["place"].to_numpy()[:, None] - places)
    return ShortcutSystem(name, -distances, np.arange(len(distances)))


def _match_words(sample: JudgedSample, name: str, wanted: list[set[str]], given: list[set[str]]) -> ShortcutSystem:
    """Scores by the rareness of the words that a query and an image share."""
    images: dict[str, list[int]] = {}
    for place, words in enumerate(given):
        for word in words:
            images.setdefault(word, []).append(place)
    scores = np.zeros((len(wanted), len(given)))
    for query, words in enumerate(wanted):
        for word in words & images.keys():
            scores[query, images[word]] += np.log((len(given) + 1) / len(images[word]))
    return ShortcutSystem(name, scores, np.arange(len(wanted)))


def _name_parts(name: str) -> set[str]:
    return {part.lstrip("0").casefold() for part in _NAME_PARTS.split(_stem(name))} | _stems(
        " ".join(_NAME_PARTS.split(_stem(name)))
    )


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def _stems(text: str) -> set[str]:
    return {token.removesuffix("s") for token in _words(split_tokens(text))}


def _words(tokens: Iterable[str]) -> Iterator[str]:
    """Drops what names and texts share without a meaning: single letters and digits alone."""
    return (token for token in tokens if not token.isdecimal() and (len(token) > 1 or token >= "\u2e80"))

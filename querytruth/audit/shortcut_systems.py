"""Systems that answer queries without a look at any image, each by one thing that a set gives."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray, BoolArray, FloatArray, Hashes, RowIndices
from querytruth.audit.overlap_pairs import split_tokens
from querytruth.records import mix_bits, stable_hash
from querytruth.sets.benchmark_set import Tables

MAX_QUERIES, MAX_IMAGES = 500, 10_000
_RELEVANT = 1_000  # images per query
_BLOCK = 1 << 18  # judgments: fit a processor's cache
_NAME_PARTS = re.compile(r"[\W_]+|(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)|(?<=[a-z])(?=[A-Z])")
_SHAPES = ("width", "height")


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """`queries` and `images` in the order of the set, with `place` (0 to 1) in it. A pair of a query (row) and an image
    that is relevant for it is a place in `query` and `image`, (pairs,). `subject` (queries,): queries of one subject
    share their truth."""

    queries: pd.DataFrame
    images: pd.DataFrame
    query: RowIndices
    image: RowIndices
    subject: list[tuple[str, ...]]

    def relevant_counts(self) -> RowIndices:
        """Return the number of relevant images per query (queries,)."""
        return np.bincount(self.query, minlength=len(self.queries))


def draw_sample(tables: Tables) -> JudgedSample:
    """Return at most MAX_QUERIES queries, drawn by hash, and MAX_IMAGES images: relevant ones first, so that none of
    these queries is without one; of a query with more than 1,000 relevant images, 1,000."""
    query_ids, image_ids = tables.queries["query_id"], tables.images["image_id"]
    query, image, is_drawn = _relevant_pairs(tables)
    if len(query) > MAX_IMAGES:
        query, image = _limit_images(query, image, query_ids, image_ids)
    is_needed = np.zeros(len(image_ids), dtype=bool)
    is_needed[image] = True
    is_chosen = _draw(image_ids, is_needed, MAX_IMAGES)
    is_chosen |= _draw(image_ids, ~is_needed, max(0, MAX_IMAGES - int(is_needed.sum())))
    query, image = query[is_chosen[image]], image[is_chosen[image]]
    is_drawn[:] = False
    is_drawn[query] = True
    queries, images = _part(tables.queries, is_drawn), _part(tables.images, is_chosen)
    query, image = (np.cumsum(is_drawn) - 1)[query], (np.cumsum(is_chosen) - 1)[image]
    return JudgedSample(queries, images, query, image, _subjects(queries, images, query, image))


def _relevant_pairs(tables: Tables) -> tuple[RowIndices, RowIndices, BoolArray]:
    """Return the rows of queries and images of the relevant pairs of the drawn queries, and which are drawn."""
    query_row, query_codes = _rows_by_code(tables.qrels["query_id"], tables.queries["query_id"])
    image_row, image_codes = _rows_by_code(tables.qrels["image_id"], tables.images["image_id"])
    is_relevant = tables.qrels["relevance"].to_numpy() > 0
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(is_relevant), _BLOCK)]
    is_judged = np.zeros(len(tables.queries) + 1, dtype=bool)  # the last one: judgments of no query of the set
    for block in blocks:
        is_judged[query_row[query_codes[block][is_relevant[block]]]] = True
    is_drawn = _draw(tables.queries["query_id"], is_judged[:-1], MAX_QUERIES)
    is_drawn_code = np.append(is_drawn, False)[query_row]
    rows = [b.start + np.flatnonzero(is_relevant[b] & is_drawn_code[query_codes[b]]) for b in blocks]
    pairs = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    query, image = query_row[query_codes[pairs]], image_row[image_codes[pairs]]
    return query[image >= 0], image[image >= 0], is_drawn


def _rows_by_code(judged: pd.Series, ids: pd.Series) -> tuple[RowIndices, AnyArray]:
    """Return the row of each distinct id in `ids`, -1: none, and the code of each judgment among the distinct ids."""
    column = judged.astype("category").cat
    return pd.Index(ids.astype("str")).get_indexer(column.categories.astype("str")), column.codes.to_numpy()


def _limit_images(
    query: RowIndices, image: RowIndices, query_ids: pd.Series, image_ids: pd.Series
) -> tuple[RowIndices, RowIndices]:
    """Return the pairs with at most 1,000 images of each query, drawn by hash. A pair's hash mixes those of its ids:
    to hash the text of each of a million pairs would take seconds."""
    query_hashes, image_hashes = _hash_used(query_ids, query), _hash_used(image_ids, image)
    pairs = mix_bits(query_hashes[query] ^ image_hashes[image])
    by_query = np.split(np.argsort(query, kind="stable"), np.cumsum(np.bincount(query))[:-1])
    kept = np.concatenate(
        [
            rows if len(rows) <= _RELEVANT else rows[np.argpartition(pairs[rows], _RELEVANT)[:_RELEVANT]]
            for rows in by_query
        ]
    )
    return query[kept], image[kept]


def _hash_used(ids: pd.Series, rows: RowIndices) -> Hashes:
    """Return a hash per id (ids,), 0 for an id without a row."""
    is_used = np.zeros(len(ids), dtype=bool)
    is_used[rows] = True
    used = np.flatnonzero(is_used)
    hashes = np.zeros(len(ids), dtype=np.uint64)
    hashes[used] = [stable_hash("shortcuts", one) for one in ids.iloc[used].astype(str).tolist()]
    return hashes


def _draw(ids: pd.Series, is_candidate: BoolArray, count: int) -> BoolArray:
    """Return which of the candidates are drawn, at most `count`."""
    rows = np.flatnonzero(is_candidate)
    if len(rows) > count:
        rows = rows[np.argsort(_hash_used(ids, rows)[rows], kind="stable")[:count]] if count else rows[:0]
    is_drawn = np.zeros(len(ids), dtype=bool)
    is_drawn[rows] = True
    return is_drawn


def _part(table: pd.DataFrame, is_kept: BoolArray) -> pd.DataFrame:
    kept = np.flatnonzero(is_kept)
    return table.iloc[kept].assign(place=kept / max(len(table) - 1, 1)).reset_index(drop=True)


def _subjects(
    queries: pd.DataFrame, images: pd.DataFrame, query: RowIndices, image: RowIndices
) -> list[tuple[str, ...]]:
    """Return the labels of each query, or its relevant images, together, where it has no labels."""
    labels = queries["labels"] if "labels" in queries else [None] * len(queries)
    subjects = [tuple(map(str, own)) if own is not None and len(own) else () for own in labels]
    if not all(subjects):
        parts = np.split(
            image[np.argsort(query, kind="stable")], np.cumsum(np.bincount(query, minlength=len(queries)))[:-1]
        )
        ids = images["image_id"].astype(str).to_numpy()
        subjects = [own or (" ".join(sorted(ids[part])),) for own, part in zip(subjects, parts, strict=True)]
    return subjects


@dataclass(frozen=True, slots=True)
class ShortcutSystem:
    """`scores` (rows, images), the best highest; `row` (queries,): the row that answers a query, -1 where none does and
    the query is not measured."""

    name: str
    scores: FloatArray
    row: RowIndices


def list_systems(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """Yield the systems that the set has something for."""
    yield from _by_names(sample)
    yield from _by_position(sample)
    yield from _by_shape(sample)
    yield from _by_other_queries(sample)
    yield from _by_texts(sample)


def _by_names(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """Yield systems that read file names: words of the query, its id, and the order."""
    names = sample.images["file_name"].astype("str").fillna("")
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
    """Answer a subject by what images of other subjects' ground truth have in common: each half of the subjects answers
    for the other."""
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
    names = sample.images["file_name"].astype("str").fillna("")
    folders, suffixes = names.str.rpartition("/")[0], names.str.extract(r"(\.\w+)$")[0].fillna("").str.lower()
    for name, values in (("folder", folders), ("file type", suffixes)):
        codes, distinct = pd.factorize(values)
        if 1 < len(distinct) <= len(names) // 2:
            sizes = np.bincount(codes)
            shares = [(np.bincount(codes, count, minlength=len(sizes)) / sizes)[codes] for count in counts]
            yield ShortcutSystem(name, np.array(shares), row)


def _by_texts(sample: JudgedSample) -> Iterator[ShortcutSystem]:
    """Yield systems that match a query's words with the captions of web pages, and with labels; a label is the text of
    a query of one label."""
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
    """Score by the rareness of the words that a query and an image share."""
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
    """Drop what names and texts share without a meaning: single letters and digits alone."""
    return (token for token in tokens if not token.isdecimal() and (len(token) > 1 or token >= "\u2e80"))

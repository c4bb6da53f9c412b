"""What a set shares with other collections: pairs with evidence, and per query leaked or clean."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from backends.sets.set_files import StoredSet, find_set, read_set
from backends.sets.version_numbers import newest_version
from backends.sources.shard_files import find_shards
from builders.errors import UserError
from builders.overlap.bytes_alone import count_bytes_alone
from builders.overlap.image_pairs import PAIR_COLUMNS, ImageOverlap
from builders.overlap.leaked_queries import classify_queries
from builders.overlap.text_pairs import TextOverlap
from builders.rendered_sizes import get_render_options
from flows.overlap.caption_tables import find_text_column, read_texts
from flows.overlap.hash_index import check_embedder, has_pdq, is_index, read_index
from flows.overlap.set_vectors import SetVectors, embed_set, find_near_texts
from flows.overlap.shards import ReadCounts, iterate_captions
from flows.overlap.source_images import (
    STAGE,
    ImageFeatures,
    hash_images,
    hash_set_crops,
    hash_set_images,
    list_images,
    no_image_error,
    report_skipped,
)


class OverlapOptions(NamedTuple):
    """What is compared besides digests, hashes and tokens: PDQ hashes, and the vectors of an embedder (a model's folder
    or name) with at least a cosine (None: the embedder's own)."""

    with_pdq: bool = False
    embedder: str | None = None
    min_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class OverlapResult:
    """`pairs` (kind, set_item, against, other_item, evidence, distance: bits, or of `vectors` the cosine) and `queries`
    (query_id, overlap, by_image, by_text); how many images of the set were compared, and how many by their bytes alone,
    by reason; the vectors, if any."""

    pairs: pd.DataFrame
    queries: pd.DataFrame
    images_compared: int
    by_bytes_alone: dict[str, int]
    vectors: SetVectors | None = None

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """`pairs` and `queries` by name."""
        return {"pairs": self.pairs, "queries": self.queries}


class _ComparedSet(NamedTuple):
    """The set's side of a comparison, and what is computed of other images."""

    images: ImageOverlap
    texts: TextOverlap
    features: ImageFeatures
    vectors: SetVectors | None
    by_bytes_alone: dict[str, int]


def find_overlap(stored: StoredSet, against: Sequence[str], out: Path, options: OverlapOptions) -> OverlapResult:
    """Compares a set with other collections. Raises UserError for a collection that cannot be read, and for an index
    without the PDQ hashes or vectors that are wanted."""
    compared = _prepare(stored, against, options)
    found = [pairs for one in against for pairs in _find_pairs(compared, one, out)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *PAIR_COLUMNS[1:]]]
    pairs["distance"] = pd.to_numeric(pairs["distance"])  # a part without pairs has objects
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    queries = classify_queries(stored.tables.queries, stored.tables.qrels, leaked["image"], leaked["text"])
    return OverlapResult(pairs, queries, compared.images.count, compared.by_bytes_alone, compared.vectors)


def _prepare(stored: StoredSet, against: Sequence[str], options: OverlapOptions) -> _ComparedSet:
    """Returns the set's side. Raises UserError for options that do not fit, before an image is read."""
    if options.min_cosine is not None and options.embedder is None:
        raise UserError(STAGE, "--min-cosine", "needs an embedder", "add --embedder NAME")
    indices = [Path(one) for one in against if Path(one).is_file() and is_index(Path(one))]
    lacking = next((file for file in indices if options.with_pdq and not has_pdq(file)), None)
    if lacking is not None:
        raise UserError(STAGE, lacking, "has no PDQ hashes", "leave out --hash pdq, or index the images with it")
    vectors = None if options.embedder is None else embed_set(options.embedder, stored, options.min_cosine)
    near = None if vectors is None else vectors.images
    by_image: Any = vectors.embedder if vectors is not None and near is not None else None
    for file in indices if by_image is not None else ():
        check_embedder(file, by_image)
    with_pdq = options.with_pdq or any(has_pdq(file) for file in indices)
    hashed = hash_set_images(stored, ImageFeatures(with_pdq))
    images = ImageOverlap(hashed, hash_set_crops(stored), near)
    alone = count_bytes_alone(stored.tables.images, hashed, get_render_options(stored.manifest).get("mode"))
    texts = TextOverlap(dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True)))
    return _ComparedSet(images, texts, ImageFeatures(with_pdq, by_image), vectors, alone)


def _find_pairs(compared: _ComparedSet, against: str, out: Path) -> Iterator[pd.DataFrame]:
    """Yields the pairs with one collection, of images and of texts. Raises UserError for one that has neither."""
    counts, texts, vectors = ReadCounts(), compared.texts, compared.vectors
    hashed, named = _open_collection(against, out, compared.features, counts)
    if hashed is not None:
        yield compared.images.find_pairs(hashed).assign(kind="image", against=against)
    if named is not None:
        found: Iterator[tuple[str, str, str, float]] = texts.find_pairs(named)
        if vectors is not None and vectors.texts is not None:
            found = find_near_texts(texts, vectors, named)
        yield pd.DataFrame(found, columns=PAIR_COLUMNS).assign(kind="text", against=against)
    report_skipped(against, counts)


def _open_collection(
    against: str, out: Path, features: ImageFeatures, counts: ReadCounts
) -> tuple[Iterable[pd.DataFrame] | None, Iterable[tuple[str, str]] | None]:
    """Returns the tables of images and the texts of a collection, None for what it has not. Raises UserError."""
    path = Path(against)
    if find_shards(STAGE, against):
        return _open_images(against, features, counts)
    if (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists():
        other = read_set(find_set(against, out))
        queries = zip(other.tables.queries["query_id"], other.tables.queries["text"], strict=True)
        return [hash_set_images(other, features)], queries
    if path.is_dir() or path.suffix in (".txt", ".lst"):
        return _open_images(against, features, counts)
    if is_index(path):
        return read_index(path, features.embedder), None
    if path.suffix not in (".csv", ".parquet"):
        reason = "is no folder, set, index, table, list or shard"
        raise UserError(STAGE, against, reason, "give one, or a .csv, .parquet, .txt or .tar file")
    if (column := find_text_column(path)) is None:
        return _open_images(against, features, counts)
    return None, read_texts(path, column)


def _open_images(
    against: str, features: ImageFeatures, counts: ReadCounts
) -> tuple[Iterable[pd.DataFrame], Iterable[tuple[str, str]]]:
    """Returns the images of a folder, a list or shards, and the captions of its shards, to be read in this order."""
    listed = list_images(against)

    def captions() -> Iterator[tuple[str, str]]:
        yield from iterate_captions(listed.shards, STAGE, counts)
        if not counts.read:
            raise no_image_error(against)

    return hash_images(listed, features, counts), captions()

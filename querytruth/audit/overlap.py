"""What a set shares with other collections: pairs with evidence, and per query leaked or clean.

Vectors of images and texts come from an embedder that a person names; a cosine counts as near by that embedder.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from querytruth.audit import overlap_pairs, overlap_sources
from querytruth.audit.overlap_index import check_embedder, has_pdq, is_index, read_index
from querytruth.backends.files import tar_files, text_formats
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.table_rows import TABLE_SUFFIXES
from querytruth.backends.models import embedders
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, translate_write_errors
from querytruth.evaluation.encoded_sets import encode_images
from querytruth.sets import decision_log, image_vectors, leaked_queries, ledger, published_files
from querytruth.sets.benchmark_set import canonical_json, get_render_options
from querytruth.sets.decision_records import MAX_TEXT_CHARS, QueryDecision
from querytruth.sets.set_files import StoredSet, find_set, locate_images, read_set

_KEY = "--min-cosine"
_IMAGE_COSINE = 0.95  # as near duplicates of a gallery have it
_BATCH = 2048  # texts that are encoded at once


@dataclass(frozen=True, slots=True)
class SetVectors:
    """The images and texts of a set as vectors; None for those that the embedder does not compare."""

    embedder: embedders.Embedder
    images: overlap_pairs.NearVectors | None
    texts: overlap_pairs.NearVectors | None

    def describe(self) -> dict[str, Any]:
        """Returns the embedder and the least cosines, for JSON."""
        cuts = {"images": self.images, "texts": self.texts}
        return {
            "name": self.embedder.name,
            "revision": self.embedder.revision,
            "min_cosine": {name: near.cut for name, near in cuts.items() if near is not None},
        }


def load_image_features(name: str) -> embedders.ImageTextEmbedder:
    """Returns the embedder of that name. Raises UserError where it reads no images."""
    embedder: Any = embedders.load_query_embedder(name)
    if not embedders.reads_images(embedder):
        raise UserError(overlap_sources.STAGE, name, "reads texts, but no images", "name a model of images and texts")
    loaded: embedders.ImageTextEmbedder = embedder
    return loaded


def embed_set(name: str, stored: StoredSet, min_cosine: float | None) -> SetVectors:
    """Returns the vectors of a set: of its images where the embedder of that name reads images, of its queries where it
    is made for comparing texts. `min_cosine` None: 0.95, the embedder's own for texts, or more where random pairs of
    the set are alike. Raises UserError for a cut among random pairs."""
    embedder: Any = embedders.load_query_embedder(name)
    folder = stored.path.parent.parent / ".vectors"
    images = texts = None
    if embedders.reads_images(embedder):
        encoded = encode_images(embedder, locate_images(stored), folder, ledger.Ledger())
        vectors = encoded.vectors[encoded.is_known]
        if len(vectors) < len(encoded.ids):
            current_run().reporter.log(f"{len(encoded.ids) - len(vectors):,} images of the set have no vector")
        background = image_vectors.measure_image_background(vectors)
        cut = image_vectors.choose_cosine_cut(
            overlap_sources.STAGE, _KEY, min_cosine, _IMAGE_COSINE, background, embedder.name
        )
        images = overlap_pairs.NearVectors(encoded.ids.filter(encoded.is_known).to_pylist(), vectors, cut)
    if embedders.compares_texts(embedder):
        queries = stored.tables.queries
        embedder.check_language(queries["text"])
        vectors = image_vectors.embed_texts(embedder, queries["text"].tolist(), folder)
        background = image_vectors.measure_cosine_background(vectors[~queries["text"].duplicated().to_numpy()])
        usual = embedder.near_duplicate_cosine
        cut = image_vectors.choose_cosine_cut(overlap_sources.STAGE, _KEY, min_cosine, usual, background, embedder.name)
        texts = overlap_pairs.NearVectors(queries["query_id"].tolist(), vectors, cut)
    if images is None and texts is None:
        raise UserError(
            overlap_sources.STAGE, name, "compares neither images nor texts", "name a model of images, or one of texts"
        )
    return SetVectors(embedder, images, texts)


def find_near_texts(
    texts: overlap_pairs.TextOverlap, vectors: SetVectors, others: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str, str, float]]:
    """Yields (query id, other item, evidence, distance) as `TextOverlap.find_pairs` does, and `vectors` with the cosine
    for those pairs that have no stronger evidence."""
    near, stream = vectors.texts, iter(others)
    assert near is not None
    while batch := list(islice(stream, _BATCH)):
        yield from texts.find_pairs(batch)
        different = list(dict.fromkeys(text for _, text in batch if text.strip()))
        rows, places, cosines = near.find(vectors.embedder.encode_texts(different))
        found: dict[str, list[tuple[str, float]]] = {}
        for row, place, cosine in zip(rows.tolist(), places.tolist(), cosines.tolist(), strict=True):
            found.setdefault(different[place], []).append((near.items[row], cosine))
        for item, text in batch:
            stronger = {name for name, _ in texts.find_evidence(text)} if text in found else set()
            for name, cosine in found.get(text, ()):
                if name not in stronger and texts.is_listed(name, "vectors"):
                    yield name, item, "vectors", cosine


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

    images: overlap_pairs.ImageOverlap
    texts: overlap_pairs.TextOverlap
    features: overlap_sources.ImageFeatures
    vectors: SetVectors | None
    by_bytes_alone: dict[str, int]


def find_overlap(stored: StoredSet, against: Sequence[str], out: Path, options: OverlapOptions) -> OverlapResult:
    """Compares a set with other collections. Raises UserError for a collection that cannot be read, and for an index
    without the PDQ hashes or vectors that are wanted."""
    compared = _prepare(stored, against, options)
    found = [pairs for one in against for pairs in _find_pairs(compared, one, out)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *overlap_pairs.PAIR_COLUMNS[1:]]]
    pairs["distance"] = pd.to_numeric(pairs["distance"])  # a part without pairs has objects
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    queries = leaked_queries.classify_queries(
        stored.tables.queries, stored.tables.qrels, leaked["image"], leaked["text"]
    )
    return OverlapResult(pairs, queries, compared.images.count, compared.by_bytes_alone, compared.vectors)


def _prepare(stored: StoredSet, against: Sequence[str], options: OverlapOptions) -> _ComparedSet:
    """Returns the set's side. Raises UserError for options that do not fit, before an image is read."""
    if options.min_cosine is not None and options.embedder is None:
        raise UserError(overlap_sources.STAGE, "--min-cosine", "needs an embedder", "add --embedder NAME")
    indices = [Path(one) for one in against if Path(one).is_file() and is_index(Path(one))]
    lacking = next((file for file in indices if options.with_pdq and not has_pdq(file)), None)
    if lacking is not None:
        raise UserError(
            overlap_sources.STAGE, lacking, "has no PDQ hashes", "leave out --hash pdq, or index the images with it"
        )
    vectors = None if options.embedder is None else embed_set(options.embedder, stored, options.min_cosine)
    near = None if vectors is None else vectors.images
    by_image: Any = vectors.embedder if vectors is not None and near is not None else None
    for file in indices if by_image is not None else ():
        check_embedder(file, by_image)
    with_pdq = options.with_pdq or any(has_pdq(file) for file in indices)
    hashed = overlap_sources.hash_set_images(stored, overlap_sources.ImageFeatures(with_pdq))
    images = overlap_pairs.ImageOverlap(hashed, overlap_sources.hash_set_crops(stored), near)
    alone = overlap_pairs.count_bytes_alone(
        stored.tables.images, hashed, get_render_options(stored.manifest).get("mode")
    )
    texts = overlap_pairs.TextOverlap(
        dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    )
    return _ComparedSet(images, texts, overlap_sources.ImageFeatures(with_pdq, by_image), vectors, alone)


def _find_pairs(compared: _ComparedSet, against: str, out: Path) -> Iterator[pd.DataFrame]:
    """Yields the pairs with one collection, of images and of texts. Raises UserError for one that has neither."""
    counts, texts, vectors = overlap_sources.ReadCounts(), compared.texts, compared.vectors
    hashed, named = _open_collection(against, out, compared.features, counts)
    if hashed is not None:
        yield compared.images.find_pairs(hashed).assign(kind="image", against=against)
    if named is not None:
        found: Iterator[tuple[str, str, str, float]] = texts.find_pairs(named)
        if vectors is not None and vectors.texts is not None:
            found = find_near_texts(texts, vectors, named)
        yield pd.DataFrame(found, columns=overlap_pairs.PAIR_COLUMNS).assign(kind="text", against=against)
    overlap_sources.report_skipped(against, counts)


def _open_collection(
    against: str, out: Path, features: overlap_sources.ImageFeatures, counts: overlap_sources.ReadCounts
) -> tuple[Iterable[pd.DataFrame] | None, Iterable[tuple[str, str]] | None]:
    """Returns the tables of images and the texts of a collection, None for what it has not. Raises UserError."""
    path = Path(against)
    if tar_files.find_shards(overlap_sources.STAGE, against):
        return _open_images(against, features, counts)
    if (path / "manifest.json").is_file() or published_files.newest_version(path) is not None or not path.exists():
        other = read_set(find_set(against, out))
        queries = zip(other.tables.queries["query_id"], other.tables.queries["text"], strict=True)
        return [overlap_sources.hash_set_images(other, features)], queries
    if path.is_dir() or path.suffix in (".txt", ".lst"):
        return _open_images(against, features, counts)
    if is_index(path):
        return read_index(path, features.embedder), None
    if path.suffix not in TABLE_SUFFIXES:
        reason = "is no folder, set, index, table, list or shard"
        next_step = f"give one, or a file with one of {', '.join((*TABLE_SUFFIXES, '.txt', '.tar'))}"
        raise UserError(overlap_sources.STAGE, against, reason, next_step)
    if (column := overlap_sources.find_text_column(path)) is None:
        return _open_images(against, features, counts)
    return None, overlap_sources.read_texts(path, column)


def _open_images(
    against: str, features: overlap_sources.ImageFeatures, counts: overlap_sources.ReadCounts
) -> tuple[Iterable[pd.DataFrame], Iterable[tuple[str, str]]]:
    """Returns the images of a folder, a list or shards, and the captions of its shards, to be read in this order."""
    listed = overlap_sources.list_images(against)

    def captions() -> Iterator[tuple[str, str]]:
        yield from overlap_sources.iterate_captions(listed.shards, overlap_sources.STAGE, counts)
        if not counts.read:
            raise overlap_sources.no_image_error(against)

    return overlap_sources.hash_images(listed, features, counts), captions()


def summarize_overlap(stored: StoredSet, against: Sequence[str], result: OverlapResult) -> dict[str, Any]:
    """Returns the counts, for JSON."""
    pairs, queries, vectors = result.pairs, result.queries, result.vectors
    return {
        "schema_version": 1,
        "set": str(stored.path),
        "content_digest": stored.manifest["content_digest"],
        "against": list(against),
        "pairs": {name: int(count) for name, count in pairs["evidence"].value_counts().sort_index().items()},
        "queries": len(queries),
        "leaked": int((queries["overlap"] == "leaked").sum()),
        "leaked_by_image": int(queries["by_image"].sum()),
        "leaked_by_text": int(queries["by_text"].sum()),
        "images": len(stored.tables.images),
        "images_compared": result.images_compared,
        "by_bytes_alone": result.by_bytes_alone,
        "embedder": None if vectors is None else vectors.describe(),
        "not_searched": _describe_limits(vectors),
        "leaked_queries": queries.loc[queries["overlap"] == "leaked", "query_id"].tolist(),
    }


def write_overlap(folder: Path, tables: dict[str, pd.DataFrame], summary: dict[str, Any]) -> None:
    """Writes pairs.csv, queries.csv and overlap.json. Raises UserError."""
    for name, table in tables.items():
        shown = (
            table.assign(distance=table["distance"].map(overlap_pairs.format_distance)) if name == "pairs" else table
        )
        text_formats.write_csv(folder / f"{name}.csv", shown.columns, shown.itertuples(index=False))
    with translate_write_errors("write overlap", folder):
        write_atomically(folder / leaked_queries.OVERLAP_FILE, canonical_json(summary))


def _describe_limits(vectors: SetVectors | None) -> list[str]:
    """Returns what no comparison looks for."""
    images, texts = (None, None) if vectors is None else (vectors.images, vectors.texts)
    cropped, rephrased = "images that are cropped by more than about 5% an edge, rotated or drawn over", "paraphrases"
    return [
        cropped if images is None else f"{cropped}, where the cosine is below {images.cut:g}",
        f"{rephrased} and translations of texts" + ("" if texts is None else f" with a cosine below {texts.cut:g}"),
    ]


def drop_leaked_queries(stored: StoredSet, queries: pd.DataFrame, against: Sequence[str], reviewer: str) -> int:
    """Appends a decision to drop each leaked query that none drops yet; returns how many. Raises UserError."""
    folder = stored.path.parent
    known = decision_log.load_decisions(folder, QueryDecision)
    dropped = {name for (name, image), one in known.items() if image is None and one.decision == "drop"}
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    leaked = [name for name in queries.loc[queries["overlap"] == "leaked", "query_id"] if name not in dropped]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    note = f"leaked: {', '.join(Path(one).name for one in against)}"[:MAX_TEXT_CHARS]
    decision_log.append_decisions(
        folder,
        [
            QueryDecision(name, texts[name], "drop", note=note, reviewer=reviewer, view="overlap", at=at)
            for name in leaked
        ],
    )
    return len(leaked)

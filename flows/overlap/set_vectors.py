"""The vectors of a set's images and texts by an embedder that a person names, and the cosines that count as near."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from backends.embedders import Embedder, ImageTextEmbedder, compares_texts, load_query_embedder, reads_images
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet
from builders.cosine_background import choose_cosine_cut, measure_cosine_background, measure_image_background
from builders.errors import UserError
from builders.ledger import Ledger
from builders.overlap.near_vectors import NearVectors
from builders.overlap.text_pairs import TextOverlap
from flows.images.embedding import embed_texts
from flows.overlap.source_images import STAGE
from flows.scoring.encoded_sets import encode_images
from flows.steps import current_run

_KEY = "--min-cosine"
_IMAGE_COSINE = 0.95  # as near duplicates of a gallery have it
_BATCH = 2048  # texts that are encoded at once


@dataclass(frozen=True, slots=True)
class SetVectors:
    """The images and texts of a set as vectors; None for those that the embedder does not compare."""

    embedder: Embedder
    images: NearVectors | None
    texts: NearVectors | None

    def describe(self) -> dict[str, Any]:
        """Returns the embedder and the least cosines, for JSON."""
        cuts = {"images": self.images, "texts": self.texts}
        return {
            "name": self.embedder.name,
            "revision": self.embedder.revision,
            "min_cosine": {name: near.cut for name, near in cuts.items() if near is not None},
        }


def load_image_features(name: str) -> ImageTextEmbedder:
    """Returns the embedder of that name. Raises UserError where it reads no images."""
    embedder: Any = load_query_embedder(name)
    if not reads_images(embedder):
        raise UserError(STAGE, name, "reads texts, but no images", "name a model of images and texts")
    loaded: ImageTextEmbedder = embedder
    return loaded


def embed_set(name: str, stored: StoredSet, min_cosine: float | None) -> SetVectors:
    """Returns the vectors of a set: of its images where the embedder of that name reads images, of its queries where it
    is made for comparing texts. `min_cosine` None: 0.95, the embedder's own for texts, or more where random pairs of
    the set are alike. Raises UserError for a cut among random pairs."""
    embedder: Any = load_query_embedder(name)
    folder = stored.path.parent.parent / ".vectors"
    images = texts = None
    if reads_images(embedder):
        encoded = encode_images(embedder, locate_images(stored), folder, Ledger())
        vectors = encoded.vectors[encoded.is_known]
        if len(vectors) < len(encoded.ids):
            current_run().reporter.log(f"{len(encoded.ids) - len(vectors):,} images of the set have no vector")
        background = measure_image_background(vectors)
        cut = choose_cosine_cut(STAGE, _KEY, min_cosine, _IMAGE_COSINE, background, embedder.name)
        images = NearVectors(encoded.ids.filter(encoded.is_known).to_pylist(), vectors, cut)
    if compares_texts(embedder):
        queries = stored.tables.queries
        embedder.check_language(queries["text"])
        vectors = embed_texts(embedder, queries["text"].tolist(), folder)
        background = measure_cosine_background(vectors[~queries["text"].duplicated().to_numpy()])
        usual = embedder.near_duplicate_cosine
        cut = choose_cosine_cut(STAGE, _KEY, min_cosine, usual, background, embedder.name)
        texts = NearVectors(queries["query_id"].tolist(), vectors, cut)
    if images is None and texts is None:
        raise UserError(STAGE, name, "compares neither images nor texts", "name a model of images, or one of texts")
    return SetVectors(embedder, images, texts)


def find_near_texts(
    texts: TextOverlap, vectors: SetVectors, others: Iterable[tuple[str, str]]
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

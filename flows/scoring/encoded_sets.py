"""A set's pictures and texts as vectors in one space: by a model, or from a folder of parts that others computed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from backends.durable_files import file_sha256
from backends.models.embedder_kinds import DualEmbedder, load_embedder
from backends.models.model_revisions import name_and_revision
from backends.pictures.rendering import PixelsJob
from backends.sets.picture_places import PicturePlace, picture_places
from backends.vectors.vector_parts import read_vectors
from backends.vectors.vector_store import Vectors
from builders.errors import UserError
from builders.ledger import Ledger, turned_away
from evaluation.identifiers import ids_of
from flows.pictures.decoded_pictures import DecodedPictures
from flows.scoring.judged_sets import Judged
from flows.scoring.kept_vectors import encoded_once
from flows.steps import Advance, current, step

SIDE = 1024  # pixels of the longer side at most: encoders look at 224 to 384
_PARTS = (("queries", "query_id", "query"), ("images", "image_id", "picture"))


@dataclass(frozen=True, slots=True)
class Side:
    """Pictures or texts: ids, a row (n, d) per id, and which rows are known."""

    ids: pa.Array
    vectors: Vectors
    known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EncodedSet:
    """Both sides of a set, what computed their vectors, and the book of what has none."""

    texts: Side
    pictures: Side
    described: dict[str, Any]
    ledger: Ledger


@step("encode set")
def encoded_by_model(name: str, judged: Judged) -> EncodedSet:
    """The set through a model by its folder or its name on the hub. Vectors are kept in the folder that the sets lie
    in, by the digest of what was encoded: no picture and no text is encoded twice with the same weights."""
    if (stored := judged.stored) is None:
        raise UserError("evaluate", name, "needs pictures and texts, which bare judgments lack", "name a set")
    embedder, ledger = load_embedder(name), Ledger()
    kept = stored.path.parent.parent / ".vectors"
    pictures = _pictures(embedder, picture_places(stored), kept, ledger)
    if not pictures.known.any():
        reason = f"none of the {len(pictures.ids):,} pictures is at hand"
        raise UserError("encode pictures", judged.described["name"], reason, "restore them, or build with `render`")
    texts = _texts(embedder, stored.tables.queries, kept)
    revision = embedder.fingerprint.removeprefix(f"{embedder.name}@")
    described = {"kind": "model", "name": embedder.name, "revision": revision, "dimensions": embedder.dimensions}
    return EncodedSet(texts, pictures, described, ledger)


@step("read vectors")
def encoded_elsewhere(folder: Path, judged: Judged) -> EncodedSet:
    """The set's vectors from `folder`/queries and `folder`/images; rows of other ids are passed over, and counted."""
    if judged.queries is None or judged.images is None:
        raise UserError("evaluate", folder, "needs a set's ids, which bare judgments lack", "name a set")
    ledger, strangers = Ledger(), 0
    sides = []
    for name, id_name, kind in _PARTS:
        ids = ids_of(getattr(judged, name)[id_name])
        with current().reporter.bar(f"read {name}", len(ids), "vectors") as advance:
            found = read_vectors(folder / name, id_name, ids, advance)
        strangers += found.strangers
        _book(ledger, f"read vectors of {name}", kind, ids, found.known, [("no_vector", "")] * len(ids))
        sides.append(Side(ids, found.vectors, found.known))
    parts = " ".join(name_and_revision(str(folder / name), None)[1] for name in ("images", "queries"))
    described = {
        "kind": "vectors",
        "name": folder.resolve().name,
        "revision": f"files:{hashlib.sha256(parts.encode()).hexdigest()}",
        "dimensions": int(sides[1].vectors.shape[1]),
        "rows_of_other_ids": strangers,
    }
    return EncodedSet(sides[0], sides[1], described, ledger)


def _texts(embedder: DualEmbedder, queries: pd.DataFrame, kept: Path) -> Side:
    """Encoded in the order of their lengths, so that a batch holds texts that are filled up alike."""
    texts = queries["text"].tolist()
    by_key = {hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(): text for text in texts}
    keys = sorted(by_key, key=lambda key: (len(by_key[key]), key))

    def encode(names: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        vectors = embedder.encode_texts([by_key[name] for name in names])
        advance(len(names))
        return list(range(len(names))), vectors

    fingerprint = f"{embedder.fingerprint} texts"
    vectors, known = encoded_once(keys, embedder.dimensions, encode, kept, fingerprint, "encode texts", "texts")
    row = {by_key[key]: place for place, key in enumerate(keys)}
    rows = [row[text] for text in texts]
    return Side(ids_of(queries["query_id"]), vectors[rows], known[rows])


def _pictures(embedder: DualEmbedder, places: list[PicturePlace], kept: Path, ledger: Ledger) -> Side:
    """A picture under two ids is encoded once; one that is gone, changed or no picture is in the ledger."""
    keys = [_key(place) for place in places]
    by_key = {key: place for key, place in zip(keys, places, strict=True) if key and place.location}
    faults: dict[str, tuple[str, str]] = {}

    def encode(names: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        shown = DecodedPictures([PixelsJob(str(by_key[name].location), SIDE, name) for name in names], advance)
        vectors = embedder.encode_images(shown)
        faults.update({names[number]: fault for number, fault in shown.faults.items()})
        return [number for number in range(len(names)) if number not in shown.faults], vectors

    fingerprint = f"{embedder.fingerprint} pixels {SIDE}"
    wanted = sorted(by_key)
    found = encoded_once(wanted, embedder.dimensions, encode, kept, fingerprint, "encode pictures", "pictures")
    at = {key: place for place, key in enumerate(wanted)}
    ids = pa.array([place.image_id for place in places], pa.large_string())
    side = _spread(ids, np.array([at.get(key, -1) for key in keys], dtype=np.int64), *found)
    told = [faults.get(key, (place.reason or "cannot_be_read", "")) for key, place in zip(keys, places, strict=True)]
    _book(ledger, "encode pictures", "picture", ids, side.known, told)
    return side


def _spread(ids: pa.Array, row: NDArray[np.int64], vectors: Vectors, known: NDArray[np.bool_]) -> Side:
    """Rows of different contents as rows of ids; -1 has none."""
    rows, there = np.maximum(row, 0), row >= 0
    if not len(vectors):
        return Side(ids, np.zeros((len(ids), vectors.shape[1]), np.float32), there)
    spread = vectors[rows]
    spread[~there] = 0
    return Side(ids, spread, there & known[rows])


def _key(place: PicturePlace) -> str:
    """The digest of what lies there; of a file that nobody digested before as it is now. Empty where there is none."""
    if place.sha256 is not None or place.location is None or "://" in place.location:
        return place.sha256 or ""
    try:
        return file_sha256(Path(place.location))[0]
    except OSError:
        return ""


def _book(
    ledger: Ledger, stage: str, kind: str, ids: pa.Array, known: NDArray[np.bool_], faults: list[tuple[str, str]]
) -> None:
    lost = np.flatnonzero(~known).tolist()
    items = ids.take(pa.array(lost, pa.int64())).to_pylist()
    away = turned_away(items, "quarantined", [faults[row][0] for row in lost], [faults[row][1] for row in lost])
    ledger.close(stage, kind, len(ids), int(known.sum()), away)

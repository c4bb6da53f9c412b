"""What a training learns from: a set cut into three parts, its pictures as pixels and its texts as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from backends.pictures.rendering import PixelsJob
from backends.sets import set_files
from backends.sets.picture_places import PicturePlace, picture_places
from backends.sets.set_files import StoredSet
from backends.vectors.pixel_store import open_pixels, write_pixels
from baselines.dual_encoder.split import PARTS, homes, pairs_within, split_pictures
from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.ledger import Ledger, turned_away
from flows.definitions import TrainingDefinition
from flows.pictures.decoded_pictures import DecodedPictures
from flows.scoring.encoded_sets import SIDE
from flows.steps import current, step

_STAGE = "read set"


@dataclass(frozen=True, slots=True)
class Parts:
    """A set's version as it is trained on: `part_of` pictures by image_id and `home` of queries by query_id are train,
    validation or test; `ledger` says what was left out."""

    stored: StoredSet
    part_of: pd.Series
    home: pd.Series
    ledger: Ledger

    @property
    def name(self) -> str:
        """The set with its version."""
        return f"{self.stored.manifest['name']}/v{self.stored.manifest['version']}"

    def tables(self, part: str) -> Tables:
        """The part as tables of its own; judgments are of what lies within it alone."""
        whole = self.stored.tables
        images = whole.images[whole.images["image_id"].map(self.part_of) == part].reset_index(drop=True)
        queries = whole.queries[whole.queries["query_id"].map(self.home) == part].reset_index(drop=True)
        inside = whole.qrels["query_id"].isin(queries["query_id"]) & whole.qrels["image_id"].isin(images["image_id"])
        qrels = whole.qrels[inside].reset_index(drop=True)
        answered = set(qrels.loc[qrels["relevance"] > 0, "query_id"].astype("object"))
        kept = queries[queries["query_id"].isin(answered)].reset_index(drop=True)
        qrels = qrels[qrels["query_id"].isin(kept["query_id"])].reset_index(drop=True)
        groups = whole.duplicates[whole.duplicates["duplicate_group"].isin(images["duplicate_group"].dropna())]
        return Tables(kept, images, qrels, duplicates=groups.reset_index(drop=True))

    def pairs(self, part: str) -> pd.DataFrame:
        """Every query of a part with each of its relevant pictures there (query_id, image_id)."""
        return pairs_within(part, self.home, self.part_of, self.stored.tables.qrels)

    def record(self) -> dict[str, Any]:
        """What the split came to, for whoever wants to know what was seen."""
        manifest = self.stored.manifest
        counts = {part: int((self.part_of == part).sum()) for part in PARTS}
        queries = {part: int((self.home == part).sum()) for part in PARTS}
        return {
            "set": self.name,
            "content_digest": manifest["content_digest"],
            "near_duplicates": manifest["configuration"].get("near_duplicates"),
            "pictures": counts,
            "queries": queries,
            "funnel": self.ledger.funnel(),
        }


@step("split")
def read_parts(definition: TrainingDefinition) -> Parts:
    """The set, a name below datasets/ or a folder, its pictures drawn into three parts. Queries of other languages than
    those wanted, and those without a relevant picture, are left out and counted."""
    stored = set_files.read(set_files.find(definition.set))
    tables, ledger = stored.tables, Ledger()
    queries = tables.queries
    if definition.languages is not None:
        wanted = queries["language"].isin(definition.languages)
        ledger.close("languages", "query", len(queries), int(wanted.sum()), _away(queries[~wanted], "other_language"))
        queries = queries[wanted]
    relevant = tables.qrels[tables.qrels["relevance"] > 0]
    if not relevant["query_id"].isin(queries["query_id"]).any():
        known = ", ".join(sorted(tables.queries["language"].unique())) or "none"
        way = f"name a set with queries; this one's languages: {known}"
        raise UserError(_STAGE, definition.set, "has no query with a relevant picture to train on", way)
    part_of = split_pictures(tables.images, definition.split.validation, definition.split.test, definition.seed)
    home = homes(queries, tables.qrels, part_of)
    homeless = queries[~queries["query_id"].isin(home.index)]
    ledger.close("split", "query", len(queries), len(home), _away(homeless, "no_relevant_picture"))
    return Parts(stored, part_of, home, ledger)


def _away(queries: pd.DataFrame, reason: str) -> pd.DataFrame:
    return turned_away(queries["query_id"].tolist(), "rejected", reason)


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pictures as a model is shown them: a row (side, side, 3) per id, mapped from disk; `known` where there is one."""

    ids: list[str]
    rows: NDArray[np.uint8]
    known: NDArray[np.bool_]


@step("read pictures")
def read_pixels(stored: StoredSet, side: int) -> Pixels:
    """Every picture of the set squashed to side x side, kept beside the sets: decoded once, not in every epoch and for
    every model."""
    places, folder = picture_places(stored), stored.path.parent.parent / ".pixels"
    ids = [place.image_id for place in places]
    key = hashlib.sha256(f"{side} {SIDE} {stored.manifest['content_digest']}".encode()).hexdigest()[:16]
    found = open_pixels(folder, key)
    if found is None:
        write_pixels(folder, key, (len(ids), side, side, 3), lambda rows: _decode(places, side, rows))
        found = open_pixels(folder, key)
    assert found is not None
    rows, known = found
    if not known.all():
        current().reporter.say(f"{int((~known).sum())} of {len(ids)} pictures cannot be read, and are left out")
    if not known.any():
        reason = "none of its pictures is at hand"
        raise UserError("read pictures", stored.path, reason, "restore them, or build the set with `render`")
    return Pixels(ids, rows, known)


def _decode(places: list[PicturePlace], side: int, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """As evaluation decodes them, so that both see the same."""
    from backends.embedders.dual_encoder import prepared

    known = np.zeros(len(places), dtype=bool)
    at_hand = [number for number, place in enumerate(places) if place.location is not None]
    jobs = [PixelsJob(str(places[number].location), SIDE, places[number].sha256) for number in at_hand]
    with current().reporter.bar("read pictures", len(jobs), "pictures") as advance:
        shown = DecodedPictures(jobs, advance)
        for drawn, picture in enumerate(shown):
            number = at_hand[drawn + len(shown.faults)]
            rows[number], known[number] = prepared(picture, side), True
    return known


@dataclass(frozen=True, slots=True)
class Pairs:
    """What is learned from: places of each pair's query and picture. `ids` and `mask` (queries, length) are the texts'
    tokens; `right` holds query x pictures + picture of every relevant pair, ascending; `keep_sides` and `keep_colours`
    (queries,) are what their words forbid to change."""

    query: NDArray[np.int64]
    picture: NDArray[np.int64]
    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    right: NDArray[np.int64]
    pictures: int
    keep_sides: NDArray[np.bool_]
    keep_colours: NDArray[np.bool_]

    def right_among(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(texts, pictures) of the chosen pairs: which text is right for which picture."""
        keys = self.query[chosen][:, None] * self.pictures + self.picture[chosen][None, :]
        places = np.minimum(np.searchsorted(self.right, keys), len(self.right) - 1)
        found: NDArray[np.bool_] = self.right[places] == keys
        return found


def pairs_of(parts: Parts, part: str, pixels: Pixels, tokenizer: Any, definition: TrainingDefinition) -> Pairs:
    """A part's pairs whose picture could be read. Pictures of one duplicate group are right for the same texts."""
    from backends.embedders.dual_encoder import token_numbers
    from baselines.dual_encoder.naming import names_colours, names_sides

    place = {name: number for number, name in enumerate(pixels.ids) if pixels.known[number]}
    pairs = parts.pairs(part)
    pairs = pairs[pairs["image_id"].isin(place)]
    queries = parts.stored.tables.queries.set_index("query_id").loc[sorted(pairs["query_id"].unique())]
    row = {name: number for number, name in enumerate(queries.index)}
    texts = queries["text"].tolist()
    ids, mask = token_numbers(tokenizer, texts, definition.max_length)
    careful = definition.augmentation is not None and definition.augmentation.keep_what_is_said
    query, picture = pairs["query_id"].map(row).to_numpy(), pairs["image_id"].map(place).to_numpy()
    return Pairs(
        query=query,
        picture=picture,
        ids=ids,
        mask=mask,
        right=_right(query, picture, _groups(parts.stored.tables.images, pixels.ids)),
        pictures=len(pixels.ids),
        keep_sides=_said(texts, names_sides, careful),
        keep_colours=_said(texts, names_colours, careful),
    )


def _said(texts: Iterable[str], named: Any, careful: bool) -> NDArray[np.bool_]:
    return np.array([careful and named(text) for text in texts], dtype=bool)


def _groups(images: pd.DataFrame, ids: list[str]) -> NDArray[np.int64]:
    """Per picture the place of its duplicate group among all groups."""
    by_id = images.set_index("image_id")["duplicate_group"].reindex(ids)
    names = by_id.astype("object").where(by_id.notna(), by_id.index)
    return np.unique(names.astype(str).to_numpy(), return_inverse=True)[1]


def _right(query: NDArray[Any], picture: NDArray[Any], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys of all pairs of a query and any picture that is the same as a relevant one."""
    of_group = pd.Series(np.arange(len(group))).groupby(group).agg(list)
    relevant = pd.DataFrame({"query": query, "group": group[picture]}).drop_duplicates()
    spread = relevant.assign(picture=relevant["group"].map(of_group)).explode("picture")
    queries, pictures = (spread[name].to_numpy(np.int64) for name in ("query", "picture"))
    keys: NDArray[np.int64] = np.unique(queries * len(group) + pictures)
    return keys

"""The data of a training: a set split into three parts, its images as pixels, its texts as token ids."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from querytruth.backends.files.text_files import iterate_lines
from querytruth.backends.images.rendering import PixelsJob
from querytruth.backends.models.vector_store import open_pixels, write_pixels
from querytruth.backends.steps import current_run, step
from querytruth.dual_encoder.definition import TrainingDefinition
from querytruth.errors import UserError
from querytruth.evaluation.encoded_sets import MAX_IMAGE_SIDE
from querytruth.records import stable_hash
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.image_vectors import DecodedImages
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.set_files import ImageLocation, StoredSet, locate_images

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LARGEST = 30_000
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
SPLIT_PARTS = ("train", "validation", "test")
_STAGE = "read set"


def build_vocabulary(texts: Iterable[str]) -> list[str]:
    """Return the vocabulary of a BERT tokenizer for these texts: every character, whole or as a piece of a word, and
    each word that occurs twice; the most frequent first, at most 30,000."""
    word_counts = Counter(word for text in texts for word in _WORD.findall(_plain(text)))
    letters = sorted({letter for word in word_counts for letter in word})
    whole = sorted((-count, word) for word, count in word_counts.items() if count > 1 and len(word) > 1)
    pieces = [f"##{letter}" for letter in letters if letter.isascii() and letter.isalnum()]
    return [*SPECIAL_TOKENS, *letters, *pieces, *(word for _, word in whole)][:_LARGEST]


def _plain(text: str) -> str:
    """Return the text as BERT's lower-casing tokenizer reads it: without accents."""
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in apart if unicodedata.category(letter) != "Mn")


def split_images(images: pd.DataFrame, validation: float, test: float, seed: int) -> pd.Series:
    """Return the part of each image, by image_id; it depends only on the seed and the ids. A duplicate group stays in
    one part. `validation` and `test`: a number of images, or below 1 a share; a group that does not fit goes to the
    next part. Raises UserError where a part is empty."""
    ids = images["image_id"].astype("object")
    group = images["duplicate_group"].astype("object").where(images["duplicate_group"].notna(), ids)
    # A group is known by its lowest image: names of groups may depend on how they were found.
    lowest = ids.groupby(group).transform("min")
    sizes = lowest.value_counts()
    shuffled = sorted(sizes.index, key=lambda name: (stable_hash(str(seed), "split", str(name)), name))
    remaining = {"test": _count(test, len(ids)), "validation": _count(validation, len(ids))}
    part_of = dict.fromkeys(shuffled, "train")
    for name in shuffled:
        for part in remaining:
            if sizes[name] <= remaining[part]:
                remaining[part] -= int(sizes[name])
                part_of[name] = part
                break
    parts = pd.Series(lowest.map(part_of).to_numpy(), index=pd.Index(ids, name="image_id"), name="part")
    for part in SPLIT_PARTS:
        if not (parts == part).any():
            raise UserError("split", part, f"gets none of the {len(ids)} images", "give a larger set, or other shares")
    return parts


def read_parts(images: pd.DataFrame, lists: Mapping[Any, Path]) -> pd.Series:
    """Return the part of each listed image, by image_id, from lists of names. Raises UserError for an image in two
    lists, and for a list without any image of the set."""
    part_of: dict[str, str] = {}
    for part, path in lists.items():
        for name in (_base_name(line) for _, line in iterate_lines(path) if line.strip()):
            if part_of.setdefault(name, part) != part:
                reason = f"lists {name}, which is also in the list of {part_of[name]}"
                raise UserError("split", path, reason, "keep it in one of them")
    parts = images["file_name"].fillna("").map(_base_name).map(part_of)
    for part, path in lists.items():
        if not (parts == part).any():
            raise UserError("split", path, "lists none of the set's images", "give the list of file names of this part")
    return pd.Series(
        parts.to_numpy(), index=pd.Index(images["image_id"].astype("object"), name="image_id"), name="part"
    )


def _base_name(name: str) -> str:
    return PurePosixPath(name.strip()).name.removesuffix(".jpg")


def _count(share: float, images: int) -> int:
    return int(share) if share >= 1 else round(share * images)


def assign_queries_to_parts(queries: pd.DataFrame, qrels: pd.DataFrame, parts: pd.Series) -> pd.Series:
    """Return per query, by query_id, the part that it belongs to: that of the image it was written of, else of its
    relevant image with the lowest id. A query without either is in none and left out."""
    relevant = qrels.loc[qrels["relevance"] > 0, ["query_id", "image_id"]].astype("object")
    first = relevant.groupby("query_id")["image_id"].min()
    ids = queries["query_id"].astype("object")
    source = queries["source_image_id"].astype("object")
    source_or_first = source.where(source.isin(parts.index), ids.map(first))
    part_of_query: pd.Series = pd.Series(
        source_or_first.map(parts).to_numpy(), index=pd.Index(ids, name="query_id"), name="part"
    )
    return part_of_query.dropna()


def select_relevant_pairs(
    part: str, part_of_query: pd.Series, part_of_image: pd.Series, qrels: pd.DataFrame
) -> pd.DataFrame:
    """Return the relevant pairs (query_id, image_id) whose query and image both belong to a part, in order."""
    relevant = qrels.loc[qrels["relevance"] > 0, ["query_id", "image_id"]].astype("object")
    inside = (relevant["query_id"].map(part_of_query) == part) & (relevant["image_id"].map(part_of_image) == part)
    return relevant[inside.to_numpy()].sort_values(["query_id", "image_id"]).reset_index(drop=True)


def shuffle_batches(pairs: int, batch: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Return the batches of an epoch, as indexes of pairs, shuffled anew in each epoch; pairs that do not fill the last
    batch wait for another epoch. Fewer pairs than a batch are one batch."""
    order = np.random.default_rng(stable_hash(str(seed), "order", str(epoch))).permutation(pairs)
    size = min(batch, pairs)
    return [order[start : start + size] for start in range(0, pairs - size + 1, size)]


@dataclass(frozen=True, slots=True)
class SplitSet:
    """A version of a set split for training: `part_of_image` by image_id and `part_of_query` by query_id are train,
    validation or test; `ledger` lists what was left out."""

    stored: StoredSet
    part_of_image: pd.Series
    part_of_query: pd.Series
    ledger: Ledger

    @property
    def name(self) -> str:
        """Return the set with its version."""
        return f"{self.stored.manifest['name']}/v{self.stored.manifest['version']}"

    def part_tables(self, part: str) -> Tables:
        """Return the part as tables of its own, with the judgments inside it."""
        whole = self.stored.tables
        images = whole.images[whole.images["image_id"].map(self.part_of_image) == part].reset_index(drop=True)
        queries = whole.queries[whole.queries["query_id"].map(self.part_of_query) == part].reset_index(drop=True)
        inside = whole.qrels["query_id"].isin(queries["query_id"]) & whole.qrels["image_id"].isin(images["image_id"])
        qrels = whole.qrels[inside].reset_index(drop=True)
        answered = set(qrels.loc[qrels["relevance"] > 0, "query_id"].astype("object"))
        answerable = queries[queries["query_id"].isin(answered)].reset_index(drop=True)
        qrels = qrels[qrels["query_id"].isin(answerable["query_id"])].reset_index(drop=True)
        groups = whole.duplicates[whole.duplicates["duplicate_group"].isin(images["duplicate_group"].dropna())]
        return Tables(answerable, images, qrels, duplicates=groups.reset_index(drop=True))

    def summarize(self) -> dict[str, Any]:
        """Return the sizes of the split, for the report."""
        manifest = self.stored.manifest
        counts = {part: int((self.part_of_image == part).sum()) for part in SPLIT_PARTS}
        queries = {part: int((self.part_of_query == part).sum()) for part in SPLIT_PARTS}
        return {
            "set": self.name,
            "content_digest": manifest["content_digest"],
            "near_duplicates": manifest["configuration"].get("near_duplicates"),
            "pictures": counts,
            "queries": queries,
            "funnel": self.ledger.funnel(),
        }


@step("split")
def load_split_set(definition: TrainingDefinition) -> SplitSet:
    """Load the set, given by its name below datasets/ or by folder, and splits its images into three parts. Queries in
    other languages than the definition's, and those without a relevant image, are left out and counted."""
    stored = set_files.read_set(set_files.find_set(definition.set))
    tables, ledger = stored.tables, Ledger()
    queries = tables.queries
    if definition.languages is not None:
        wanted = queries["language"].isin(definition.languages)
        ledger.record_stage(
            "languages", "query", len(queries), int(wanted.sum()), _reject_queries(queries[~wanted], "other_language")
        )
        queries = queries[wanted]
    relevant = tables.qrels[tables.qrels["relevance"] > 0]
    if not relevant["query_id"].isin(queries["query_id"]).any():
        known = ", ".join(sorted(tables.queries["language"].unique())) or "none"
        fix = f"name a set with queries; this one's languages: {known}"
        raise UserError(_STAGE, definition.set, "has no query with a relevant image to train on", fix)
    wanted_parts, images = definition.split, tables.images
    if wanted_parts.lists is not None:
        part_of_image = read_parts(images, wanted_parts.lists)
    else:
        part_of_image = split_images(images, wanted_parts.validation, wanted_parts.test, definition.seed)
    part_of_query = assign_queries_to_parts(queries, tables.qrels, part_of_image)
    unassigned = queries[~queries["query_id"].isin(part_of_query.index)]
    ledger.record_stage(
        "split", "query", len(queries), len(part_of_query), _reject_queries(unassigned, "no_relevant_image")
    )
    return SplitSet(stored, part_of_image, part_of_query, ledger)


def _reject_queries(queries: pd.DataFrame, reason: str) -> pd.DataFrame:
    return rejection_rows(queries["query_id"], "rejected", reason, item_id=queries["query_id"])


@dataclass(frozen=True, slots=True)
class PixelTable:
    """Images at the model's input size: a memory-mapped row (side, side, 3) per id; `is_known` marks the rows that
    exist."""

    ids: list[str]
    rows: NDArray[np.uint8]
    is_known: NDArray[np.bool_]


@step("read images")
def read_pixels(stored: StoredSet, side: int) -> PixelTable:
    """Return every image of the set squashed to side x side. They are stored beside the sets: decoded once, not in
    every epoch and for every model."""
    places, folder = locate_images(stored), stored.path.parent.parent / ".pixels"
    ids = [place.image_id for place in places]
    key = hashlib.sha256(f"{side} {MAX_IMAGE_SIDE} {stored.manifest['content_digest']}".encode()).hexdigest()[:16]
    stored_pixels = open_pixels(folder, key)
    if stored_pixels is None:
        write_pixels(folder, key, (len(ids), side, side, 3), lambda rows: _decode(places, side, rows))
        stored_pixels = open_pixels(folder, key)
    assert stored_pixels is not None
    rows, known = stored_pixels
    if not known.all():
        current_run().reporter.log(f"{int((~known).sum())} of {len(ids)} images cannot be read and are left out")
    if not known.any():
        reason = "none of its images is available"
        raise UserError("read images", stored.path, reason, "restore them, or build the set with `render`")
    return PixelTable(ids, rows, known)


def _decode(places: list[ImageLocation], side: int, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Decode as evaluation does, so that both use the same pixels."""
    from querytruth.dual_encoder.embedder import prepare_image

    known = np.zeros(len(places), dtype=bool)
    at_hand = [number for number, place in enumerate(places) if place.location is not None]
    jobs = [PixelsJob(str(places[number].location), MAX_IMAGE_SIDE, places[number].sha256) for number in at_hand]
    with current_run().reporter.bar("read images", len(jobs), "images") as advance:
        shown = DecodedImages(jobs, advance)
        for drawn, image in enumerate(shown):
            number = at_hand[drawn + len(shown.failures)]
            rows[number], known[number] = prepare_image(image, side), True
    return known


@dataclass(frozen=True, slots=True)
class TrainingPairs:
    """Training pairs: positions of each pair's query and image. `token_ids` and `mask` (queries, length) are the texts'
    tokens; `relevant_keys` holds query x images + image of every relevant pair, ascending; `keep_orientation` and
    `keep_colours` (queries,) are augmentations that the captions forbid."""

    query: NDArray[np.int64]
    image: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    relevant_keys: NDArray[np.int64]
    images: int
    keep_orientation: NDArray[np.bool_]
    keep_colours: NDArray[np.bool_]

    def relevance_matrix(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a matrix (texts, images) of the chosen pairs: which text is relevant to which image."""
        keys = self.query[chosen][:, None] * self.images + self.image[chosen][None, :]
        places = np.minimum(np.searchsorted(self.relevant_keys, keys), len(self.relevant_keys) - 1)
        is_relevant: NDArray[np.bool_] = self.relevant_keys[places] == keys
        return is_relevant


def build_training_pairs(
    parts: SplitSet, part: str, pixels: PixelTable, tokenizer: object, definition: TrainingDefinition
) -> TrainingPairs:
    """Build the pairs of a part whose image could be read. All images of a duplicate group are relevant for the same
    texts."""
    from querytruth.dual_encoder.augmentation import mentions_colours, mentions_left_or_right
    from querytruth.dual_encoder.embedder import tokenize_texts

    row_of_image = {name: number for number, name in enumerate(pixels.ids) if pixels.is_known[number]}
    pairs = select_relevant_pairs(part, parts.part_of_query, parts.part_of_image, parts.stored.tables.qrels)
    pairs = pairs[pairs["image_id"].isin(row_of_image)]
    queries = parts.stored.tables.queries.set_index("query_id").loc[sorted(pairs["query_id"].unique())]
    row = {name: number for number, name in enumerate(queries.index)}
    texts = queries["text"].tolist()
    ids, mask = tokenize_texts(tokenizer, texts, definition.max_length)
    respects_captions = definition.augmentation is not None and definition.augmentation.respect_captions
    query, image = pairs["query_id"].map(row).to_numpy(), pairs["image_id"].map(row_of_image).to_numpy()
    return TrainingPairs(
        query=query,
        image=image,
        token_ids=ids,
        mask=mask,
        relevant_keys=_relevant_keys(query, image, _groups(parts.stored.tables.images, pixels.ids)),
        images=len(pixels.ids),
        keep_orientation=_mark_mentions(texts, mentions_left_or_right, respects_captions),
        keep_colours=_mark_mentions(texts, mentions_colours, respects_captions),
    )


def _mark_mentions(texts: Iterable[str], mentions: Any, is_enabled: bool) -> NDArray[np.bool_]:
    return np.array([is_enabled and mentions(text) for text in texts], dtype=bool)


def _groups(images: pd.DataFrame, ids: list[str]) -> NDArray[np.int64]:
    """Return per image the position of its duplicate group among all groups."""
    by_id = images.set_index("image_id")["duplicate_group"].reindex(ids)
    names = by_id.astype("object").where(by_id.notna(), by_id.index)
    return np.unique(names.astype(str).to_numpy(), return_inverse=True)[1]


def _relevant_keys(query: NDArray[Any], image: NDArray[Any], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the keys of all pairs of a query and a relevant image or a duplicate of one."""
    of_group = pd.Series(np.arange(len(group))).groupby(group).agg(list)
    relevant = pd.DataFrame({"query": query, "group": group[image]}).drop_duplicates()
    spread = relevant.assign(image=relevant["group"].map(of_group)).explode("image")
    queries, images = (spread[name].to_numpy(np.int64) for name in ("query", "image"))
    keys: NDArray[np.int64] = np.unique(queries * len(group) + images)
    return keys

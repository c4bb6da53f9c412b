"""The split of a set into parts for training, validation and test."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.errors import UserError
from builders.records import stable_hash

SPLIT_PARTS = ("train", "validation", "test")


def split_images(images: pd.DataFrame, validation: float, test: float, seed: int) -> pd.Series:
    """Returns the part of each image, by image_id; it depends only on the seed and the ids. A duplicate group stays in
    one part. `validation` and `test`: a number of images, or below 1 a share; a group that does not fit goes to the
    next part. Raises UserError where a part is empty."""
    ids = images["image_id"].astype("object")
    group = images["duplicate_group"].astype("object").where(images["duplicate_group"].notna(), ids)
    # A group is known by its lowest picture: names of groups may depend on how they were found.
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
            raise UserError("split", part, f"has none of the {len(ids)} pictures", "give a larger set, or other shares")
    return parts


def _count(share: float, images: int) -> int:
    return int(share) if share >= 1 else round(share * images)


def assign_queries_to_parts(queries: pd.DataFrame, qrels: pd.DataFrame, parts: pd.Series) -> pd.Series:
    """Per query, by query_id, the part that it belongs to: that of the picture it was written of, else of its relevant
    picture with the lowest id. A query without either is in none and left out."""
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
    """The relevant pairs (query_id, image_id) whose query and picture both belong to a part, in order."""
    relevant = qrels.loc[qrels["relevance"] > 0, ["query_id", "image_id"]].astype("object")
    inside = (relevant["query_id"].map(part_of_query) == part) & (relevant["image_id"].map(part_of_image) == part)
    return relevant[inside.to_numpy()].sort_values(["query_id", "image_id"]).reset_index(drop=True)


def shuffle_batches(pairs: int, batch: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The batches of an epoch, by place among the pairs, shuffled anew in each; what does not fill the last one waits
    for another epoch. Fewer pairs than a batch are one batch."""
    order = np.random.default_rng(stable_hash(str(seed), "order", str(epoch))).permutation(pairs)
    size = min(batch, pairs)
    return [order[start : start + size] for start in range(0, pairs - size + 1, size)]

"""Duplicate groups of images: found by what their scan says, and by an embedder where the definition names one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from builders.gallery.edit_alignment import LEAST_MATCHING_SHARE
from builders.gallery.edited_copies import PATCH_DISTANCE
from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.backends.images.hash_similarity import OUTLINE_COSINE
from querytruth.backends.steps import step
from querytruth.definitions import NearDuplicateOptions
from querytruth.sets.decision_log import load_decisions
from querytruth.sets.decision_records import ImagePairDecision
from querytruth.sets.manifest import Provenance, Threshold, describe_threshold

Locate = Callable[[Sequence[str]], Sequence[Any]]
_FEATURES = ["pixels", "phash", "outline", "turned", "colours", "details", "patches", "thumbnail", "is_damaged"]


def duplicate_columns(rules: NearDuplicateOptions) -> list[str]:
    """The columns of a scan that duplicates are found by, besides the digests of bytes and pixels."""
    columns = ["image_id", "item", "width", "height", "taken_at", "latitude"]
    if rules.distance is not None:
        columns += ["phash", "outline", "colours", "details"] + (["turned"] if rules.flips or rules.rotations else [])
        columns += ["patches", "thumbnail"] if rules.edits else []
    return columns


@step("find duplicates")
def group_duplicates(
    frame: pd.DataFrame, rules: NearDuplicateOptions, locate: Locate, folder: Path
) -> tuple[DuplicateGroups, Provenance]:
    """The duplicate groups of scanned images, and the models and cuts that they were found by.

    `locate` gives the places of items; it is called only for an embedder, which needs the images themselves. The set's
    `folder` holds the embedder's vectors and the decisions on image pairs.
    """
    pairs, provenance = None, Provenance(thresholds=_list_hash_thresholds(rules))
    if rules.embedder is not None:
        from querytruth.sets.image_vectors import find_similar_pairs  # loads a model: only where one is wanted

        pairs, found_by = find_similar_pairs(frame, locate(frame["item"]), rules.embedder, rules.cosine, folder)
        provenance += found_by
    transforms = {"flips": rules.flips, "rotations": rules.rotations, "edits": rules.edits}
    decisions = [*load_decisions(folder, ImagePairDecision).values()]
    return find_duplicates(frame, distance=rules.distance, **transforms, pairs=pairs, decisions=decisions), provenance


def mark_duplicates(
    images: pd.DataFrame, scanned: pd.DataFrame, rules: NearDuplicateOptions, folder: Path
) -> tuple[pd.DataFrame, DuplicateGroups, Provenance]:
    """The images table of a set that keeps its duplicates, with `duplicate_group` filled in; the groups; the models and
    cuts that they were found by.

    `scanned` has the scan of each image, by sha256; `is_damaged` may be missing.
    """
    by_sha256 = scanned.dropna(subset=["sha256"]).drop_duplicates("sha256").set_index("sha256")
    features = by_sha256.reindex(images["sha256"], columns=_FEATURES).reset_index(drop=True)
    features["is_damaged"] = features["is_damaged"].eq(True)
    frame = pd.concat([images.rename(columns={"file_name": "item"}).reset_index(drop=True), features], axis=1)
    path_of_item = dict(zip(frame["item"], frame["path"], strict=True))
    groups, provenance = group_duplicates(frame, rules, lambda items: [path_of_item[item] for item in items], folder)
    return images.assign(duplicate_group=groups.group), groups, provenance


def _list_hash_thresholds(rules: NearDuplicateOptions) -> list[Threshold]:
    thresholds = []
    if rules.distance is not None:
        thresholds.append(describe_threshold("near_duplicates.distance", "at most", rules.distance))
        thresholds.append(describe_threshold("near_duplicates.outline_cosine", "at least", OUTLINE_COSINE))
    if rules.distance is not None and rules.edits:
        thresholds.append(describe_threshold("near_duplicates.patch_distance", "at most", PATCH_DISTANCE))
        thresholds.append(describe_threshold("near_duplicates.matching_share", "at least", LEAST_MATCHING_SHARE))
    return thresholds

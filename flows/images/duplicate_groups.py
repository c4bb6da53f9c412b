"""Which pictures are alike: what the gallery and the precision set both ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from builders.decisions.records import ImagePairDecision
from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from flows.decision_inputs import load_decisions
from flows.definitions import NearDuplicateOptions
from flows.steps import step

Locate = Callable[[Sequence[str]], Sequence[Any]]


def duplicate_columns(rules: NearDuplicateOptions) -> list[str]:
    """SCANNED's columns that tell which pictures are alike, besides the digests of their bytes and pixels."""
    columns = ["image_id", "item", "width", "height"]
    if rules.distance is not None:
        columns += ["phash", "outline"] + (["turned"] if rules.flips or rules.rotations else [])
    return columns


@step("find duplicates")
def group_duplicates(
    frame: pd.DataFrame, rules: NearDuplicateOptions, locate: Locate, folder: Path
) -> tuple[DuplicateGroups, list[dict[str, Any]]]:
    """The duplicate groups of pictures with SCANNED's columns, and the models that helped to find them. `locate`
    gives the places of items; it is asked only where an embedder looks at the pictures, whose vectors are kept below
    the set's `folder`, where people's decisions on images lie, too."""
    pairs, models = None, []
    if rules.embedder is not None:
        from flows.images.embedding import find_similar_pairs  # loads a model: only where one is wanted

        pairs, model = find_similar_pairs(frame, locate(frame["item"]), rules.embedder, rules.cosine, folder)
        models.append(model)
    transforms = {"flips": rules.flips, "rotations": rules.rotations}
    decisions = [*load_decisions(folder, ImagePairDecision).values()]
    return find_duplicates(frame, distance=rules.distance, **transforms, pairs=pairs, decisions=decisions), models

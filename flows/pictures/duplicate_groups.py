"""Which pictures are alike: what the gallery and the precision set both ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from builders.gallery.near_duplicates import Duplicates, find_duplicates
from flows.definitions import NearDuplicates
from flows.steps import step
from flows.told import told_pictures

Locate = Callable[[Sequence[str]], Sequence[Any]]


def looks_of(rules: NearDuplicates) -> list[str]:
    """SCANNED's columns that tell which pictures are alike, besides the digests of their bytes and pixels."""
    columns = ["image_id", "item", "width", "height"]
    if rules.distance is not None:
        columns += ["phash", "outline"] + (["turned"] if rules.flips or rules.rotations else [])
    return columns


@step("find duplicates")
def group_duplicates(
    frame: pd.DataFrame, rules: NearDuplicates, locate: Locate, folder: Path
) -> tuple[Duplicates, list[dict[str, Any]]]:
    """The duplicate groups of pictures with SCANNED's columns, and the models that helped to find them. `locate`
    gives the places of items; it is asked only where an embedder looks at the pictures, whose vectors are kept below
    the set's `folder`, where people's words on pictures lie, too."""
    pairs, models = None, []
    if rules.embedder is not None:
        from flows.pictures.picture_embedding import embedded_pairs  # loads a model: only where one is wanted

        pairs, model = embedded_pairs(frame, locate(frame["item"]), rules.embedder, rules.cosine, folder)
        models.append(model)
    turns = {"flips": rules.flips, "rotations": rules.rotations}
    words = told_pictures(folder)
    return find_duplicates(frame, distance=rules.distance, **turns, pairs=pairs, words=words), models

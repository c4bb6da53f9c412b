"""The names by which other programs know the images of a set, its copies included."""

from collections import Counter
from pathlib import Path

import pandas as pd

from backends.sets.set_files import read_set
from evaluation.duplicate_folding import find_representatives


def read_named_images(path: Path) -> pd.DataFrame:
    """Returns the images of a version, and a row for each copy that its gallery lists once: with the copy's file name
    and the id of the image that it counts as. An index that holds all files answers with any of the names."""
    tables = read_set(path, ("images", "duplicates")).tables
    return add_copies(tables.images, tables.duplicates)


def add_copies(images: pd.DataFrame, duplicates: pd.DataFrame) -> pd.DataFrame:
    """Returns the images and a row (image_id, file_name) for each copy of one of them."""
    if duplicates.empty:
        return images
    represented = find_representatives(duplicates, images["image_id"])
    counts_as = duplicates["image_id"].astype("str").replace(represented.to_dict())
    copies = pd.DataFrame({"image_id": counts_as, "file_name": duplicates["item"].astype("str")})
    is_new = counts_as.isin(images["image_id"]) & ~copies["file_name"].isin(images["file_name"])
    return pd.concat([images, copies[is_new]], ignore_index=True)


def map_ids(images: pd.DataFrame, column: str) -> dict[str, str]:
    """Returns the image id by the id that a system answers with; ids that several images share are in none."""
    pairs = zip(images[column].tolist(), images["image_id"].tolist(), strict=True)
    known = {(str(name), str(image_id)) for name, image_id in pairs if isinstance(name, str) and name}
    shared = Counter(name for name, _ in known)
    return {name: image_id for name, image_id in sorted(known) if shared[name] == 1}

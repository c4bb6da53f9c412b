"""Which of several copies of an image represents them.

A copy loses something: colours, pixels, the camera's metadata. Where nothing is lost, the file's place tells: a folder
whose images nearly all lie elsewhere as well is a copy of other folders, whatever its name; and the name of a copied
file or folder is that of the original with something appended. No file dates: they change whenever files are copied.
"""

from collections import Counter

import numpy as np
import pandas as pd

from builders.array_types import BoolArray, FloatArray, RowIndices
from builders.gallery.edited_copies import count_own_pixels


def rank_by_preference(frame: pd.DataFrame, components: RowIndices, muteness: RowIndices) -> RowIndices:
    """Returns the place of each row (n,) in the order of preference: with colours (the least `muteness`), then most
    pixels inside its borders, then with capture time and place, then of the folder of which the smallest share of
    images has a copy in another one, then the shortest item, then the smallest image_id, then item. `components`: per
    row the name of the images that may be the same as it."""
    count = len(frame)
    rows = np.flatnonzero(np.bincount(components, minlength=count)[components] > 1)
    keys = np.zeros((4, count))
    some = frame.iloc[rows]
    keys[0] = muteness
    keys[1, rows] = -count_own_pixels(some, components[rows])
    for name in ("taken_at", "latitude"):
        if name in frame:
            keys[2, rows] -= some[name].notna().to_numpy()
    items = frame["item"].astype("str")
    keys[3] = _copied_shares(items, components, rows)
    lengths = items.str.len().to_numpy()
    ids, places = (pd.factorize(frame[name], sort=True)[0] for name in ("image_id", "item"))
    order = np.lexsort((places, ids, lengths, keys[3], keys[2], keys[1], keys[0]))
    preference = np.empty(count, dtype=np.int64)
    preference[order] = np.arange(count)
    return preference


def _copied_shares(items: pd.Series, components: RowIndices, rows: RowIndices) -> FloatArray:
    """Returns per row the share of its folder's images that have a copy in another folder."""
    folders = pd.factorize(items.str.rpartition("/")[0])[0] if len(items) else np.zeros(0, np.int64)
    pairs = np.unique(np.stack([components[rows], folders[rows]]), axis=1)
    in_several = np.array([number for number, folders_of in Counter(pairs[0].tolist()).items() if folders_of > 1])
    is_copied: BoolArray = np.zeros(len(items), dtype=bool)
    is_copied[rows] = np.isin(components[rows], in_several)
    totals = np.bincount(folders, minlength=1)
    shares: FloatArray = np.bincount(folders, is_copied, minlength=1) / np.maximum(totals, 1)
    return np.round(shares[folders], 6) if len(items) else np.zeros(0)

"""Pictures that people want in the gallery though a rule turns them away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from builders.rescues import Rescue
from builders.told import Told
from flows.pictures.picture_scan import ScannedPictures

Rows = np.ndarray[Any, np.dtype[np.int64]]
_GONE = "the picture is gone, or cannot be read"
_THE_SAME = "it counts as the same picture as another: say in Duplicates that it is not"


@dataclass(frozen=True, slots=True)
class WantedPictures:
    """The rescued pictures among those that could be read: by image_id their places among all that were scanned, of
    which several may have the same bytes."""

    rows: Mapping[str, Rows]
    rescues: Mapping[str, Rescue]

    def among(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each of the rows is wanted."""
        return np.isin(rows, np.concatenate([[], *self.rows.values()]).astype(np.int64))

    def told(self, chosen: Rows) -> Told:
        """What became of the words, now that the pictures are chosen."""
        inside = {item for item, rows in self.rows.items() if np.isin(rows, chosen).any()}
        stale = [
            (word, _THE_SAME if item in self.rows else _GONE)
            for item, word in self.rescues.items()
            if item not in inside
        ]
        return Told([self.rescues[item].decision_id for item in sorted(inside)], stale)


def wanted_pictures(pictures: ScannedPictures, readable: Rows, rescues: Mapping[str, Rescue]) -> WantedPictures:
    """Those of the rescues that are about pictures."""
    about = {item: word for item, word in rescues.items() if item.startswith("img_")}
    if not about:  # the ids of a million pictures are not made for nothing
        return WantedPictures({}, {})
    ids = pictures.frame(["image_id"], readable)["image_id"]
    found = readable[ids.isin(list(about)).to_numpy()]
    named = pictures.frame(["image_id"], found)["image_id"].to_numpy(dtype=object)
    return WantedPictures({str(name): found[named == name] for name in np.unique(named)}, about)

"""The images that people want in a gallery although a rule rejected them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from builders.array_types import RowIndices
from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from flows.images.image_scan import ScannedImages

_UNREADABLE_REASON = "the picture is gone, or cannot be read"
_DUPLICATE_REASON = "it counts as the same picture as another: say in Duplicates that it is not"


@dataclass(frozen=True, slots=True)
class OverriddenImages:
    """The overrides of readable images: `rows` has by image_id the rows of that image among all scanned ones, of which
    several may have the same bytes; `overrides` those of all images."""

    rows: Mapping[str, RowIndices]
    overrides: Mapping[str, Override]

    def is_overridden(self, rows: RowIndices) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each row whether a person overrides the rejection of its image."""
        return np.isin(rows, np.concatenate([[], *self.rows.values()]).astype(np.int64))

    def decision_outcome(self, chosen: RowIndices) -> DecisionOutcome:
        """Which overrides take effect when the rows `chosen` are selected, and why the others do not."""
        applied = {item for item, rows in self.rows.items() if np.isin(rows, chosen).any()}
        stale = [
            (override, _DUPLICATE_REASON if item in self.rows else _UNREADABLE_REASON)
            for item, override in self.overrides.items()
            if item not in applied
        ]
        return DecisionOutcome([self.overrides[item] for item in sorted(applied)], stale)


def find_overridden_images(
    images: ScannedImages, readable: RowIndices, overrides: Mapping[str, Override]
) -> OverriddenImages:
    """The overrides on images, with the rows of those images among the `readable` ones."""
    image_overrides = {item: override for item, override in overrides.items() if item.startswith("img_")}
    if not image_overrides:  # saves the ids of a million images
        return OverriddenImages({}, {})
    ids = images.to_frame(["image_id"], readable)["image_id"]
    overridden_rows = readable[ids.isin(list(image_overrides)).to_numpy()]
    overridden_ids = images.to_frame(["image_id"], overridden_rows)["image_id"].to_numpy(dtype=object)
    return OverriddenImages(
        {str(name): overridden_rows[overridden_ids == name] for name in np.unique(overridden_ids)}, image_overrides
    )

"""The decisions of people that a build of a set takes as its input, and the images that they let in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.sets.decision_log import read_decisions
from builders.array_types import RowIndices
from builders.decisions.effective import DecisionT, latest_by_target
from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from flows.images.image_scan import ScannedImages

_UNREADABLE_REASON = "the picture is gone, or cannot be read"
_DUPLICATE_REASON = "it counts as the same picture as another: say in Duplicates that it is not"
_pinned_ids: ContextVar[Collection[str] | None] = ContextVar("pinned_ids", default=None)


def load_decisions(folder: Path, kind: type[DecisionT]) -> dict[Any, DecisionT]:
    """By target the effective decisions of a kind in the log of the set at `folder`; while a version is built again,
    only those that it holds. Raises UserError for a damaged log."""
    pinned_ids = _pinned_ids.get()
    log = read_decisions(folder, kind)
    return latest_by_target(entry for entry in log if pinned_ids is None or entry.decision_id in pinned_ids)


@contextmanager
def pinned_decisions(decision_ids: Collection[str]) -> Iterator[None]:
    """Build with these decisions and no others."""
    token = _pinned_ids.set(decision_ids)
    try:
        yield
    finally:
        _pinned_ids.reset(token)


@dataclass(frozen=True, slots=True)
class OverriddenImages:
    """The images that people let in, among those that could be read: by image_id their rows among all that were
    scanned, of which several may have the same bytes."""

    rows: Mapping[str, RowIndices]
    overrides: Mapping[str, Override]

    def is_overridden(self, rows: RowIndices) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether a person let in the image of each row."""
        return np.isin(rows, np.concatenate([[], *self.rows.values()]).astype(np.int64))

    def decision_outcome(self, chosen: RowIndices) -> DecisionOutcome:
        """What became of the overrides, now that the images are selected."""
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
    """Those of the overrides that are about images, with the rows of their images."""
    image_overrides = {item: override for item, override in overrides.items() if item.startswith("img_")}
    if not image_overrides:  # the ids of a million pictures are not made for nothing
        return OverriddenImages({}, {})
    ids = images.to_frame(["image_id"], readable)["image_id"]
    overridden_rows = readable[ids.isin(list(image_overrides)).to_numpy()]
    overridden_ids = images.to_frame(["image_id"], overridden_rows)["image_id"].to_numpy(dtype=object)
    return OverriddenImages(
        {str(name): overridden_rows[overridden_ids == name] for name in np.unique(overridden_ids)}, image_overrides
    )

"""What a cosine means for an embedder: the cosines of random pairs of a set's own texts or images.

The median of random pairs is 0.06 for one model and 0.84 for another, so a cut on a cosine belongs to its embedder. A
cut that is stated for another model is derived from the background; one that lies among random pairs is refused.
"""

from dataclasses import dataclass

import numpy as np

from builders.array_types import Vectors
from builders.errors import UserError
from builders.manifest_records import ThresholdRecord
from builders.nearest_neighbours import pair_cosines

MIN_ITEMS = 20  # whose pairs are a background
MAX_SHARE_ABOVE = 0.01  # of random pairs that a cut may take for the same
# Albums hold many images of one subject (ten bursts of ten are 9% of the pairs of 100 images), which texts do not.
MIN_IMAGES = 100
MAX_SHARE_OF_IMAGES_ABOVE = 0.1
_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class CosineBackground:
    """Cosines of random pairs: their number, the median, and `high`, the quantile that a `share` of them exceeds."""

    pairs: int
    median: float
    high: float
    share: float = MAX_SHARE_ABOVE

    def derive_cut(self) -> float:
        """Returns a cut for this embedder: half way from `high` to 1."""
        return round((self.high + 1) / 2, 4)

    def as_thresholds(self, name: str) -> list[ThresholdRecord]:
        """Returns the background as records of the manifest, beside the cut `name`."""
        return [
            ThresholdRecord(f"{name}.background.median", "over", self.median),
            ThresholdRecord(f"{name}.background.high", "over", self.high),
        ]


def measure_cosine_background(vectors: Vectors) -> CosineBackground | None:
    """Returns the background of unit vectors (n, d) of different texts; None for fewer than MIN_ITEMS."""
    return None if len(vectors) < MIN_ITEMS else _measure(vectors, MAX_SHARE_ABOVE)


def measure_image_background(vectors: Vectors) -> CosineBackground | None:
    """Returns the background of unit vectors (n, d) of the images of a set, of which many may be alike; None for fewer
    than MIN_IMAGES."""
    return None if len(vectors) < MIN_IMAGES else _measure(vectors, MAX_SHARE_OF_IMAGES_ABOVE)


def _measure(vectors: Vectors, share: float) -> CosineBackground:
    count = len(vectors)
    if count * (count - 1) // 2 <= _PAIRS:
        left, right = np.triu_indices(count, 1)
    else:
        left, right = np.random.default_rng(0).integers(0, count, (2, _PAIRS))
        left, right = left[left != right], right[left != right]
    cosines = pair_cosines(vectors, vectors, left.astype(np.int64), right.astype(np.int64))
    high = float(np.quantile(cosines, 1 - share))
    return CosineBackground(len(cosines), round(float(np.median(cosines)), 4), round(high, 4), share)


def choose_cosine_cut(
    stage: str, key: str, given: float | None, usual: float, background: CosineBackground | None, model: str
) -> float:
    """Returns the cut that is given, or else the `usual` one, or the background's own where that is higher. Raises
    UserError for a cut among random pairs."""
    cut = usual if given is None else given
    if given is None and background is not None:
        cut = max(cut, background.derive_cut())
    check_cosine_cut(stage, key, cut, background, model)
    return cut


def check_cosine_cut(stage: str, key: str, cut: float, background: CosineBackground | None, model: str) -> None:
    """Raises UserError where a cut lies among the cosines of random pairs: nearly all would count as the
    same."""
    if background is None or cut > background.high:
        return
    reason = (
        f"{cut:g} lies among random pairs of {model}: their median is {background.median:.2f},"
        f" and more than {background.share:.0%} of them are over {background.high:.2f}"
    )
    raise UserError(stage, key, reason, f"leave {key} out, or write one over {background.high:.2f}")

"""The thresholds of a precision set's build."""

from typing import Literal

from builders.manifest_records import ThresholdRecord
from builders.precision import annotated_gallery
from flows.definitions import PrecisionDefinition


def list_precision_thresholds(definition: PrecisionDefinition) -> list[ThresholdRecord]:
    """All thresholds of the build, for the manifest."""
    thresholds = [
        ThresholdRecord("searchable.area_ratio", "over", definition.searchable.area_ratio),
        ThresholdRecord("searchable.min_images", "at least", definition.searchable.min_images),
        ThresholdRecord("mixes.min_images", "at least", definition.mixes.min_images),
    ]
    cap = definition.mixes.cap
    caps = {f"mixes.cap.{level}": most for level, most in enumerate(cap, 2)} if isinstance(cap, list) else {}
    if isinstance(cap, int):
        caps["mixes.cap"] = cap
    thresholds += [ThresholdRecord(name, "at most", most) for name, most in caps.items()]
    if definition.families:
        upper = ("cap", "small")
        for name, cut in definition.family_rules.model_dump(exclude_none=True).items():
            bound: Literal["at most", "at least"] = "at most" if name in upper else "at least"
            thresholds.append(ThresholdRecord(f"family_rules.{name}", bound, cut))
    if definition.detections is not None:
        thresholds.append(ThresholdRecord("detections.at_least", "at least", definition.detections.at_least))
    if definition.images is not None:
        tolerance = annotated_gallery.ASPECT_RATIO_TOLERANCE
        thresholds.append(ThresholdRecord("images.aspect_ratio_deviation", "under", tolerance))
    return thresholds

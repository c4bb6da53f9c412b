"""What the review page's view of decisions reads of a set's logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.sets.set_files import StoredSet
    from review.decision_summary import DecisionSummary, LoggedDecision


def make_decision_summary_reader(stored: StoredSet) -> Callable[[], DecisionSummary]:
    """What people said of pictures and rejects, and the captions that they wrote, as the logs are when it is called."""
    from backends.sets import caption_log, decision_log
    from builders import human_captions
    from builders.decision_log_entries import effective_entries
    from builders.image_decisions import ImageDecision, effective_image_decisions
    from builders.overrides import effective_overrides
    from review.decision_summary import DecisionSummary, summarize_build_status

    folder, image_names = stored.path.parent, _image_names(stored)

    def text_of(decision: LoggedDecision) -> str:
        if isinstance(decision, ImageDecision):
            return " and ".join(image_names.get(one, one) for one in decision.images)
        return decision.text

    def read_summary() -> DecisionSummary:
        images, overrides = (
            decision_log.read_image_decisions_from(folder)[0],
            decision_log.read_overrides_from(folder)[0],
        )
        captions = human_captions.effective_human_captions(caption_log.read_captions_from(folder)[0]).values()
        reviewers_by_kind = {
            "Captions": [caption.reviewer for caption in captions],
            "Near-duplicates": [word.reviewer for word in effective_entries(images)],
            "Rejects": [word.reviewer for word in effective_entries(overrides)],
        }
        effective: list[LoggedDecision] = [*effective_image_decisions(images), *effective_overrides(overrides).values()]
        manifest_decisions = stored.manifest["decisions"]
        return DecisionSummary(
            {kind: people for kind, people in reviewers_by_kind.items() if people},
            summarize_build_status([*images, *overrides], effective, manifest_decisions, text_of),
        )

    return read_summary


def _image_names(stored: StoredSet) -> dict[str, str]:
    """What people call the pictures."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))

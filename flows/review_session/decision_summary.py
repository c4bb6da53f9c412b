"""What the review page shows of a set's decision logs."""

from __future__ import annotations

from collections.abc import Callable

from backends.sets import caption_log, decision_log
from backends.sets.set_files import StoredSet
from builders import human_captions
from builders.decision_log_entries import effective_entries
from builders.decisions import apply_decisions
from builders.image_decisions import ImageDecision, effective_image_decisions
from builders.ledger import Ledger
from builders.overrides import effective_overrides
from review.decision_summary import DecisionSummary, LoggedDecision, summarize_build_status


def make_decision_summary_reader(stored: StoredSet) -> Callable[[], DecisionSummary]:
    """Return a function that counts the decisions on images and rejections, and the captions people wrote, as the logs
    are when it is called."""
    folder, image_names = stored.path.parent, _image_names(stored)

    def text_of(decision: LoggedDecision) -> str:
        if isinstance(decision, ImageDecision):
            return " and ".join(image_names.get(one, one) for one in decision.images)
        return decision.text

    def read_summary() -> DecisionSummary:
        images = decision_log.read_image_decisions_from(folder)[0]
        overrides = decision_log.read_overrides_from(folder)[0]
        captions = human_captions.effective_human_captions(caption_log.read_captions_from(folder)[0]).values()
        reviewers_by_kind = {
            "Captions": [caption.reviewer for caption in captions],
            "Near-duplicates": [entry.reviewer for entry in effective_entries(images)],
            "Rejects": [entry.reviewer for entry in effective_entries(overrides)],
        }
        effective: list[LoggedDecision] = [*effective_image_decisions(images), *effective_overrides(overrides).values()]
        manifest_decisions = stored.manifest["decisions"]
        return DecisionSummary(
            {kind: people for kind, people in reviewers_by_kind.items() if people},
            summarize_build_status([*images, *overrides], effective, manifest_decisions, text_of),
        )

    return read_summary


def _image_names(stored: StoredSet) -> dict[str, str]:
    """The names that people know the images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def list_stale_decisions(stored: StoredSet) -> list[dict[str, str]]:
    """Return the decisions of the log that do not fit the version, and why."""
    log = decision_log.read_decision_log(stored.path.parent)
    in_effect = frozenset(stored.manifest["decisions"]["in_effect"])
    _, outcome = apply_decisions(stored.tables, log, Ledger(), in_effect)
    return [{"decision": one.decision, "text": one.text, "why": why} for one, why in outcome.stale]

"""What the review page shows of a set's decision logs."""

from collections.abc import Callable

from backends.sets.decision_log import read_decisions
from backends.sets.set_files import StoredSet
from builders.decisions.application import apply_decisions
from builders.decisions.records import HumanCaption, ImagePairDecision, Override, QueryDecision
from builders.ledger import Ledger
from review.decision_summary import DecisionSummary, summarize_decisions


def make_decision_summary_reader(stored: StoredSet) -> Callable[[], DecisionSummary]:
    """Return a function that counts the decisions on images and rejections, and the captions people wrote, as the logs
    are when it is called."""
    folder, image_names = stored.path.parent, _image_names(stored)
    return lambda: summarize_decisions(
        read_decisions(folder, ImagePairDecision),
        read_decisions(folder, Override),
        read_decisions(folder, HumanCaption),
        stored.manifest["decisions"],
        image_names,
    )


def _image_names(stored: StoredSet) -> dict[str, str]:
    """The names that people know the images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def list_stale_decisions(stored: StoredSet) -> list[dict[str, str]]:
    """Return the decisions of the log that do not fit the version, and why."""
    log = read_decisions(stored.path.parent, QueryDecision)
    in_effect = frozenset(stored.manifest["decisions"]["in_effect"])
    _, outcome = apply_decisions(stored.tables, log, Ledger(), in_effect)
    return [{"decision": one.decision, "text": one.text, "why": why} for one, why in outcome.stale]

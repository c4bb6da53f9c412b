"""What people decided about the pictures of a set: lines of the same log as the decisions about its queries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from builders.decision_log_entries import decision_id_of_line, effective_entries, validate_entry_fields

DUPLICATE_CHOICES = ("same", "different", "undo")


@dataclass(frozen=True, slots=True)
class ImageDecision:
    """One person's word on two pictures (image_ids, sorted): they are the same, or different. Ids are digests of
    bytes, so that it holds for every build that meets them. `undo` takes back the decision that `undoes` names."""

    images: tuple[str, str]
    decision: str
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def decision_id(self) -> str:
        """Digest of all that was decided."""
        return decision_id_of_line(self.as_json())

    @property
    def text(self) -> str:
        """What it is about, for people."""
        return " and ".join(self.images)

    @property
    def about(self) -> dict[str, list[str]]:
        """What it is about, for the manifest."""
        return {"pictures": list(self.images)}

    def as_json(self) -> str:
        """One line of the log; `pictures` tells it from other decisions."""
        fields = asdict(self)
        fields["pictures"] = fields.pop("images")
        return json.dumps(fields, ensure_ascii=False, sort_keys=True)

    @staticmethod
    def from_json(line: str) -> ImageDecision:
        """Read a line of the log; ValueError for a damaged one."""
        fields = json.loads(line)
        images = fields.pop("pictures")
        if not isinstance(images, list) or len(images) != 2 or any(type(one) is not str for one in images):
            raise ValueError("pictures are not two ids")
        if images[0] >= images[1]:
            raise ValueError("the pictures are one, or not sorted")
        validate_entry_fields(fields, DUPLICATE_CHOICES)
        try:
            return ImageDecision((images[0], images[1]), **fields)
        except TypeError as error:
            raise ValueError(str(error).replace("ImageDecision.__init__() ", "")) from None


def effective_image_decisions(log: Iterable[ImageDecision]) -> list[ImageDecision]:
    """Per two pictures the last word that stands, sorted by the pictures: the order of the log counts for no more."""
    last = {decision.images: decision for decision in effective_entries(log)}
    return [last[images] for images in sorted(last)]

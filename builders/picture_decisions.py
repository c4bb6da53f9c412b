"""What people decided about the pictures of a set: lines of the same log as the decisions about its queries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from builders.log_words import check_texts, id_of_line, standing

CHOICES = ("same", "different", "undo")


@dataclass(frozen=True, slots=True)
class PictureDecision:
    """One person's word on two pictures (image_ids, sorted): they are the same, or different. Ids are digests of
    bytes, so that it holds for every build that meets them. `undo` takes back the decision that `undoes` names."""

    pictures: tuple[str, str]
    decision: str
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def decision_id(self) -> str:
        """Digest of all that was decided."""
        return id_of_line(self.as_json())

    @property
    def text(self) -> str:
        """What it is about, for people."""
        return " and ".join(self.pictures)

    @property
    def about(self) -> dict[str, list[str]]:
        """What it is about, for the manifest."""
        return {"pictures": list(self.pictures)}

    def as_json(self) -> str:
        """One line of the log; `pictures` tells it from other decisions."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @staticmethod
    def of_json(line: str) -> PictureDecision:
        """Read a line of the log; ValueError for a damaged one."""
        fields = json.loads(line)
        pictures = fields.pop("pictures")
        if not isinstance(pictures, list) or len(pictures) != 2 or any(type(one) is not str for one in pictures):
            raise ValueError("pictures are not two ids")
        if pictures[0] >= pictures[1]:
            raise ValueError("the pictures are one, or not sorted")
        check_texts(fields, CHOICES)
        try:
            return PictureDecision((pictures[0], pictures[1]), **fields)
        except TypeError as error:
            raise ValueError(str(error).replace("PictureDecision.__init__() ", "")) from None


def last_words(log: Iterable[PictureDecision]) -> list[PictureDecision]:
    """Per two pictures the last word that stands, sorted by the pictures: the order of the log counts for no more."""
    last = {decision.pictures: decision for decision in standing(log)}
    return [last[pictures] for pictures in sorted(last)]

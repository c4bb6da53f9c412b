"""What became of people's words in a build, besides those on queries and judgments (`decisions.Outcome`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builders.image_decisions import ImageDecision
from builders.overrides import Override


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """The ids of the words that a build followed, and the words that don't fit, each with the reason."""

    in_effect: Sequence[str] = ()
    stale: Sequence[tuple[ImageDecision | Override, str]] = ()

    def __add__(self, other: DecisionOutcome) -> DecisionOutcome:
        return DecisionOutcome([*self.in_effect, *other.in_effect], [*self.stale, *other.stale])

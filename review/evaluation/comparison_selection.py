"""Which queries of a comparison a page shows: those on which two systems differ most, with what each returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from review.evaluation.selection import Asked, Result, asked_of, ids_of

ONE, OTHER = SIDES = ("one", "other")


@dataclass(frozen=True, slots=True)
class Different:
    """A query with what either system returned. `difference` is the first's figure less the other's; `missed` are right
    pictures that neither shows, `further` more of these."""

    difference: float
    one: Asked
    other: Asked
    missed: tuple[Result, ...]
    further: int

    @property
    def better(self) -> str:
        return ONE if self.difference > 0 else OTHER


@dataclass(frozen=True, slots=True)
class ComparisonSelection:
    """The queries shown, the most different first."""

    different: list[Different]

    @property
    def asked(self) -> list[Asked]:
        return [side for one in self.different for side in (one.one, one.other)]

    @property
    def ids(self) -> list[str]:
        """Every query and picture shown, once, in the order of the page."""
        missed = [result.item_id for one in self.different for result in one.missed]
        return list(dict.fromkeys([*ids_of(self.asked), *missed]))


def select_different(
    different: Sequence[str],
    differences: pd.Series,
    one: pd.DataFrame,
    other: pd.DataFrame,
    qrels: pd.DataFrame | None,
    *,
    queries: int = 20,
    results: int = 10,
    missed: int = 4,
) -> ComparisonSelection:
    """The first of `different`, query ids with the most different first; `one` and `other` are ranked results."""
    chosen = list(different[:queries])
    ones, others = (asked_of(chosen, ranked, qrels, results=results, missed=1 << 30) for ranked in (one, other))
    return ComparisonSelection(
        [_paired(float(differences[name]), a, b, missed) for name, a, b in zip(chosen, ones, others, strict=True)]
    )


def _paired(difference: float, one: Asked, other: Asked, number: int) -> Different:
    found = {result.item_id for asked in (one, other) for result in asked.results}
    neither = [replace(result, rank=None, score=float("nan")) for result in one.missed if result.item_id not in found]
    bare = [replace(asked, missed=(), further=0) for asked in (one, other)]
    return Different(difference, bare[0], bare[1], tuple(neither[:number]), len(neither[number:]))

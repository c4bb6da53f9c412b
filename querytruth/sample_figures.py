"""The three baselines on the sample sets: what a figure is worth there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flows.scoring.judged_sets import judged_set
from flows.scoring.systems import BASELINES, baseline
from querytruth.results import How, Kept, evaluated_systems
from querytruth.scoreboards import show_on_sets

_PAGE = "lexical"  # the one that gets some right and some wrong


def show_baselines(sets: Mapping[Path, Path | None], metric: str = "ndcg@10") -> list[Path]:
    """Evaluate random, oracle and lexical on these versions of sets and print one table; the pages that were written,
    one a set. With each set goes a CSV of words about its pictures, None where the set itself has them. Results lie
    beside the sets."""
    kept: list[Kept] = []
    for path, texts in sets.items():
        judged = judged_set(path)
        for name in BASELINES:
            how = How(page=name == _PAGE)
            kept += evaluated_systems(judged, [baseline(name, texts=texts)], ("text_to_image",), how)
    show_on_sets([result.scored.evaluated for result in kept], metric)
    return [result.page for result in kept if result.page is not None]

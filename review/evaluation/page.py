"""The report of one system on one set: figures and what bounds them, curves, parts, and pictures of what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from review.evaluation import plots, words
from review.evaluation.cards import Shown, card_of, figures_of, render, things_of
from review.evaluation.evidence import known_of
from review.evaluation.input import Evaluation
from review.evaluation.selection import EvaluationSelection, select_asked
from review.evaluation.slices import slice_plots, slice_table
from review.evaluation.words import between

__all__ = ["evaluation_page", "select_asked"]


def evaluation_page(
    evaluated: Evaluation,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
    shown: EvaluationSelection,
) -> str:
    """One HTML document that needs no other file. `tables` and `manifest` are the set's, None for bare files: their
    `qrels` turned round where texts are searched. `thumbnails` holds JPEGs by image id; `shown` is select_asked's."""
    things = things_of(shown.every, shown.ids, evaluated.direction, tables, manifest, thumbnails)
    figures = figures_in_words(evaluated)
    lead = words.headline([figure["metric"] for figure in figures])
    return render(
        "evaluation_page.html",
        evaluated.set,
        tables,
        things,
        thumbnails,
        manifest,
        name=words.system_name(evaluated.system),
        direction=words.DIRECTIONS.get(evaluated.direction, evaluated.direction),
        queries=len(evaluated.per_query),
        warnings=words.warnings_in_words(evaluated.warnings),
        headline=[figure for figure in figures if figure["metric"] in lead],
        figures=figures,
        thresholds=list(_thresholds(evaluated)),
        slice_rows=slice_table(evaluated.slices, lead),
        slice_metrics=lead,
        bins=_bins(evaluated, tables, shown, things, lead),
        asked=sum(shown.there.values()),
        listed=shown.listed,
        conventions=list(evaluated.conventions.items()),
        definitions=[(figure["metric"], figure["says"]) for figure in figures],
        system=words.facts_of(evaluated.system),
        counts=words.facts_of(evaluated.counts),
        **_plots(evaluated),
    )


def _plots(evaluated: Evaluation) -> Shown:
    name, lead = words.system_name(evaluated.system), str(evaluated.figures["metric"].iloc[0])
    return {
        "cmc": plots.cmc_curves({name: evaluated.cmc}, {name: evaluated.figures}),
        "precision_recall": plots.precision_recall_curves({name: evaluated.precision_recall}, evaluated.figures),
        "open_set": _open_set(evaluated),
        "lead": lead,
        "slices": slice_plots({name: evaluated}, lead),
    }


def _bins(
    evaluated: Evaluation,
    tables: Tables | None,
    shown: EvaluationSelection,
    things: Mapping[str, Shown],
    lead: list[str],
) -> list[Shown]:
    known = known_of(shown.every, evaluated.ranked, tables)
    cards = {
        name: [card_of(one, things, known, figures_of(evaluated.per_query, one.query_id, lead)) for one in asked]
        for name, asked in shown.asked.items()
    }
    return [{**one, "cards": cards[one["bin"]]} for one in words.bins_in_words(shown.there)]


def figures_in_words(evaluated: Evaluation) -> list[Shown]:
    """Every figure with its interval, bounds and chance, and all of these on a line."""
    return [
        {
            "metric": str(row["metric"]),
            "value": f"{row['value']:.3f}",
            "interval": between(row["low"], row["high"]),
            "bounds": between(row["at_least"], row["at_most"]),
            "chance": f"{row['chance']:.3f}" if pd.notna(row["chance"]) else "",
            "strip": plots.interval_strip(row),
            "says": evaluated.definitions.get(str(row["metric"]), ""),
        }
        for row in evaluated.figures.to_dict("records")
    ]


def _open_set(evaluated: Evaluation) -> Any:
    cuts = [one.threshold for one in evaluated.thresholds.values() if one is not None]
    return plots.open_set_curves(evaluated.open_set, cuts) if len(evaluated.open_set) > 1 else None


def _thresholds(evaluated: Evaluation) -> Iterator[Shown]:
    queries = max(len(evaluated.per_query), 1)
    for wanted, one in evaluated.thresholds.items():
        if one is None:
            yield {"wanted": wanted, "found": None}
            continue
        yield {
            "wanted": wanted,
            "found": f"{one.threshold:.4g}",
            "precision": f"{one.precision:.2f}",
            "upper": f"{one.precision_upper:.2f}" if one.precision_upper > one.precision else "",
            "recall": f"{one.recall:.2f}",
            "shown": one.shown,
            "empty": f"{100 * one.queries_empty / queries:.0f}%",
            "cut_off": one.queries_cut_off,
            "elsewhere": f"{one.elsewhere:.2f}" if pd.notna(one.elsewhere) else "",
        }

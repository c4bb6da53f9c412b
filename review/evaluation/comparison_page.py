"""Two systems side by side on one set: by how much they differ, how sure that is, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from review.evaluation import plots, words
from review.evaluation.cards import Shown, card_of, figures_of, render, things_of, tile_of
from review.evaluation.comparison_selection import ONE, SIDES, ComparisonSelection, Different, select_different
from review.evaluation.evidence import Known, known_of
from review.evaluation.input import Comparison, Evaluation
from review.evaluation.slices import slice_plots
from review.evaluation.words import between

__all__ = ["comparison_page", "select_different"]

_SURE = 0.05  # p from which on two systems are not told apart


def comparison_page(
    compared: Comparison,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
    shown: ComparisonSelection,
) -> str:
    """One HTML document that needs no other file. `tables` and `manifest` are the set's, None for bare files: their
    `qrels` turned round where texts are searched. `thumbnails` holds JPEGs by image id; `shown` is
    select_different's."""
    sides = (compared.one, compared.other)
    names = _names(sides)
    by_name = dict(zip(names, sides, strict=True))
    things = things_of(shown.asked, shown.ids, compared.one.direction, tables, manifest, thumbnails)
    known = [known_of(shown.asked, side.ranked, tables) for side in sides]
    lead = str(compared.table["metric"].iloc[0])
    figures = {name: side.figures for name, side in by_name.items()}
    cards = [_card(one, sides, names, things, known, lead) for one in shown.different]
    return render(
        "comparison_page.html",
        compared.one.set,
        tables,
        things,
        thumbnails,
        manifest,
        names=names,
        direction=words.DIRECTIONS.get(compared.one.direction, compared.one.direction),
        queries=len(compared.one.per_query),
        lead=lead,
        verdict=_verdict(compared.table.iloc[0], names),
        warnings=[
            {**one, "system": name} for name, side in by_name.items() for one in words.warnings_in_words(side.warnings)
        ],
        rows=_rows(compared, names),
        cmc=plots.cmc_curves({name: side.cmc for name, side in by_name.items()}, figures),
        precision_recall=plots.precision_recall_curves(
            {name: side.precision_recall for name, side in by_name.items()}, compared.one.figures
        ),
        slices=slice_plots(by_name, lead),
        bins=_bins(cards, names),
        different=len(cards),
        systems=[(name, words.facts_of(side.system)) for name, side in by_name.items()],
        conventions=list(compared.one.conventions.items()),
    )


def _names(sides: tuple[Evaluation, Evaluation]) -> list[str]:
    """What the two are called; two of one name by their order."""
    names = [words.system_name(side.system) for side in sides]
    return names if names[0] != names[1] else [f"{names[0]} (1)", f"{names[1]} (2)"]


def _verdict(row: pd.Series, names: list[str]) -> str:
    size = f"{abs(row['difference']):.3f}"
    if row["p_holm"] < _SURE:
        better, worse = names if row["difference"] > 0 else names[::-1]
        low, high = sorted([abs(row["low"]), abs(row["high"])])
        return f"{better} is better than {worse} by {size} ({low:.3f} to {high:.3f}), p {_equals(row['p_holm'])}."
    found = f"The two are not told apart: they differ by {size}, p {_equals(row['p_holm'])}."
    if pd.isna(row["detectable"]):
        return found
    return f"{found} A difference of {row['detectable']:.3f} would be found four times out of five."


def _p(value: float) -> str:
    if pd.isna(value):
        return "not known"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _equals(value: float) -> str:
    return _p(value) if value < 0.001 else f"= {_p(value)}"


def _rows(compared: Comparison, names: list[str]) -> list[Shown]:
    """A row of the table per metric."""
    widest = float(compared.table[["difference", "low", "high"]].abs().max().max()) or 1.0
    values = [side.figures.set_index("metric") for side in (compared.one, compared.other)]
    found = []
    for row in compared.table.to_dict("records"):
        sure = row["p_holm"] < _SURE
        found.append(
            {
                "metric": str(row["metric"]),
                "figures": [_figure(frame, row["metric"]) for frame in values],
                "difference": f"{row['difference']:+.3f}",
                "interval": between(row["low"], row["high"], "+.3f"),
                "strip": plots.difference_strip(row["low"], row["difference"], row["high"], widest),
                "p": _p(row["p"]),
                "p_holm": _p(row["p_holm"]),
                "better": "" if not sure else names[0] if row["difference"] > 0 else names[1],
                "counts": [int(row[name]) for name in ("wins", "ties", "losses")],
                "detectable": f"{row['detectable']:.3f}" if pd.notna(row["detectable"]) else "",
            }
        )
    return found


def _figure(frame: pd.DataFrame, metric: str) -> tuple[str, str]:
    if metric not in frame.index:
        return "", ""
    row = frame.loc[metric]
    return f"{row['value']:.3f}", between(row["low"], row["high"])


def _card(
    one: Different,
    sides: tuple[Evaluation, Evaluation],
    names: list[str],
    things: Mapping[str, Shown],
    known: list[Known],
    lead: str,
) -> Shown:
    pairs = [
        card_of(asked, things, facts, figures_of(side.per_query, asked.query_id, [lead]))
        for asked, side, facts in zip((one.one, one.other), sides, known, strict=True)
    ]
    losing = 1 if one.better == ONE else 0
    return {
        **pairs[0],
        "better": one.better,
        "difference": f"{one.difference:+.3f}",
        "sides": [{**pair, "name": name} for pair, name in zip(pairs, names, strict=True)],
        "missed": [tile_of(result, things) for result in one.missed],
        "further": one.further,
        "causes": pairs[losing]["causes"],
        "loser": names[losing],
    }


def _bins(cards: list[Shown], names: list[str]) -> list[Shown]:
    """The queries by who is better on them."""
    found = []
    for side, name, sign in zip(SIDES, names, "◀▶", strict=True):
        mine = [card for card in cards if card["better"] == side]
        found.append({"bin": side, "title": f"{name} is better", "sign": sign, "cards": mine, "count": len(mine)})
    return found

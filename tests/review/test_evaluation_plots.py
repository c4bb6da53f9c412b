"""The plots of evaluations: drawn by Vega-Lite, coloured by the page, safe to stand in it."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querytruth.review import evaluation_plots as plots
from querytruth.review.vega_lite import shorten_labels
from tests.review.evaluation_results import make_evaluation
from tests.review.page_reader import ParsedPage

FIGURE = {"metric": "hit@1", "value": 0.5, "low": 0.4, "high": 0.6, "at_least": 0.5, "at_most": 0.9, "chance": 0.1}
NOWHERE = float("nan")


def slices(values: list[str], system: str = "a") -> pd.DataFrame:
    rows = [(value, 10, 0.5, 0.4, 0.6, system) for value in values]
    return pd.DataFrame(rows, columns=["value", "queries", "mean", "low", "high", "system"])


def all_plots() -> list[str]:
    found = make_evaluation()
    pair = {"one": found, "other": found}
    figures = {name: one.figures for name, one in pair.items()}
    return [
        plots.draw_interval_strip(FIGURE),
        plots.draw_difference_strip(-0.1, 0.1, 0.3, 0.5),
        plots.draw_cmc_curves({"one": found.cmc}, {"one": found.figures}),
        plots.draw_cmc_curves({name: one.cmc for name, one in pair.items()}, figures),
        plots.draw_precision_recall_curves({name: one.precision_recall for name, one in pair.items()}, found.figures),
        plots.draw_open_set_curves(found.open_set, [0.8]),
        plots.draw_slice_bars(slices(["zh", "en"]), ["a"], [0.5]),
        plots.draw_slice_bars(pd.concat([slices(["zh"]), slices(["zh"], "b")]), ["a", "b"], [0.5, 0.6]),
    ]


def test_colours_are_the_pages_own_so_that_dark_and_light_need_one_drawing() -> None:
    for svg in all_plots():
        colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
        assert colours <= {"none", "transparent"} | {c for c in colours if c.startswith("var(--")}, colours


def test_many_plots_stand_in_one_page_and_are_the_same_each_time() -> None:
    once, again = all_plots(), all_plots()
    assert once == again
    assert not any(re.search(r'\bid="', svg) for svg in once), "ids would meet those of another plot"
    assert not any(re.search(r"url\(|href=|<style|<script", svg) for svg in once)


def test_each_plot_is_one_image_with_words() -> None:
    for svg in all_plots():
        labels = [attributes["aria-label"] for _, attributes in ParsedPage(svg).tags if "aria-label" in attributes]
        assert len(labels) == 1 and len(labels[0]) > 20
    assert "hit@1: 0.500, interval 0.400 to 0.600" in plots.draw_interval_strip(FIGURE)


def marks(svg: str, name: str) -> int:
    return svg.count(f'<g class="mark-{name} role-mark')


def test_a_strip_shows_what_is_known() -> None:
    whole = plots.draw_interval_strip(FIGURE)
    assert marks(whole, "rule") == 3 and marks(whole, "rect") == 1, "line, bounds, interval; chance"
    bare = {**FIGURE, "chance": NOWHERE, "at_most": 0.5}
    assert marks(plots.draw_interval_strip(bare), "rule") == 2 and marks(plots.draw_interval_strip(bare), "rect") == 0
    alone = plots.draw_interval_strip({**bare, "low": NOWHERE, "high": NOWHERE})
    assert marks(alone, "rule") == 1 and "nan" not in alone.lower()


def test_curves_have_intervals_and_chance_where_a_figure_knows_them() -> None:
    found = make_evaluation()
    known = plots.draw_cmc_curves({"a": found.cmc}, {"a": found.figures})
    assert marks(known, "rule") == 1 and marks(known, "rect") == 1
    none = plots.draw_cmc_curves({"a": found.cmc}, {"a": found.figures.iloc[:0]})
    assert marks(none, "rule") == 0 and marks(none, "rect") == 0
    with_chance = plots.draw_precision_recall_curves({"a": found.precision_recall}, found.figures)
    assert marks(with_chance, "line") == 2
    without = plots.draw_precision_recall_curves({"a": found.precision_recall}, found.figures.assign(chance=NOWHERE))
    assert marks(without, "line") == 1


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    long = np.linspace(0, 1, 5000)
    svg = plots.draw_cmc_curves({"a": long}, {"a": make_evaluation().figures.iloc[:0]})
    assert len(svg) < 20_000 and "1.00 at 5000" in svg


def test_systems_are_told_apart_without_colours() -> None:
    found = make_evaluation()
    svg = plots.draw_cmc_curves({"one": found.cmc, "other": found.cmc}, {})
    assert 'stroke-dasharray="6,3"' in svg and ">other<" in svg


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", "\"><img src=x onerror='alert(1)'>", "&lt;b&gt;", "]]>"])
def test_hostile_values_stay_text(evil: str) -> None:
    drawn = [
        plots.draw_slice_bars(slices([evil, "en"], evil), [evil], [0.5]),
        plots.draw_cmc_curves({evil: [0.1, 0.2], "b": [0.1, 0.3]}, {}),
        plots.draw_interval_strip({**FIGURE, "metric": evil}),
    ]
    plain = {tag for svg in all_plots() for tag, _ in ParsedPage(svg).tags}
    for svg in drawn:
        seen = ParsedPage(svg)
        assert {tag for tag, _ in seen.tags} <= plain
        assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
        assert any(evil in attributes.get("aria-label", "") for _, attributes in seen.tags)


@pytest.mark.parametrize("evil", ["\0", "\x0b", "\ufffe", "\x1b[31m", "a\nb", "\u202e"])
def test_characters_that_no_xml_may_hold_end_nothing(evil: str) -> None:
    """Vega's text measuring aborts the process on them."""
    svg = plots.draw_slice_bars(slices([f"x{evil}y", "en"], evil), [evil], [0.5])
    assert ">en<" in svg and ">x" in svg


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@example("\u2028")
@example("\u2029")
def test_any_text_is_drawn(text: str) -> None:
    assert plots.draw_slice_bars(slices(["en", text + "!"]), ["a"], [0.5]).startswith("<svg")


@pytest.mark.parametrize("before", range(4))
def test_a_label_is_cut_beside_an_emoji_and_not_within(before: int) -> None:
    svg = plots.draw_slice_bars(slices(["x" * before + "🏖️🐕" * 20, "en"]), ["a"], [0.5])
    assert "…<" in svg and "\ufffd" not in svg


def test_labels_have_so_many_places_and_differ() -> None:
    expected = {"abcdef": "abcdef", "abc": "abc", "沙滩上的狗": "沙滩…"}
    assert shorten_labels(["abcdef", "abc", "沙滩上的狗"], 6) == expected
    met = shorten_labels(["a very long name 1", "a very long name 2", "a very long name 3"], 10)
    assert list(met.values()) == ["a very lo…", "a ver… (2)", "a ver… (3)"]

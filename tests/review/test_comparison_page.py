"""Two systems side by side: what the page says of their difference, and where they differ."""

from dataclasses import replace

import pytest

from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.evaluation_result import SystemComparison, compare_phrasing_spread, measure_phrasing_spread
from querytruth.review.comparison_page import render_comparison_page, select_largest_differences
from querytruth.sets.benchmark_set import Tables
from tests.images import make_jpeg
from tests.review.evaluation_results import beach_tables, make_comparison, make_evaluation
from tests.review.page_reader import EVIL, ParsedPage, check_page_stands_alone, check_text_stays_text, read_text
from tests.review.recall_sets import make_manifest
from tests.review.test_evaluation_page import hostile


def page_of(found: SystemComparison, tables: Tables | None = None, thumbnails: dict[str, bytes] | None = None) -> str:
    manifest = None if tables is None else make_manifest(tables)
    ranked = (found.first.ranked, found.second.ranked)
    shown = select_largest_differences(
        found.most_different_queries, found.differences, *ranked, None if tables is None else tables.qrels
    )
    return render_comparison_page(found, tables, manifest, thumbnails or {}, shown)


def text_of(found: SystemComparison, tables: Tables | None = None) -> str:
    return read_text(page_of(found, tables))


def changed(**values: float) -> SystemComparison:
    found = make_comparison()
    table = found.table.copy()
    for name, value in values.items():
        table.loc[0, name] = value
    return replace(found, table=table)


def test_the_verdict_says_who_is_better_and_how_sure_that_is() -> None:
    text = text_of(make_comparison(), beach_tables())
    assert "tiny-clip and lexical on The beach 海边 : 5 queries" in text
    assert "hit@1 tiny-clip is better than lexical by 0.070 (0.030 to 0.110), p = 0.002." in text
    worse = changed(difference=-0.07, low=-0.11, high=-0.03, p_holm=0.0001)
    assert "lexical is better than tiny-clip by 0.070 (0.030 to 0.110), p < 0.001." in text_of(worse)


def test_two_that_are_not_told_apart_have_the_smallest_difference_that_would_be() -> None:
    text = text_of(changed(p_holm=0.3))
    assert "No significant difference: they differ by 0.070, p = 0.300. A difference of 0.050 would be detected" in text
    assert "would be found" not in text_of(changed(p_holm=0.3, detectable=float("nan")))


def test_the_table_has_both_figures_the_difference_and_wins() -> None:
    text = text_of(make_comparison())
    one, other = "0.500 0.400 to 0.600", "0.500 0.400 to 0.600"
    assert f"hit@1 {one} {other} +0.070 +0.030 to +0.110 0.002 tiny-clip is better 2, 2, 1 0.050" in text
    assert f"hit@5 {one} {other} -0.010 -0.050 to +0.030 0.600 no significant difference 1, 3, 1 0.060" in text


def test_queries_are_shown_by_who_is_better_with_both_rows() -> None:
    html = page_of(make_comparison(), beach_tables(), {"img_dog": make_jpeg()})
    text = read_text(html)
    ahead, behind = text.index("tiny-clip is better 1 shown"), text.index("lexical is better 1 shown")
    assert ahead < text.index("Three dogs on the beach", ahead) < behind < text.index("狗 沙滩", behind)
    assert "hit@1 +1.000 ; 1 to find" in text and "first relevant image at rank 2" in text
    assert "Why lexical may be behind unjudged at rank 1" in text
    names = [a["aria-label"] for tag, a in ParsedPage(html).tags if tag == "ol"]
    assert names[:2] == ["tiny-clip: Results, best first", "lexical: Results, best first"]


def test_right_images_that_neither_shows_are_shown_once() -> None:
    found = make_comparison(most_different_queries=["q_3"])
    assert "Relevant, but returned by neither" in text_of(found, beach_tables())
    assert "Relevant, but returned by neither" not in text_of(make_comparison(), beach_tables())


def test_two_systems_of_one_name_are_told_apart() -> None:
    twin = make_evaluation()
    text = text_of(make_comparison(first=twin, second=twin))
    assert "tiny-clip (1) and tiny-clip (2)" in text and "tiny-clip (1) is better than tiny-clip (2)" in text


def test_no_difference_anywhere_is_said_too() -> None:
    text = text_of(make_comparison(most_different_queries=[]), beach_tables())
    assert text.count("No queries here.") == 2


def test_warnings_name_their_system() -> None:
    found = make_comparison(
        second=make_evaluation(system={"name": "lexical"}, warnings=[EvaluationWarning("floor", "hit@1", "all 0")])
    )
    assert "Nearly all wrong lexical hit@1 all 0" in text_of(found)


def test_the_page_stands_alone() -> None:
    html = page_of(make_comparison(), beach_tables(), {"img_dog": make_jpeg(), "img_ship": make_jpeg("orange")})
    check_page_stands_alone(html, 2, scripts=1)


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.thorough
def test_untrusted_text_stays_text(evil: str) -> None:
    one, tables = hostile(evil)
    thumbnails = {"img_dog": make_jpeg()}
    html = page_of(make_comparison(first=one, second=one), tables, thumbnails)
    check_text_stays_text(html, page_of(make_comparison(), beach_tables(), thumbnails), evil, "h3", "p", "small")


def test_the_spreads_of_both_over_the_wordings_of_a_question_stand_beside_each_other() -> None:
    found, set_ = make_comparison(), beach_tables()
    queries = set_.queries.assign(labels=[["dog"]] * len(set_.queries), language="en")
    per_query = found.second.per_query.assign(**{"hit@1": [float(n % 2) for n in range(5)]})
    sides = {"tiny-clip": found.first.per_query, "lexical": per_query}
    one, other = (measure_phrasing_spread(figures, queries, found.first.metrics) for figures in sides.values())
    compared = replace(
        found,
        first=replace(found.first, phrasings=one),
        second=replace(found.second, phrasings=other, per_query=per_query),
        phrasings=compare_phrasing_spread(sides, queries, found.first.metrics),
    )
    text = text_of(compared, replace(set_, queries=queries))
    assert "hit@1 lexical 0.000 0.400 1.000 1.000" in text
    assert "the spread of the first minus that of the second is -1.000" in text
    assert "One question in other words" not in text_of(found, set_)

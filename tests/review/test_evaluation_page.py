"""The report of one system: what it says of figures, warnings and failures, and that it stands alone."""

from dataclasses import replace
from typing import Any

import pytest

from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.evaluation_result import EvaluationResult, measure_phrasing_spread
from querytruth.review.evaluation_page import render_evaluation_page
from querytruth.review.query_selection import select_report_queries
from querytruth.review.result_cards import describe_warnings, select_headline_metrics
from querytruth.sets.benchmark_set import Tables
from tests.images import make_jpeg
from tests.review.evaluation_results import (
    METRICS,
    THRESHOLD,
    beach_tables,
    make_evaluation,
    make_ranked_table,
)
from tests.review.page_reader import (
    EVIL,
    TURNED,
    ParsedPage,
    check_directions_are_isolated,
    check_page_stands_alone,
    check_text_stays_text,
    read_text,
)
from tests.review.recall_sets import make_manifest, qrels_table


def page_of(found: EvaluationResult, tables: Tables | None = None, thumbnails: dict[str, bytes] | None = None) -> str:
    manifest = None if tables is None else make_manifest(tables)
    query_ids = [str(name) for name in found.per_query.index]
    shown = select_report_queries(query_ids, found.ranked, None if tables is None else tables.qrels)
    return render_evaluation_page(found, tables, manifest, thumbnails or {}, shown)


def text_of(found: EvaluationResult, tables: Tables | None = None) -> str:
    return read_text(page_of(found, tables))


@pytest.mark.thorough
def test_the_head_names_system_set_and_the_figures_one_wants_first() -> None:
    text = text_of(make_evaluation(), beach_tables())
    assert "beach/v1 c0ffee tiny-clip on The beach 海边 : 5 queries, text → image" in text
    assert select_headline_metrics(METRICS) == ["hit@1", "ndcg@10", "p@1", "hit@5"]
    assert select_headline_metrics(["p@1"]) == ["p@1"]
    assert select_headline_metrics(["x@1", "ndcg@5", "ndcg@10"]) == ["ndcg@5", "x@1", "ndcg@10"]


def test_a_figure_stands_with_interval_bounds_and_chance() -> None:
    text = text_of(make_evaluation())
    assert "hit@1 1 where the first one is right. 0.500 0.400 to 0.600 0.500 to 0.700 0.100" in text
    found = make_evaluation()
    blank = replace(found, figures=found.figures.assign(chance=float("nan")))
    text = text_of(blank)
    assert "hit@1 1 where the first one is right. 0.500 0.400 to 0.600 0.500 to 0.700 unknown" in text
    assert "nan" not in text


def test_warnings_say_what_to_do() -> None:
    warned = [
        EvaluationWarning("saturated", "hit@5", "95% of the queries"),
        EvaluationWarning("saturated", "hit@10", "99% of them"),
        EvaluationWarning("few_queries", "", "5 queries: the intervals are rough"),
        EvaluationWarning("moon_phase", "", "it wanes"),
    ]
    text = text_of(make_evaluation(warnings=warned))
    assert "Nearly all correct hit@5 95% of the queries hit@10 99% of them Choose a stricter metric" in text
    assert "Few queries 5 queries: the intervals are rough Build a larger set" in text
    assert "Moon phase it wanes" in text, "an unknown one is told as it is"
    assert "Before you trust these figures" not in text_of(make_evaluation())


CODES = ["few_queries", "saturated", "floor", "like_chance", "ties", "missing_queries", "cut_short", "not_encoded"]


@pytest.mark.parametrize("code", [*CODES, "words_of_the_truth"])
def test_every_warning_has_something_to_do(code: str) -> None:
    (entry,) = describe_warnings([EvaluationWarning(code, "", "so it is")])
    assert len(entry["fix"]) > 20 and entry["title"] != code


def test_thresholds_say_what_they_bring_and_where_none_reaches() -> None:
    text = text_of(make_evaluation())
    assert "0.9 0.8 0.90 to 0.95 0.40 1,234 20% 0 not reached" in text
    assert "0.99 no score reaches it" in text
    known = make_evaluation(thresholds={"0.9": replace(THRESHOLD, elsewhere=0.71, precision_upper=0.9)})
    assert "0.9 0.8 0.90 0.40 1,234 20% 0 0.71" in text_of(known)
    assert "Score threshold" not in text_of(make_evaluation(thresholds={}))


def test_an_empty_open_set_curve_is_left_out() -> None:
    found = make_evaluation()
    assert "Showing only results above a score" in text_of(found)
    assert "Showing only results above a score" not in text_of(replace(found, open_set=found.open_set.iloc[:0]))


def test_parts_with_one_value_have_no_plot_but_a_row() -> None:
    html = page_of(make_evaluation())
    assert "<b><bdi>language</bdi></b>" in html and "<b><bdi>level</bdi></b>" not in html
    assert "level Queries hit@1 ndcg@10 p@1 hit@5 1 5 0.500 0.250 to 0.750" in read_text(html)
    none = make_evaluation()
    assert "Parts of the queries" not in text_of(replace(none, slices=none.slices.iloc[:0]))


def test_the_bins_are_counted_and_said() -> None:
    text = text_of(make_evaluation(), beach_tables())
    assert "Success A relevant image ranks first. 1 of 5 (20%)" in text
    assert "Middle The first relevant image ranks 2 to 5. 2 of 5 (40%)" in text
    assert "Failure No relevant image is among the first 5. 2 of 5 (40%)" in text


def test_a_query_shows_its_results_with_signs_and_why() -> None:
    html = page_of(make_evaluation(), beach_tables(), {"img_dog": make_jpeg()})
    labels = [a["aria-label"] for _, a in ParsedPage(html).tags if "zooms" in a.get("class", "")]
    assert "rank 1, relevant, grade 1: dog.jpg, score 0.900" in labels
    assert "rank 1, judged not relevant: dog.jpg, score 0.900" in labels
    assert "rank 1, unjudged: ship.jpg, score 0.900" in labels and "not returned, relevant, grade 1: dog.jpg" in labels
    text = read_text(html)
    assert "First relevant image at rank 2 ; 1 to find" in text and "No results; 1 to find" in text
    assert "No relevant image among the 2 listed; 1 to find" in text
    assert "unjudged at rank 1 : Never judged" in text and "no results : The system returned nothing" in text
    for sign in ("✓", "✕", "?"):
        assert f'<span class="sign" aria-hidden="true">{sign}</span>' in html, "told apart by more than colour"


def test_grades_above_one_are_written_beside_the_sign() -> None:
    html = page_of(make_evaluation(make_ranked_table({"q_1": [("img_dog", 2)]})), beach_tables())
    assert "✓<small>2</small>" in html and "rank 1, relevant, grade 2: dog.jpg" in html


def test_why_an_image_was_judged_is_told_where_it_is_named() -> None:
    set_ = beach_tables()
    truth = set_.qrels.assign(evidence=["car missing"] * len(set_.qrels))
    assert "judged not relevant (car missing): dog.jpg" in page_of(make_evaluation(), replace(set_, qrels=truth))


def test_a_system_is_called_by_whatever_name_it_has() -> None:
    for name, said in {"\ud800x": "?x", "a\nb": "a b", "\0": "⟨U+0000⟩"}.items():
        assert f"c0ffee {said} on The beach" in text_of(make_evaluation(system={"name": name}))
    assert "c0ffee run on" in text_of(make_evaluation(system={"kind": "run"}))


def test_searching_texts_shows_the_image_and_the_texts() -> None:
    answers = make_ranked_table({"img_dog": [("q_4", -1), ("q_1", 1)], "img_boat": [("q_4", 1)]})
    turned = beach_tables().qrels.rename(columns={"query_id": "image_id", "image_id": "query_id"})
    found = make_evaluation(answers, ["img_boat", "img_dog", "img_ship"], direction="image_to_text")
    html = page_of(found, replace(beach_tables(), qrels=turned), {"img_dog": make_jpeg()})
    text = read_text(html)
    assert "image → text" in text and "Three dogs on the beach" in text
    assert "1 ? open: 一艘船 0.900" in text and "2 ✓ right: Three dogs on the beach 0.800" in text
    assert "the query: dog.jpg" in html


def test_without_a_set_ids_stand_in() -> None:
    text = text_of(make_evaluation())
    assert "q_1" in text and "img_ship" in text and "Some images are not available" in text
    assert "of the set: not stated" in text


def test_the_whole_is_in_the_conventions() -> None:
    counts = {"queries": 5, "ties": {"5": 2}, "judged": {"judged@10": 0.25}, "none": None}
    text = text_of(make_evaluation(counts=counts))
    assert "ties by image id, highest first" in text and "system: kind model" in text and "system: k 50" in text
    assert "ties 5 2" in text and "judged judged@10 0.25" in text and "content digest c0ffee" in text
    assert "hit@1 1 where the first one is right." in text


def test_the_order_of_rows_does_not_matter() -> None:
    set_, found = beach_tables(), make_evaluation()
    mixed = replace(set_, queries=set_.queries.iloc[::-1], images=set_.images.iloc[::-1], qrels=set_.qrels.iloc[::-1])
    again = replace(found, ranked=found.ranked.sample(frac=1, random_state=3), per_query=found.per_query.iloc[::-1])
    assert page_of(found, set_) == page_of(again, mixed)


def test_the_page_stands_alone_and_allows_its_one_script_alone() -> None:
    html = page_of(make_evaluation(), beach_tables(), {"img_dog": make_jpeg(), "img_ship": make_jpeg("orange")})
    check_page_stands_alone(html, 2, scripts=1)


def test_tables_have_headers_and_everything_to_see_has_words() -> None:
    seen = ParsedPage(page_of(make_evaluation(), beach_tables(), {"img_dog": make_jpeg()}))
    assert all("scope" in a for tag, a in seen.tags if tag == "th")
    assert all(a.get("aria-hidden") == "true" or a.get("aria-label") for tag, a in seen.tags if tag == "svg")
    for _, a in seen.tags:
        if "photo" in a.get("class", "").split():
            assert a.get("aria-hidden") == "true" or a.get("aria-label")
    assert ("html", {"lang": "en"}) in seen.tags
    assert ("bdi", {"lang": "zh"}) in seen.tags, "the reader's voice changes with the query's language"


def hostile(evil: str) -> tuple[EvaluationResult, Tables]:
    set_ = beach_tables()
    truth = qrels_table(list(set_.qrels[["query_id", "image_id", "relevance"]].itertuples(index=False, name=None)))
    names = set_.images.assign(file_name=evil, licence=evil)
    asked = set_.queries.assign(text=evil, language=evil, style=evil, topic=evil, labels=[[evil]] * len(set_.queries))
    found = make_evaluation()
    whole = dict.fromkeys(("name", "version", "content_digest", "kind", "title"), evil)
    changes: dict[str, Any] = {
        "system": {"name": evil, evil: evil},
        "set": whole,
        "conventions": {evil: evil},
        "warnings": [EvaluationWarning(evil, evil, evil), EvaluationWarning("floor", evil, evil)],
        "counts": {evil: evil},
        "definitions": {"hit@1": evil},
        "slices": found.slices.assign(value=evil, slice=evil),
        "thresholds": {evil: THRESHOLD},
    }
    tables = replace(set_, queries=asked, images=names, qrels=truth.assign(evidence=evil))
    return replace(found, **changes), tables


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.thorough
def test_untrusted_text_stays_text(evil: str) -> None:
    found, tables = hostile(evil)
    thumbnails = {"img_dog": make_jpeg()}
    harmless = make_evaluation(warnings=[EvaluationWarning("floor", "", "x")])
    plain = page_of(harmless, beach_tables(), thumbnails)
    check_text_stays_text(page_of(found, tables, thumbnails), plain, evil, "code", "small")


def test_texts_of_either_direction_are_isolated() -> None:
    found, tables = hostile(TURNED)
    html = page_of(replace(found, set=make_evaluation().set, slices=found.slices.iloc[:0], warnings=[]), tables)
    check_directions_are_isolated(html.split("<header")[-1])


def test_ten_thousand_queries_make_a_small_page() -> None:
    names = [f"q_{n:05}" for n in range(10_000)]
    ranked = make_ranked_table(
        {name: [(f"img_{(7 * n + k) % 100_000}", int(k == n % 12)) for k in range(10)] for n, name in enumerate(names)}
    )
    html = page_of(make_evaluation(ranked, names))
    assert len(html) < 700_000


def test_the_wordings_of_one_question_are_listed_with_their_figures() -> None:
    set_ = beach_tables()
    queries = set_.queries.assign(labels=[["dog"] if row < 2 else None for row in range(len(set_.queries))])
    queries["language"], (one, other) = "en", list(queries["query_id"][:2])
    found = make_evaluation()
    per_query = found.per_query.astype(float)
    per_query.loc[one, "hit@1"] = 1.0
    spread = measure_phrasing_spread(per_query, queries, found.metrics)
    text = text_of(replace(found, per_query=per_query, phrasings=spread), replace(set_, queries=queries))
    assert "1 questions are asked in several wordings, 2 queries in total" in text
    first, second = (queries.set_index("query_id").at[name, "text"] for name in (one, other))
    widest = text[text.index("Where wording matters most") :]
    assert widest.index(first) < widest.index(second) and "hit@1 0.500 0.750 1.000 0.500" in text
    assert "in several wordings" not in text_of(found, set_)

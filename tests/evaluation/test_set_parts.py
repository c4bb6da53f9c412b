"""A part of a set: fewer queries, the whole gallery, results of their own."""

from pathlib import Path

import pytest

import querytruth as qt
from flows.evaluation import evaluate_systems
from querytruth.errors import UserError
from querytruth.evaluation.judged_sets import load_judged_qrels, load_judged_set, select_part
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.systems import make_baseline
from tests.small_sets import publish_small_set, query_id_of, small_tables


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four queries: a dog and a cat in English, a dog on a beach in Chinese, and one without a relevant image."""
    return publish_small_set(tmp_path_factory.mktemp("sets"), small_tables()).path


def test_a_part_has_its_queries_and_the_whole_gallery(version: Path) -> None:
    whole = load_judged_set(version)
    part = select_part(whole, {"language": "zh", "level": 2})
    assert part.queries is not None and part.images is not None and whole.images is not None
    assert part.queries["query_id"].tolist() == [query_id_of("狗")]
    assert set(part.qrels["query_id"]) == {query_id_of("狗")}
    assert part.images["image_id"].tolist() == whole.images["image_id"].tolist()
    assert part.description["part"] == {"language": "zh", "level": "2"}
    assert part.outside_queries == {query_id_of(name) for name in ("dog", "cat", "none")}


def test_the_figures_are_those_of_its_queries_in_the_whole(version: Path) -> None:
    whole = qt.evaluate(version, baseline="random", metrics=["rr@10"])
    english = qt.evaluate(version, baseline="random", metrics=["rr@10"], language="en")
    assert english.result.set_name.endswith("(language=en)")
    expected = whole.per_query["rr@10"].loc[[query_id_of("cat"), query_id_of("dog")]]
    assert english.per_query["rr@10"].sort_index().to_dict() == expected.sort_index().to_dict()


def test_a_run_of_the_whole_set_loses_no_query_that_counts(version: Path) -> None:
    full = qt.evaluate(version, baseline="oracle").run[["query_id", "image_id", "score"]]
    found = qt.evaluate(version, run=full, level=2, metrics=["hit@1"])
    assert found["hit@1"] == 1 and found.result.counts["queries"] == 1 and not len(found.result.left_out)


def test_its_result_lies_apart_from_the_whole_sets(version: Path) -> None:
    part = select_part(load_judged_set(version), {"language": "en"})
    options = EvaluationOptions(metrics=["hit@1"], page=False)
    (stored,) = evaluate_systems(part, [make_baseline("oracle")], ("text_to_image",), options)
    assert stored.folder == version.parent / "evaluations" / "v1" / "parts" / "language-en" / "oracle"
    with pytest.raises(UserError, match="holds the result of another run"):  # the folder of the part, for the whole set
        report = EvaluationOptions(metrics=["hit@1"], report=stored.folder)
        list(evaluate_systems(load_judged_set(version), [make_baseline("oracle")], ("text_to_image",), report))


def test_its_result_is_not_taken_for_one_of_the_whole_set(version: Path, tmp_path: Path) -> None:
    part = qt.evaluate(version, baseline="oracle", metrics=["hit@1"], level=2, report=tmp_path / "part").folder
    assert part is not None
    for other in ({}, {"language": "en"}):
        with pytest.raises(UserError, match=r"answers only a part of the set \(level=2\)"):
            qt.evaluate(version, run=part, **other)
    narrower = qt.evaluate(version, run=part, metrics=["hit@1"], level=2, language="zh")
    assert list(narrower.per_query.index) == [query_id_of("狗")] and narrower["hit@1"] == 1


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"language": "fr"}, "language=fr .*matches no query. Next: choose from en, zh"),
        ({"colour": "red"}, "colour .*is not a column to filter by"),
        ({"family": "count"}, "family=count .*matches no query. Next: remove family"),
        ({"language": "en", "level": 2}, "language=en, level=2 .*is not a query of small/v1"),
    ],
)
def test_a_part_that_is_none_is_refused(version: Path, part: dict[str, str | int], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        select_part(load_judged_set(version), part)


def test_bare_judgments_have_no_parts(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q1 0 i1 1\n")
    with pytest.raises(UserError, match="bare judgments have no values"):
        select_part(load_judged_qrels(tmp_path / "a.qrels"), {"language": "en"})

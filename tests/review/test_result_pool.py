"""Two searches returned right images that nobody judged: they are judged by rank, and nothing says whose they were."""

import json
from pathlib import Path

import pytest

from builders.publication import publish_decisions
from flows.evaluation import evaluate_systems
from querytruth.errors import UserError
from querytruth.evaluation.judged_sets import load_judged_set
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.systems import load_run_system
from querytruth.review.result_pool import read_result_pool
from querytruth.sets import set_files
from querytruth.sets.set_files import StoredSet
from tests.resealed_sets import reseal
from tests.review.server.pages import open_client
from tests.review.test_equivalent_queries import TEXTS, publish_dogs
from tests.small_sets import gallery_tables, publish_small_set


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    return publish_dogs(tmp_path)


def write_run(folder: Path, name: str, **results: str) -> Path:
    """A run in TREC's form: by query the numbers of its images, the best first."""
    lines = [
        f"{query} Q0 img_{image} {rank} {-rank} {name}"
        for query, images in results.items()
        for rank, image in enumerate(images, 1)
    ]
    path = folder / f"{name}.trec"
    path.write_text("\n".join(lines), "utf-8")
    return path


def figure(version: Path, run: Path, metric: str = "r@3") -> float:
    options = EvaluationOptions(
        metrics=[metric], report=version.parent.parent / f"results of {version.name}", page=False
    )
    (result,) = evaluate_systems(load_judged_set(version), [load_run_system(run)], ["text_to_image"], options)
    return float(result.scored.result.figures.set_index("metric").at[metric, "value"])


def test_unjudged_results_of_two_searches_are_queued_by_rank_once(stored: StoredSet, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, "a", q_zh="134", q_cat="3"), write_run(tmp_path, "b", q_en="412", q_zs="1243")]
    page = open_client(stored, runs=runs)
    assert page.keys("pairs", source="results") == ["q_zh/img_4", "q_zh/img_3"], (
        "img_4 was first of one search, img_3 second of the other"
    )
    assert open_client(stored, runs=runs, depth=1).keys("pairs", source="results") == ["q_zh/img_4"]
    assert open_client(stored, runs=[runs[0]]).keys("pairs", source="results") == ["q_zh/img_3", "q_zh/img_4"]
    assert open_client(stored).keys("pairs", source="results") == []


def test_the_page_opens_at_the_results_and_names_no_search(stored: StoredSet, tmp_path: Path) -> None:
    page = open_client(stored, runs=[write_run(tmp_path, "secret_system", q_zh="34")])
    assert page.get("/").url.path == "/pairs" and page.get("/").url.query == b"source=results"
    assert "results (2): results of searches that nobody judged" in page.get("/pairs").text
    card = page.get("/api/pairs/cards", params={"key": page.keys("pairs", source="results")[0]})
    assert "secret_system" not in card.text and "rank" not in card.text
    assert card.json()["cards"][0]["image"]["relevance"] is None


def test_judged_results_move_the_figures_of_the_search_in_all_texts_at_once(stored: StoredSet, tmp_path: Path) -> None:
    """Two right images of three are known: the search that returned the third first gets its due."""
    run = write_run(tmp_path, "a", q_zh="41", q_en="41", q_zs="14", q_cat="3")
    assert figure(stored.path, run) == pytest.approx((0.5 * 3 + 1) / 4)
    page = open_client(stored, runs=[run])
    (key,) = page.keys("pairs", source="results")
    others = [{"query_id": query, "text": TEXTS[query]} for query in ("q_zs", "q_en")]
    page.decide("q_zh", "狗", "grade", others=others, image_id="img_4", relevance=2, view="pairs")
    assert page.keys("pairs", source="results", state="open") == [] and page.keys("pairs", source="results") == [key], (
        "it stays in the list until it is applied"
    )
    second = publish_decisions(stored.path)
    assert figure(second.path, run) == pytest.approx((2 / 3 * 3 + 1) / 4)
    assert open_client(set_files.read_set(second.path), runs=[run]).keys("pairs", source="results") == []


@pytest.mark.thorough
def test_the_report_has_the_command_that_judges_what_nobody_judged(stored: StoredSet, tmp_path: Path) -> None:
    for name, results, unjudged in (("a", "143", 2), ("b", "12", 0)):
        options = EvaluationOptions(metrics=["p@3"], report=tmp_path / f"my report {name}")
        system = load_run_system(write_run(tmp_path, name, q_zh=results))
        (result,) = evaluate_systems(load_judged_set(stored.path), [system], ["text_to_image"], options)
        assert result.page is not None and result.folder is not None
        html = result.page.read_text("utf-8")
        command = f"querytruth review {stored.path} --run &#39;{result.folder}&#39; --depth 10"
        assert (command in html, f"{unjudged} of the first 10 results" in html) == (unjudged > 0, unjudged > 0)


def test_results_of_another_set_are_counted_and_left_out(stored: StoredSet, tmp_path: Path) -> None:
    run = write_run(tmp_path, "a", q_zh="394", q_gone="1")
    pool = read_result_pool(stored, [run], 2)
    assert pool.pairs == [("q_zh", "img_3"), ("q_zh", "img_4")], "what is not of the set takes no rank"
    assert pool.notes == [
        f"{run}: 2 of 4 results are not in this set and were left out",
        "2 pairs of the first 2 results wait for a judgment",
    ]
    with pytest.raises(UserError, match="contains no query and no image of the set"):
        read_result_pool(stored, [write_run(tmp_path, "b", q_gone="1")], 10)


@pytest.mark.thorough
def test_a_gallery_has_nothing_that_a_search_could_have_answered(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, gallery_tables())
    manifest = {**json.loads((stored.path / "manifest.json").read_text()), "kind": "gallery"}
    (stored.path / "manifest.json").write_text(json.dumps(manifest))
    reseal(stored.path)
    with pytest.raises(UserError, match="remove --run"):
        open_client(stored, runs=[write_run(tmp_path, "a", q_zh="1")])

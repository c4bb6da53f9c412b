"""Judgments of people, and the cases of another library."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.evaluation.metrics import compute_cmc_curve, compute_metric, parse_metric
from tests.evaluation.naive_metrics import NaiveQrels, NaiveRun
from tests.evaluation.test_metrics import ranked, shown


def listed(path: Path) -> dict[str, list[str]]:
    return {query: [str(image) for image in images] for query, images in json.loads(path.read_text()).items()}


@pytest.mark.parametrize(
    ("name", "queries", "positives", "mean"),
    [("caption_to_image", 1332, 11279, 0.135873), ("image_to_caption", 1261, 22550, 0.312745)],
)
def test_what_coco_knows_of_the_truth_that_people_found(
    shared: Callable[[str], Path], name: str, queries: int, positives: int, mean: float
) -> None:
    """ECCV Caption's judgments, with COCO's own labels as the system that is measured."""
    folder = shared("multi_positive_gt")
    truth = {query: dict.fromkeys(images, 1) for query, images in listed(folder / f"eccv_{name}.json").items()}
    labels = listed(folder / f"original_{name}.json")
    found = ranked(truth, {query: shown(labels[query]) for query in truth})
    assert len(found.truth.query_ids) == queries
    assert found.truth.relevant_counts.sum() == positives
    assert compute_metric(found, parse_metric("ap@r")).mean() == pytest.approx(mean, abs=5e-7)


def test_cmc_of_the_reidentification_library(shared: Callable[[str], Path]) -> None:
    """open-reid's cases. Its galleries may hold the query itself, taken by the same camera, which it leaves out."""
    cases = {
        case["name"]: case for case in json.loads((shared("metrics_reid") / "cmc_cases.json").read_text())["cases"]
    }
    for case in cases.values():
        count = len(case["query_ids"] or case["distmat"])
        distances = case.get("distmat") or [list(range(count))] * count
        query_ids, gallery_ids = (case[key] or list(range(count)) for key in ("query_ids", "gallery_ids"))
        cameras = case.get("query_cams") or [0] * count, case.get("gallery_cams") or [1] * count
        qrels: NaiveQrels = {}
        run: NaiveRun = {}
        for row, who in enumerate(query_ids):
            there = [n for n in range(count) if (gallery_ids[n], cameras[1][n]) != (who, cameras[0][row])]
            qrels[f"q{row}"] = {f"g{n}": int(gallery_ids[n] == who) for n in there}
            run[f"q{row}"] = {f"g{n}": -float(distances[row][n]) for n in there}
        expected = case.get("expected") or case["expected_first5"]
        assert compute_cmc_curve(ranked(qrels, run), len(expected)).tolist() == pytest.approx(expected), case["name"]

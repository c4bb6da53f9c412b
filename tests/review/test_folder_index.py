"""What lies below a folder is read from files alone, broken ones are left out, and 200 sets take less than a second."""

import json
import shutil
import time
from pathlib import Path

from querytruth.review.folder_index import read_folder
from tests.checks.golden_world import write_photos
from tests.small_sets import publish_small_set, small_tables


def test_sets_results_audits_reports_searches_and_photos_are_found(tmp_path: Path) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    for name, value in (("mine", 0.4), ("better", 0.6), ("oracle", 1.0)):
        result = folder / "evaluations" / "v1" / name / "result.json"
        result.parent.mkdir(parents=True)
        figures = [{"metric": metric, "value": value, "low": 0.1, "high": 1} for metric in ("hit@1", "ndcg@10")]
        result.write_text(json.dumps({"figures": figures}))
    gate = tmp_path / "ci" / "gate.json"
    gate.parent.mkdir()
    gate.write_text(json.dumps({"verdict": "FAIL", "candidate": "new", "baseline": "old"}))
    (tmp_path / "ci" / "check.json").write_text(
        json.dumps({"golden": "golden.yaml", "system": "s", "is_failed": False})
    )
    (tmp_path / "ci" / "other.html").write_text("<!doctype html><title>somebody's</title>")
    (tmp_path / "s.yaml").write_text("# mine\nsystem: http\n")
    (tmp_path / "golden.yaml").write_text("system: s.yaml\ncases: []\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "t.yaml").write_text("system: http\n")
    write_photos(tmp_path / "photos")
    index = read_folder(tmp_path, tmp_path / "sets")
    (one,) = index.sets
    assert [(result.name, result.shown.metric, result.is_bound) for result in one.results] == [
        ("better", "ndcg@10", False), ("mine", "ndcg@10", False), ("oracle", "ndcg@10", True),
    ]  # fmt: skip
    assert one.manifest is not None and one.manifest.counts["queries"] == 4 and one.progress is None
    assert {(page.title, page.verdict) for page in index.pages} == {("new / old", "FAIL"), ("golden.yaml, s", "PASS")}
    assert [path.name for path in index.systems] == ["s.yaml"] and [path.name for path in index.golden] == [
        "golden.yaml"
    ]
    assert len([path for path in index.photos if path.parent.name == "photos"]) == 12


def test_two_hundred_sets_are_listed_in_a_second_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    for number in range(200):
        shutil.copytree(folder / "v1", tmp_path / "sets" / f"small-{number}" / "v1")
    (tmp_path / "sets" / "small-0" / "v1" / "manifest.json").write_text("{")
    start = time.monotonic()
    assert len(read_folder(tmp_path).sets) == 200
    assert time.monotonic() - start < 1

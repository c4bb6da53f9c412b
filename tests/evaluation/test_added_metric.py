"""A metric is added as docs/architecture.md says: a function, and its entry in the table."""

import json
from pathlib import Path

import pytest

from querytruth.evaluation import metrics
from querytruth.evaluation.metrics import MetricFunction
from querytruth.evaluation.ranking import FloatArray, Hits
from tests.command_runner import invoke
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


def second_place(hits: Hits, _k: metrics.Cut) -> FloatArray:
    """1 where a relevant image has rank 2."""
    return hits.sum_per_query(hits.rank == 2)


def test_an_added_metric_is_measured_and_shown_without_a_figure_of_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(metrics.METRIC_FUNCTIONS, "second", MetricFunction(second_place))
    stored = publish_small_set(tmp_path, small_tables())
    ranked = {"dog": ["tree", "beach"], "狗": ["beach", "tree"], "cat": ["tree", "cat"]}
    lines = [
        f"{query_id_of(query)} Q0 {image_id_of(image)} {rank} {9 - rank} mine"
        for query, images in ranked.items()
        for rank, image in enumerate(images, 1)
    ]
    (tmp_path / "run.trec").write_text("\n".join(lines), "utf-8")
    words = ["--run", tmp_path / "run.trec", "--metrics", "second@2,hit@1", "--report", tmp_path / "result"]
    ended = invoke("evaluate", stored.path, *words, "--page", "--json")
    assert ended.exit_code == 0, ended.output
    figures = {row["metric"]: row for row in json.loads(ended.stdout)["results"][0]["figures"]}
    assert figures["second@2"]["value"] == pytest.approx(2 / 3)
    assert figures["second@2"]["chance"] is None and figures["hit@1"]["chance"] > 0
    [page] = (tmp_path / "result").rglob("*.html")
    assert "second@2" in page.read_text("utf-8") and "nan" not in page.read_text("utf-8").lower().split()

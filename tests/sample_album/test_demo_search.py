"""The search services of the demo: evaluated over HTTP and gated."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from querytruth.evaluation.system_answers import serve_search
from querytruth.sample_album.demo_search import evaluate_sample_search
from tests.checks.golden_world import write_photos
from tests.small_sets import publish_small_set, small_tables


def test_a_search_function_is_a_service_while_the_block_lasts() -> None:
    with serve_search(lambda text, k: [(f"{text}-{n}.jpg", 1 / (n + 1)) for n in range(k)]) as url:
        with urllib.request.urlopen(f"{url}?q=a%20%C3%A9&size=2") as answer:
            assert json.load(answer) == {
                "hits": [{"file": "a é-0.jpg", "score": 1.0}, {"file": "a é-1.jpg", "score": 0.5}]
            }
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{url}?q=a")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}?q=a&size=1")


@pytest.mark.thorough
def test_the_whole_service_is_ahead_of_the_stale_one_and_a_second_demo_replaces_the_results(tmp_path: Path) -> None:
    version = publish_small_set(tmp_path, small_tables(graded=False)).path
    texts = {"dog": "a dog, wet -1", "beach": "沙滩上的狗", "cat": "'cat' asleep", "tree": "green leaves"}
    rows = "".join(f'"holiday/{name} 1.jpg","{text}"\n' for name, text in texts.items())
    (tmp_path / "texts.csv").write_text(f"file_name,text\n{rows}", encoding="utf-8")
    write_photos(tmp_path / "album/holiday", [f"{name} 1.jpg" for name in texts])
    for _ in range(2):
        results, gates, checks = evaluate_sample_search(
            version, tmp_path / "texts.csv", tmp_path / "search", tmp_path / "album"
        )
    whole, stale = (result.scored.result for result in results)
    assert whole.per_query["hit@1"].mean() == 1.0 > stale.per_query["hit@1"].mean()
    assert whole.counts["search_system"]["failures"] == {} and whole.counts["latency_ms"]["p50"] > 0
    assert [(gate.candidate, gate.baseline) for gate in gates] == [
        ("stale-search", "search"),
        ("search", "stale-search"),
    ]
    assert [report.count("fail") for report in checks] == [0, 1] and (tmp_path / "search/golden.lock").exists()
    assert gates[0].checks[0].difference == -gates[1].checks[0].difference < 0

"""A search service that never answers stops the run early; one that ties keeps its own order."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from querytruth.backends.search_systems import SearchHit
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.live_systems import build_system_run
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.system_answers import IndexCheck, SystemAnswer
from tests.loopback import CannedResponse, LoopbackAnswer, loopback, stay_silent
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

Run = Callable[..., tuple[str, str]]
MANY = 200


@pytest.fixture
def many_queries(tmp_path: Path) -> None:
    """A set of 200 queries for one image."""
    ids = [query_id_of(str(number)) for number in range(MANY)]
    texts = [f"dog {number}" for number in range(MANY)]
    queries = pd.DataFrame({"query_id": ids, "text": texts, "language": "en", "style": "word", "level": 1})
    qrels = pd.DataFrame({"query_id": ids, "image_id": image_id_of("dog"), "judged_by": "human", "evidence": None})
    qrels = qrels.assign(relevance=pd.array([1] * MANY, dtype="int8"))
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    tables = replace(small_tables(), queries=queries.sort_values("query_id", ignore_index=True), qrels=qrels)
    publish_small_set(tmp_path, tables)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (stay_silent(1), "timeout"),
        (CannedResponse("later", 503, {"Retry-After": "0.02"}), "http_503: later"),
        (CannedResponse("who are you?", 401), "http_401: who are you?"),
    ],
    ids=["hangs", "asks for patience", "refuses"],
)
def test_a_service_that_never_answers_stops_the_run_after_the_first_dozen(
    answer: LoopbackAnswer, reason: str, run: Run, many_queries: None, tmp_path: Path
) -> None:
    with loopback(lambda _: answer) as server:
        options = {"system": "http", "url": f"{server.url}/?q={{query}}", "deadline": 0.05, "tries": 2, "pause": 0.01}
        (tmp_path / "mine.yaml").write_text(json.dumps(options))
        start = time.monotonic()
        _, told = run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", code=1)
        assert f"answered none of the first 12 queries ({reason}" in " ".join(told.split())
        assert "--trial" in told and time.monotonic() - start < 10
        assert len(server.asked) < 2 * MANY / 4


def test_a_service_that_fails_at_some_queries_goes_on_and_is_asked_those_again(
    run: Run, many_queries: None, tmp_path: Path
) -> None:
    """Also where more than a dozen have failed before, and are all that is left to ask."""
    found = CannedResponse({"results": [{"id": image_id_of("dog")}]})
    with loopback(lambda request: CannedResponse("", 400) if "9" in request.path else found) as server:
        options = {"system": "http", "url": f"{server.url}/?q={{query}}", "tries": 1, "concurrency": 1}
        (tmp_path / "mine.yaml").write_text(json.dumps(options))
        for _ in range(2):
            shown, _ = run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--json", "--no-page")
            (result,) = json.loads(shown)["results"]
            assert result["counts"]["search_system"]["failures"] == {"http_400": 38}


def test_of_equal_scores_the_services_own_order_counts() -> None:
    """By our rule for run files the highest id would be first."""
    hits = [SearchHit(name, score) for name, score in (("a", 1.0), ("c", 0.5), ("b", 0.5), ("d", 0.5), ("e", 0.0))]
    found = build_system_run(["q1"], [SystemAnswer(tuple(hits), 1.0)], {}, 5, IndexCheck(None, None, None))
    table = found.run.assign(image_id=found.run["image_id"].str.removeprefix("unmapped:"))
    truth = index_qrels(
        pd.DataFrame({"query_id": ["q1"], "image_id": ["c"], "relevance": [1]}), pd.Series(list("abcde"))
    )
    ranked = rank_run(table, truth)
    assert ranked.image_ids.take(ranked.image_code).to_pylist() == list("acbde")
    assert found.counts["search_system"]["order"] == "score"
    assert table["score"].round(9).tolist() == [1.0, 0.5, 0.5, 0.5, 0.0]

"""The nightly gate: a service on loopback is asked anew, and the state is the verdict."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from pydantic import ValidationError

from flows.prefect_runs import gate_flow
from flows.prefect_runs.gate_flow import GateParameters, gate_service
from querytruth.sets.benchmark_set import Tables
from tests.flows.prefect_test_server import POOL, run_prefect_server
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables

RIGHT = {"a dog, wet": "dog", "沙滩上的狗": "beach", "'cat'\nasleep": "cat", "-1": "dog"}


def answer(request: ReceivedRequest) -> CannedResponse:
    text = parse_qs(urlsplit(request.path).query)["q"][0]
    return CannedResponse({"results": [{"id": image_id_of(RIGHT[text])}]})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Loopback]:
    publish_small_set(tmp_path, small_tables(graded=False))
    with loopback(answer) as server:
        options = {"system": "http", "url": f"{server.url}/?q={{query}}", "tries": 1}
        (tmp_path / "mine.yaml").write_text(json.dumps(options))
        rows = [("dog", "dog"), ("狗", "beach"), ("cat", "cat"), ("none", "dog")]
        lines = [f"{query_id_of(query)} Q0 {image_id_of(image)} 1 1 x\n" for query, image in rows]
        below = f"{query_id_of('none')} Q0 {image_id_of('cat')} 2 0.5 x\n"  # the runs differ, no figure does
        (tmp_path / "old.trec").write_text("".join([*lines, below]))
        yield server


def parameters(folder: Path, margin: float, **more: object) -> GateParameters:
    places = {"of": "small", "out": folder / "sets", "system": str(folder / "mine.yaml")}
    places |= {"baseline": str(folder / "old.trec"), "metric": ["hit@1"], "margin": [margin]}
    return GateParameters(**(places | more))


@pytest.mark.thorough
def test_the_state_is_the_verdict(service: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_flow, "call_server_if_available", lambda _: None)  # no server is started
    state = gate_service(parameters(tmp_path, 0.01))
    assert (state.type.value, state.name) == ("FAILED", "Undecided")
    assert (
        "mine against old: IDENTICAL hit@1, all queries (both systems score the same on all 4 queries; a loss of up to"
        in state.message
    )
    asked = len(service.asked)
    state = gate_service(parameters(tmp_path, 0.01, undecided="pass"))
    assert (state.type.value, state.name) == ("COMPLETED", "Undecided")
    assert len(service.asked) == 2 * asked  # nothing is replayed
    assert gate_service(parameters(tmp_path, 0.01, max_latency=["p50=0.0001"])).name == "Worse"
    with pytest.raises(ValidationError, match="is not a latency budget"):
        gate_service(parameters(tmp_path, 0.01, max_latency=["fast"]))


QUERIES = 60
NAMES = list(COLOURS)


def write_set(folder: Path) -> None:
    """Sixty queries with one relevant image each, and a run that finds all of them."""
    numbers = range(QUERIES)
    ids = [query_id_of(f"query {n}") for n in numbers]
    queries = pd.DataFrame({"query_id": ids, "text": [f"query {n}" for n in numbers], "language": "en"})
    queries = queries.assign(style="word", level=1, labels=None)
    qrels = pd.DataFrame({"query_id": ids, "image_id": [image_id_of(NAMES[n % 4]) for n in numbers]})
    lines = [f"{row.query_id} Q0 {row.image_id} 1 1 old\n" for row in qrels.itertuples()]
    (folder / "old.trec").write_text("".join(lines))
    qrels = qrels.assign(relevance=pd.array([1] * QUERIES, dtype="int8"), judged_by="human", evidence=None)
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    ordered = queries.sort_values("query_id", ignore_index=True), qrels.sort_values("query_id", ignore_index=True)
    publish_small_set(folder, Tables(ordered[0], small_tables().images, ordered[1]), name="nightly")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_run_completes_with_a_good_service_and_fails_with_a_worse_one(tmp_path: Path) -> None:
    shift = [0]  # of the answered image, for every other query

    def answer(request: ReceivedRequest) -> CannedResponse:
        number = int(parse_qs(urlsplit(request.path).query)["q"][0].rpartition(" ")[2])
        return CannedResponse({"results": [{"id": image_id_of(NAMES[(number + shift[0] * (number % 2)) % 4])}]})

    write_set(tmp_path)
    with loopback(answer) as service, run_prefect_server(tmp_path) as world:
        described = {"system": "http", "url": f"{service.url}/?q={{query}}", "tries": 1}
        (tmp_path / "mine.yaml").write_text(json.dumps(described))
        world.start_server()
        world.prefect("work-pool", "create", POOL, "--type", "process")
        world.start_worker()
        places = {"of": "nightly", "system": "mine.yaml", "baseline": "old.trec", "out": "sets"}
        gated = {"metric": ["hit@1"], "margin": [0.2]}
        world.deploy("flows.prefect_runs.gate_flow.gate", "nightly", **places, **gated)
        good = world.start_run("gate/nightly")
        message = world.wait_until(good, "Passed", "Worse", "Undecided", "Failed", "Crashed", seconds=300)
        assert world.state(good)[0] == "Passed" and message.startswith(
            "mine against old: PASS hit@1, all queries (both systems score the same"
        )
        assert world.call(f"flow_runs/{good}")["state"]["type"] == "COMPLETED"
        asked, shift[0] = len(service.asked), 1
        worse = world.start_run("gate/nightly")
        message = world.wait_until(worse, "Passed", "Worse", "Undecided", "Failed", "Crashed", seconds=300)
        assert world.state(worse)[0] == "Worse"
        assert "FAIL hit@1, all queries (loses more than the 0.2 allowed: 0.5000 against 1.0000" in message
        assert world.call(f"flow_runs/{worse}")["state"]["type"] == "FAILED"
        assert len(service.asked) >= asked + QUERIES, "the second night asks anew"
        assert "FAIL" in world.artifacts()["nightly-gate"]["data"]
    assert not world.children(), "a process was left behind"

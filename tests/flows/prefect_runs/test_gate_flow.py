"""The nightly gate: a service on loopback is asked anew, and the state is the verdict."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from flows.prefect_runs import gate_flow
from flows.prefect_runs.gate_flow import GateParameters, gate_service
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

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

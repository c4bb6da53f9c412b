"""`querytruth judge carry`: a set that nobody judged, by a judge that people measured on another one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.audit.judge import build_judge_requests
from querytruth.audit.pool import pool_set
from tests.cli.conftest import Run
from tests.cli.test_audit_commands import fill
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables

NAMES = [f"query {number}" for number in range(12)]
# Of 48 pairs 24 are relevant. The judge finds 22 of them, and calls 4 of the others relevant.
TRUTH = {
    query_id_of(name): {image_id_of(colour) for colour in list(COLOURS)[place % 2 :: 2]}
    for place, name in enumerate(NAMES)
}
ERRORS = {3, 7, 12, 20, 33, 41}


def publish(folder: Path, name: str) -> Path:
    """A set of twelve queries, each with one of its two relevant images; returns a run of every image."""
    tables = small_tables()
    queries = pd.DataFrame(
        {
            "query_id": list(TRUTH),
            "text": NAMES,
            "language": "en",
            "style": "word",
            "level": 1,
            "labels": [["dog"]] * len(NAMES),
        }
    ).sort_values("query_id", ignore_index=True)
    qrels = pd.DataFrame({"query_id": list(TRUTH), "image_id": [min(images) for images in TRUTH.values()]})
    qrels = qrels.assign(relevance=pd.array([2] * len(qrels), dtype="int8"), judged_by="detector", evidence=None)
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    qrels = qrels.sort_values(["query_id", "image_id"], ignore_index=True)
    tables = replace(tables, queries=queries, qrels=qrels)
    publish_small_set(folder, tables, name=name, render={"size": 32, "mode": "longer_side"})
    run = folder / f"{name}-all.trec"
    rows = [f"{query} Q0 {image_id_of(image)} 0 {-rank} x" for query in TRUTH for rank, image in enumerate(COLOURS)]
    run.write_text("\n".join(rows) + "\n")
    return run


def record(folder: Path, runs: dict[str, Path]) -> Path:
    """The transcript of a judge that errs on the same pairs of each set."""
    lines: list[dict[str, Any]] = [{"model": {"name": "seer", "revision": "r1", "parameters": {}}}]
    for name, run in runs.items():
        pooled = pool_set(folder / "sets" / name / "v1", [run], 4)
        pairs = pooled.pool.pairs.itertuples()
        for number, (request, pair) in enumerate(zip(build_judge_requests(pooled)[0], pairs, strict=True)):
            fits = (pair.image_id in TRUTH[pair.query_id]) != (number in ERRORS)
            reply = f'{{"grade": {2 * fits}}}'
            lines.append({"request": request.cache_key_fields(), "reply": reply, "finish_reason": "stop"})
    transcript = folder / "seer.jsonl"
    transcript.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return transcript


@pytest.fixture
def audited(run: Run, tmp_path: Path) -> list[object]:
    """Two sets, one with an audit that a person answered; returns the options of the judge."""
    runs = {name: publish(tmp_path, name) for name in ("known", "new")}
    judge = ["--judge", "replay", "--judge-option", f"replies={record(tmp_path, runs)}", "--out", tmp_path / "sets"]
    run("audit", "start", "known", "--run", runs["known"], "--depth", 4, *judge)
    out = ["--out", tmp_path / "sets"]
    run("audit", "export-csv", "known", "--to", tmp_path / "a.csv", *out)
    fill(tmp_path / "a.csv", TRUTH)
    run("audit", "import-csv", "known", tmp_path / "a.csv", "--reviewer", "lin", *out)
    return ["--run", runs["new"], "--depth", 4, *judge]


@pytest.mark.thorough
def test_a_measured_judge_tells_how_much_another_set_lacks(run: Run, audited: list[object]) -> None:
    found = json.loads(run("judge", "carry", "new", "--from", "known", *audited, "--json")[0])
    called = found["called_relevant"]
    assert (found["pairs"], found["judged_relevant"], found["without_grade"]) == (48, 12, 0)
    assert found["relevant"]["value"] == pytest.approx(24), (called, found)
    assert found["relevant"]["low"] < 24 < found["relevant"]["high"] < 48
    assert found["multiplier"]["value"] == pytest.approx(2)
    assert found["from"] == {"audit": "known/v1, audit audit", "answered": 48}
    shown = run("judge", "carry", "new", "--from", "known", *audited)[0]
    assert "relevant pairs of the pool" in shown and "errs here as often as there" in shown
    assert f"{found['as_precise_as_judgments']} judgments by people" in shown


@pytest.mark.thorough
def test_rates_hold_for_the_same_judge_and_question_alone(run: Run, audited: list[object], tmp_path: Path) -> None:
    transcript = tmp_path / "seer.jsonl"
    transcript.write_text(transcript.read_text().replace('"r1"', '"r2"', 1))
    _, shown = run("judge", "carry", "new", "--from", "known", *audited, code=1)
    assert "seer (judge): is not the judge of known/v1, audit audit: revision differ" in shown


@pytest.mark.thorough
def test_an_audit_with_few_answers_or_without_a_judge_measures_nothing(
    run: Run, audited: list[object], tmp_path: Path
) -> None:
    out = ["--out", tmp_path / "sets"]
    run("audit", "start", "known", "--name", "plain", "--run", tmp_path / "known-all.trec", "--depth", 4, *out)
    _, shown = run("judge", "carry", "new", "--from", "known", "--name", "plain", *audited, code=1)
    assert "known/v1, audit plain (judge): has no judge" in shown
    _, shown = run("judge", "carry", "new", "--from", "new", *audited, code=1)
    assert "audit" in shown and "Next: " in shown

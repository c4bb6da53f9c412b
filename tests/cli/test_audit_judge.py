"""`querytruth audit` with a judge: recorded replies of known error, of a model that saw each image with its query."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.audit.judge import build_judge_requests
from querytruth.audit.pool import pool_set
from tests.cli.conftest import Run
from tests.cli.test_audit_commands import fill
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables

RELEVANT = {"dog": {"dog", "beach"}, "狗": {"beach", "dog"}, "cat": {"cat"}, "none": set[str]()}
TRUTH = {query_id_of(query): {image_id_of(name) for name in names} for query, names in RELEVANT.items()}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A set, and the run of a system that returns every image; returns the run."""
    publish_small_set(tmp_path, small_tables(), render={"size": 32, "mode": "longer_side"})
    run = tmp_path / "tiny-clip.trec"
    rows = [f"{query} Q0 {image_id_of(name)} 0 {-rank} x" for query in TRUTH for rank, name in enumerate(COLOURS)]
    run.write_text("\n".join(rows) + "\n")
    return run


def record(run: Path, *, wrong: int, name: str = "seer") -> Path:
    """The transcript of a judge that errs on the first pairs, and talks around its JSON."""
    pooled = pool_set(run.parent / "sets" / "small" / "v1", [run], 4)
    requests = build_judge_requests(pooled)
    assert len(requests) == 16
    lines: list[dict[str, Any]] = [{"model": {"name": name, "revision": "r1", "parameters": {}}}]
    pairs: pd.DataFrame = pooled.pool.pairs
    for number, (request, pair) in enumerate(zip(requests, pairs.itertuples(), strict=True)):
        fits = (pair.image_id in TRUTH[pair.query_id]) != (number < wrong)
        reply = f'Sure! {{"grade": {2 * fits}, "reason": "what it shows"}}'
        lines.append({"request": request.cache_key_fields(), "reply": reply, "finish_reason": "stop"})
    transcript = run.parent / f"{name}.jsonl"
    transcript.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return transcript


def words(run: Path, transcript: Path) -> list[object]:
    out = run.parent / "sets"
    judge = ["--judge", "replay", "--judge-option", f"replies={transcript}"]
    return ["small", "--run", run, "--depth", 4, *judge, "--out", out]


def test_the_judge_sees_query_grades_and_image(small: Path) -> None:
    requests = build_judge_requests(pool_set(small.parent / "sets" / "small" / "v1", [small], 4))
    texts = [request.messages[0].text for request in requests]
    assert all("2: all that is asked for" in text and "0: not relevant" in text for text in texts)
    assert any("a dog, wet" in text and "Someone typed" in text for text in texts)
    assert any("沙滩上的狗" in text and "有人在图片搜索中输入" in text for text in texts)
    assert {len(request.messages[0].images) for request in requests} == {1}
    assert len({request.messages[0].images[0].sha256 for request in requests}) == 4


@pytest.mark.thorough
def test_labels_divide_the_strata_and_the_report_has_the_judges_card(run: Run, small: Path) -> None:
    given = words(small, record(small, wrong=2))
    planned = json.loads(run("audit", "plan", *given, "--json")[0])
    assert planned["judge"] == "seer" and planned["judge_calls"] == 0
    started = json.loads(run("audit", "start", *given, "--json")[0])
    assert started["judge"]["name"] == "seer" and started["judge"]["without_grade"] == 0
    assert {row["stratum"].partition(".")[2] for row in started["strata"]} == {"yes", "no"}
    assert sum(row["pairs"] for row in started["strata"]) == 16
    assert json.loads(run("audit", "start", *given, "--json")[0]) == started
    out = ["--out", small.parent / "sets"]
    shown = run("review", "export-csv", "--audit", "audit", "small", *out, "--to", "a.csv")
    assert "seer" not in Path("a.csv").read_text("utf-8-sig") and "yes" not in Path("a.csv").read_text("utf-8-sig")
    fill(Path("a.csv"), TRUTH)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)
    report = json.loads(run("audit", "report", "small", "--json", *out)[0])
    agreement = report["judge"]["agreement"]
    assert agreement["pairs"] == 16 and agreement["relevant_by_people"] == 5 / 16
    wrong = sum(
        number for people, row in agreement["confusion"].items() for grade, number in row.items()
        if (people == "0") != (grade == "0")
    )  # fmt: skip
    assert wrong == 2 and 0 < agreement["kappa_relevant"] < 1
    measures = {row["measure"]: row for row in report["truth"]}
    # All 16 pairs were judged: the set lacks one of the five relevant pairs, and none of its four is wrong.
    assert measures["missing_share"]["value"] == measures["missing_share"]["low"] == pytest.approx(0.2)
    assert measures["wrong_share"]["high"] == pytest.approx(0)
    assert "judge seer: kappa of grades" in run("audit", "report", "small", *out)[0] and shown


@pytest.mark.thorough
def test_a_contestant_a_judge_without_grades_and_a_missing_image_are_one_line(run: Run, small: Path) -> None:
    contestant = words(small, record(small, wrong=0, name="Tiny-CLIP"))
    assert "is a system of this audit" in run("audit", "plan", *contestant, code=1)[1]
    assert run("audit", "plan", *contestant, "--allow-contestant")[0]
    mute = small.parent / "mute.jsonl"
    mute.write_text(record(small, wrong=0).read_text().splitlines()[0] + "\n")
    error = run("audit", "start", *words(small, mute), code=1)[1]
    assert "returned no grade (not_recorded" in error and "choose a model that accepts images" in error
    for image in (small.parent / "sets" / "small" / "v1").rglob("*.jpg"):
        image.unlink()
    publish_small_set(small.parent / "other", small_tables(), images=False, name="bare")
    bare = ["bare", *words(small, mute)[1:-1], small.parent / "other" / "sets"]
    assert "image file not available, so the judge cannot see it" in run("audit", "start", *bare, code=1)[1]
    assert "write KEY=VALUE" in run("audit", "plan", *words(small, mute), "--judge-option", "x", code=2)[1]


@pytest.mark.thorough
def test_evaluate_shows_the_corrected_figures_of_the_audited_results_alone(run: Run, small: Path) -> None:
    out = ["--out", small.parent / "sets"]
    evaluated = ["evaluate", "small", "--run", small, *out, "--metrics", "p@1", "--no-page", "--corrected"]
    assert "no audit report of this version" in run(*evaluated, code=1)[1]
    run("audit", "start", "small", "--run", small, "--depth", 4, *out)
    run("review", "export-csv", "--audit", "audit", "small", *out, "--to", "a.csv")
    fill(Path("a.csv"), TRUTH)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", *out)
    run("audit", "report", "small", *out)
    rows = json.loads(run(*evaluated, "--json")[0])["corrected"]
    assert {row["system"] for row in rows} == {"tiny-clip"}
    (first,) = [row for row in rows if row["metric"] == "p@1"]
    # The dog is first for all four queries: right for two, of which the set knows one.
    assert (first["before"], first["value"], first["low"], first["high"]) == (0.25, 0.5, 0.5, 0.5)
    shown = run(*evaluated)[0]
    assert "Corrected by audits" in shown
    assert "audit, 16 pairs answered: 20.0% (20.0% to 20.0%) of the relevant pairs are missing" in shown
    assert "0.0% (0.0% to 0.0%) of the relevant pairs of the set are wrong" in shown
    other = small.with_name("other.trec")
    other.write_text("\n".join(f"{query} Q0 {image_id_of('cat')} 0 1 x" for query in TRUTH) + "\n")
    wrong = [other if word == small else word for word in evaluated]
    assert "no audit report of this version covers these results" in run(*wrong, code=1)[1]
    assert "needs a SET and text-to-image" in run(*evaluated, "--direction", "image_to_text", code=2)[1]

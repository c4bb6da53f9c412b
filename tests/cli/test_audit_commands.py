"""`querytruth audit` as it is typed, on COCO's captions with ECCV Caption as the person who answers."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.audit.audit_files import list_audits
from tests.cli.conftest import Run
from tests.eccv_set import EccvSet, publish_eccv_set


@pytest.fixture
def eccv(tmp_path: Path, shared: Callable[[str], Path]) -> EccvSet:
    return publish_eccv_set(tmp_path, shared)


def fill(file: Path, truth: dict[str, set[str]], unsure: int = 0) -> None:
    """Answers every row as ECCV does, but the first `unsure` ones with a question mark."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        names, *rows = csv.reader(opened)
    for number, row in enumerate(rows):
        pair = dict(zip(names, row, strict=True))
        answer = str(int(pair["image_id"] in truth[pair["query_id"]]))
        row[names.index("decision")] = "？" if number < unsure else answer
    text = io.StringIO(newline="")
    csv.writer(text).writerows([names, *rows])
    file.write_bytes(text.getvalue().encode("utf-8-sig"))


def audit(run: Run, eccv: EccvSet, folder: Path, *size: object, unsure: int = 0) -> dict[str, dict[str, float]]:
    """Starts an audit, answers it, and returns the estimates of its report by measure."""
    out = ["--out", folder / "sets"]
    runs = [word for path in eccv.runs for word in ("--run", path)]
    run("audit", "start", "eccv", *runs, "--depth", 60, *size, *out)
    run("review", "export-csv", "--audit", "audit", "eccv", "--to", folder / "audit.csv", *out)
    fill(folder / "audit.csv", eccv.truth, unsure)
    run("review", "import-csv", "--audit", "audit", "eccv", folder / "audit.csv", "--reviewer", "lin", *out)
    report = json.loads(run("audit", "report", "eccv", "--json", *out)[0])
    return {row["measure"]: row for row in report["truth"]} | {"report": report}


def find_first_results(eccv: EccvSet, system: str, k: int) -> dict[str, set[str]]:
    (path,) = [path for path in eccv.runs if path.stem == system]
    scores: dict[str, list[tuple[float, str]]] = {}
    for line in path.read_text().splitlines():
        query, _, image, _, score, _ = line.split()
        scores.setdefault(query, []).append((float(score), image))
    return {query: {image for _, image in sorted(results, reverse=True)[:k]} for query, results in scores.items()}


@pytest.mark.thorough
def test_three_hundred_pairs_bound_what_is_missing(run: Run, eccv: EccvSet, tmp_path: Path) -> None:
    found = audit(run, eccv, tmp_path, "--judgments", 300, unsure=6)
    assert found["missing_share"]["low"] < 0.8819 < found["missing_share"]["high"]
    assert found["multiplier"]["low"] < 8.4677 < found["multiplier"]["high"]
    answers, outside = found["report"]["answers"], found["report"]["outside"]
    assert (answers["sampled"], answers["answered"], answers["cannot_tell"]) == (300, 294, 6)
    least, most = found["missing_share"]["if_undetermined"]
    assert least < most
    assert outside["relevant"] == 0 and outside["at_most"] > 0  # never zero
    precision = {row["system"]: row for row in found["report"]["figures"] if row["metric"] == "p@10"}
    assert precision["sharp"]["value"] > precision["sharp"]["before"]
    assert precision["sharp"]["low"] < precision["sharp"]["value"] < precision["sharp"]["high"]
    (recall,) = [row for row in found["report"]["figures"] if (row["system"], row["metric"]) == ("sharp", "found@10")]
    hits = sum(len(top & eccv.truth[query]) for query, top in find_first_results(eccv, "sharp", 10).items())
    assert recall["low"] < hits / 11_279 < recall["high"]


@pytest.mark.slow
def test_the_same_seed_draws_the_same_whatever_the_order_of_the_runs(run: Run, eccv: EccvSet, tmp_path: Path) -> None:
    ids = []
    for name, order in (("one", eccv.runs), ("two", eccv.runs[::-1])):
        runs = [word for path in order for word in ("--run", path)]
        words = ["audit", "start", "eccv", *runs, "--name", name, "--depth", 30, "--out", tmp_path / "sets"]
        printed = [json.loads(run(*words, "--json")[0]) for _ in range(2)]
        assert printed[0] == printed[1]  # the second finds it there
        ids.append({file: one["sha256"] for file, one in printed[0]["files"].items()})
    assert ids[0] == ids[1]
    assert list_audits(tmp_path / "sets" / "eccv") == ["one", "two"]
    other = [*words[:-2], "--seed", 1, *words[-2:]]
    error = run(*other, code=1)[1]
    assert "already exists for another version" in error and "give another --name" in error


@pytest.mark.thorough
def test_a_plan_shows_costs_and_writes_nothing(run: Run, eccv: EccvSet, tmp_path: Path) -> None:
    runs = [word for path in eccv.runs for word in ("--run", path)]
    words = ["audit", "plan", "eccv", *runs, "--depth", 30, "--out", tmp_path / "sets", "--json"]
    before = sorted((tmp_path / "sets").rglob("*"))
    few, many = (json.loads(run(*words, "--judgments", number)[0]) for number in (50, 500))
    assert few["expected_width"].keys() == {"1%", "5%", "20%"} and many["hours"] > few["hours"] > 0
    assert all(few["expected_width"][share] > width for share, width in many["expected_width"].items())
    assert many["expected_width"]["1%"] > 2 * many["expected_width"]["20%"], "the rarer, the less is known"
    assert few["pace_is_assumed"]
    assert sum(row["pairs"] for row in few["strata"]) == 1332 * len(eccv.stored.tables.images)
    assert sorted((tmp_path / "sets").rglob("*")) == before


@pytest.mark.slow
def test_wrong_use_is_one_line(run: Run, eccv: EccvSet, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "sets"]
    first, other = eccv.runs
    assert (
        "no system returns 500 results" in run("audit", "plan", "eccv", "--run", first, "--depth", 500, *out, code=1)[1]
    )
    assert "add --run RUN" in run("audit", "plan", "eccv", *out, code=1)[1]
    assert (
        "the second system named sharp" in run("audit", "plan", "eccv", "--run", first, "--run", first, *out, code=1)[1]
    )
    assert "unknown audit of this set; known audits: none yet" in run("audit", "report", "eccv", *out, code=1)[1]
    for name, one in (("a", first), ("b", other)):
        run("audit", "start", "eccv", "--run", one, "--name", name, *out)
        run("review", "export-csv", "--audit", name, "eccv", "--to", f"{name}.csv", *out)
    assert "0 of 270 pairs are answered" in run("audit", "report", "eccv", "--name", "a", *out, code=1)[1]
    assert "is not the sample of a" in run("review", "import-csv", "--audit", "a", "eccv", "b.csv", *out, code=1)[1]
    assert "is the sample of an audit" in run("review", "import-csv", "eccv", "a.csv", *out, code=1)[1]
    pool = tmp_path / "sets" / "eccv" / "audits" / "a" / "pool.parquet"
    pool.write_bytes(pool.read_bytes()[:-1] + b"x")
    assert "changed since it was written" in run("audit", "report", "eccv", "--name", "a", *out, code=1)[1]

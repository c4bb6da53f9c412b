"""`audit extend`: a later system joins an audit that people have answered in part."""

import json
from pathlib import Path

import pytest

from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.audit_files import read_audit
from querytruth.audit.pool import PAIR
from tests.cli.conftest import Run
from tests.cli.test_audit_judge import record
from tests.flows.audited_set import TRUTH, AuditedSet, make_audited_set
from tests.small_sets import COLOURS, image_id_of

OUT = ["--out", "sets"]


def write_run(audited: AuditedSet, name: str, images: list[str]) -> Path:
    path = audited.run.with_name(f"{name}.trec")
    rows = [f"{query} Q0 {image_id_of(one)} 0 {-rank} x" for query in TRUTH for rank, one in enumerate(images)]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def audited(tmp_path: Path) -> AuditedSet:
    """A set; `few` returns two images of each query, `audited.run` all."""
    audited = make_audited_set(tmp_path)
    write_run(audited, "few", list(COLOURS)[2:])
    return audited


@pytest.mark.parametrize("size", [["--judgments", 20], ["--queries", 5]])
@pytest.mark.thorough
def test_a_later_system_adds_pairs_and_loses_no_answer(run: Run, audited: AuditedSet, size: list[object]) -> None:
    first = json.loads(run("audit", "start", "small", "--run", "few.trec", "--depth", 2, *size, *OUT, "--json")[0])
    before = read_audit(audited.folder)
    audited.answer(len(before.sample))
    extended = json.loads(run("audit", "extend", "small", "--run", audited.run, *OUT, "--json")[0])
    audit, stored = load_audit(audited.path, "audit")
    assert (audit.manifest["audit_id"], extended["systems"]) == (first["audit_id"], audit.manifest["systems"])
    assert [system["name"] for system in extended["systems"]] == ["few", "tiny"]
    kept = audit.sample.head(len(before.sample))
    assert kept[[*PAIR, "order"]].equals(before.sample[[*PAIR, "order"]])
    assert len(audit.sample) > len(before.sample) and not audit.sample.duplicated(PAIR).any()
    assert len(read_answers(audited.path, audit).grades) == len(before.sample)
    assert sorted(file.name for file in audited.folder.glob("*.parquet")) == [
        "pool.2.parquet", "ranks.2.parquet", "sample.2.parquet",
    ]  # fmt: skip
    again = ["audit", "start", "small", "--run", "few.trec", "--depth", 2, *size, *OUT, "--json"]
    assert json.loads(run(*again)[0])["audit_id"] == first["audit_id"]
    if "--queries" in size:
        assert len(audit.sample) == 16  # every pair of the four queries; a report needs five
        return
    audited.answer(len(audit.sample))
    report = json.loads(run("audit", "report", "small", *OUT, "--json")[0])
    rows = {row["measure"]: row for row in report["truth"]}
    # `few` returns cat and tree, `tiny` the dog and the beach first: together all 16 pairs.
    assert rows["missing_share"]["low"] == rows["missing_share"]["high"] == pytest.approx(0.2)
    assert report["outside"]["pairs"] == 0 and sum(row["pairs"] for row in report["strata"]) == 16
    assert {row["system"] for row in report["figures"]} == {"few", "tiny"}
    assert "extension 1" in (audited.folder / "report.html").read_text()
    assert stored.path == audited.path


@pytest.mark.thorough
def test_wrong_extensions_are_one_line(run: Run, audited: AuditedSet) -> None:
    run("audit", "start", "small", "--run", "few.trec", "--depth", 2, *OUT)
    assert "is a system of this audit already" in run("audit", "extend", "small", "--run", "few.trec", *OUT, code=1)[1]
    audited.run.rename(audited.run.with_name("x.trec"))
    Path("other").mkdir()
    audited.run.with_name("x.trec").rename("other/few.trec")
    error = run("audit", "extend", "small", "--run", "other/few.trec", *OUT, code=1)[1]
    assert "is the name of another system" in error and "rename the file" in error
    Path("other/few.trec").rename("tiny.trec")
    assert "give --run RUN" in run("audit", "extend", "small", *OUT, code=1)[1]
    judge = ["--judge", "replay", "--judge-option", f"replies={record(audited.run, wrong=0)}"]
    error = run("audit", "extend", "small", "--run", "tiny.trec", *judge, *OUT, code=1)[1]
    assert "has no judge" in error and "leave out --judge" in error
    assert (
        "is no audit of this set"
        in run("audit", "extend", "small", "--name", "b", "--run", "tiny.trec", *OUT, code=1)[1]
    )


@pytest.mark.thorough
def test_the_same_judge_labels_the_added_pairs_and_another_is_refused(run: Run, audited: AuditedSet) -> None:
    words = {
        name: ["--judge", "replay", "--judge-option", f"replies={record(audited.run, wrong=1, name=name)}"]
        for name in ("seer", "other")
    }
    run("audit", "start", "small", "--run", "few.trec", "--depth", 2, *words["seer"], *OUT)
    extend = ["audit", "extend", "small", "--run", "tiny.trec", *OUT]
    assert "has the judge seer" in run(*extend, code=1)[1]
    assert "is not the judge of this audit, seer" in run(*extend, *words["other"], code=1)[1]
    extended = json.loads(run(*extend, *words["seer"], "--json")[0])
    names = {row["stratum"] for row in extended["strata"]}
    assert {name for name in names if "added1" in name} <= {
        "first_ranks.added1.yes",
        "first_ranks.added1.no",
        "judged_zero.added1.yes",
        "judged_zero.added1.no",
    }
    assert any("added1" in name for name in names) and extended["extensions"][0]["without_grade"] == 0

"""Wrong uses of an audit: each is one line that says what to do."""

import json
import shutil
from pathlib import Path

import pytest

from builders.publication import publish_decisions
from tests.cli.conftest import Run
from tests.flows.audited_set import AuditedSet, make_audited_set
from tests.small_sets import publish_small_set, query_id_of, small_tables

ASKED = (
    ["audit", "report", "small"],
    ["review", "import-csv", "small", "a.csv", "--audit", "audit"],
    ["review", "export-csv", "small", "--audit", "audit"],
)


@pytest.fixture
def audited(tmp_path: Path, run: Run) -> AuditedSet:
    """A set with an audit of all its pairs, which nobody answered yet."""
    audited = make_audited_set(tmp_path)
    run("audit", "start", "small", "--run", audited.run, "--depth", 4, "--out", "sets")
    return audited


@pytest.mark.thorough
def test_a_version_that_changed_since_is_refused_by_all_that_need_it(run: Run, audited: AuditedSet) -> None:
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", "--out", "sets")
    shutil.rmtree(audited.path)
    for words in ASKED:
        error = run(*words, "--out", "sets", code=1)[1]
        assert "small" in error and "Traceback" not in error, words
    publish_small_set(audited.run.parent / "other", small_tables(graded=False))
    shutil.copytree(audited.run.parent / "other" / "sets" / "small" / "v1", audited.path)
    for words in ASKED:
        error = run(*words, "--out", "sets", code=1)[1]
        assert "belongs to small/v1, and that version changed afterwards" in error, words


@pytest.mark.thorough
def test_a_sample_of_another_version_is_no_sample_of_this_audit(run: Run, audited: AuditedSet) -> None:
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", "--out", "sets")
    audited.answer(16)
    assert publish_decisions(audited.path).version == 2
    lines = audited.run.read_text().splitlines()
    later = audited.run.with_name("later.trec")  # of v2, which has no query without a relevant image
    later.write_text("\n".join(line for line in lines if query_id_of("none") not in line) + "\n")
    again = ["audit", "start", "small", "--run", later, "--depth", 4, "--out", "sets"]
    assert "already exists for another version" in run(*again, code=1)[1]
    run(*again, "--name", "second")
    error = run("review", "import-csv", "--audit", "second", "small", "a.csv", "--out", "sets", code=1)[1]
    assert "is not the sample of audit second (set small/v1" in error and "export-csv small --audit second" in error


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_run_is_no_system(run: Run, audited: AuditedSet, text: str) -> None:
    empty = audited.run.with_name("empty.trec")
    empty.write_text(text)
    error = run("audit", "plan", "small", "--run", empty, "--depth", 4, "--out", "sets", code=1)[1]
    assert "empty.trec" in error and "Traceback" not in error


def test_a_run_of_another_set_is_refused(run: Run, audited: AuditedSet) -> None:
    other = audited.run.with_name("other.trec")
    other.write_text("q_elsewhere Q0 img_elsewhere 0 1 x\n")
    error = run("audit", "plan", "small", "--run", other, "--depth", 1, "--out", "sets", code=1)[1]
    assert "1 of 1 results are not in small" in error and "give a run on small/v1" in error


def test_what_was_evaluated_is_audited_where_no_run_is_named(run: Run, tmp_path: Path) -> None:
    audited = make_audited_set(tmp_path)
    assert "evaluate a search on this version" in run("audit", "start", "small", "--out", "sets", code=1)[1]
    run("evaluate", "small", "--run", audited.run, "--out", "sets", "--no-page")
    assert "Audit of small/v1" in run("audit", "plan", "small", "--depth", 4, "--out", "sets")[0]


def test_a_run_goes_by_the_name_that_evaluate_printed(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    run("evaluate", "small", "--baseline", "random", "--no-page", "--out", "sets")
    planned = json.loads(run("audit", "plan", "small", "--run", "random", "--depth", 4, "--json", "--out", "sets")[0])
    assert planned["systems"] == ["random"]
    error = run("audit", "plan", "small", "--run", "randon", "--depth", 4, "--out", "sets", code=1)[1]
    assert "is neither a file nor a result of this version" in error and "random" in error

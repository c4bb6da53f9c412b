"""An audit by a definition: the same as by options, each key with its effect, and wrong ones in one line."""

import json
from pathlib import Path

import pytest
import yaml

from flows.definition_checks import render_starter
from flows.definition_loader import load_audit_definition
from querytruth.audit.definition import AuditDefinition
from querytruth.errors import UserError
from tests.cli.conftest import Run
from tests.cli.test_audit_judge import record
from tests.flows.audited_set import AuditedSet, make_audited_set

BARE = "set: small\nruns: [tiny.trec]\ndepth: 4\nout: sets\n"


@pytest.fixture
def audited(tmp_path: Path, run: Run) -> AuditedSet:
    """A set without an audit; `run` works in its folder."""
    (tmp_path / "audit.yaml").write_text(BARE)
    return make_audited_set(tmp_path)


def test_the_starter_shows_every_key_with_its_default(tmp_path: Path) -> None:
    text = render_starter("audit", None, None, tmp_path)
    (tmp_path / "audit.yaml").write_text(text)
    found = load_audit_definition(tmp_path / "audit.yaml", [])
    runs = [tmp_path / "bm25.trec", tmp_path / "clip.trec"]
    assert found == AuditDefinition(set="my-queries", runs=runs)
    assert set(yaml.safe_load(text)) == set(AuditDefinition.model_fields) - {"out"}
    assert set(yaml.safe_load(text)["strata"]) == set(type(found.strata).model_fields)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: recall\n" + BARE, "has kind 'recall'.*querytruth init audit"),
        (BARE + "judgements: 20\n", "key 'judgements' is unknown.*judgments"),
        (BARE + "strata: {floors: 3}\n", r"key 'strata.floors' is unknown.*floor"),
        (BARE + "name: No Name\n", "key 'name'"),
        ("runs: [a]\n", "key 'set' is missing"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "audit.yaml").write_text(text)
    with pytest.raises(UserError, match=line) as caught:
        load_audit_definition(tmp_path / "audit.yaml", [])
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
def test_a_definition_draws_what_the_options_draw(run: Run, audited: AuditedSet) -> None:
    printed = json.loads(run("audit", "start", "audit.yaml", "--json")[0])
    options = ["small", "--run", audited.run, "--depth", 4, "--name", "audit", "--out", "sets"]
    assert json.loads(run("audit", "start", *options, "--json")[0]) == printed
    other = json.loads(run("audit", "start", "audit.yaml", "--set", "name=other", "--set", "seed=3", "--json")[0])
    assert (other["name"], other["seed"]) == ("other", 3)
    assert "he file, or use --set" in run("audit", "plan", "audit.yaml", "--depth", 4, code=2)[1]
    without = run("audit", "plan", "small", "--set", "depth=4", "--out", "sets", code=2)[1]
    assert "need an audit definition" in without
    assert "querytruth audit plan new.yaml" in run("init", "audit", "--out", "new.yaml")[0]


@pytest.mark.thorough
def test_strata_people_and_judge_have_their_effect(run: Run, audited: AuditedSet) -> None:
    judge = f"judge={{model: replay, options: {{replies: {record(audited.run, wrong=1)}}}}}"
    planned = [
        json.loads(run("audit", "plan", "audit.yaml", "--set", one, "--set", "judgments=20", "--json")[0])
        for one in ("people=1", "people=2", "strata.judged_relevant=0.05", judge)
    ]
    assert planned[1]["hours"] > 1.5 * planned[0]["hours"] and planned[3]["judge"] == "seer"
    by_name = [{row["stratum"]: row["to_judge"] for row in one["strata"]} for one in planned]
    assert by_name[2] == by_name[0], "the floor of 15 holds"
    few = ["--set", "strata={floor: 2, judged_relevant: 0.05}", "--set", "judgments=20"]
    (row, *_) = json.loads(run("audit", "plan", "audit.yaml", *few, "--json")[0])["strata"]
    assert row == {"stratum": "judged_relevant", "pairs": 4, "to_judge": 2}


@pytest.mark.thorough
def test_pairs_wait_until_as_many_people_answered(run: Run, audited: AuditedSet) -> None:
    run("audit", "start", "audit.yaml", "--set", "people=2")
    audited.answer(16)
    audited.answer(10, "kim")
    printed = run("audit", "report", "small", "--out", "sets", "--no-page")[0]
    assert "16 of 16 pairs answered" in printed and "6 waiting for 2 people" in printed
    audited.answer(16, "bo")
    assert "wait for 2" not in run("audit", "report", "small", "--out", "sets", "--no-page")[0]

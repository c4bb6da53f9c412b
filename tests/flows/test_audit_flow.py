"""The flow of an audit without a server: it ends where people have to judge, and goes on from their answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.publication import publish_decisions
from flows import audit as audit_flow
from flows.audit import AuditParameters, audit_set
from flows.prefect_runs import artifacts as build_artifacts
from querytruth.audit.answers import load_audit
from querytruth.audit.audit_files import read_audit_manifest
from tests.flows.audited_set import ALL_ANSWERED, TRUTH, AuditedSet, make_audited_set
from tests.small_sets import COLOURS, image_id_of


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditedSet:
    for module in (audit_flow, build_artifacts):
        monkeypatch.setattr(module, "call_server_if_available", lambda _: None)  # no server is started
    return make_audited_set(tmp_path)


def parameters(audited: AuditedSet, later_runs: Sequence[Path] = (), **keys: Any) -> AuditParameters:
    sets = str(audited.path.parents[1])
    written = {"kind": "audit", "set": "small", "out": sets, "runs": [str(audited.run)], "depth": 4, **keys}
    file = audited.path.parents[2] / "audit.yaml"
    file.write_text(yaml.safe_dump(written), "utf-8")
    return AuditParameters(definition=file, later_runs=list(later_runs), later_judgments=20)


@pytest.mark.thorough
def test_a_run_that_cannot_wait_ends_with_what_is_open_and_the_next_one_reports(audited: AuditedSet) -> None:
    state = audit_set(parameters(audited))
    assert state.name == "AwaitingPeople" and "16 of 16 pairs are open, 0 disputed by two people" in state.message
    audited.answer(16)
    audited.answer(2, "kim", wrong=1)
    assert "0 of 16 pairs are open, 1 disputed by two people" in audit_set(parameters(audited)).message
    audited.answer(1, "bo")
    assert not (audited.folder / "report.html").exists()
    state = audit_set(parameters(audited))
    assert (state.name, state.message) == ("Reported", ALL_ANSWERED)
    assert (audited.folder / "report.html").is_file()


@pytest.mark.thorough
def test_an_audit_stays_with_its_version_when_another_is_published(audited: AuditedSet) -> None:
    audit_set(parameters(audited))
    audited.answer(16)
    assert publish_decisions(audited.path).version == 2
    assert audit_set(parameters(audited)).message == ALL_ANSWERED


@pytest.mark.thorough
def test_a_definition_for_two_people_waits_for_both(audited: AuditedSet) -> None:
    asked = parameters(audited, people=2)
    audit_set(asked)
    audited.answer(16)
    assert "16 of 16 pairs are open" in audit_set(asked).message
    audited.answer(16, "kim")
    assert audit_set(asked).name == "Reported"


@pytest.mark.thorough
def test_systems_that_come_later_are_added_once_and_answers_stay(audited: AuditedSet, tmp_path: Path) -> None:
    audit_set(parameters(audited, depth=2, strata={"outside": 0}))
    drawn = len(load_audit(audited.path, "audit")[0].sample)
    audited.answer(drawn)
    later = tmp_path / "later.trec"
    later.write_text(
        "".join(f"{query} Q0 {image_id_of(name)} 0 {rank} x\n" for query in TRUTH for rank, name in enumerate(COLOURS))
    )
    state = audit_set(parameters(audited, [later], depth=2, strata={"outside": 0}))
    manifest = read_audit_manifest(audited.folder)
    added = manifest["extensions"][0]["drawn"]
    assert [system["name"] for system in manifest["systems"]] == ["later", "tiny"] and added > 0
    assert f"{added} of {drawn + added} pairs are open" in state.message
    assert audit_set(parameters(audited, [later], depth=2, strata={"outside": 0})).message == state.message, (
        "added once"
    )
    assert len(read_audit_manifest(audited.folder)["extensions"]) == 1
    audited.answer(drawn + added)
    assert audit_set(parameters(audited, [later], depth=2, strata={"outside": 0})).name == "Reported"

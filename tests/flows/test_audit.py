"""The flow of an audit without a server: it ends where people have to judge, and goes on from their answers."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.publication import publish_decisions
from flows import audit as audit_flow
from flows.audit import AuditParameters, audit_set
from flows.prefect_runs import artifacts as build_artifacts
from tests.audited_set import ALL_ANSWERED, AuditedSet, make_audited_set


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditedSet:
    for module in (audit_flow, build_artifacts):
        monkeypatch.setattr(module, "call_server_if_available", lambda _: None)  # no server is started
    return make_audited_set(tmp_path)


def parameters(audited: AuditedSet, **keys: Any) -> AuditParameters:
    sets = str(audited.path.parents[1])
    written = {"kind": "audit", "set": "small", "out": sets, "runs": [str(audited.run)], "depth": 4, **keys}
    file = audited.path.parents[2] / "audit.yaml"
    file.write_text(yaml.safe_dump(written), "utf-8")
    return AuditParameters(definition=file)


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

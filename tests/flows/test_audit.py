"""The flow of an audit without a server: it ends where people have to judge, and goes on from their answers."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.publication import publish_decisions
from flows import audit as audit_flow
from flows.audit import AuditParameters, audit_set
from flows.prefect_runs import artifacts as build_artifacts
from querytruth.audit.audit_files import list_audits, read_audit
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.audited_set import ALL_ANSWERED, AuditedSet, make_audited_set
from tests.flows.killed_builds import kill_at_many_moments, open_build_processes
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import caption_reply


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


PAIRS, QUERIES, AT_ONCE, KILLS = 16, 4, 2, 30  # each query is asked once with a grey image, too
WORK = """
import json
from pathlib import Path
import querytruth.backends.models.chat.openai_compatible, sqlalchemy, pandas, pyarrow.parquet
from querytruth.audit.judge import judge_pool, load_judge

from querytruth.audit.pool import pool_set
from querytruth.audit.report import report_audit
from querytruth.audit.steps import start_audit
from querytruth.audit.judge_reliability import check_judge
from querytruth.audit.definition import AuditKeys, JudgeOptions
from querytruth.backends.steps import BuildRun, active_run
from tests.audited_set import AuditedSet
def work(name):
    given = json.loads(Path(name).read_text())
    audited = AuditedSet(Path(given["path"]), Path(given["run"]))
    with active_run(BuildRun()):
        pooled = pool_set(audited.path, [audited.run], 4)
        choice = JudgeOptions(model="openai_compatible", options=given["judge"])
        judge = load_judge(choice, pooled, [audited.run])
        judged = judge_pool(judge, pooled)
        start_audit(audited.path, pooled, AuditKeys(depth=4), judged)
        for number in range(4, 17, 4):  # as a person saves a file again and again
            audited.answer(number)
        check_judge(audited.path, judge, choice)
        report_audit(audited.path, "audit", "en")
"""


def answer(request: ReceivedRequest) -> CannedResponse:
    time.sleep(0.03)
    question = json.loads(request.body)["messages"][-1]["content"]
    return caption_reply(f'{{"grade": {len(json.dumps(question)) % 3}, "reason": "what it shows"}}')


def read_report(audited: AuditedSet) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((audited.folder / "report.json").read_text())
    return report


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_thirty_kills_of_thirty_lose_an_audit_nothing(tmp_path: Path) -> None:
    made: dict[Path, AuditedSet] = {}

    def prepared(name: str) -> Path:
        server.asked.clear()
        (tmp_path / name).mkdir()
        audited = make_audited_set(tmp_path / name)
        options = {"base_url": f"{server.url}/v1", "name": "m", "concurrency": AT_ONCE, "pause": 0}
        given = {"path": str(audited.path), "run": str(audited.run), "judge": options}
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(given))
        made[file] = audited
        return file

    def check(kill: int, file: Path) -> None:
        audited, folder = made[file], made[file].path.parent
        if started := list_audits(folder):
            read_audit(audited.folder)  # whole, or not there
        before = {one.decision_id for one in read_decisions(folder, QueryDecision)}
        moments[len(server.asked) * 4 // calm_bodies.total(), bool(started), len(before) // 4] += 1
        runs.time_whole_build(file)
        log = [one.decision_id for one in read_decisions(folder, QueryDecision)]
        assert before <= set(log) and len(log) == len(set(log)) == PAIRS, f"kill {kill}"
        bodies = Counter(one.body for one in server.asked if one.body)  # a killed client may have sent none
        assert bodies.keys() == calm_bodies.keys() and (bodies - calm_bodies).total() <= AT_ONCE, f"kill {kill}"
        assert read_report(audited) == calm and (audited.folder / "report.html").is_file(), f"kill {kill}"

    moments: Counter[tuple[int, bool, int]] = Counter()  # quarters of the questions, started, quarters of the answers
    with loopback(answer) as server, open_build_processes(WORK) as runs:
        files = [prepared(name) for name in ("calm", "timed")]
        server.asked.clear()
        runs.time_whole_build(files[0])
        calm, calm_bodies = read_report(made[files[0]]), Counter(one.body for one in server.asked)
        assert calm_bodies.total() == PAIRS + QUERIES and calm["judge"]["agreement"]["pairs"] == PAIRS
        whole = runs.time_whole_build(files[1])
        kill_at_many_moments(runs, whole, prepared, check, kills=KILLS)
    print(dict(moments))

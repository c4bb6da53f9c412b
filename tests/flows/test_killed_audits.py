"""Thirty kills of an audit, spread over judging, answering, checking the judge and reporting: the next run asks the
judge nothing again but what was in flight, keeps every answer, and writes the report of a calm one."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from querytruth.audit.audit_files import list_audits, read_audit
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.audited_set import AuditedSet, make_audited_set
from tests.flows.killed_builds import kill_at_many_moments, open_build_processes
from tests.flows.test_recall_set import said
from tests.loopback import CannedResponse, ReceivedRequest, loopback

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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def answer(request: ReceivedRequest) -> CannedResponse:
    time.sleep(0.03)
    question = json.loads(request.body)["messages"][-1]["content"]
    return said(f'{{"grade": {len(json.dumps(question)) % 3}, "reason": "what it shows"}}')


def read_report(audited: AuditedSet) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((audited.folder / "report.json").read_text())
    return report


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

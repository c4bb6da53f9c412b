"""Steps and parts as Prefect's tasks: what is tried again, what is not, and when a run is stopped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.prefect_test_server import prefect_environment

STORY = """
import json, time
from prefect import flow
from querytruth.errors import UserError
from flows.prefect_runs import build_run
from flows.prefect_runs.flow_runner import use_part_threads
from flows.prefect_runs.build_run import PrefectBuildRun
from querytruth.backends.steps import active_run, map_parts, step

build_run._FIRST_WAIT = 0.1
tried = {"flaky": 0, "bad": 0}

def flaky(part, advance):
    tried["flaky"] += 1
    if tried["flaky"] == 1:
        raise ConnectionResetError("hung up")
    advance(1)
    return part

def bad(part, advance):
    tried["bad"] += 1
    raise UserError("read", part, "is no image", "take it away")

@step("wait")
def wait():
    time.sleep(20)

@flow(persist_result=False)
def story():
    told = {}
    with active_run(PrefectBuildRun(workers=2)), use_part_threads(2):
        told["flaky"] = map_parts("flaky", flaky, ["a"], 1, "parts")
        try:
            map_parts("bad", bad, ["b"], 1, "parts")
        except UserError as error:
            told["bad"] = str(error)
    start = time.monotonic()
    with active_run(PrefectBuildRun(deadline=time.monotonic() + 1)), use_part_threads(2):
        try:
            wait()
        except TimeoutError:
            told["stopped after"] = time.monotonic() - start
    print("TOLD", json.dumps(told | {"tried": tried}))

story()
"""


@pytest.mark.slow
def test_a_transient_fault_is_tried_again_bad_input_is_not_and_a_run_ends_in_time(tmp_path: Path) -> None:
    (tmp_path / "story.py").write_text(STORY)
    words = [sys.executable, str(tmp_path / "story.py")]
    environment = prefect_environment(tmp_path / "home", PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
    told = json.loads(line.removeprefix("TOLD"))
    assert told["flaky"] == ["a"] and told["tried"] == {"flaky": 2, "bad": 1}
    assert told["bad"] == "b (read): is no image. Next: take it away"
    assert 1 <= told["stopped after"] < 10
    assert "Traceback" not in done.stderr.partition("hung up")[0], "what a user can mend is no traceback"

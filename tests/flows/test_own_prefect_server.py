"""The server of a build under Prefect: for this build alone, and never there for longer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.flows.prefect_test_server import prefect_environment

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from flows.flow_entrypoint import silence_prefect
silence_prefect()
from prefect.client.orchestration import get_client
from flows.prefect_runs.one_off_run import use_own_server
with use_own_server(), get_client(sync_client=True) as client:
    client.read_work_pools()
    print(client.api_url, flush=True)
    sys.stdin.read()
"""

TWO_BUILDS = """
from flows.flow_entrypoint import silence_prefect
silence_prefect()
from prefect import flow, task
from flows.prefect_runs.one_off_run import use_own_server

@task
def work():
    return 1

@flow
def build():
    return [work() for _ in range(5)]

for _ in range(2):
    with use_own_server():
        build()
"""

pytestmark = pytest.mark.slow


@contextmanager
def holding(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a server of its own, and the server's address."""
    environment = prefect_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, text=True, **pipes)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip().rstrip("/")
    finally:
        process.kill()
        process.wait()


def is_gone(address: str) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            requests.get(f"{address}/health", timeout=2)
        except requests.ConnectionError:
            return True
        time.sleep(0.2)
    return False


def test_the_server_of_a_build_answers_nobody_else_and_no_page(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        page = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for ask in (requests.get, requests.options):
            answer = ask(f"{address}/health", headers=page, timeout=10)
            assert "access-control-allow-origin" not in answer.headers
        assert requests.post(f"{address}/flows/filter", json={}, timeout=10).status_code == 401
        wrong = requests.post(f"{address}/flows/filter", json={}, auth=("querytruth", "guess"), timeout=10)
        assert wrong.status_code == 401
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(30) == 0 and is_gone(address)


def test_the_server_ends_with_a_build_that_is_killed(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, address):
        os.kill(process.pid, signal.SIGKILL)
        assert is_gone(address)


def test_the_events_of_a_second_build_do_not_seek_the_server_of_the_first(tmp_path: Path) -> None:
    environment = prefect_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TWO_BUILDS]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "failed to process" not in done.stderr and "Unable to connect" not in done.stderr

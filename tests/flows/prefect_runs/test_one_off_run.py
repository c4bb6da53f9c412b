"""The server of a build under Prefect: for this build alone, and never there for longer."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from prefect.client.schemas.objects import FlowRun

from flows.prefect_runs.one_off_run import find_entrypoint
from flows.prefect_runs.resume_run import choose_waiting_run
from querytruth.cli.app import main
from querytruth.errors import UserError
from tests.flows.prefect_test_server import prefect_environment
from tests.worlds import CAPTIONS, define_recall

ROOT = Path(__file__).parents[3]
HOLD = """
import signal, sys
signal.signal(signal.SIGINT, lambda *_: None)
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


@contextmanager
def holding(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a server of its own, and the server's address."""
    environment = prefect_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, text=True, start_new_session=True, **pipes)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_server_ends_with_a_build_that_is_killed(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, address):
        os.kill(process.pid, signal.SIGKILL)
        assert is_gone(address)


@pytest.mark.thorough
def test_ctrl_c_stops_the_build_and_leaves_it_its_server(tmp_path: Path) -> None:
    """A server that ends first leaves Prefect to seek it for 70 s."""
    with holding(tmp_path) as (process, address):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1)
        assert requests.get(f"{address}/health", timeout=5).ok


@pytest.mark.slow
def test_the_events_of_a_second_build_do_not_seek_the_server_of_the_first(tmp_path: Path) -> None:
    environment = prefect_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TWO_BUILDS]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "failed to process" not in done.stderr and "Unable to connect" not in done.stderr


# Loaded by every Python that is started with this folder on its path: the build, Prefect's server, and their workers.
WATCH = """
import json, os, sys

PLACE = os.environ["WATCHED"]
# Opened at the start: the kernel lets a worker that decodes images open nothing later.
LOG = os.open(f"{PLACE}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def noted(event, *what):
    os.write(LOG, (json.dumps([event, *map(str, what)]) + "\\n").encode())

def watch(event, args):
    if event == "open":
        path, mode, flags = args
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and not isinstance(path, int) and not str(path).startswith(PLACE):
            noted("file", os.path.abspath(os.fsdecode(path)))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "sqlite3.connect"):
        for path in args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]:
            if path != ":memory:":
                noted("file", os.path.abspath(os.fsdecode(path)))
    elif event in ("socket.connect", "socket.sendto"):
        noted("address", args[1][0] if isinstance(args[1], tuple) else "unix")

sys.addaudithook(watch)
"""
# Where Python and the system keep their own: bytecode beside the code, and what is no file.
NO_FILES = ("/dev/", "/proc/", "/sys/")


def watched(place: Path, words: list[str], **more: str) -> list[list[Any]]:
    """All that a command and its children wrote and called."""
    for name in ("watch", "watched", "home", "tmp"):
        (place / name).mkdir()
    (place / "watch" / "sitecustomize.py").write_text(WATCH)
    environment = prefect_environment(place / "home", **more) | {
        "PYTHONPATH": f"{place / 'watch'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "WATCHED": str(place / "watched"),
        "TMPDIR": str(place / "tmp"),
        "HOME": str(place / "nobody"),
        "XDG_STATE_HOME": str(place / "state"),
    }
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    logs = sorted((place / "watched").iterdir())
    assert len(logs) >= 2, "the build and the server that it starts"
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


@pytest.mark.slow
def test_only_loopback_is_called_and_only_our_folders_are_written(tmp_path: Path) -> None:
    definition = define_recall(tmp_path, CAPTIONS)
    noted = watched(tmp_path, [sys.executable, "-m", "flows.recall_set", "-p", f"definition={definition}"])
    addresses = {what for event, what in noted if event == "address"}
    assert addresses and addresses <= {"127.0.0.1", "::1", "localhost", "unix"}, addresses
    files = {what for event, what in noted if event == "file" and not what.startswith(NO_FILES)} - {str(tmp_path)}
    ours = [str(tmp_path / name) + os.sep for name in ("sets", "home", "state", "tmp")]
    outside = {file for file in files if not any((file + os.sep).startswith(folder) for folder in ours)}
    assert not outside, sorted(outside)[:20]
    assert "街边有一辆公交车" in (tmp_path / "sets" / "album" / "shown" / "v1.html").read_text("utf-8")
    assert any("/sets/album/v1" in file for file in files) and any(file.endswith("prefect.db") for file in files)
    assert not (tmp_path / "nobody").exists() and not list((tmp_path / "tmp").iterdir())


def test_the_only_waiting_run_needs_no_name() -> None:
    one, other = (FlowRun(flow_id=uuid4(), name=name) for name in ("album", "pets"))

    assert choose_waiting_run([one], "") is one
    assert choose_waiting_run([one, other], "pets") is other and choose_waiting_run([one, other], str(one.id)) is one
    with pytest.raises(UserError, match=r"2 runs are waiting.*give one of: album .*pets"):
        choose_waiting_run([one, other], "")
    with pytest.raises(UserError, match="0 runs are waiting"):
        choose_waiting_run([], "")


def test_a_flow_of_the_project_is_found_by_its_path_where_there_is_no_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_entrypoint("flows/recall_set.py:recall_set") == "flows.recall_set.recall_set"
    assert find_entrypoint("mine/other.py:main") == "mine/other.py:main"
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/recall_set.py").touch()
    assert find_entrypoint("flows/recall_set.py:recall_set") == "flows/recall_set.py:recall_set"


def test_the_folder_of_the_deployments_allows_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr(sys, "argv", ["querytruth", "init", "prefect"])
    with contextlib.suppress(SystemExit):
        main()

    settings = tomllib.loads((tmp_path / "prefect.toml").read_text("utf-8"))
    assert settings["plugins"] == {"enabled": True, "allow": ["querytruth"]} and (tmp_path / "prefect.yaml").is_file()

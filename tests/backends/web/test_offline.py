"""Runs without connections: a listener on this machine counts what still arrives."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from querytruth.backends.web.offline import forbid_connections, is_offline
from tests.loopback import CannedResponse, Loopback, loopback


@pytest.fixture
def listener() -> Iterator[Loopback]:
    with loopback(lambda _request: CannedResponse({}, 404)) as server:
        yield server


def connect(server: Loopback) -> None:
    parts = urlsplit(server.url)
    socket.create_connection((parts.hostname, parts.port), timeout=5).close()


def test_no_library_connects_while_connections_are_forbidden(listener: Loopback) -> None:
    import requests

    with forbid_connections():
        assert is_offline()
        with pytest.raises(PermissionError, match="--offline forbids connections to 127"):
            connect(listener)
        with pytest.raises(requests.ConnectionError):
            requests.get(listener.url, timeout=5)
        with pytest.raises(PermissionError, match=r"to example\.org"):
            asyncio.run(asyncio.open_connection("example.org", 443))
    assert not is_offline() and listener.connections == 0
    connect(listener)


def test_the_hosts_of_the_engine_stay_reachable_and_no_others(listener: Loopback) -> None:
    with forbid_connections(["localhost"]):
        connect(listener)
        with pytest.raises(PermissionError):
            socket.create_connection(("192.0.2.1", 80), timeout=1)
        with forbid_connections(), pytest.raises(PermissionError):
            connect(listener)
        connect(listener)


EVALUATE = """
from querytruth.backends.steps import BuildRun, active_run
from querytruth.backends.models.embedders import clip
from querytruth.backends.models.chat import load_chat_model
for load in (lambda: clip.load(clip.ClipOptions(name="nobody/m")), lambda: load_chat_model("qwen", name="nobody/m")):
    with active_run(BuildRun(offline=True)):
        try:
            load()
        except Exception as error:
            print(type(error).__name__, error)
"""


@pytest.mark.parametrize("is_imported_before", [False, True])
@pytest.mark.thorough
def test_an_offline_run_with_a_model_that_is_not_here_does_not_ask_the_hub(
    listener: Loopback, tmp_path: Path, is_imported_before: bool
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": listener.url.removesuffix("/v1"), "HF_HOME": str(tmp_path)}
    script = "import huggingface_hub.constants\n" * is_imported_before + EVALUATE
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert listener.connections == 0
    lines = run.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["UserError", "UserError"], run.stderr
    assert all("--offline forbids asking the hub" in line for line in lines)

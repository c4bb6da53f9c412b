"""A command that is told to stop: one line, and the exit status of the signal."""

import signal
import subprocess
import sys

import pytest

STOP_ITSELF = """
import os, sys
from querytruth.cli import app
app.run_command = lambda *_: os.kill(os.getpid(), int(sys.argv[1]))
app.main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.thorough
def test_a_stop_is_one_line_and_the_status_of_the_signal(number: signal.Signals, status: int) -> None:
    command = [sys.executable, "-c", STOP_ITSELF, str(int(number))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == status
    assert ended.stderr.splitlines() == ["stopped; run the same command again to continue"]

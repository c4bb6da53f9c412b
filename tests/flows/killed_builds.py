"""Builds in processes of their own that are killed: forked of one that has imported its modules, and struck at moments
spread over the course of a calm build."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

KILLS = 10
_LATE = 10  # blows that may come too late, over all kills
# `work` is told a file's name; what it defines is imported once.
_FORKS = """
import os, sys
{work}
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        work(line.strip())
        os._exit(0)
    print(child, flush=True)
    told = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    print(told.si_status if told.si_code != os.CLD_EXITED else 256 * told.si_status, flush=True)
    sys.stdin.readline()  # until then its number is no other's, and a late blow strikes nobody
    os.waitpid(child, 0)
"""


class BuildProcesses:
    """Runs in processes of their own, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._line() == "ready"

    def start(self, definition: Path) -> int:
        self._say(str(definition))
        return int(self._line())

    def wait_for_exit(self) -> int:
        """How the run that was started ended: 0, the signal, or 256 times its exit code."""
        status = int(self._line())
        self._say("buried")
        return status

    def time_whole_build(self, definition: Path) -> float:
        """A run that nobody kills; the seconds that it took."""
        start = time.monotonic()
        self.start(definition)
        assert self.wait_for_exit() == 0
        return time.monotonic() - start

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def open_build_processes(work: str) -> Iterator[BuildProcesses]:
    """`work`: source that defines work(name of a file)."""
    command = [sys.executable, "-c", _FORKS.format(work=work)]
    pipe = subprocess.PIPE
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root, env=environment) as process:
        try:
            yield BuildProcesses(process)
        finally:
            process.kill()


def kill_at_many_moments(
    runs: BuildProcesses,
    whole_seconds: float,
    prepared: Callable[[str], Path],
    check: Callable[[int, Path], None],
) -> None:
    """Start, kill, `check`, and so on, until so many runs were killed under way: each a little later in the course of a
    calm run, which takes `whole_seconds` seconds. A run that was over before its blow came counts for nothing."""
    killed = late = 0
    while killed < KILLS:
        rng = random.Random(killed + 1000 * late)
        definition = prepared(f"kill{killed}-{late}")
        child = runs.start(definition)
        time.sleep(whole_seconds * (killed + rng.random()) / KILLS * (0.95**late))
        os.kill(child, signal.SIGKILL)
        if runs.wait_for_exit() != signal.SIGKILL:
            late += 1
            assert late < _LATE
            continue
        check(killed, definition)
        killed += 1
    print(f"{killed} kills over {whole_seconds:.1f} s, {late} came too late")

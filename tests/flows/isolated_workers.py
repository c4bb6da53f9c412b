"""A scheduler and workers of Dask, each worker a machine of its own: with its own home, folders and credentials, and
nothing of the folders of the build to be seen."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.prefect_test_server import ROOT, free_port
from tests.object_service import ObjectService, object_environment


class WorkerMachines:
    """`address`: the scheduler's; `homes`: the folders of the machines, by name; `hidden`: what no worker sees."""

    def __init__(self, place: Path, service: ObjectService, hidden: Sequence[Path]) -> None:
        self.place, self.service, self.hidden = place, service, hidden
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._start("scheduler", "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        options = ["--nthreads", "1", "--nworkers", "1", "--no-dashboard", "--no-nanny", "--name", name]
        return self._start(name, "worker", self.address, *options)

    def read_log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text("utf-8", "replace")

    def wait_for(self, name: str, text: str, seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while text not in self.read_log(name):
            assert time.monotonic() < end and self.processes[name].poll() is None, self.read_log(name)[-3000:]
            time.sleep(0.2)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = self.place / name
        (home / "tmp").mkdir(parents=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)}
        environment |= object_environment(self.service, home) | {"AWS_ACCESS_KEY_ID": name, "TMPDIR": str(home / "tmp")}
        command = [sys.executable, "-m", "dask", *arguments]
        mounts = "".join(f"mount -t tmpfs tmpfs {shlex.quote(str(folder))} && " for folder in self.hidden)
        isolated = ["unshare", "-m", "sh", "-c", f"{mounts}exec {shlex.join(command)}"]
        with (self.place / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(isolated, cwd=home, env=environment, stdout=log, stderr=log)
        self.processes[name] = process
        return process

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(20)


@contextmanager
def run_worker_machines(
    place: Path, service: ObjectService, hidden: Sequence[Path], names: Sequence[str]
) -> Iterator[WorkerMachines]:
    """Run the scheduler and the workers with these names, which see nothing of the `hidden` folders."""
    pytest.importorskip("distributed")
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare, to hide folders from workers")
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(hidden[0])], capture_output=True
    ).returncode:
        pytest.skip("cannot mount anything in a name space here")
    machines = WorkerMachines(place, service, hidden)
    try:
        machines.wait_for("scheduler", "Scheduler at:")
        for name in names:
            machines.start_worker(name)
        for name in names:
            machines.wait_for(name, "Registered to:")
        yield machines
    finally:
        machines.close()

"""A Prefect server and worker of our own, on loopback, all their state below one folder; no process outlives it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import requests
import yaml

ROOT = Path(__file__).parents[2]
PREFECT = str(Path(sys.executable).with_name("prefect"))
POOL = "querytruth"


def prefect_environment(home: Path, **more: str) -> dict[str, str]:
    """Quiet, offline, with every file below `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    quiet = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    quiet |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120", "PREFECT_WORKER_QUERY_SECONDS": "2"}
    return {**kept, **quiet, **more}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class PrefectTestServer:
    """`place`: the working directory of all commands; `url`: the server's API."""

    def __init__(self, place: Path, home: Path) -> None:
        self.place, self.home, self.port = place, home, free_port()
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.environment = prefect_environment(home, PREFECT_API_URL=self.url)
        self._started: list[subprocess.Popen[bytes]] = []

    def start_server(self) -> subprocess.Popen[bytes]:
        server = self._start("server", "server", "start", "--host", "127.0.0.1", "--port", str(self.port), "--no-ui")
        self.wait_for(lambda: requests.get(f"{self.url}/health", timeout=2).ok, 120)
        return server

    def start_worker(self, home: Path | None = None) -> subprocess.Popen[bytes]:
        """A worker, if need be with a home of its own below this world's."""
        arguments = ("worker", "start", "--pool", POOL, "--name", f"worker-{len(self._started)}")
        return self._start("worker", *arguments, PREFECT_HOME=str(home or self.home))

    def prefect(self, *arguments: str) -> str:
        """What a command printed; it has to succeed."""
        done = self._run(arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def deploy(self, entrypoint: str, name: str, cron: str | None = None, called: str = "", **build: Any) -> None:
        """One of prefect.yaml's deployments, with parameters and, perhaps, a schedule and a name of its own."""
        whole = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))
        matching = [one for one in whole["deployments"] if (one["entrypoint"], one["name"]) == (entrypoint, name)]
        (chosen,) = matching
        (parameters,) = chosen["parameters"].values()
        parameters |= build
        chosen["name"] = called or name
        chosen["schedules"] = [{"cron": cron, "timezone": "Asia/Shanghai"}] if cron else []
        (self.place / "prefect.yaml").write_text(yaml.safe_dump({**whole, "deployments": [chosen]}), "utf-8")
        self.prefect("--no-prompt", "deploy", "--all")

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the server's API answers; a busy SQLite refuses now and then, and is asked again."""

        def answered() -> list[Any]:
            method = requests.get if body is None else requests.post
            answer = method(f"{self.url}/{path}", timeout=10, **({} if body is None else {"json": body}))
            answer.raise_for_status()
            return [answer.json()]

        return self.wait_for(answered, 30)[0]

    def start_run(self, deployment: str) -> str:
        """Have a deployment run now; the run's id."""
        named = self.call(f"deployments/name/{deployment}")["id"]
        return str(self.call(f"deployments/{named}/create_flow_run", {})["id"])

    def state(self, run: str) -> tuple[str, str]:
        """Name and message of a run's state."""
        state = self.call(f"flow_runs/{run}")["state"]
        return state["name"], state["message"] or ""

    def wait_until(self, run: str, *names: str, seconds: float = 120) -> str:
        """The message of the state with one of these names, as soon as the run is in it."""
        self.wait_for(lambda: self.state(run)[0] in names, seconds)
        return self.state(run)[1]

    def pending_question(self, run: str) -> str:
        """What a waiting run last said to the person who is to answer; empty before it said anything."""
        filter_body = {"prefix": "suspended-", "limit": 100}
        inputs = self.call(f"flow_runs/{run}/input/filter", filter_body)
        descriptions = [one for one in inputs if one["key"].endswith("-description")]
        return str(json.loads(max(descriptions, key=lambda one: one["created"])["value"])) if descriptions else ""

    def wait_for_question(self, run: str, about: str) -> str:
        """What a run asks, as soon as it waits for an answer to a question about this."""

        def waits() -> str:
            state, message = self.state(run)
            assert state not in ("Failed", "Crashed", "Published"), message
            said = self.pending_question(run)
            return said if state == "Suspended" and about in said else ""

        return str(self.wait_for(waits, 120))

    def answer(self, run: str, **values: Any) -> None:
        """Fill in the form that a run waits for."""
        done = self.call(f"flow_runs/{run}/resume", {"run_input": values})
        assert done["status"] == "ACCEPT", done

    def artifacts(self) -> dict[str, dict[str, Any]]:
        """The latest of each key."""
        return {one["key"]: one for one in self.call("artifacts/latest/filter", {})}

    def flow_processes(self) -> list[int]:
        """The processes in which flows run, youngest last."""
        processes = []
        for pid in self.children():
            with suppress(OSError):
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if "prefect.engine" in arguments or "prefect.flow_engine" in arguments or "execute" in arguments:
                    processes.append(pid)
        return sorted(processes)

    def runs(self) -> list[dict[str, Any]]:
        """All flow runs that are not still to come, oldest first."""
        all_runs = self.call("flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC"})
        return [run for run in all_runs if run["state"]["name"] not in ("Scheduled", "Late", "Pending")]

    def finished_runs(self) -> list[tuple[str, str]]:
        """Name and message of the state of every run that is over."""
        over = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        states = [run["state"] for run in self.runs()]
        return [(state["name"], state["message"] or "") for state in states if state["type"] in over]

    def wait_for(self, what: Callable[[], Any], seconds: float) -> Any:
        """What it gives, as soon as that is something."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with suppress(requests.RequestException):
                if found := what():
                    return found
            time.sleep(0.5)
        raise AssertionError(f"not within {seconds} s\n{self.logs()}")

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace")[-6000:] for path in sorted(self.place.glob("*.log")))

    def children(self) -> list[int]:
        """Every process that has this world's server in its environment."""
        mark, processes = f"PREFECT_API_URL={self.url}".encode(), []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    processes.append(int(entry.name))
        return [pid for pid in processes if pid != os.getpid()]

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End one of them politely."""
        process.terminate()
        process.wait(60)

    def kill_server(self) -> None:
        """kill -9, and whatever it has started."""
        for pid in self.children():
            with suppress(OSError):
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if "server" in arguments or any("uvicorn" in word for word in arguments):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End what was started here, and what that has started: politely, then not."""
        for process in reversed(self._started):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for pid in self.children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.wait(20)

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [PREFECT, *arguments]
        return subprocess.run(
            command, cwd=self.place, env=self.environment, capture_output=True, text=True, timeout=180
        )

    def _start(self, name: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        environment = self.environment | more
        with (self.place / f"{name}-{len(self._started)}.log").open("wb") as log:
            # Prefect ends by the signal of Ctrl-C, which a shell has its background jobs and all their children ignore.
            process_options = {
                "stdout": log,
                "stderr": log,
                "preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            }
            process = subprocess.Popen([PREFECT, *arguments], cwd=self.place, env=environment, **process_options)
        self._started.append(process)
        return process


@contextmanager
def run_prefect_server(place: Path) -> Iterator[PrefectTestServer]:
    """A folder in which commands run; nothing is started yet, and at the end all of it is ended."""
    world = PrefectTestServer(place, place / "prefect-home")
    try:
        yield world
    finally:
        world.close()

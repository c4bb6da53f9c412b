"""A Prefect server for one process: on loopback, with a password, for no web page, and gone with that process.

`python -m flows.prefect_runs.own_server PORT PARENT` is the server's process.
"""

import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from builders.errors import UserError

_STARTUP_SECONDS = 120.0  # the first start on an empty home and a small machine
_PARENT_CHECK_SECONDS = 1.0
_DRAIN_SECONDS = 30.0
_log = logging.getLogger(__name__)


@contextmanager
def use_own_server() -> Iterator[None]:
    """Starts a server for this process where none is configured; it ends with the block, or with the process however
    that ends. Raises UserError where it does not start."""
    with start_own_server() as wait_until_ready:
        wait_until_ready()
        yield


@contextmanager
def start_own_server() -> Iterator[Callable[[], None]]:
    """As `use_own_server`, for what can be done while the server starts, which takes seconds: yields the function that
    waits until it answers. No flow may run before that."""
    if PREFECT_API_URL.value():
        yield lambda: None
        return
    password = f"querytruth:{secrets.token_urlsafe(32)}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = _start_server(port, password)
    before = os.environ.get("PREFECT_API_AUTH_STRING")
    os.environ["PREFECT_API_AUTH_STRING"] = password  # for the workers of a cluster on this machine
    try:
        api = f"http://127.0.0.1:{port}/api"
        with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: password}):
            try:
                yield lambda: _wait_until_ready(port, server)
            finally:
                # The process has one client of events, which would go on seeking this server: for seconds per event of
                # a later build, and at the end of the process.
                _end_event_client()
    finally:
        os.environ.pop("PREFECT_API_AUTH_STRING")
        if before is not None:
            os.environ["PREFECT_API_AUTH_STRING"] = before
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _end_event_client() -> None:
    """Ends Prefect's client of events, by names that Prefect does not document."""
    try:
        from prefect.events.worker import EventsWorker

        EventsWorker.drain_all(timeout=_DRAIN_SECONDS, at_exit=False)
    except (ImportError, AttributeError, TypeError) as error:
        _log.warning("the end of this process may wait for Prefect's client of events, which changed (%s)", error)


def _start_server(port: int, password: str) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
    }
    command = [sys.executable, "-m", "flows.prefect_runs.own_server", str(port), str(os.getpid())]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


def _wait_until_ready(port: int, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _STARTUP_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise UserError("run", "Prefect's server", "did not start", "run with --in-process, or start prefect server")


def _serve(port: int, parent: int) -> None:
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    # A query that the end of the server cancels is no error of the build; Prefect leaves this logger as it is.
    logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL)
    import uvicorn

    uvicorn.run("prefect.server.api.server:create_app", factory=True, host="127.0.0.1", port=port, log_level="critical")


def _end_with_parent(parent: int) -> None:
    """Ends this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))

"""Runs a flow in this process, with parameters as `KEY=VALUE` (the command `prefect run`), on a server of its own.

The server is on loopback, with a password, for no web page, and gone with the process that started it: `python -m
flows.prefect_runs.one_off_run PORT PARENT`.
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
from typing import Annotated, Any, get_type_hints

import cyclopts
import requests
import yaml
from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from pydantic import BaseModel, ValidationError

from querytruth.errors import UserError, suggest_choice

_STARTUP_SECONDS = 120.0  # the first start on an empty home and a small machine
_PARENT_CHECK_SECONDS = 1.0
_ANSWER_SECONDS = 10.0
_DRAIN_SECONDS = 30.0
_log = logging.getLogger(__name__)
_STAGE = "read parameters"
app = cyclopts.App(name="run", help="Run a flow here and now.", help_flags=["--help"], version_flags=[])


@contextmanager
def use_own_server() -> Iterator[None]:
    """Start a server for this process where none is configured; it ends with the block, or with the process however
    that ends. Raises UserError where it does not start."""
    with start_own_server() as wait_until_ready:
        wait_until_ready()
        yield


@contextmanager
def start_own_server() -> Iterator[Callable[[], None]]:
    """Like `use_own_server`, but for work that can be done while the server starts, which takes seconds: yield the
    function that waits until it answers. No flow may run before that."""
    if configured := PREFECT_API_URL.value():
        _check_configured(configured)
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
    """End Prefect's client of events, by names that Prefect does not document."""
    try:
        from prefect.events.worker import EventsWorker

        EventsWorker.drain_all(timeout=_DRAIN_SECONDS, at_exit=False)
    except (ImportError, AttributeError, TypeError) as error:
        _log.warning("Prefect's events client has changed: the process may take longer to exit (%s)", error)


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
    command = [sys.executable, "-m", "flows.prefect_runs.one_off_run", str(port), str(os.getpid())]
    # In a session of its own: Ctrl-C is for the build, whose last words Prefect sends to the server.
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def _wait_until_ready(port: int, server: "subprocess.Popen[bytes]") -> None:
    end, web = time.monotonic() + _STARTUP_SECONDS, requests.Session()
    web.trust_env = False  # no proxy
    while time.monotonic() < end and server.poll() is None:
        try:
            if web.get(f"http://127.0.0.1:{port}/api/health", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise UserError("run", "Prefect's server", "did not start", "run with --in-process, or run prefect server start")


def _check_configured(api: str) -> None:
    """Raise UserError where nothing answers there: Prefect would fail with a traceback."""
    try:
        requests.get(f"{api}/health", timeout=_ANSWER_SECONDS)
    except requests.RequestException as error:
        reason = f"Prefect's server does not answer ({type(error).__name__})"
        next_step = "start it, run with --in-process, or `prefect config unset PREFECT_API_URL`"
        raise UserError("run", api, reason, next_step) from None


def _serve(port: int, parent: int) -> None:
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    # A query that the end of the server cancels is no error of the build; Prefect leaves this logger as it is.
    logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL)
    import uvicorn

    uvicorn.run("prefect.server.api.server:create_app", factory=True, host="127.0.0.1", port=port, log_level="critical")


def _end_with_parent(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


@app.default
def run(
    entrypoint: Annotated[
        str, cyclopts.Parameter(help="flows/recall_set.py:recall_set, or flows.recall_set.recall_set")
    ],
    *,
    param: Annotated[
        tuple[str, ...],
        cyclopts.Parameter(
            ["--param", "-p"], negative="", help="A parameter; its value is read as YAML: definition=recall.yaml"
        ),
    ] = (),
) -> None:
    """Run a flow here and now.

    Example: prefect run flows/recall_set.py:recall_set -p definition=recall.yaml
    """
    server = PREFECT_API_URL.value() or "a temporary server, which starts in seconds"
    print(f"{entrypoint}: running on {server}", file=sys.stderr, flush=True)
    run_and_print(load_flow_from_entrypoint(find_entrypoint(entrypoint), use_placeholder_flow=False), list(param))


def find_entrypoint(entrypoint: str) -> str:
    """Return flows/recall_set.py:recall_set as the module of this project if the file is not here: a folder made by
    `querytruth init prefect` has no `flows`."""
    path, colon, name = entrypoint.partition(":")
    if not colon or not path.endswith(".py") or Path(path).exists():
        return entrypoint
    module = path.removesuffix(".py").replace("/", ".")
    return f"{module}.{name}" if module.startswith("flows.") else entrypoint


def run_and_print(flow: Flow[Any, Any], parameters: list[str]) -> None:
    """Run the flow, and print its message. Exits with the code and the line of a UserError."""
    try:
        print(run_flow(flow, parameters))
    except UserError as error:
        print(f"error {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


def run_flow(flow: Flow[Any, Any], parameters: list[str]) -> str:
    """Return the message of the completed run. Raises UserError for wrong parameters, and the error of a failed run."""
    given = parse_parameters(parameters)
    first, *more = flow.parameters.properties
    model = get_type_hints(flow.fn).get(first)
    if not more and first not in given and isinstance(model, type) and issubclass(model, BaseModel):
        given = {first: _validate_parameters(model, given)}  # people write the keys of a flow's only parameter
    with use_own_server():
        final_state: Any = flow(**given, return_state=True)
    state: State[Any] = final_state
    if not state.is_completed():
        error = state.result(raise_on_failure=False)
        raise error if isinstance(error, Exception) else RuntimeError(state.message)
    return state.message or str(state.name)


def parse_parameters(parameters: list[str]) -> dict[str, Any]:
    """Return the values, read as YAML, by key. Raises UserError for what is not key=value."""
    given = {}
    for parameter in parameters:
        key, equals, text = parameter.partition("=")
        if not equals or not key:
            reason, next_step = "must have the form key=value", "write, for example, -p definition=set.yaml"
            raise UserError(_STAGE, f"-p {parameter}", reason, next_step)
        try:
            given[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            given[key] = text
    return given


def _validate_parameters(model: type[BaseModel], given: dict[str, Any]) -> BaseModel:
    try:
        return model(**given)
    except ValidationError as error:
        # An unknown key first: it may be a misspelt one, which is then missing.
        fault = min(error.errors(), key=lambda defect: defect["type"] != "extra_forbidden")
        key = ".".join(str(part) for part in fault["loc"] if part in model.model_fields or part in given)
        if fault["type"] == "extra_forbidden":
            reason = f"parameter {key!r} is unknown"
            raise UserError(_STAGE, "-p", reason, suggest_choice(key, list(model.model_fields))) from None
        if fault["type"] == "missing":
            raise UserError(_STAGE, "-p", f"parameter {key!r} is missing", f"add -p {key}=…") from None
        raise UserError(_STAGE, f"-p {key}", fault["msg"], "fix the value") from None


if __name__ == "__main__":  # the process of the server
    _serve(int(sys.argv[1]), int(sys.argv[2]))

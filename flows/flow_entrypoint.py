"""Runs a flow by its module, `python -m flows.recall_set`, and lets Prefect find it there by name.

The first line is printed, and the settings are made (the user's server, no telemetry), before Prefect is imported,
which takes seconds.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.set_kind import SetKind


def configured_server() -> str | None:
    """Return the API address from the environment or from the active profile below PREFECT_HOME; None for neither."""
    if address := os.environ.get("PREFECT_API_URL"):
        return address
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    try:
        profiles = tomllib.loads((home / "profiles.toml").read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active", "")
    address = profiles.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")
    return str(address) if address else None


# No telemetry, and enough time for the first start on an empty home and a small machine.
_QUIET_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # a temporary server is stopped while it still writes events
}


def silence_prefect() -> None:
    """Set these variables, where unset, for this process and the servers and workers that it starts."""
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)


def make_flow_getattr(kind: SetKind) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that gives the kind's flow by its name, as in
    `flows/recall_set.py:recall_set`."""

    def attribute(requested_name: str) -> Any:
        if requested_name != kind.flow_name:
            raise AttributeError(f"no attribute {requested_name!r}")
        from flows.prefect_runs.build_flows import create_build_flow

        return create_build_flow(kind)

    return attribute


def run_flow_script(kind: SetKind) -> None:
    """Run the flow with the parameters of the command line. Exits with 1 where it fails, and 2 for wrong usage."""
    module = f"flows.{kind.flow_name}"
    example = f"Example: python -m {module} -p definition={kind.name}.yaml -p workers=4"
    description = "Run this build as a Prefect flow."
    parser = argparse.ArgumentParser(f"python -m {module}", description=description, epilog=example)
    parameter_help = "A parameter of the flow; its value is read as YAML. Only definition, the YAML file, is required."
    parser.add_argument("-p", "--param", action="append", default=[], metavar="KEY=VALUE", help=parameter_help)
    parameters = parser.parse_args().param
    server = configured_server()
    waits = f"using the Prefect server at {server}" if server else "starting a temporary Prefect server (a few seconds)"
    print(f"{kind.flow_name}: {waits}", file=sys.stderr, flush=True)
    silence_prefect()
    from flows.prefect_runs.build_flows import create_build_flow
    from flows.prefect_runs.one_off_run import run_and_print

    run_and_print(create_build_flow(kind), parameters)

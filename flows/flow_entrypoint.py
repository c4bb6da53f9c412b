"""Runs a flow by its module, `python -m flows.recall_set`, and lets Prefect find it there by name.

The first line is printed before Prefect is imported, which takes seconds.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from flows.prefect_server import configured_server, silence_prefect
from flows.set_kind import SetKind


def make_flow_getattr(kind: SetKind) -> Callable[[str], Any]:
    """A module's `__getattr__` that gives the kind's flow by its name, as in `flows/recall_set.py:recall_set`."""

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
    parameter_help = "A parameter of the flow, its value read as YAML; only definition, the YAML file, is required."
    parser.add_argument("-p", "--param", action="append", default=[], metavar="KEY=VALUE", help=parameter_help)
    parameters = parser.parse_args().param
    server = configured_server()
    waits = f"asking Prefect's server at {server}" if server else "starting a Prefect server of its own, up in seconds"
    print(f"{kind.flow_name}: {waits}", file=sys.stderr, flush=True)
    silence_prefect()
    from flows.prefect_runs.build_flows import create_build_flow
    from flows.prefect_runs.one_off_run import run_and_print

    run_and_print(create_build_flow(kind), parameters)

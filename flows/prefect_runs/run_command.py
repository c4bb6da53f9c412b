"""The command `prefect run`: runs a flow of this project, or of any file, in this process."""

import sys
from typing import Annotated

import cyclopts
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL

from builders.errors import UserError
from flows.prefect_runs.one_off_run import run_flow

app = cyclopts.App(name="run", help="Run a flow here and now.", help_flags=["--help"], version_flags=[])


@app.default
def run(
    entrypoint: Annotated[
        str, cyclopts.Parameter(help="flows/recall_set.py:recall_set, or flows.recall_set.recall_set")
    ],
    *,
    param: Annotated[
        tuple[str, ...],
        cyclopts.Parameter(
            ["--param", "-p"], negative="", help="A parameter, its value read as YAML: definition=recall.yaml"
        ),
    ] = (),
) -> None:
    """Run a flow here and now.

    Example: prefect run flows/recall_set.py:recall_set -p definition=recall.yaml
    """
    server = PREFECT_API_URL.value() or "a server of its own, up in seconds"
    print(f"{entrypoint}: running on {server}", file=sys.stderr, flush=True)
    try:
        print(run_flow(load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False), list(param)))
    except UserError as error:
        sys.exit(f"error {error}")

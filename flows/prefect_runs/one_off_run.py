"""Runs a flow in this process, with parameters as `KEY=VALUE`; also as the command `prefect run`."""

import sys
from typing import Annotated, Any, get_type_hints

import cyclopts
import yaml
from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL
from pydantic import BaseModel, ValidationError

from builders.errors import UserError, suggest_choice
from flows.prefect_runs.own_server import use_own_server

_STAGE = "read parameters"
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
    run_and_print(load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False), list(param))


def run_and_print(flow: Flow[Any, Any], parameters: list[str]) -> None:
    """Run the flow, and print its message. Exits with the code and the line of a UserError."""
    try:
        print(run_flow(flow, parameters))
    except UserError as error:
        print(f"error {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


def run_flow(flow: Flow[Any, Any], parameters: list[str]) -> str:
    """The message of the completed run. Raises UserError for wrong parameters, and the error of a failed run."""
    given = _parse_parameters(parameters)
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


def _parse_parameters(parameters: list[str]) -> dict[str, Any]:
    given = {}
    for parameter in parameters:
        key, equals, text = parameter.partition("=")
        if not equals or not key:
            reason, next_step = "is not of the form key=value", "write e.g. -p definition=set.yaml"
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

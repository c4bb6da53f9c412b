"""An option stands once: a field of a request is an option, an argument in Python, a field of the form, and in the
reference."""

from pathlib import Path
from typing import Annotated

import pytest
from cyclopts import App
from pydantic import Field

from flows.requests import DrawRequest, RecallBuild
from querytruth.audit.definition import AuditDefinition
from querytruth.cli import command_line
from querytruth.errors import UsageError
from querytruth.requests import IN_FORMS, ByName, takes_request


class WiderBuild(RecallBuild):
    """A build with two options more."""

    colours: Annotated[int, ByName("--colours", "COUNT")] = Field(3, ge=1, description="How many colours.")
    nights: Annotated[int, IN_FORMS] = Field(2, description="Nights until it is built again.")


def made_app(seen: list[WiderBuild]) -> App:
    app = App("wider", result_action="return_value", exit_on_error=False, print_error=False)

    @app.command
    @command_line.command
    def build(*, request: WiderBuild) -> None:
        """Build it."""
        seen.append(request)

    return app


def test_one_line_adds_an_option_an_argument_a_field_of_the_form_and_a_line_of_the_reference() -> None:
    seen = list[WiderBuild]()
    app = made_app(seen)
    command_line.run_command(app, ["build", "album.yaml", "--colours", "5", "--set", "seed=1"], lambda *_: None)
    assert (seen[0].definition, seen[0].colours, seen[0].overrides) == (Path("album.yaml"), 5, ["seed=1"])
    assert "`--colours COUNT`: How many colours. *[default: 3]*" in command_line.describe_commands(app)
    build = takes_request(WiderBuild)(lambda request: request.colours)
    assert build("album.yaml", colours=4) == 4 and "colours: How many colours." in str(build.__doc__)
    form = WiderBuild.model_json_schema()["properties"]["colours"]
    assert form["default"] == 3 and form["minimum"] == 1 and form["description"] == "How many colours."


def test_what_only_deployments_take_is_in_the_form_alone() -> None:
    app = made_app([])
    assert "nights" in WiderBuild.model_json_schema()["properties"]
    assert "nights" not in command_line.describe_commands(app)
    with pytest.raises(UsageError, match="--nights"):
        command_line.run_command(app, ["build", "album.yaml", "--nights", "3"], lambda *_: None)


def test_a_default_is_the_same_whether_typed_or_written_in_a_definition() -> None:
    shared = AuditDefinition.model_fields.keys() & DrawRequest.model_fields.keys() - {"judge"}
    assert {"runs", "depth", "judgments", "people", "seed"} <= shared
    for name in shared:
        one, other = (model.model_fields[name] for model in (AuditDefinition, DrawRequest))
        assert one.get_default(call_default_factory=True) == other.get_default(call_default_factory=True), name

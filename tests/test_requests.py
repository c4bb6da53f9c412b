"""A request is the options of a command, the keyword arguments of a function and the parameters of a flow."""

import inspect
from typing import Any

import pytest
from cyclopts import App
from pydantic import Field

from querytruth.cli.command_line import command
from querytruth.errors import UsageError
from querytruth.evaluation.requests import EvaluationRequest
from querytruth.requests import takes_request


class WithDepth(EvaluationRequest):
    """A request to which a later release adds an option."""

    depth_of_pages: int = Field(7, ge=1, description="Pages that are looked at.")


def test_an_option_that_is_added_is_in_the_command_the_function_and_the_form() -> None:
    asked: list[Any] = []

    def evaluate(*, request: WithDepth) -> None:
        asked.append(request.depth_of_pages)

    evaluate.__annotations__["request"] = WithDepth
    app = App(result_action="return_value")
    app.default(command(evaluate))
    app(["small", "--baseline", "random", "--depth-of-pages", "3"])
    function = takes_request(WithDepth)(lambda request: asked.append(request.depth_of_pages))
    function("small", baseline="random", depth_of_pages=5)
    function("small", baseline="random")
    assert asked == [3, 5, 7]
    assert inspect.signature(function).parameters["depth_of_pages"].default == 7
    assert "depth_of_pages: Pages that are looked at." in (function.__doc__ or "")
    assert WithDepth.model_json_schema()["properties"]["depth_of_pages"]["default"] == 7


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "the system (evaluate): is missing"),
        ({"baseline": "random", "k": 0}, "k (evaluate): is 0: must be greater than or equal to 1"),
        (
            {"baseline": "random", "directoin": "both"},
            "is not a known option. Next: did you mean 'direction'?",
        ),
        ({"baseline": ["random", "oracle"], "name": "both"}, "name (evaluate): can name only one system"),
        ({"baseline": "random", "qrels": "q.txt"}, "the set (evaluate): must be given, or qrels, but not both"),
        ({"run": "a.trec", "direction": "both"}, "a run has one direction"),
        ({"baseline": "random", "metrics": "ndgc@10"}, "is not a known metric"),
    ],
)
def test_what_cannot_be_is_one_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        EvaluationRequest.read({"of": "small"} | values)
    assert says in str(caught.value) and len(str(caught.value)) <= 300


def test_one_value_stands_for_a_list_and_metrics_for_a_text() -> None:
    request = EvaluationRequest.read({"of": "small", "run": "a.trec", "metrics": "ndcg@10, hit@1"})
    assert [str(run) for run in request.run] == ["a.trec"] and request.metrics == ["ndcg@10", "hit@1"]
    assert request.precision == [0.9] and request.part == {}


def test_a_function_takes_the_set_by_its_place_alone() -> None:
    function = takes_request(EvaluationRequest)(lambda request: request.of)
    assert function("small", baseline="random") == function(of="small", baseline="random") == "small"
    with pytest.raises(UsageError, match="one argument too many"):
        function("small", "random")

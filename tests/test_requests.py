"""A request is the options of a command, the keyword arguments of a function and the parameters of a flow."""

from typing import Any

import pytest

from querytruth.errors import UsageError
from querytruth.evaluation.requests import EvaluationRequest
from querytruth.requests import takes_request


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

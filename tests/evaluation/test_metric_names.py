"""Names of metrics: what they choose, how they are written, what is refused."""

import pytest

from querytruth.errors import UserError
from querytruth.evaluation.metric_scores import DEFAULT_METRICS
from querytruth.evaluation.metrics import Metric, parse_metric
from tests.evaluation.random_rankings import METRIC_NAMES


@pytest.mark.parametrize("name", [*METRIC_NAMES, *DEFAULT_METRICS])
def test_a_name_reads_back(name: str) -> None:
    assert str(parse_metric(name)) == name
    assert parse_metric(str(parse_metric(name))) == parse_metric(name)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("nDCG@10", "ndcg@10"),
        (" AP@50( norm=min ) ", "ap@50(norm=min)"),
        ("ap@50(norm=r)", "ap@50"),
        ("ndcg(gain=exp)", "ndcg"),
        ("mAP@R", "ap@r"),
        ("R-precision", "p@r"),
        ("MRR@10", "rr@10"),
        ("Acc@5", "hit@5"),
        ("P@05", "p@5"),
    ],
)
def test_other_spellings(spelled: str, name: str) -> None:
    assert str(parse_metric(spelled)) == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ndgc@10", r"is not a known metric. Next: did you mean 'ndcg'\?"),
        ("recall@10", r"has two meanings. Next: choose r \(the share .* or hit"),
        ("p", "has no cut-off. Next: write p@K with a whole number K from 1 or p@r"),
        ("p@0", "has the cut-off '0'"),
        ("p@9999999999", "has the cut-off '9999999999'"),
        ("p@-1", "has the cut-off '_1'"),
        ("p@١", "has the cut-off '١'"),
        ("ndcg@r", "has the cut-off 'r'. Next: write ndcg@K with a whole number K from 1 or ndcg"),
        ("ap@5(norm=max)", "has no option 'norm=max'. Next: choose from ap: norm=r, ap: norm=min"),
        ("p@5(norm=min)", "has no option 'norm=min'. Next: choose from none"),
        ("", "is not the name of a metric"),
        ("p@5@6(", "is not the name of a metric"),
    ],
)
def test_what_is_no_name_is_answered_with_a_way_out(name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_metric(name)


def test_a_definition_says_what_was_chosen() -> None:
    assert parse_metric("ap@5(norm=min)").definition.endswith("Here: k = 5, norm=min.")
    assert "divided by k, also where fewer came back" in parse_metric("p@5").definition
    assert "k = R" in parse_metric("p@r").definition
    assert Metric("rr", None).definition.endswith("Here: k = all results returned.")

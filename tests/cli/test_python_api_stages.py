"""The stages of a generated set, one query on a system, and calibration, from Python."""

from pathlib import Path

import pytest

import querytruth as qt
from tests.flows.stub_generator import StubGenerator
from tests.flows.test_topics_and_objects import answering, definition
from tests.loopback import loopback
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.thorough
def test_a_stage_is_the_command_of_its_name(tmp_path: Path) -> None:
    with loopback(answering(StubGenerator())) as server:
        topics = qt.topics(definition(tmp_path, server.url))
        assert topics.calls == len(server.asked) > 0 and topics.file.name == "topics.csv"
        assert qt.topics(definition(tmp_path, server.url), offline=True).calls == 0, "replies are stored"
    with pytest.raises(qt.UserError, match=r"album \(generate\): is of kind gallery"):
        qt.objects({"kind": "gallery", "name": "album", "images": str(tmp_path)})


def test_one_query_on_a_run(tmp_path: Path) -> None:
    small = publish_small_set(tmp_path, small_tables())
    right = small.tables.qrels.query("relevance == 2").iloc[0]
    text = small.tables.queries.set_index("query_id")["text"].loc[right["query_id"]]
    (tmp_path / "run.trec").write_text(f"{right['query_id']} Q0 {right['image_id']} 1 1.0 x\n")
    found = qt.search(small.path, text, run=tmp_path / "run.trec", page=tmp_path / "search.html")
    assert [hit["grade"] for hit in found.hits] == [2] and (tmp_path / "search.html").is_file()
    with pytest.raises(qt.UserError, match=r"needs one system\. Next: name one: model, system or run"):
        qt.search(small.path, text)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda path: qt.calibrate(path), "is not a recall set"),
        (lambda path: qt.history(path), "has no recorded evaluation"),
        (lambda path: qt.stability(path, path), "have 0 evaluated systems in common"),
        (lambda path: qt.rebuild(path), "definition"),
        (lambda path: qt.audit_plan(path / "audit.yaml"), "audit.yaml"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, ask: object, reason: str) -> None:
    small = publish_small_set(tmp_path, small_tables())
    with pytest.raises(qt.UserError, match=reason) as refused:
        ask(small.path)  # type: ignore[operator]
    assert "\n" not in str(refused.value)

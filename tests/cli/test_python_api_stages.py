"""The stages of a generated set and one query on a system, from Python."""

from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from tests.flows.stub_generator import StubGenerator
from tests.flows.test_topics_and_objects import answering, definition
from tests.loopback import loopback
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.thorough
def test_a_stage_is_the_command_of_its_name(tmp_path: Path) -> None:
    with loopback(answering(StubGenerator())) as server:
        topics = qt.generate(definition(tmp_path, server.url), "topics")
        assert topics.calls == len(server.asked) > 0 and topics.file.name == "topics.csv"
        assert qt.generate(definition(tmp_path, server.url), "topics", offline=True).calls == 0, "replies are stored"
    with pytest.raises(qt.UserError, match=r"has kind 'gallery'\. Next: run querytruth build"):
        qt.generate({"kind": "gallery", "name": "album", "images": str(tmp_path)}, "objects")


def test_one_query_on_a_run(tmp_path: Path) -> None:
    small = publish_small_set(tmp_path, small_tables())
    right = small.tables.qrels.query("relevance == 2").iloc[0]
    text = small.tables.queries.set_index("query_id")["text"].loc[right["query_id"]]
    (tmp_path / "run.trec").write_text(f"{right['query_id']} Q0 {right['image_id']} 1 1.0 x\n")
    found = qt.load(small.path).search(text, run=tmp_path / "run.trec", page=tmp_path / "search.html")
    assert [hit["grade"] for hit in found.hits] == [2] and (tmp_path / "search.html").is_file()
    with pytest.raises(qt.UserError, match=r"must be exactly one\. Next: give one of model, system, run"):
        qt.load(small.path).search(text)


def test_a_table_names_images_as_it_is_told_and_a_folder_of_runs_is_not_one_system(tmp_path: Path) -> None:
    small = publish_small_set(tmp_path, small_tables())
    right = small.tables.qrels.query("relevance == 2").iloc[0]
    names = small.tables.images.set_index("image_id")["file_name"]
    table = pd.DataFrame({"query_id": [right["query_id"]], "image_id": [names[right["image_id"]]], "score": [1.0]})
    assert qt.evaluate(small.path, run=table, ids="file_name", metrics="hit@1", max_unknown=1)["hit@1"] > 0
    with pytest.raises(qt.UserError, match=r"scores .evaluate.: applies to run files only"):
        qt.evaluate(small.path, run=table, ids="file_name", scores="distance")
    (tmp_path / "runs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "runs" / f"{name}.trec").write_text(f"{right['query_id']} Q0 {right['image_id']} 1 1.0 x\n")
    with pytest.raises(qt.UserError, match="is a folder of 2 runs"):
        qt.evaluate(small.path, run=tmp_path / "runs")
    with pytest.raises(qt.UserError, match=r"1 runs .compare.: are not two or more"):
        qt.compare(small.path, tmp_path / "runs" / "a.trec")


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda path: qt.load(path).rebuild(), "definition"),
        (lambda path: qt.open_audit(path / "audit.yaml"), "audit.yaml"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, ask: object, reason: str) -> None:
    small = publish_small_set(tmp_path, small_tables())
    with pytest.raises(qt.UserError, match=reason) as refused:
        ask(small.path)  # type: ignore[operator]
    assert "\n" not in str(refused.value)

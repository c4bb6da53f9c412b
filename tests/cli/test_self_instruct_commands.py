"""The first stages of a generated set by the command line, with a stand-in for the chat model on loopback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.stub_generator import StubGenerator
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import chat_reply


def said(asked: ReceivedRequest) -> CannedResponse:
    return chat_reply(StubGenerator().reply(str(asked.json["messages"][0]["content"])))


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "querytruth", *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
def test_topics_then_a_person_then_objects(tmp_path: Path) -> None:
    with loopback(said) as server:
        (tmp_path / "g.yaml").write_text(
            "name: tiny\nkind: generated\n"
            f"topics: {{model: openai_compatible, options: {{base_url: {server.url}, name: stub}}, rounds: 6}}\n"
            "objects: {embedder: char_ngrams, rounds: 3}\n"
        )
        assert "run querytruth topics g.yaml" in run(tmp_path, "objects", "g.yaml", code=1).stderr
        assert json.loads(run(tmp_path, "topics", "g.yaml", "--plan", "--json").stdout)["model_calls"] == 6
        assert not server.asked and not (tmp_path / "datasets" / "tiny" / "generated").exists(), "a plan writes nothing"
        shown = run(tmp_path, "topics", "g.yaml").stdout.replace("\n", " ")
        assert "6 model calls; stopped: 1 round limit" in shown
        assert "awaiting review: datasets/tiny/review/topics.csv, then: querytruth objects g.yaml" in shown
        assert "or on a page: querytruth review datasets/tiny/review/topics.csv" in shown
        table = tmp_path / "datasets" / "tiny" / "review" / "topics.csv"
        assert b"# querytruth export" in table.read_bytes().splitlines()[0]
        planned = run(tmp_path, "topics", "g.yaml", "--plan").stdout
        assert "6 questions about topics are answered; at most 0 model calls" in planned
        at_most = json.loads(run(tmp_path, "objects", "g.yaml", "--plan", "--json").stdout)["model_calls"]
        told = json.loads(run(tmp_path, "objects", "g.yaml", "--json").stdout)
        assert 0 < told["model_calls"] <= at_most
        assert told["model_calls"] > 0 and told["then"] == "querytruth collect g.yaml" and told["rows"]["accepted"] > 20
        elsewhere = run(tmp_path, "topics", "g.yaml", "--out", "my sets").stdout.replace("\n", " ")
        assert (tmp_path / "my sets/tiny/review/topics.csv").is_file(), elsewhere
        assert "then: querytruth objects g.yaml --out 'my sets'" in elsewhere, "the next command finds the table"
        then = json.loads(run(tmp_path, "objects", "g.yaml", "--out", "my sets", "--json").stdout)["then"]
        assert then == "querytruth collect g.yaml --out 'my sets'"
        calls = len(server.asked)
        again = json.loads(run(tmp_path, "objects", "g.yaml", "--offline", "--json").stdout)
        assert (again["model_calls"], again["rows"]) == (0, told["rows"]) and len(server.asked) == calls


@pytest.mark.thorough
def test_the_starter_is_a_definition_and_faults_are_one_line(tmp_path: Path) -> None:
    assert "Next: querytruth topics generated.yaml" in run(tmp_path, "init", "generated").stdout
    unknown = run(tmp_path, "topics", "generated.yaml", "--set", "objects.barrren=3", code=1).stderr
    assert "key 'objects.barrren' is unknown" in unknown and "'barren'" in unknown
    both = ("--set", "topics.prompt=en/topics", "--set", "objects.prompt=zh/objects")
    mixed = run(tmp_path, "topics", "generated.yaml", *both, code=1).stderr
    assert "must be in the same language" in mixed


@pytest.mark.thorough
def test_all_strategies_are_compared_on_one_budget(tmp_path: Path) -> None:
    with loopback(said) as server:
        (tmp_path / "g.yaml").write_text(
            "name: tiny\nkind: generated\n"
            f"topics: {{model: openai_compatible, options: {{base_url: {server.url}, name: stub}}}}\n"
            "objects: {embedder: char_ngrams}\n"
        )
        table = run(tmp_path, "topics", "g.yaml", "--compare", "12").stdout
        assert len(server.asked) == 36
        found = json.loads(run(tmp_path, "topics", "g.yaml", "--compare", "12", "--json").stdout)
        assert (
            "has no effect with topics --compare"
            in run(tmp_path, "topics", "g.yaml", "--compare", "12", "--plan", code=2).stderr
        )
        assert len(server.asked) == 36
    assert "most frequent object" in table and "length relative to people" in table
    assert [row["questions"] for row in found["strategies"]] == [12, 12, 12]
    assert Path(tmp_path, found["page"]).is_file() and "strategies.html" in table.replace("\n", "")


@pytest.mark.slow
def test_runs_under_several_strategies_are_compared_and_each_stage_leaves_its_page(tmp_path: Path) -> None:
    with loopback(said) as server:
        (tmp_path / "g.yaml").write_text(
            "name: tiny\nkind: generated\n"
            f"topics: {{model: openai_compatible, options: {{base_url: {server.url}, name: stub}}, rounds: 6}}\n"
            "objects: {embedder: char_ngrams, rounds: 3}\n"
        )
        assert (
            "has no finished run of objects. Next: run" in run(tmp_path, "objects", "g.yaml", "--health", code=1).stderr
        )
        run(tmp_path, "topics", "g.yaml")
        run(tmp_path, "objects", "g.yaml")
        other = ("--set", "strategy=visual_elements")
        run(tmp_path, "topics", "g.yaml", *other)
        shown = run(tmp_path, "objects", "g.yaml", *other).stdout
    assert "report: datasets/tiny/review/objects-health.html" in shown
    page = (tmp_path / "datasets" / "tiny" / "review" / "objects-health.html").read_text("utf-8")
    assert "Runs side by side" in page and "visual elements" in page
    rows = json.loads(run(tmp_path, "objects", "g.yaml", "--health", "--json").stdout)
    assert {row["strategy"]: row["is_current"] for row in rows} == {"self_instruct": False, "visual_elements": True}
    assert all(row["objects"] > 0 and 0 < row["new"] <= 1 and row["tokens_per_object"] > 0 for row in rows)
    table = run(tmp_path, "objects", "g.yaml", "--health").stdout
    assert "self instruct" in table and "visual elements" in table and "tokens per object" in table

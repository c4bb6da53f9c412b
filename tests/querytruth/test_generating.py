"""The first stages of a generated set by the command line, with a stand-in for the chat model on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.flows.stub_generator import Stub
from tests.loopback import Asked, Sent, loopback


def said(asked: Asked) -> Sent:
    text = Stub().reply(str(asked.json["messages"][0]["content"]))
    return Sent({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "querytruth", *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_topics_then_a_person_then_objects(tmp_path: Path) -> None:
    with loopback(said) as server:
        (tmp_path / "g.yaml").write_text(
            "name: tiny\nkind: generated\n"
            f"topics: {{model: openai_compatible, options: {{base_url: {server.url}, name: stub}}, rounds: 6}}\n"
            "objects: {embedder: char_ngrams, rounds: 3}\n"
        )
        assert "run querytruth topics g.yaml" in run(tmp_path, "objects", "g.yaml", code=1).stderr
        shown = run(tmp_path, "topics", "g.yaml").stdout.replace("\n", " ")
        assert "6 model calls; stopped: 1 round limit" in shown
        assert "awaiting review: datasets/tiny/review/topics.csv, then: querytruth objects g.yaml" in shown
        table = tmp_path / "datasets" / "tiny" / "review" / "topics.csv"
        assert table.read_bytes().startswith(b"\xef\xbb\xbf# querytruth export")
        told = json.loads(run(tmp_path, "objects", "g.yaml", "--json").stdout)
        assert told["model_calls"] > 0 and told["then"] is None and told["rows"]["accepted"] > 20
        calls = len(server.asked)
        again = json.loads(run(tmp_path, "objects", "g.yaml", "--offline", "--json").stdout)
        assert (again["model_calls"], again["rows"]) == (0, told["rows"]) and len(server.asked) == calls


def test_the_starter_is_a_definition_and_faults_are_one_line(tmp_path: Path) -> None:
    assert "Next: querytruth topics generated.yaml" in run(tmp_path, "init", "generated").stdout
    unknown = run(tmp_path, "topics", "generated.yaml", "--set", "objects.barrren=3", code=1).stderr
    assert "key 'objects.barrren' is unknown" in unknown and "'barren'" in unknown
    mixed = run(tmp_path, "topics", "generated.yaml", "--set", "topics.prompt=en/topics", code=1).stderr
    assert "of different languages" in mixed

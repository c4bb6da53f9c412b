"""Each export, read back by the readers it is made for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import pytrec_eval

from backends import exporters
from backends.sets import set_files
from builders.errors import UserError
from flows.builds import build_set
from flows.definitions import load_definition


@pytest.fixture
def stored(make_world: Callable[..., Path]) -> set_files.StoredSet:
    definition: Any = load_definition(make_world(), [], "precision")
    return set_files.read(build_set(definition).path)


def judged(stored: set_files.StoredSet) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for row in stored.tables.qrels.itertuples():
        out.setdefault(str(row.query_id), {})[str(row.image_id)] = int(row.relevance)  # type: ignore[arg-type]
    return out


def test_trec_is_read_back_by_pytrec_eval_and_ir_measures(stored: set_files.StoredSet, tmp_path: Path) -> None:
    exporters.load("trec")(stored, tmp_path / "out")
    truth = judged(stored)
    with (tmp_path / "out" / "qrels.txt").open() as file:
        assert pytrec_eval.parse_qrel(file) == truth
    read = ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt"))
    assert {(q.query_id, q.doc_id, q.relevance) for q in read} == {
        (q, i, r) for q, of in truth.items() for i, r in of.items()
    }
    perfect = {q: {i: float(r) for i, r in of.items()} for q, of in truth.items()}
    figures = pytrec_eval.RelevanceEvaluator(truth, {"ndcg", "P_5"}).evaluate(perfect)
    assert all(figure["ndcg"] == 1.0 and figure["P_5"] == 1.0 for figure in figures.values())
    texts = dict(
        line.rstrip("\n").split("\t") for line in (tmp_path / "out" / "queries.tsv").read_text("utf-8").splitlines()
    )
    assert texts == dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))


def test_beir_is_read_back_by_a_plain_reader(stored: set_files.StoredSet, tmp_path: Path) -> None:
    exporters.load("beir")(stored, tmp_path / "out")
    lines = {
        name: [json.loads(line) for line in (tmp_path / "out" / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("corpus", "queries")
    }
    assert {line["_id"] for line in lines["corpus"]} == set(stored.tables.images["image_id"])
    assert {line["_id"]: line["text"] for line in lines["queries"]} == dict(
        zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True)
    )
    header, *rows = (tmp_path / "out" / "qrels" / "test.tsv").read_text().splitlines()
    assert header.split("\t") == ["query-id", "corpus-id", "score"]
    found: dict[str, dict[str, int]] = {}
    for query, image, score in (row.split("\t") for row in rows):
        found.setdefault(query, {})[image] = int(score)
    assert found == judged(stored)


def test_an_unknown_format_and_a_folder_in_use_are_refused(stored: set_files.StoredSet, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no format. Next: did you mean 'trec'\?"):
        exporters.load("trek")
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="is not empty"):
        exporters.load("trec")(stored, tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"

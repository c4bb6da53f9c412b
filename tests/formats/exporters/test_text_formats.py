"""TREC and BEIR, read back by the readers they are made for."""

import json
from pathlib import Path

import ir_measures
import pytrec_eval

from querytruth.formats import exporters
from querytruth.sets.set_files import StoredSet


def judged(stored: StoredSet) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for row in stored.tables.qrels.itertuples():
        out.setdefault(str(row.query_id), {})[str(row.image_id)] = int(row.relevance)  # type: ignore[arg-type]
    return out


def test_trec_is_read_back_by_pytrec_eval_and_ir_measures(stored: StoredSet, tmp_path: Path) -> None:
    lost = exporters.export_set("trec", stored, tmp_path / "out")
    truth = judged(stored)
    with (tmp_path / "out" / "qrels.txt").open() as file:
        assert pytrec_eval.parse_qrel(file) == truth
    read = ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt"))
    assert {(q.query_id, q.doc_id, q.relevance) for q in read} == {
        (q, i, r) for q, of in truth.items() for i, r in of.items()
    }
    perfect = {q: {i: float(r) for i, r in of.items()} for q, of in truth.items()}
    figures = pytrec_eval.RelevanceEvaluator(truth, {"ndcg"}).evaluate(perfect)
    assert all(figure["ndcg"] == 1.0 for figure in figures.values())
    lines = (tmp_path / "out" / "queries.tsv").read_text("utf-8").splitlines()
    texts = dict(line.split("\t") for line in lines)
    wanted = {row.query_id: " ".join(row.text.split()) for row in stored.tables.queries.itertuples()}
    assert texts == wanted
    assert "the tabs, line ends and double blanks of 1 texts" in lost


def test_beir_is_read_back_by_a_plain_reader(stored: StoredSet, tmp_path: Path) -> None:
    exporters.export_set("beir", stored, tmp_path / "out")
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

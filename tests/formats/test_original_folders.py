"""Folders of BEIR, TREC and mteb of the size of collections, with judgments and with judgments that come later: a run
in the publisher's ids has the figures that ir_measures computes from the original files."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import ir_measures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ir_measures import AP, RR, P, R, nDCG

import querytruth as qt
from querytruth.records import stable_hash

Qrels = dict[str, dict[str, int]]
Shared = Callable[[str], Path]
METRICS = {
    "ap@100": AP @ 100,
    "rr": RR,
    "p@10": P @ 10,
    "r@20": R @ 20,
    "ndcg@10(gain=linear)": nDCG @ 10,
    "ndcg@20": nDCG(gains={grade: 2**grade - 1 for grade in range(6)}) @ 20,
}


def read_qrels(path: Path) -> Qrels:
    found: Qrels = {}
    for query, _, document, grade in map(str.split, path.read_text().splitlines()):
        found.setdefault(query, {})[document] = int(grade)
    return found


def write_trec(folder: Path, qrels: Qrels, documents: list[str]) -> None:
    (folder / "queries.tsv").write_text("\n".join(f"{query}\ttopic {query}" for query in qrels))
    (folder / "images.txt").write_text("\n".join(documents))


def write_beir(folder: Path, qrels: Qrels, documents: list[str]) -> None:
    rows = [{"_id": name, "text": f"{name}.jpg"} for name in documents]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    queries = [{"_id": name, "text": f"topic {name}"} for name in qrels]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))


def write_mteb(folder: Path, qrels: Qrels, documents: list[str]) -> None:
    pixels = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    tables = {
        "corpus": {"id": documents, "image": pa.nulls(len(documents), pixels)},
        "queries": {"id": list(qrels), "text": [f"topic {name}" for name in qrels]},
    }
    for name, columns in tables.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "test-00000-of-00001.parquet")


def add_trec_qrels(folder: Path, qrels: Qrels) -> Path:
    lines = [f"{q} 0 {d} {grade}" for q, judged in qrels.items() for d, grade in judged.items()]
    (folder / "qrels.txt").write_text("\n".join(lines))
    return folder / "qrels.txt"


def add_beir_qrels(folder: Path, qrels: Qrels) -> Path:
    (folder / "qrels").mkdir()
    lines = [f"{q}\t{d}\t{grade}" for q, judged in qrels.items() for d, grade in judged.items()]
    (folder / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    return folder / "qrels/test.tsv"


def add_mteb_qrels(folder: Path, qrels: Qrels) -> Path:
    rows = [(q, d, grade) for q, judged in qrels.items() for d, grade in judged.items()]
    (folder / "qrels").mkdir()
    columns = {name: [row[n] for row in rows] for n, name in enumerate(("query-id", "corpus-id", "score"))}
    pq.write_table(pa.table(columns), folder / "qrels/test-00000-of-00001.parquet")
    return folder / "qrels/test-00000-of-00001.parquet"


FORMS = {
    "trec": (write_trec, add_trec_qrels),
    "beir": (write_beir, add_beir_qrels),
    "mteb": (write_mteb, add_mteb_qrels),
}


def collect(shared: Shared, what: str) -> tuple[Qrels, list[str], Path | None]:
    """The judgments of a real collection, its documents, and its run, where it has one."""
    if what == "trec_eval":
        folder = shared("metrics_trec_eval")
        qrels, run = read_qrels(folder / "qrels.rel_level"), folder / "results.test"
        qrels = {q: {d: grade for d, grade in judged.items() if grade >= 0} for q, judged in qrels.items()}
        names = {line.split()[2] for line in run.read_text().splitlines()}
        return qrels, sorted(names | {d for judged in qrels.values() for d in judged}), run
    if what == "eccv":
        raw = json.loads((shared("multi_positive_gt") / "eccv_caption_to_image.json").read_text())
        qrels = {query: {str(image): 1 for image in images} for query, images in raw.items()}
    else:
        lines = (shared("captions") / "Flickr8k_ExpertAnnotations.txt").read_text().splitlines()
        qrels = {}
        for image, caption, *grades in map(str.split, lines):
            qrels.setdefault(caption, {})[image] = sorted(map(int, grades))[1] - 1
    return qrels, sorted({d for judged in qrels.values() for d in judged}), None


def break_ties(path: Path, run: Path) -> Path:
    """The run with ranks as scores, in trec_eval's order: of equal scores the set's own ids decide, not others'."""
    rows = [line.split() for line in run.read_text().splitlines()]
    rows.sort(key=lambda row: (row[0], float(row[4]), row[2]))
    path.write_text("\n".join(f"{row[0]} Q0 {row[2]} 0 {n} {row[5]}" for n, row in enumerate(rows)))
    return path


def draw_run(path: Path, qrels: Qrels, documents: list[str]) -> Path:
    """A run of the first hundred by a hash, in which what is relevant rises: ties within none of its queries."""
    with path.open("w") as file:
        for query, judged in qrels.items():
            pool = {*judged, *(documents[stable_hash(query, str(n)) % len(documents)] for n in range(80))}
            key = {name: stable_hash(query, name) / 2**64 + 0.25 * judged.get(name, 0) for name in pool}
            for rank, name in enumerate(sorted(pool, key=lambda name: -key[name]), start=1):
                file.write(f"{query} Q0 {name} {rank} {1000 - rank} drawn\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("collection", ["trec_eval", "eccv", "experts"])
def test_the_figures_are_those_of_ir_measures(form: str, collection: str, shared: Shared, tmp_path: Path) -> None:
    qrels, documents, run = collect(shared, collection)
    drawn = tmp_path / "drawn.trec"
    run = break_ties(drawn, run) if run else draw_run(drawn, qrels, documents)
    write, add_qrels = FORMS[form]
    for name in ("judged", "waiting"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, qrels, documents)
    add_qrels(tmp_path / "judged", qrels)
    out = tmp_path / "sets"
    qt.import_set(form, tmp_path / "judged", out / "judged")
    qt.import_set(form, tmp_path / "waiting", out / "waiting")
    later = add_qrels(tmp_path / "waiting", qrels)

    taken = qt.load("waiting", out=out).import_qrels(later, reviewer="publisher")
    qt.load("waiting", out=out).apply()

    assert taken == sum(map(len, qrels.values()))
    answered = {query: judged for query, judged in qrels.items() if any(judged.values())}
    rows = list(ir_measures.read_trec_run(str(run)))
    # Each by itself: some versions change the judgments that they are given where several gains are asked for.
    expected = {name: ir_measures.calc_aggregate([one], deepcopy(answered), rows)[one] for name, one in METRICS.items()}
    for name in ("judged", "waiting"):
        result = qt.evaluate(name, run=run, metrics=list(METRICS), out=out)
        found = {metric: result[metric] for metric in METRICS}
        assert found == pytest.approx(expected, abs=1e-9), name

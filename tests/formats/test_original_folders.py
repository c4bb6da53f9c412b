"""Folders of BEIR, TREC and mteb, with judgments and with judgments that come later: a run in the publisher's ids has
the figures that ir_measures computes from the original files."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querytruth as qt
from builders.lint import lint_tables
from querytruth.errors import UserError
from querytruth.evaluation.published_names import match_names
from querytruth.review.result_pool import read_result_pool
from querytruth.sets.set_files import read_set

Qrels = dict[str, dict[str, int]]
Texts = Mapping[str, str]  # by id


def write_trec(folder: Path, texts: Texts, files: Texts) -> None:
    (folder / "queries.tsv").write_text("\n".join(f"{name}\t{text}" for name, text in texts.items()), "utf-8")
    (folder / "images.txt").write_text("\n".join(files))


def write_beir(folder: Path, texts: Texts, files: Texts) -> None:
    for name, rows in (("corpus", files), ("queries", texts)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in rows.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")


def write_mteb(folder: Path, texts: Texts, files: Texts) -> None:
    pixels = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    tables = {
        "corpus": {"id": list(files), "image": pa.nulls(len(files), pixels)},
        "queries": {"id": list(texts), "text": list(texts.values())},
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


TEXTS = {"q0": "a dog", "q1": "红色自行车", "q2": "two boats", "q3": "a tree"}
FILES = {f"d{n}": f"photos/{n % 3}/{n}.jpg" for n in range(8)}
QRELS = {"q0": {"d0": 2, "d3": 1, "d5": 0}, "q1": {"d1": 1}, "q2": {"d7": 1, "d2": 1}, "q3": {"d4": 3, "d6": 1}}
RUN = {query: {f"d{(3 * n + place) % 8}": 1.0 - n / 10 for n in range(8)} for place, query in enumerate(TEXTS)}
METRICS = {"ap@8": ir_measures.AP @ 8, "rr@8": ir_measures.RR @ 8, "p@3": ir_measures.P @ 3, "r@3": ir_measures.R @ 3}


def write_run(path: Path, names: dict[str, str] | None = None) -> Path:
    lines = [
        f"{q} Q0 {(names or {}).get(d, d)} {n} {score} x"
        for q, found in RUN.items()
        for n, (d, score) in enumerate(found.items(), start=1)
    ]
    path.write_text("\n".join(lines))
    return path


def import_folder(form: str, place: Path, qrels: Qrels, **options: str) -> Any:
    source = place / form
    source.mkdir()
    write, add_qrels = FORMS[form]
    write(source, TEXTS, FILES)
    if qrels:
        add_qrels(source, qrels)
    return qt.import_set(form, source, place / "sets" / form, **options)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_in_the_publishers_ids_has_the_figures_of_the_publishers_files(form: str, tmp_path: Path) -> None:
    import_folder(form, tmp_path, QRELS)
    run = write_run(tmp_path / "system.trec")

    result = qt.evaluate(form, run=run, metrics=list(METRICS), out=tmp_path / "sets")

    expected = ir_measures.calc_aggregate(list(METRICS.values()), QRELS, RUN)
    assert {name: result[name] for name in METRICS} == pytest.approx({n: expected[m] for n, m in METRICS.items()})
    stated = result.result.counts["ids_of_others"]
    assert stated == {"queries": {"source_id": 4}, "images": {"source_id": 8}}
    assert "8 images by source_id" in next(w.detail for w in result.warnings if w.code == "ids_of_others")


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_without_judgments_is_a_set_that_waits_for_them(form: str, tmp_path: Path) -> None:
    built = import_folder(form, tmp_path, {})

    stored = read_set(built.path)
    assert sorted(stored.tables.queries["source_id"]) == list(TEXTS)
    assert len(stored.tables.images) == 8 and not len(stored.tables.qrels)
    findings = {one.check: one.count for one in lint_tables(stored.tables)}
    assert findings["unjudged_query"] == 4 and "empty_truth" not in findings
    run = write_run(tmp_path / "system.trec")
    with pytest.raises(UserError, match=f"has no judgments yet.*querytruth review {form} --run"):
        qt.evaluate(form, run=run, out=tmp_path / "sets")
    pool = read_result_pool(stored, [run], depth=5)
    assert len(pool.pairs) == 20 and not any("left out" in note for note in pool.notes)


def test_a_split_that_is_not_there_is_no_set_without_judgments(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no qrels/dev\.tsv"):
        import_folder("beir", tmp_path, QRELS, split="dev")


def test_a_run_may_be_a_table_or_name_images_by_the_end_of_their_paths(tmp_path: Path) -> None:
    import_folder("beir", tmp_path, QRELS)
    names = {name: f"/srv/archive/{file}" if name < "d4" else file.rpartition("/")[2] for name, file in FILES.items()}
    rows = [(q, d, score) for q, found in RUN.items() for d, score in found.items()]
    table = pd.DataFrame(rows, columns=["query_id", "image_id", "score"])
    runs = (write_run(tmp_path / "a.trec"), table, write_run(tmp_path / "b.trec", names))

    by_id, of_table, by_path = (qt.evaluate("beir", run=run, out=tmp_path / "sets") for run in runs)

    assert by_path["ndcg@10"] == of_table["ndcg@10"] == by_id["ndcg@10"]
    assert by_path.result.counts["ids_of_others"]["images"] == {"file_name": 8}


def test_a_name_that_could_be_several_images_is_refused_with_examples() -> None:
    table = pd.DataFrame({"image_id": ["img_1", "img_2", "img_3"], "file_name": ["a/x.jpg", "b/x.jpg", "c/y.jpg"]})

    with pytest.raises(
        UserError, match=re.escape("has 1 names that match several images (x.jpg matches img_1 or img_2)")
    ):
        match_names(["x.jpg", "y.jpg"], set(), table, "image_id")
    copies = match_names(["x.jpg", "y.jpg"], set(), table, "image_id", {"img_2": "img_1"})
    assert copies.ids == {"x.jpg": "img_1", "y.jpg": "img_3"}


def test_a_name_without_its_extension_is_the_image_s_unless_there_are_two() -> None:
    table = pd.DataFrame({"image_id": ["img_1", "img_2", "img_3"], "file_name": ["t/000113.jpg", "x.jpg", "x.png"]})

    assert match_names(["000113"], set(), table, "image_id").ids == {"000113": "img_1"}
    with pytest.raises(UserError, match="x matches img_2 or img_3"):
        match_names(["x"], set(), table, "image_id")


def test_our_own_ids_come_before_the_publishers() -> None:
    table = pd.DataFrame({"image_id": ["img_1", "img_2"], "source_id": ["img_2", "img_1"]})

    assert match_names(["img_1", "img_2"], {"img_1", "img_2"}, table, "image_id").ids == {}

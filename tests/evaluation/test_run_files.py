"""Run files in every form, qrels in TREC's, matrices: read whole, or refused with the place that is wrong."""

import gzip
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metrics import compute_metric, judged_at_k, parse_metric
from querytruth.evaluation.ranking import RankedRun, rank_run
from querytruth.evaluation.run_files import _read_trec_lines, read_run, read_run_and_order, read_trec_qrels
from querytruth.evaluation.run_formats import read_plain_trec, read_similarity_matrix

ROWS = [("q_1", "img_a", 0.5), ("q_1", "图_二", -1e-3), ("问", "img_a", 2.0)]


def written(folder: Path, form: str) -> Path:
    path = folder / f"run.{form}"
    table = pd.DataFrame(ROWS, columns=["query_id", "image_id", "score"])
    if form == "parquet":
        table.assign(rank=1)[["score", "rank", "image_id", "query_id"]].to_parquet(path)
    elif form in ("csv", "tsv"):
        table.assign(note="a, b").to_csv(path, sep="\t" if form == "tsv" else ",", index=False, encoding="utf-8-sig")
    elif form == "jsonl":
        lines = [{"query_id": query, "image_id": image, "score": score, "rank": 1} for query, image, score in ROWS]
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8-sig")
    elif form == "json":
        whole: dict[str, dict[str, float]] = {}
        for query, image, score in ROWS:
            whole.setdefault(query, {})[image] = score
        path.write_text(json.dumps(whole, ensure_ascii=False), "utf-8")
    else:
        lines = [f"{query}\tQ0  {image} 7 {score} tag and more\n" for query, image, score in ROWS]
        path.write_text("# by hand\n\n" + "".join(lines), "utf-8")
    return path


SCORES = ["0.5", "-1e-3", "+2", ".5", "nan", "-Infinity", "1e400", "1_0", "0x10", "１", "", "1,5"]
FIELDS = ["q1", "#c", "图", "a\u3000b", "a\u00a0b", '"a"', "a\\", "NULL", "nan", "\ufeffq", "x\x0by", "x\x85y"]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            *[st.sampled_from(["q", "a", *FIELDS])] * 4, st.sampled_from(["0.5", "1", *SCORES]), st.sampled_from("tu")
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([" ", " ", "\t", "  "]),
    st.sampled_from(["\n", "\n", "\r\n", "\r", " \n", "\n\n"]),
    st.booleans(),
)
def test_a_run_is_its_lines(tmp_path: Path, rows: list[tuple[str, ...]], blank: str, end: str, ends: bool) -> None:
    path = tmp_path / "run.trec"
    text = end.join(blank.join(row) for row in rows)
    path.write_bytes((text + end if ends else text).encode())
    if (table := read_plain_trec(path)) is not None:
        pd.testing.assert_frame_equal(table, _read_trec_lines(path), check_exact=True)


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_runs_of_most_tools_are_plain(tmp_path: Path, blank: str) -> None:
    lines = [
        f"q{n // 9}{blank}Q0{blank}图_{n % 7}{blank}{n % 9 + 1}{blank}{1 / (n + 3)!r}{blank}bm25" for n in range(50)
    ]
    (tmp_path / "run.trec").write_text("\n".join(lines) + "\n", "utf-8")
    table = read_plain_trec(tmp_path / "run.trec")
    assert table is not None and len(table) == 50
    pd.testing.assert_frame_equal(table, _read_trec_lines(tmp_path / "run.trec"), check_exact=True)


@pytest.mark.parametrize("form", ["trec", "run", "txt", "json", "jsonl", "parquet", "csv", "tsv", "CSV"])
def test_all_forms_say_the_same(tmp_path: Path, form: str) -> None:
    table = read_run(written(tmp_path, form.lower()).rename(tmp_path / f"mine.{form}"))
    assert list(table.columns) == ["query_id", "image_id", "score"]
    assert table["query_id"].dtype == table["query_id"].dtype == "category"
    assert table["score"].dtype == "float64"
    assert list(table.itertuples(index=False, name=None)) == ROWS


def test_a_line_may_hold_all_results_of_a_query(tmp_path: Path) -> None:
    """As search services log them: an order, or objects with scores; ids may be numbers."""
    lines = [{"query": "a dog", "results": ["b.jpg", 7]}, {"query": 12, "results": [{"file_name": "c", "score": 3}]}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    table = read_run(tmp_path / "log.jsonl")
    expected = [("a dog", "b.jpg", -1), ("a dog", "7", -2), ("12", "c", 3)]
    assert list(table.itertuples(index=False, name=None)) == expected


BROKEN = [
    ("run.jsonl", '{"query_id": "q"}', "line 1 .*: has no image"),
    ("run.jsonl", '{"image_id": "a", "score": 1}', "line 1 .*: has no query"),
    ("run.jsonl", '{"query": "q", "image_id": "a"}', "line 1 .*: has a result without a score"),
    ("run.jsonl", '{"query": "q", "image_id": "a", "score": true}', "has a result without a score"),
    ("run.jsonl", '{"query": "q", "results": "a"}', "has results that are not a list"),
    ("run.jsonl", '{"query": "q", "results": [null]}', "has no image"),
    ("run.jsonl", '{"query": "q", "query": "p", "results": []}', "twice|repeat|is not JSON"),
    ("run.json", '{"q": ["a"]}\n{"p": ["b"]}', r"is not JSON .*name it \.jsonl"),
    ("run.txt", "q Q0 a 1 0.5 t\nq Q0 b\n", "run.txt line 2 .*: has 3 fields"),
    ("run.txt", "q Q0 a 1 high t\n", "line 1 .*: has 'high', but needs a number"),
    ("run.txt", "q Q0 a 1 1_0 t\n", "line 1 .*: has '1_0'"),
    ("run.txt", "# only a comment\n", "contains no rows"),
    ("run.txt", b"q Q0 \xff 1 1 t\n", "is not UTF-8"),
    ("run.json", "{", "is not JSON"),
    ("run.json", "[" * 100_000, "is not JSON"),
    ("run.json", "[1]", "file is not an object"),
    ("run.json", "[]", "contains no rows"),
    ("run.json", '{"q": [1]}', "q is not an object"),
    ("run.json", '{"q": 3}', "q is not an object"),
    ("run.json", '{"q": {"a": 1, "a": 2}}', "q contains 'a' twice"),
    ("run.json", '{"q": {"a": 1}, "q": {"b": 2}}', "file contains 'q' twice"),
    ("run.json", '{"q": {"a": "1"}}', "query q, image a: the score is not a number"),
    ("run.json", '{"q": {"a": true}}', "query q, image a: the score is not a number"),
    ("run.json", '{"q": {"a": 1' + "0" * 400 + "}}", "the score is too large"),
    ("run.json", '{"q": {"a": 1' + "0" * 6000 + "}}", "is not JSON .Exceeds the limit"),
    ("run.csv", "query_id,image_id\nq,a\n", r"has no column score \(it has query_id, image_id\)"),
    ("run.csv", "", r"has no column query_id \(it has none\)"),
    ("run.csv", "query_id,image_id,score\nq,a\n", "run.csv line 2 .*: has 2 cells, but the header has 3"),
    ("run.csv", "query_id,image_id,score\nq,a,\n", "line 2 .*: has '', but needs a number"),
    ("run.csv", 'query_id,image_id,score\nq,"a"x,1\n', "line 2 .*is not valid CSV"),
    ("run.parquet", "PAR1", "cannot be read as a run"),
    ("run.xlsx", "PK\x03\x04", "is a ZIP archive, or a spreadsheet"),
    ("run.gz", "q Q0 a 1 1 t", "cannot be read"),
    ("run.json", '{"q": ["a", "a"]}', "q contains 'a' twice"),
    ("run.csv", None, "does not exist"),
]


@pytest.mark.parametrize(("name", "content", "told"), BROKEN)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, content: str | bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=told):
        read_run(tmp_path / name)


def test_tables_of_other_types(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"query_id": [1, 2], "image_id": [10, 9], "score": [1, 2]}), path)
    assert list(read_run(path).itertuples(index=False, name=None)) == [("1", "10", 1.0), ("2", "9", 2.0)]
    pq.write_table(pa.Table.from_pandas(pd.DataFrame(ROWS, columns=["query_id", "image_id", "score"])), path, 1)
    assert list(read_run(path).itertuples(index=False, name=None)) == ROWS, "one row in each group of rows"
    pq.write_table(pa.table({"query_id": ["q"], "image_id": ["a"], "score": ["high"]}), path)
    with pytest.raises(UserError, match="cannot be read as a run"):
        read_run(path)
    pq.write_table(pa.table({"query_id": ["q"], "image_id": [None], "score": [1.0]}), path)
    with pytest.raises(UserError, match=r"has empty cells|cannot be read as a run"):
        read_run(path)


@pytest.mark.parametrize("form", ["trec", "json", "parquet", "csv", "tsv"])
def test_the_content_decides_where_the_suffix_does_not(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, form).rename(tmp_path / "results.out")
    assert list(read_run(path).itertuples(index=False, name=None)) == ROWS


def test_a_packed_run_is_read_and_its_faults_name_the_packed_file(tmp_path: Path) -> None:
    packed = tmp_path / "run.trec.gz"
    packed.write_bytes(gzip.compress(written(tmp_path, "trec").read_bytes()))
    assert list(read_run(packed).itertuples(index=False, name=None)) == ROWS
    packed.write_bytes(gzip.compress(b"q Q0 b\n"))
    with pytest.raises(UserError, match=r"run.trec.gz line 1 .*: has 3 fields"):
        read_run(packed)
    packed.write_bytes(gzip.compress(b"q Q0 a 1 0.5 t\n" * 99)[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        read_run(packed)
    packed.write_bytes(gzip.compress(gzip.compress(b"q Q0 a 1 0.5 t\n")))
    with pytest.raises(UserError, match=f"is compressed with gzip. Next: unpack it first: gunzip {packed}"):
        read_run(packed)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_order_alone_is_a_run(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"run.{form}"
    ranked = [("q", "b", 1), ("q", "a", 2), ("r", "c", 1)]
    table = pd.DataFrame(ranked, columns=["query_id", "image_id", "rank"])
    if form == "json":
        path.write_text('{"q": ["b", "a"], "r": ["c"]}')
    else:
        table.to_csv(path, index=False) if form == "csv" else table.to_parquet(path)
    assert list(read_run(path).itertuples(index=False, name=None)) == [(q, i, -float(rank)) for q, i, rank in ranked]


@given(st.binary(max_size=300), st.sampled_from(["txt", "json", "csv", "parquet"]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.thorough
def test_no_bytes_are_more_than_refused(tmp_path: Path, data: bytes, form: str) -> None:
    (tmp_path / f"fuzzed.{form}").write_bytes(data)
    with suppress(UserError):
        assert len(read_run(tmp_path / f"fuzzed.{form}"))


# --- qrels -----------------------------------------------------------------------------------------------------------


def test_qrels(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("# comment\nq 0 a 2\nq 0 b 0\nq 0 c -1\n", "utf-8")
    assert list(read_trec_qrels(path).itertuples(index=False, name=None)) == [("q", "a", 2), ("q", "b", 0)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q a\n", "line 1 .*: has 2 fields"),
        ("q 0 a 0.5\n", "has the grade 0.5"),
        ("q 0 a nan\n", "has the grade nan"),
        ("q 0 a 1e9\n", "has the grade 1e9"),
        ("q 0 a x\n", "has 'x', but needs a number"),
    ],
)
def test_broken_qrels_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "qrels.txt").write_text(text)
    with pytest.raises(UserError, match=told):
        read_trec_qrels(tmp_path / "qrels.txt")
    with pytest.raises(UserError, match="cannot be read"):
        read_trec_qrels(tmp_path / "nowhere.txt")


# --- trec_eval's own figures -----------------------------------------------------------------------------------------

CUTS = (1, 3, 5, 7, 10, 15, 20, 23, 30, 100, 200, 500, 1000, 2000)
TREC = {f"P_{k}": f"p@{k}" for k in CUTS} | {f"recall_{k}": f"r@{k}" for k in CUTS}
TREC |= {f"ndcg_cut_{k}": f"ndcg@{k}(gain=linear)" for k in CUTS} | {f"map_cut_{k}": f"ap@{k}" for k in CUTS}
TREC |= {f"success_{k}": f"hit@{k}" for k in CUTS}
TREC |= {"map": "ap", "recip_rank": "rr", "Rprec": "p@r", "ndcg": "ndcg(gain=linear)"}


def figures(path: Path) -> dict[tuple[str, str], str]:
    """measure and query, or "all": value, as printed."""
    cells = [line.split() for line in path.read_text().splitlines()]
    return {(row[0], row[1]): row[2] for row in cells if len(row) == 3}


def best(found: RankedRun, depth: int) -> pd.DataFrame:
    """The run again, so many images a query (trec_eval's -M)."""
    row = found.rank <= depth
    queries, images = found.truth.query_ids.to_pandas(), found.image_ids.to_pandas()
    columns = {"query_id": queries[found.query[row]], "image_id": images[found.image_code[row]]}
    return pd.DataFrame({name: column.to_numpy() for name, column in columns.items()} | {"score": found.score[row]})


def trec_run(folder: Path, name: str, tmp_path: Path) -> pd.DataFrame:
    """The files have suffixes of their own."""
    (tmp_path / "results.trec").symlink_to(folder / name)
    return read_run(tmp_path / "results.trec")


@pytest.mark.parametrize(
    ("out", "qrels", "run", "level", "depth", "count"),
    [
        ("out.test.a", "qrels.test", "results.test", 1, None, 43),
        ("out.test.a", "qrels.test.with-comments", "results.test", 1, None, 43),
        ("out.test.aq", "qrels.test", "results.test", 1, None, 172),
        ("out.test.aqc", "qrels.test", "results.trunc", 1, None, 172),
        ("out.test.aqcM", "qrels.test", "results.trunc", 1, 100, 172),
        ("out.test.aql", "qrels.rel_level", "results.test", 2, None, 172),
        ("out.test.meas_params", "qrels.test", "results.test", 1, None, 40),
    ],
)
def test_trec_evals_own_figures(
    shared: Callable[[str], Path],
    tmp_path: Path,
    out: str,
    qrels: str,
    run: str,
    level: int,
    depth: int | None,
    count: int,
) -> None:
    """All that it prints of our metrics, to its four digits. Its option -l raises the grade that counts as relevant,
    except for nDCG's gains."""
    folder = shared("metrics_trec_eval")
    graded, table = read_trec_qrels(folder / qrels), trec_run(folder, run, tmp_path)
    binary = graded.assign(relevance=(graded["relevance"] >= level).astype(int))
    found = {}
    for judgments, gains in ((graded, True), (binary, False)):
        ranked = rank_run(table, index_qrels(judgments))
        ranked = rank_run(best(ranked, depth), ranked.truth) if depth else ranked
        names = [*ranked.truth.query_ids.to_pylist(), "all"]
        for theirs, ours in TREC.items():
            if ("ndcg" in theirs) is gains:
                values = compute_metric(ranked, parse_metric(ours))
                found |= {(theirs, name): f"{v:.4f}" for name, v in zip(names, [*values, values.mean()], strict=True)}
    expected = {key: value for key, value in figures(folder / out).items() if key in found}
    assert {key: found[key] for key in expected} == expected
    assert len(expected) == count


def test_trec_evals_share_of_unjudged_documents(shared: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shared("metrics_trec_eval")
    truth = index_qrels(read_trec_qrels(folder / "qrels.rel_level"))
    ranked = rank_run(trec_run(folder, "results.test", tmp_path), truth)
    expected = figures(folder / "out.test.aql")
    for k in (5, 10, 20):
        assert f"{1 - judged_at_k(ranked, k).mean():.4f}" == expected[f"unj_{k}", "all"]


# --- matrices --------------------------------------------------------------------------------------------------------


def listed(path: Path, ids: list[str]) -> Path:
    path.write_text("\n".join(ids) + "\n", "utf-8")
    return path


def test_a_matrix_is_mapped_with_its_ids(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "s.npy", matrix)
    rows, columns = listed(tmp_path / "rows.txt", ["一", "b"]), listed(tmp_path / "columns.txt", ["x", "y", "z z"])
    found, *ids = read_similarity_matrix(tmp_path / "s.npy", rows, columns)
    assert isinstance(found, np.memmap)
    assert found.tolist() == matrix.tolist()
    assert ids == [["一", "b"], ["x", "y", "z z"]]
    columns.write_bytes(b"x\r\ny\r\nz z")
    assert read_similarity_matrix(tmp_path / "s.npy", rows, columns)[2] == ["x", "y", "z z"]


def npy_header(shape: str) -> bytes:
    """A .npy file of few numbers that states another shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


def test_a_pipe_is_no_matrix(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s.npy")
    names = listed(tmp_path / "ids.txt", ["a", "b"])
    with pytest.raises(UserError, match="is not a regular file"):
        read_similarity_matrix(tmp_path / "s.npy", names, names)


@pytest.mark.parametrize(
    ("values", "ids", "told"),
    [
        (np.zeros(3), "a\nb\n", "contains 1 axes of float64"),
        (np.zeros((2, 3)), "a\nb\n", "is 2 x 3, but the lists have 2 and 2 ids"),
        (np.array([["x", "y"]] * 2), "a\nb\n", "contains 2 axes of <U1"),
        (np.array([[{}, {}]] * 2), "a\nb\n", "cannot be read as .npy"),
        (np.zeros((2, 2)), "a\na\n", "line 2 .*: repeats a"),
        (np.zeros((2, 2)), "a\n\n", "line 2 .*: is empty"),
        (np.zeros((2, 2)), b"\xff\n", "is not UTF-8"),
        (b"no array", "a\nb\n", "is not a .npy file"),
        (npy_header("(True, True)"), "a\nb\n", "cannot be read as .npy"),
        (npy_header("(1000000000000, 2)"), "a\nb\n", "cannot be read as .npy"),
        (np.zeros((2, 2)), None, "cannot be read"),
    ],
)
def test_broken_matrices_are_refused(tmp_path: Path, values: object, ids: str | bytes | None, told: str) -> None:
    path, names = tmp_path / "s.npy", tmp_path / "ids.txt"
    if isinstance(values, bytes):
        path.write_bytes(values)
    else:
        np.save(path, values, allow_pickle=True)  # type: ignore[arg-type]
    if ids is not None:
        names.write_bytes(ids if isinstance(ids, bytes) else ids.encode())
    with pytest.raises(UserError, match=told):
        read_similarity_matrix(path, names, names)


# --- ranks beside scores ---------------------------------------------------------------------------------------------

DISTANCES = {  # each states the ranks, and distances in place of scores
    "l2.trec": "q1 Q0 c 1 0.1 l2\nq1 Q0 a 2 0.2 l2\nq2 Q0 x 1 3 l2\nq2 Q0 c 2 4 l2\n",
    "shuffled.trec": "q2 Q0 c 2 4 l2\nq1 Q0 a 2 0.2 l2\nq2 Q0 x 1 3 l2\nq1 Q0 c 1 0.1 l2\n",
    "with-comment.trec": "# made by a service\nq1 Q0 c 1 0.1 l2\nq1 Q0 a 2 0.2 l2\nq2 Q0 x 1 3 l2\nq2 Q0 c 2 4 l2\n",
    "l2.csv": "query_id,image_id,rank,score\nq1,c,1,0.1\nq1,a,2,0.2\nq2,x,1,3\nq2,c,2,4\n",
    "l2.tsv": "query_id\tscore\timage_id\trank\nq1\t0.1\tc\t1\nq1\t0.2\ta\t2\nq2\t3\tx\t1\nq2\t4\tc\t2\n",
}


def best_of(table: pd.DataFrame) -> dict[str, str]:
    """The image with the highest score, by query."""
    order = table.sort_values("score", ascending=False)
    return {str(query): str(rows["image_id"].iloc[0]) for query, rows in order.groupby("query_id", observed=True)}


@pytest.mark.parametrize("name", DISTANCES)
def test_where_scores_contradict_ranks_the_ranks_decide(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(DISTANCES[name])
    table, contradicted = read_run_and_order(tmp_path / name)
    assert best_of(table) == {"q1": "c", "q2": "x"} and contradicted == 2


def test_ranks_of_a_parquet_table_decide_too(tmp_path: Path) -> None:
    rows = pd.DataFrame({"query_id": ["q", "q"], "image_id": ["b", "a"], "rank": [2, 1], "score": [9.0, 0.5]})
    rows.to_parquet(tmp_path / "run.parquet")
    table, contradicted = read_run_and_order(tmp_path / "run.parquet")
    assert best_of(table) == {"q": "a"} and contradicted == 1


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("q Q0 b 1 0.9 t\nq Q0 a 2 0.9 t\nq Q0 c 3 0.1 t\n", id="agree, with a tie"),
        pytest.param("q Q0 c 0 0.1 t\nq Q0 b 0 0.9 t\n", id="the same rank everywhere"),
        pytest.param("q Q0 b 1 0.9 t\nr Q0 c 1 0.99 t\n", id="of different queries"),
    ],
)
def test_where_ranks_say_nothing_else_the_scores_stay(lines: str, tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text(lines)
    table, contradicted = read_run_and_order(tmp_path / "run.trec")
    assert contradicted == 0 and best_of(table)["q"] == "b" and table["score"].max() in (0.9, 0.99)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("q Q0 beach dog.jpg 1 0.93 clip", id="in an image's name"),
        pytest.param("q Q0 my 2 dogs.jpg 1 0.93 clip", id="after a number"),
        pytest.param("q Q0 DSC 0042 7 1 0.93 clip", id="between numbers"),
        pytest.param("two dogs Q0 a.jpg 1 0.93 clip", id="in a query's name"),
        pytest.param("q Q0 a.jpg first 0.93 clip", id="a rank in words"),
    ],
)
def test_a_blank_within_an_id_does_not_shift_the_fields(line: str, tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text(f"q Q0 a 1 1 clip\n{line}\n")
    with pytest.raises(UserError) as caught:
        read_run(tmp_path / "run.trec")
    assert "run.trec line 2" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("preds.jsonl", '{"text_id": "q", "image_ids": ["a", "b"]}\n'),
        ("preds.json", '{"mteb_model_meta": {"name": "m"}, "default": {"test": {"q": {"a": 0.9, "b": 0.1}}}}'),
        ("near.csv", "query,image,distance\nq,b,3\nq,a,1\n"),
        ("long.csv", "query_id,image_id,score\nq,b,0.123456789012345677\nq,a,0.123456789012345678\n"),
        ("long.trec", "q Q0 b 2 0.1234567890123456781 t\nq Q0 a 1 0.1234567890123456789 t\n"),
        ("near.jsonl", '{"qid": "q", "results": [{"image": "b", "distance": 2}, {"image": "a", "distance": 1}]}\n'),
    ],
)
def test_runs_in_the_forms_of_others(name: str, content: str, tmp_path: Path) -> None:
    """Chinese-CLIP's and mteb's predictions, distances, and scores that a double cannot tell apart."""
    (tmp_path / name).write_text(content)
    run = read_run(tmp_path / name).sort_values("score", ascending=False)
    assert run["image_id"].tolist() == ["a", "b"] and run["score"].nunique() == 2


def test_judgments_in_beirs_three_columns(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\t0\n")
    assert read_trec_qrels(tmp_path / "test.tsv")["relevance"].tolist() == [1, 0]


def test_what_only_looks_like_a_form_of_others_is_read_as_before(tmp_path: Path) -> None:
    """A query that is called query, and scores within objects, which are no subsets of mteb's."""
    (tmp_path / "t.qrels").write_text("query 0 a 1\nquery 0 b 0\n")
    assert len(read_trec_qrels(tmp_path / "t.qrels")) == 2
    (tmp_path / "run.json").write_text('{"q": {"a": {"score": 1}}}')
    with pytest.raises(UserError, match="the score is not a number"):
        read_run(tmp_path / "run.json")
    (tmp_path / "two.json").write_text('{"default": {"dev": {"q": {"a": 1}}, "test": {"q": {"a": 1}}}}')
    with pytest.raises(UserError, match=r"contains several runs \(dev, test\)"):
        read_run(tmp_path / "two.json")


@pytest.mark.parametrize("form", ["trec", "csv", "json", "jsonl"])
@pytest.mark.parametrize(
    "scores", [("0.987654321012345678", "0.987654321012345671"), ("900719925474099301", "900719925474099300")]
)
def test_scores_finer_than_a_double_keep_their_order(form: str, scores: tuple[str, str], tmp_path: Path) -> None:
    pairs = [("second", scores[1]), ("first", scores[0])]
    texts = {
        "trec": "".join(f"q Q0 {image} {2 - n} {score} tag\n" for n, (image, score) in enumerate(pairs)),
        "csv": "query_id,image_id,score\n" + "".join(f"q,{image},{score}\n" for image, score in pairs),
        "json": '{"q": {' + ", ".join(f'"{image}": {score}' for image, score in pairs) + "}}",
        "jsonl": "".join(f'{{"query_id": "q", "image_id": "{image}", "score": {score}}}\n' for image, score in pairs),
    }
    (tmp_path / f"run.{form}").write_text(texts[form])
    run = read_run(tmp_path / f"run.{form}")
    assert list(run.sort_values("score", ascending=False)["image_id"]) == ["first", "second"]

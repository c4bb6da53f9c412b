"""`evaluate` and `compare` as a user types them."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from querytruth.sets.benchmark_set import Tables
from tests.cli.conftest import Run
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


def write_run(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{query} Q0 {image} 1 {score} x\n" for query, image, score in rows))
    return path


def qrels(path: Path, queries: int = 40) -> Path:
    path.write_text("".join(f"q{n} 0 right{n} 1\n" for n in range(queries)))
    return path


@pytest.mark.thorough
def test_baselines_on_a_set_and_where_their_results_lie(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    out, err = run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--baseline", "random", "--seed", 3)
    assert re.search(r"oracle │ 1\.000 \[0\.\d+, 1\.000\]", out) and "chance" in out
    for name in ("oracle", "random"):
        folder = tmp_path / "sets" / "small" / "evaluations" / "v1" / name
        assert json.loads((folder / "result.json").read_text("utf-8"))["system"]["name"] == name
        assert "<html" in (folder / "report.html").read_text("utf-8")
        assert f"written: {folder.relative_to(tmp_path)}" in out
    out, err = run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--no-page", "--report", "mine")
    assert "1.0000" in out and "few queries" in err
    assert not (tmp_path / "mine" / "report.html").exists() and (tmp_path / "mine" / "run.parquet").exists()
    told = run.json("evaluate", "sets/small/v1", "--run", "mine", "--metrics", "hit@1, ap@r")
    (result,) = told["results"]
    assert [figure["metric"] for figure in result["figures"]] == ["hit@1", "ap@r"]
    assert result["figures"][0]["value"] == 1 and result["system"]["name"] == "oracle"


def test_a_matrix_both_ways_and_the_mean_of_the_two(run: Run, tmp_path: Path) -> None:
    """The golden example of the identity matrix: 1 both ways, and 1/3 for what always looks at the first."""
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    images, texts = stored.tables.images["image_id"].tolist(), stored.tables.queries["query_id"].tolist()
    truth = stored.tables.qrels.set_index("query_id")["image_id"].astype("str")
    matrix = np.array([[float(truth[text] == image) for image in images] for text in texts])
    np.save(tmp_path / "m.npy", matrix)
    (tmp_path / "t.txt").write_text("\n".join(texts))
    (tmp_path / "p.txt").write_text("\n".join(images))
    words = ["evaluate", "small", "--out", "sets", "--similarities", "m.npy", "--rows", "t.txt", "--columns", "p.txt"]
    told = run.json(*words, "--direction", "both", "--no-page", "--metrics", "hit@1")
    assert [result["direction"] for result in told["results"]] == ["text_to_image", "image_to_text"]
    assert told["mean_of_directions"] == {"m": {"hit@1": 1}}
    out, _ = run(*words, "--direction", "both", "--no-page", "--metrics", "hit@1")
    assert "text to image" in out and "image to text" in out and "Mean of both" in out


def test_a_run_of_distances_is_refused_with_the_option_that_reads_it(run: Run, tmp_path: Path) -> None:
    """Without ranks nothing states which end of the scores is the best; the truth does."""
    (tmp_path / "truth.qrels").write_text("".join(f"q{n} 0 i{n} 1\n" for n in range(20)))
    rows = [(f"q{n}", f"i{(n + step) % 20}", 0.1 + step) for n in range(20) for step in range(8)]
    table = pd.DataFrame(rows, columns=["query_id", "image_id", "score"])
    table.to_csv(tmp_path / "nearest.csv", index=False)
    words = ["evaluate", "--qrels", "truth.qrels", "--run", "nearest.csv", "--metrics", "p@1", "--json"]
    _, err = run(*words, code=1)
    assert "nearest" in err and "--scores distance" in err and "in 20 queries" in err
    for scores, right in (("distance", 1.0), ("likeness", 0.0)):
        (result,) = json.loads(run(*words, "--scores", scores)[0])["results"]
        assert result["figures"][0]["value"] == right and result["system"]["scores"] == scores


@pytest.mark.parametrize("scores", ["distance", "likeness"])
def test_a_matrix_of_distances_too(run: Run, tmp_path: Path, scores: str) -> None:
    (tmp_path / "truth.qrels").write_text("".join(f"q{n} 0 i{n} 1\n" for n in range(20)))
    np.save(tmp_path / "far.npy", 1.0 - np.eye(20))
    for name, letter in (("rows", "q"), ("columns", "i")):
        (tmp_path / f"{name}.txt").write_text("".join(f"{letter}{n}\n" for n in range(20)))
    words = ["evaluate", "--qrels", "truth.qrels", "--similarities", "far.npy", "--rows", "rows.txt"]
    words += ["--columns", "columns.txt", "--metrics", "hit@1", "--json"]
    assert "--scores distance" in run.error(*words)
    (result,) = json.loads(run(*words, "--scores", scores)[0])["results"]
    assert result["figures"][0]["value"] == (1.0 if scores == "distance" else 0.0)


def test_two_runs_are_compared_on_the_same_queries(run: Run, tmp_path: Path) -> None:
    qrels(tmp_path / "t.qrels")
    good = write_run(tmp_path / "good.trec", [(f"q{n}", f"right{n}", 1.0) for n in range(40)])
    half = [(f"q{n}", f"right{n}" if n % 2 else "wrong", 1.0) for n in range(40)]
    write_run(tmp_path / "half.trec", half)
    told = run.json("compare", good, "half.trec", "--qrels", "t.qrels", "--metrics", "hit@1")
    (pair,) = told["pairs"]
    assert (pair["one"], pair["other"], pair["difference"]) == ("good", "half", 0.5)
    assert (pair["wins"], pair["ties"], pair["losses"]) == (20, 20, 0)
    assert pair["p_holm"] < 0.001 and told["most_different"][:2] == ["q0", "q10"]
    out, _ = run("compare", good, "half.trec", good, "--qrels", "t.qrels", "--metrics", "hit@1,p@5")
    assert "good minus half" in out and "good minus good (2)" in out and "half minus good (2)" in out
    assert "20 / 20 / 0" in out and "1.000" in out, "a system is no better than itself"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evaluate", "small"], "give one of model"),
        (["evaluate", "small", "--qrels", "t.qrels", "--baseline", "oracle"], "give one of them"),
        (["evaluate", "--baseline", "oracle"], "give one of them"),
        (["evaluate", "small", "--similarities", "m.npy"], "give all three"),
        (["evaluate", "small", "--baseline", "oracle", "--direction", "up"], "is 'up'"),
        (["evaluate", "small", "--run", "a.trec", "--direction", "both"], "a run has one direction"),
        (["evaluate", "--qrels", "t.qrels", "--run", "a.trec", "--max-unknown", "1"], "qrels know every query"),
        (["compare", "small", "a.trec"], "give two or more runs"),
    ],
)
def test_a_wrong_call_ends_with_2(run: Run, words: list[str], says: str) -> None:
    _, err = run(*words, code=2)
    assert says in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["--run", "nan.trec"], "q1 (read run): has the score nan", 1),
        (["--run", "none.trec"], "none.trec", 1),
        (["--run", "run.xml"], "run.xml line 1 (read run file): has 1 fields", 1),
        (["--run", "good.trec", "--metrics", "ndgc@10"], "did you mean 'ndcg'?", 2),
        (["--run", "good.trec", "--metrics", "recall@10"], "has two meanings", 2),
        (["--baseline", "oracle", "--k", "5", "--metrics", "ndcg@10"], "is less than 10", 1),
        (["--model", "nowhere"], "needs a set: a file of judgments", 1),
        (["--model", "nowhere", "--index", "lsh"], "must be one of its choices", 2),
    ],
)
def test_what_cannot_be_is_one_line(run: Run, tmp_path: Path, words: list[str], says: str, code: int) -> None:
    qrels(tmp_path / "t.qrels")
    write_run(tmp_path / "good.trec", [("q1", "right1", 1.0)])
    write_run(tmp_path / "nan.trec", [("q1", "right1", float("nan"))])
    (tmp_path / "run.xml").write_text("<run/>")
    out, err = run("evaluate", "--qrels", "t.qrels", *words, code=code)
    assert says in err.replace("\n", " ") and not out
    assert err.count("error") == 1


ANSWERS = {"dog": "dog", "狗": "beach", "cat": "cat", "none": "dog"}  # the truth of the small set


def perfect(*queries: str) -> list[tuple[str, str, float]]:
    return [(query_id_of(query), image_id_of(ANSWERS[query]), 1.0) for query in queries]


def without_query(tables: Tables, name: str) -> Tables:
    queries, qrels = tables.queries, tables.qrels
    return replace(
        tables,
        queries=queries[queries["query_id"] != query_id_of(name)].reset_index(drop=True),
        qrels=qrels[qrels["query_id"] != query_id_of(name)].reset_index(drop=True),
    )


def evaluate(run: Run, *words: object) -> Any:
    out, _ = run("evaluate", *words, "--out", "sets", "--metrics", "hit@1,r@5", "--no-page", "--json")
    return json.loads(out)["results"][0]


def figure(result: Any, metric: str) -> float:
    return next(row["value"] for row in result["figures"] if row["metric"] == metric)


# --- one file name, two runs
def test_two_runs_of_one_file_name_do_not_overwrite_each_other(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    monday = write_run(tmp_path / "monday" / "search.trec", perfect("dog", "狗", "cat", "none"))
    friday = write_run(tmp_path / "friday" / "search.trec", perfect("dog", "狗"))
    stored = tmp_path / "sets" / "small" / "evaluations" / "v1" / "search" / "result.json"
    evaluate(run, "small", "--run", monday)
    before = stored.read_bytes()
    _, err = run("evaluate", "small", "--run", friday, "--out", "sets", code=1)
    assert "holds the result of another run (search.trec on small/v1)" in err and "another name" in err
    assert stored.read_bytes() == before, "the first result is as it was"
    assert figure(evaluate(run, "small", "--run", friday, "--name", "friday"), "hit@1") == 0.5
    named = json.loads((stored.parent.parent / "friday" / "result.json").read_text("utf-8"))
    assert named["system"]["name"] == "friday" and named["system"]["file"] == "search.trec"
    evaluate(run, "small", "--run", monday)  # the same run on the same set may be evaluated again


def test_two_runs_of_one_file_name_in_one_call_are_refused_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    runs = [write_run(tmp_path / day / "search.trec", perfect("dog")) for day in ("monday", "friday")]
    _, err = run("evaluate", "small", "--run", runs[0], "--run", runs[1], "--out", "sets", code=1)
    assert "two runs with this name" in err and not (tmp_path / "sets" / "small" / "evaluations").exists()
    _, err = run("evaluate", "small", "--run", runs[0], "--run", runs[1], "--name", "mine", code=2)
    assert "--name" in err


# --- a run of another version
@pytest.mark.thorough
def test_a_run_of_version_1_is_scored_on_what_both_versions_have(run: Run, tmp_path: Path) -> None:
    """Version 2 loses one query; two of three that are left were answered."""
    tables = small_tables(graded=False)
    publish_small_set(tmp_path, tables)
    publish_small_set(tmp_path, without_query(tables, "cat"))
    wrong = (query_id_of("none"), image_id_of("tree"), 1.0)
    mine = write_run(tmp_path / "mine.trec", [*perfect("dog", "狗", "cat"), wrong])
    result = evaluate(run, "small/v2", "--run", mine)
    counts = result["counts"]
    assert counts["run_of_version"] == "v1" and counts["queries"] == 3
    assert (counts["queries_in_both_versions"], counts["queries_only_in_the_other_version"]) == (3, 1)
    assert figure(result, "hit@1") == pytest.approx(2 / 3)
    listed = (tmp_path / "sets/small/evaluations/v2/mine/left_out.csv").read_text("utf-8-sig").splitlines()
    assert listed == ["kind,id,rows,known_in", f"query,{query_id_of('cat')},1,v1"]
    out, err = run("evaluate", "small/v2", "--run", mine, "--out", "sets")
    assert "the run was made on v1" in err and query_id_of("cat") in out


@pytest.mark.thorough
def test_queries_that_version_2_adds_are_no_failures_of_a_run_of_version_1(run: Run, tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    publish_small_set(tmp_path, without_query(tables, "cat"))
    publish_small_set(tmp_path, tables)
    mine = write_run(tmp_path / "mine.trec", perfect("dog", "狗", "none"))
    evaluate(run, "small/v1", "--run", mine)
    result = evaluate(run, "small/v2", "--run", mine)
    assert (result["counts"]["queries"], result["counts"]["queries_only_in_this_version"]) == (3, 1)
    assert figure(result, "hit@1") == 1 and result["counts"]["queries_missing"] == 0
    assert figure(evaluate(run, "small/v2", "--run", "sets/small/evaluations/v1/mine", "--name", "again"), "hit@1") == 1
    left_out = write_run(tmp_path / "left_out.trec", perfect("dog", "狗"))
    assert figure(evaluate(run, "small/v2", "--run", left_out), "hit@1") == 0.5, "neither version explains the gap"


def test_runs_of_two_versions_are_compared_on_the_queries_of_both(run: Run, tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    publish_small_set(tmp_path, without_query(tables, "cat"))
    publish_small_set(tmp_path, tables)
    old = write_run(tmp_path / "old.trec", perfect("dog", "狗", "none"))
    new = write_run(tmp_path / "new.trec", perfect("dog", "狗", "cat", "none"))
    out, _ = run("compare", "small/v2", old, new, "--out", "sets", "--metrics", "hit@1", "--json")
    (pair,) = json.loads(out)["pairs"]
    assert (pair["difference"], pair["ties"]) == (0, 3)


# --- ids that no version has
def test_strange_results_keep_their_ranks_and_strange_queries_are_left_out(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    rows = perfect("dog", "狗", "cat", "none")
    strange = (query_id_of("dog"), "img_of_the_shop", 2.0)
    mine = write_run(tmp_path / "mine.trec", [*rows, strange])
    _, err = run("evaluate", "small", "--out", "sets", "--run", mine, "--max-unknown", "0.1", code=1)
    assert "img_of_the_shop" in err and "is not in the gallery" in err and "the limit is 10.0%" in err
    assert "--max-unknown" in err
    result = evaluate(run, "small", "--run", mine)
    assert figure(result, "hit@1") == 0.75, "what a person saw first was none of the set's images"
    assert result["counts"]["unknown_results"] == 1
    other = write_run(tmp_path / "other.trec", [*rows, ("q_of_another_set", image_id_of("dog"), 1.0)])
    _, err = run("evaluate", "small", "--out", "sets", "--run", other, code=1)
    assert "q_of_another_set" in err and "is not in the set" in err
    assert evaluate(run, "small", "--run", other, "--max-unknown", "0.5")["counts"]["unknown_queries"] == 1


# --- ids as other programs write them
FORMS = {
    "absolute paths": (None, lambda name: f"/srv/photos/holiday/{name} 1.jpg"),
    "percent-encoded": (None, lambda name: f"holiday/{name}%201.jpg"),
    "a percent-encoded folder": (None, lambda name: f"my%20photos/holiday/{name} 1.jpg"),
    "a prefix and another suffix": ("photo:{stem}.webp", lambda name: f"photo:{name} 1.webp"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_csv_names_images_as_the_search_does(run: Run, tmp_path: Path, form: str) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    pattern, write = FORMS[form]
    rows = [f"{query_id_of(query)},{write(image)},1" for query, image in ANSWERS.items()]
    (tmp_path / "mine.csv").write_text("\n".join(["query,file_name,rank", *rows]) + "\n")
    if pattern is not None:
        _, err = run("evaluate", "small", "--run", "mine.csv", "--out", "sets", code=1)
        assert f"Next: describe the ids with --ids '{pattern}'" in err
    result = evaluate(run, "small", "--run", "mine.csv", *(("--ids", pattern) if pattern else ()))
    assert figure(result, "hit@1") == 1


def test_a_run_that_lists_the_worst_first_is_named(run: Run, tmp_path: Path) -> None:
    """Rank 1 has the lowest score, and the relevant image is the last of twelve."""
    queries = pd.DataFrame({"query_id": [f"q{n}" for n in range(20)], "text": [f"text {n}" for n in range(20)]})
    (tmp_path / "judged.qrels").write_text("".join(f"{one} 0 right_{one} 1\n" for one in queries["query_id"]))
    lines = [
        f"{query} Q0 {'right_' + query if rank == 12 else f'other_{rank}'} {rank} {rank / 12} mine\n"
        for query in queries["query_id"]
        for rank in range(1, 13)
    ]
    (tmp_path / "mine.trec").write_text("".join(lines))
    words = ("evaluate", "--qrels", "judged.qrels", "--run", "mine.trec", "--metrics", "rr@100", "--no-page")
    _, err = run(*words, code=1)
    assert "rank 1 were the worst" in err and "--scores likeness to order by the scores" in err
    right = run.json(*words, "--scores", "likeness")["results"][0]
    assert figure(right, "rr@100") == 1
    kept = run.json(*words, "--scores", "distance")["results"][0]
    assert figure(kept, "rr@100") == pytest.approx(1 / 12)


# --- the names that evaluate prints
def test_runs_are_named_as_evaluate_prints_them_and_all_of_them_are_compared_by_default(
    run: Run, tmp_path: Path
) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    evaluate(run, "small", "--run", write_run(tmp_path / "new.trec", perfect("dog", "狗", "cat", "none")))
    evaluate(run, "small", "--run", write_run(tmp_path / "old.trec", perfect("dog", "狗", "cat")), "--max-unknown", "1")
    evaluate(run, "small", "--baseline", "random")
    named = run.json("compare", "small", "new", "old", "--out", "sets")
    assert named == run.json("compare", "small", "--out", "sets") and len(named["pairs"]) > 0
    assert {(row["one"], row["other"]) for row in named["pairs"]} == {("new", "old")}
    gate = ("gate", "small", "--candidate", "new", "--baseline", "old", "--metric", "hit@1", "--margin", "0.9")
    assert "new against old" in run(*gate, "--out", "sets", "--undecided", "pass")[0]
    wrong = run.error("compare", "small", "nwe", "old", "--out", "sets")
    assert "is neither a file nor a result of this version. Next: did you mean 'new'?" in wrong

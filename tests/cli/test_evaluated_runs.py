"""Runs of a user's own search: of another version, with ids that the set lacks, with copies, of one file name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.sets.benchmark_set import Tables
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

Run = Callable[..., tuple[str, str]]
ANSWERS = {"dog": "dog", "狗": "beach", "cat": "cat", "none": "dog"}  # the truth of the small set


def write_run(path: Path, *rows: tuple[str, str, float]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{query} Q0 {image} 1 {score} x\n" for query, image, score in rows))
    return path


def perfect(*queries: str) -> list[tuple[str, str, float]]:
    return [(query_id_of(query), image_id_of(ANSWERS[query]), 1.0) for query in queries]


def without_query(tables: Tables, name: str) -> Tables:
    queries, qrels = tables.queries, tables.qrels
    return replace(
        tables,
        queries=queries[queries["query_id"] != query_id_of(name)].reset_index(drop=True),
        qrels=qrels[qrels["query_id"] != query_id_of(name)].reset_index(drop=True),
    )


def with_copies(tables: Tables, *copies: str, of: str) -> Tables:
    """The tables with a duplicate group: an image of the set, and copies that the gallery leaves out."""
    rows = [(image_id_of(of), True), *((image_id_of(name), False) for name in copies)]
    group = pd.DataFrame(rows, columns=["image_id", "is_representative"])
    group = group.assign(duplicate_group="dup_1", item=group["image_id"], width=8, height=8)
    return replace(tables, duplicates=group)


def evaluate(run: Run, *words: object) -> Any:
    out, _ = run("evaluate", *words, "--out", "sets", "--metrics", "hit@1,r@5", "--no-page", "--json")
    return json.loads(out)["results"][0]


def figure(result: Any, metric: str) -> float:
    return next(row["value"] for row in result["figures"] if row["metric"] == metric)


# --- one file name, two runs


def test_two_runs_of_one_file_name_do_not_overwrite_each_other(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    monday = write_run(tmp_path / "monday" / "search.trec", *perfect("dog", "狗", "cat", "none"))
    friday = write_run(tmp_path / "friday" / "search.trec", *perfect("dog", "狗"))
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
    runs = [write_run(tmp_path / day / "search.trec", *perfect("dog")) for day in ("monday", "friday")]
    _, err = run("evaluate", "small", "--run", runs[0], "--run", runs[1], "--out", "sets", code=1)
    assert "two runs with this name" in err and not (tmp_path / "sets" / "small" / "evaluations").exists()
    _, err = run("evaluate", "small", "--run", runs[0], "--run", runs[1], "--name", "mine", code=2)
    assert "--name" in err


@pytest.mark.thorough
def test_a_report_folder_of_another_run_is_refused(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    evaluate(run, "small", "--baseline", "oracle", "--report", "mine")
    _, err = run("evaluate", "small", "--out", "sets", "--baseline", "random", "--report", "mine", code=1)
    assert "mine" in err and "holds the result of another run (oracle on small/v1)" in err
    _, err = run("evaluate", "small", "--out", "sets", "--baseline", "random", "--seed", "1", "--no-page")
    _, err = run("evaluate", "small", "--out", "sets", "--baseline", "random", "--seed", "2", "--no-page", code=1)
    assert "another run" in err, "another seed is another run"


# --- a run of another version


@pytest.mark.thorough
def test_a_run_of_version_1_is_scored_on_what_both_versions_have(run: Run, tmp_path: Path) -> None:
    """Version 2 loses one query; two of three that are left were answered."""
    tables = small_tables(graded=False)
    publish_small_set(tmp_path, tables)
    publish_small_set(tmp_path, without_query(tables, "cat"))
    wrong = (query_id_of("none"), image_id_of("tree"), 1.0)
    mine = write_run(tmp_path / "mine.trec", *perfect("dog", "狗", "cat"), wrong)
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
    mine = write_run(tmp_path / "mine.trec", *perfect("dog", "狗", "none"))
    evaluate(run, "small/v1", "--run", mine)
    result = evaluate(run, "small/v2", "--run", mine)
    assert (result["counts"]["queries"], result["counts"]["queries_only_in_this_version"]) == (3, 1)
    assert figure(result, "hit@1") == 1 and result["counts"]["queries_missing"] == 0
    assert figure(evaluate(run, "small/v2", "--run", "sets/small/evaluations/v1/mine", "--name", "again"), "hit@1") == 1
    left_out = write_run(tmp_path / "left_out.trec", *perfect("dog", "狗"))
    assert figure(evaluate(run, "small/v2", "--run", left_out), "hit@1") == 0.5, "neither version explains the gap"


def test_runs_of_two_versions_are_compared_on_the_queries_of_both(run: Run, tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    publish_small_set(tmp_path, without_query(tables, "cat"))
    publish_small_set(tmp_path, tables)
    old = write_run(tmp_path / "old.trec", *perfect("dog", "狗", "none"))
    new = write_run(tmp_path / "new.trec", *perfect("dog", "狗", "cat", "none"))
    out, _ = run("compare", "small/v2", old, new, "--out", "sets", "--metrics", "hit@1", "--json")
    (pair,) = json.loads(out)["pairs"]
    assert (pair["difference"], pair["ties"]) == (0, 3)


# --- ids that no version has


def test_strange_results_keep_their_ranks_and_strange_queries_are_left_out(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    rows = perfect("dog", "狗", "cat", "none")
    strange = (query_id_of("dog"), "img_of_the_shop", 2.0)
    mine = write_run(tmp_path / "mine.trec", *rows, strange)
    _, err = run("evaluate", "small", "--out", "sets", "--run", mine, "--max-unknown", "0.1", code=1)
    assert "img_of_the_shop" in err and "is not in the gallery" in err and "the limit is 10.0%" in err
    assert "--max-unknown" in err
    result = evaluate(run, "small", "--run", mine)
    assert figure(result, "hit@1") == 0.75, "what a person saw first was none of the set's images"
    assert result["counts"]["unknown_results"] == 1
    other = write_run(tmp_path / "other.trec", *rows, ("q_of_another_set", image_id_of("dog"), 1.0))
    _, err = run("evaluate", "small", "--out", "sets", "--run", other, code=1)
    assert "q_of_another_set" in err and "is not in the set" in err
    assert evaluate(run, "small", "--run", other, "--max-unknown", "0.5")["counts"]["unknown_queries"] == 1


def test_bare_judgments_know_every_query_of_a_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.qrels").write_text("q1 0 a 1\n")
    mine = write_run(tmp_path / "mine.trec", ("q1", "a", 1.0), ("q2", "a", 1.0))
    _, err = run("evaluate", "--qrels", "t.qrels", "--run", mine, code=1)
    assert "q2 (read run): is not a query of the qrels" in err
    run("evaluate", "--qrels", "t.qrels", "--run", mine, "--max-unknown", "1", code=2)


# --- copies


@pytest.mark.thorough
def test_a_search_that_returns_copies_is_not_refused_and_finds_the_image_once(run: Run, tmp_path: Path) -> None:
    tables = with_copies(small_tables(), "dog, cropped", "dog, small", of="dog")
    publish_small_set(tmp_path, tables)
    query = query_id_of("dog")  # relevant: dog and beach
    rows = [(query, image_id_of(name), -rank) for rank, name in enumerate(["dog, small", "dog, cropped", "beach"])]
    result = evaluate(run, "small", "--run", write_run(tmp_path / "mine.trec", *rows, *perfect("狗", "cat")))
    per_query = pd.read_parquet(tmp_path / "sets/small/evaluations/v1/mine/per_query.parquet").set_index("query_id")
    assert per_query.loc[query, "returned"] == 2 and per_query.loc[query, "r@5"] == 1
    assert per_query.loc[query, "hit@1"] == 1 and per_query.loc[query, "judged@1"] == 1
    assert result["counts"]["results_counted_as_their_representative"] == 2
    out, _ = run("evaluate", "small", "--out", "sets", "--run", "mine.trec")
    assert "2 results are near-duplicates of a gallery image" in out


def test_copies_that_a_set_keeps_are_one_image(run: Run, tmp_path: Path) -> None:
    """Dog and cat are one group here, and both are in the gallery: a search that finds both has found one."""
    publish_small_set(tmp_path, with_copies(small_tables(), "cat", of="dog"))
    oracle = evaluate(run, "small", "--baseline", "oracle")
    assert figure(oracle, "r@5") == 1
    rows = [(query_id_of("cat"), image_id_of("dog"), 1.0), *perfect("dog", "狗")]
    assert figure(evaluate(run, "small", "--run", write_run(tmp_path / "mine.trec", *rows)), "hit@1") == 1


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
    right = json.loads(run(*words, "--scores", "likeness", "--json")[0])["results"][0]
    assert figure(right, "rr@100") == 1
    kept = json.loads(run(*words, "--scores", "distance", "--json")[0])["results"][0]
    assert figure(kept, "rr@100") == pytest.approx(1 / 12)


# --- the names that evaluate prints


def test_runs_are_named_as_evaluate_prints_them_and_all_of_them_are_compared_by_default(
    run: Run, tmp_path: Path
) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    evaluate(run, "small", "--run", write_run(tmp_path / "new.trec", *perfect("dog", "狗", "cat", "none")))
    evaluate(
        run, "small", "--run", write_run(tmp_path / "old.trec", *perfect("dog", "狗", "cat")), "--max-unknown", "1"
    )
    evaluate(run, "small", "--baseline", "random")
    named = json.loads(run("compare", "small", "new", "old", "--out", "sets", "--json")[0])
    assert named == json.loads(run("compare", "small", "--out", "sets", "--json")[0]) and len(named["pairs"]) > 0
    assert {(row["one"], row["other"]) for row in named["pairs"]} == {("new", "old")}
    gate = ("gate", "small", "--candidate", "new", "--baseline", "old", "--metric", "hit@1", "--margin", "0.9")
    assert "new against old" in run(*gate, "--out", "sets", "--undecided", "pass")[0]
    wrong = run("compare", "small", "nwe", "old", "--out", "sets", code=1)[1]
    assert "is neither a file nor a result of this version. Next: did you mean 'new'?" in wrong

"""`evaluate` and `compare` as a user types them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from querytruth.cli.demo import evaluate_baselines
from tests.images import draw_scene
from tests.small_sets import publish_small_set, query_id_of, small_tables
from tests.tiny_dual_encoders import save_dual_encoder

Run = Callable[..., tuple[str, str]]
WORDS = ["dog", "cat", "cow", "car", "bus", "tree", "boat", "bird"]


def write_run(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    path.write_text("".join(f"{query} Q0 {image} 1 {score} x\n" for query, image, score in rows))
    return path


def qrels(path: Path, queries: int = 40) -> Path:
    path.write_text("".join(f"q{n} 0 right{n} 1\n" for n in range(queries)))
    return path


def album(place: Path) -> None:
    """Eight images whose captions letters can spell."""
    (place / "album").mkdir()
    for number, word in enumerate(WORDS):
        draw_scene(number, (96, 72)).save(place / "album" / f"{word}.png")
    rows = ["file_name,language,caption", *[f"{word}.png,en,one {word} on the beach" for word in WORDS]]
    (place / "captions.csv").write_text("\n".join(rows))
    definition = {
        "name": "album",
        "kind": "recall",
        "images": "album",
        "render": {"size": 64},
        "captions": {"model": "captions_file", "options": {"path": "captions.csv"}, "prompt": ["en/caption"]},
        "ambiguity": {"text_embedder": "char_ngrams"},
    }
    (place / "album.yaml").write_text(json.dumps(definition))


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
    told = json.loads(run("evaluate", "sets/small/v1", "--run", "mine", "--metrics", "hit@1, ap@r", "--json")[0])
    (result,) = told["results"]
    assert [figure["metric"] for figure in result["figures"]] == ["hit@1", "ap@r"]
    assert result["figures"][0]["value"] == 1 and result["system"]["name"] == "oracle"


@pytest.mark.thorough
def test_the_baselines_on_several_sets_as_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = tmp_path / "words.csv"
    words.write_text("file_name,text\nholiday/cat 1.jpg,'cat' asleep\n")
    one = publish_small_set(tmp_path, small_tables(graded=False), name="one")
    two = publish_small_set(tmp_path / "more", small_tables(), name="two")
    pages = evaluate_baselines({one.path: words, two.path: None})
    assert [page.parent.parent.parent.parent.name for page in pages] == ["one", "two"]
    assert all(page.is_file() for page in pages)
    shown = capsys.readouterr().out
    heading, rows = shown.partition("oracle")[0], shown
    assert "one" in heading and "two" in heading
    assert [name in rows for name in ("random", "oracle", "lexical", "chance")] == [True] * 4
    assert len(re.findall(r"1\.000 \[0\.\d+, 1\.000\]", rows)) == 2, "of four right queries no interval is a point"


@pytest.mark.parametrize("kind", ["clip", "chinese_clip"])
@pytest.mark.thorough
def test_a_model_from_disk_and_never_twice(run: Run, tmp_path: Path, kind: str) -> None:
    album(tmp_path)
    run("build", "recall", "album.yaml")
    model = save_dual_encoder(kind, tmp_path / "model")
    once = json.loads(run("evaluate", "album", "--model", model, "--json", "--no-page")[0])["results"][0]
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "datasets" / ".vectors").rglob("*.parquet")}
    assert len(kept) == 2, "images and texts"
    again = json.loads(run("evaluate", "album", "--model", model, "--json", "--no-page")[0])["results"][0]
    assert again == once
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "datasets" / ".vectors").rglob("*.parquet")}
    assert once["system"]["name"] == "model" and once["counts"]["search"]["results"] == 100
    out, _ = run("evaluate", "album", "--model", model, "--index", "hnsw", "--no-page", "--k", 10)
    assert "index hnsw misses 0.00% of the 10 exact nearest images" in out


def test_bare_files_by_trec_evals_own_figures(run: Run, tmp_path: Path, shared: Callable[[str], Path]) -> None:
    folder = shared("metrics_trec_eval")
    shutil.copy(folder / "results.test", tmp_path / "theirs.trec")
    told = json.loads(
        run("evaluate", "--qrels", folder / "qrels.test", "--run", "theirs.trec", "--json",
            "--metrics", "ap,p@r,rr,p@5,p@10,ndcg(gain=linear)")[0]
    )  # fmt: skip
    found = {figure["metric"]: f"{figure['value']:.4f}" for figure in told["results"][0]["figures"]}
    lines = [line.split() for line in (folder / "out.test.a").read_text().splitlines()]
    theirs = {cells[0]: cells[2] for cells in lines if len(cells) == 3 and cells[1] == "all"}
    names = {"ap": "map", "p@r": "Rprec", "rr": "recip_rank", "p@5": "P_5", "p@10": "P_10"}
    assert {ours: found[ours] for ours in names} == {ours: theirs[name] for ours, name in names.items()}
    assert found["ndcg(gain=linear)"] == theirs["ndcg"]
    assert told["results"][0]["folder"] is None, "bare files have no set that a result could lie beside"


@pytest.mark.parametrize(("way", "mean"), [("caption_to_image", 0.135873), ("image_to_caption", 0.312745)])
def test_what_coco_knows_of_eccvs_truth(
    run: Run, tmp_path: Path, shared: Callable[[str], Path], way: str, mean: float
) -> None:
    folder = shared("multi_positive_gt")
    truth = json.loads((folder / f"eccv_{way}.json").read_text())
    labels = json.loads((folder / f"original_{way}.json").read_text())
    (tmp_path / "eccv.qrels").write_text("".join(f"{q} 0 {image} 1\n" for q in truth for image in truth[q]))
    rows = [(q, str(image), -place) for q in truth for place, image in enumerate(labels[q])]
    write_run(tmp_path / "coco.trec", rows)
    found = json.loads(run("evaluate", "--qrels", "eccv.qrels", "--run", "coco.trec", "--metrics", "ap@r", "--json")[0])
    assert found["results"][0]["figures"][0]["value"] == pytest.approx(mean, abs=5e-7)


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
    told = json.loads(run(*words, "--direction", "both", "--json", "--no-page", "--metrics", "hit@1")[0])
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
    assert "--scores distance" in run(*words, code=1)[1]
    (result,) = json.loads(run(*words, "--scores", scores)[0])["results"]
    assert result["figures"][0]["value"] == (1.0 if scores == "distance" else 0.0)


def test_two_runs_are_compared_on_the_same_queries(run: Run, tmp_path: Path) -> None:
    qrels(tmp_path / "t.qrels")
    good = write_run(tmp_path / "good.trec", [(f"q{n}", f"right{n}", 1.0) for n in range(40)])
    half = [(f"q{n}", f"right{n}" if n % 2 else "wrong", 1.0) for n in range(40)]
    write_run(tmp_path / "half.trec", half)
    told = json.loads(run("compare", good, "half.trec", "--qrels", "t.qrels", "--metrics", "hit@1", "--json")[0])
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
        (["--run", "strange.trec"], "q99 (read run): is not a query of the qrels", 1),
        (["--run", "twice.trec"], "q1 (read run): image right1 is returned twice", 1),
        (["--run", "none.trec"], "none.trec", 1),
        (["--run", "run.xml"], "run.xml line 1 (read run file): has 1 fields", 1),
        (["--run", "good.trec", "--metrics", "ndgc@10"], "did you mean 'ndcg'?", 2),
        (["--run", "good.trec", "--metrics", "recall@10"], "has two meanings", 2),
        (["--baseline", "oracle", "--k", "5", "--metrics", "ndcg@10"], "is less than 10", 1),
        (["--model", "nowhere"], "needs images and texts", 1),
        (["--model", "nowhere", "--index", "lsh"], "must be one of its choices", 2),
    ],
)
def test_what_cannot_be_is_one_line(run: Run, tmp_path: Path, words: list[str], says: str, code: int) -> None:
    qrels(tmp_path / "t.qrels")
    write_run(tmp_path / "good.trec", [("q1", "right1", 1.0)])
    write_run(tmp_path / "nan.trec", [("q1", "right1", float("nan"))])
    write_run(tmp_path / "strange.trec", [("q99", "right1", 1.0)])
    write_run(tmp_path / "twice.trec", [("q1", "right1", 1.0), ("q1", "right1", 2.0)])
    (tmp_path / "run.xml").write_text("<run/>")
    out, err = run("evaluate", "--qrels", "t.qrels", *words, code=code)
    assert says in err.replace("\n", " ") and not out
    assert err.count("error") == 1


@pytest.mark.thorough
def test_pages_run_nothing_that_stands_in_queries(run: Run, tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    tables.queries.loc[tables.queries["query_id"] == query_id_of("dog"), "text"] = "<script>alert(1)</script>"
    publish_small_set(tmp_path, tables)
    run("evaluate", "small", "--out", "sets", "--baseline", "random")
    page = tmp_path / "sets" / "small" / "evaluations" / "v1" / "random" / "report.html"
    assert "<script>alert(1)" not in page.read_text("utf-8")
    csv = (page.parent / "per_query.csv").read_text("utf-8-sig")
    assert "'-1" in csv, "a cell that a spreadsheet would compute is escaped"


@pytest.mark.thorough
def test_the_command_says_something_at_once_and_explains_itself(tmp_path: Path) -> None:
    for name in ("evaluate", "compare"):
        done: Any = subprocess.run(
            [sys.executable, "-m", "querytruth", name, "--help"], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0 and f"Example: querytruth {name}" in " ".join(done.stdout.split())

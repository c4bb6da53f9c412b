"""A recall set by the command line: planned, built, offered to people, handed on."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images import draw_scene

Run = Callable[..., subprocess.CompletedProcess[str]]
CAPTIONS = {"a": "公园里有一只棕色的狗", "b": "一只棕色的狗，在公园里", "c": "湖边有一条船"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "images").mkdir()
    for number, name in enumerate(CAPTIONS):
        draw_scene(number).save(tmp_path / "images" / f"{name}.png")
    with (tmp_path / "captions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["file_name", "caption"], *[[f"{n}.png", text] for n, text in CAPTIONS.items()]])
    (tmp_path / "album.yaml").write_text(
        "name: album\nkind: recall\nimages: images\nrender: {size: 64}\n"
        "captions: {model: captions_file, options: {path: captions.csv}}\n"
        "ambiguity: {policy: review, text_embedder: char_ngrams}\nsizes: [2]\n"
    )

    def command(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "querytruth", *map(str, words)]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return command


@pytest.mark.slow
def test_planned_built_judged_by_a_person_and_checked(run: Run, tmp_path: Path) -> None:
    plan = json.loads(run("build", "recall", "album.yaml", "--plan", "--json").stdout)
    assert (plan["images"], plan["captions"], plan["model_calls"]) == (3, 3, 0)
    assert "3 images, 3 captions" in run("build", "recall", "album.yaml", "--plan").stdout
    built = json.loads(run("build", "recall", "album.yaml", "--json").stdout)
    assert all(
        (tmp_path / one["page"]).is_file() and "shown/v1.html" in one["page"] for one in (built, *built["smaller"])
    )
    assert built["published"] and [small["name"] for small in built["smaller"]] == ["album-2"]
    said = run("build", "recall", "album.yaml", "--offline").stdout
    assert "ambiguous: 2 of 3 captions (66.7%) before, 2 of 3 after review" in said and "album-2/v1 unchanged" in said
    assert "same content digest" in run("rebuild", "album", "--check").stdout
    assert "same content digest" in run("rebuild", "album-2", "--check").stdout
    run("show", "album", "--page", "album.html")
    assert CAPTIONS["a"] in (tmp_path / "album.html").read_text("utf-8")

    run("review", "export-csv", "album")
    path = tmp_path / "review" / "judgments.csv"
    rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    places = {name: place for place, name in enumerate(rows[0])}
    marked = [row for row in rows[1:] if not row[places["relevance"]]]
    assert len(marked) == 2, "the pairs that may be right come to people's eyes"
    for row in marked:
        row[places["decision"]] = "1"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    run("review", "import-csv", "album", path)
    run("apply", "album")
    counts = json.loads(run("show", "album", "--json").stdout)["counts"]
    assert counts["judgments"] == 5 and counts["by_judge"]["human"] == 2
    run("lint", "album")


@pytest.mark.slow
def test_what_cannot_be_is_one_line(run: Run, tmp_path: Path) -> None:
    assert run("init", "recall", "--images", "images").stdout.endswith("--plan\n")
    assert "unknown chat model" in run("build", "recall", "album.yaml", "--set", "captions.model=qwn_vl", code=1).stderr
    assert (
        "is not a known prompt"
        in run("build", "recall", "album.yaml", "--set", "captions.prompt=zh/poem", code=1).stderr
    )
    gallery = ["--set", "gallery=nowhere", "--set", "images=null", "--set", "render=null"]
    assert "no published version" in run("build", "recall", "album.yaml", *gallery, code=1).stderr
    (tmp_path / "captions.csv").write_text("file_name,caption\nother.png,a dog\n")
    failed = run("build", "recall", "album.yaml", code=1).stderr
    assert "got no reply to any of 3 questions (no_caption" in failed and failed.count("\n") <= 3

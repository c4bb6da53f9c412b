"""`querytruth notice` and `qt.notice`: what is printed, written and shown with the set."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import querytruth as qt
from builders.publication import BuiltTables, publish_built
from querytruth.audit.notice import PAGE_TEXTS, describe_reason, describe_sizes
from querytruth.audit.requests import NoticeRequest
from querytruth.audit.shortcuts import translate_kind
from querytruth.definitions import SetDefinition
from querytruth.errors import UsageError, UserError
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from tests.audit.test_shortcuts import draw_set, leak_captions
from tests.cli.conftest import Run
from tests.small_sets import publish_small_set, small_tables

MONTHS = ("2024-01", "2024-02", "2024-03", "2024-04")


def publish_album(folder: Path, count: int = 120) -> pd.DataFrame:
    """Images of four months, with a caption for each of the first three; the run finds none of the third month."""
    rng = np.random.default_rng(0)
    month = np.repeat(MONTHS, count // 4)
    images = pd.DataFrame({"image_id": [f"img_{row:020}" for row in range(count)]})
    images["file_name"] = [f"{one}/{row}.jpg" for row, one in enumerate(month)]
    images["taken_at"] = [f"{one}-02T10:00:00" for one in month]
    images["width"], images["height"] = rng.choice([640, 480], count), 500
    for name in ("path", "sha256", "latitude", "longitude", "duplicate_group", "source_url", "page_url", "licence"):
        images[name] = None
    asked = np.flatnonzero(month != MONTHS[3])
    queries = pd.DataFrame({"query_id": [f"q_{row:020}" for row in asked], "text": [f"Scene {row}." for row in asked]})
    queries = queries.assign(language="en", style="word", level=1, labels=None)
    qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": images["image_id"][asked].to_numpy()})
    qrels = qrels.assign(relevance=1, judged_by="detector", evidence=None).astype({"relevance": "int8"})
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    definition = SetDefinition(kind="precision", name="album", out=folder / "sets", lose_at_most=None)
    publish_built(definition, BuiltTables(Tables(queries, images, qrels), Ledger(), {"1": "right"}))
    others = rng.integers(0, 2 * count // 4, (len(asked), 5))
    rows = [
        (query, image, -rank)
        for query, own, row in zip(queries["query_id"], asked, others, strict=True)
        for rank, image in enumerate(dict.fromkeys([own, *row] if month[own] != MONTHS[2] else row))
    ]
    run = pd.DataFrame(rows, columns=["query_id", "row", "score"])
    run["image_id"] = images["image_id"].to_numpy()[run["row"]]
    return run[["query_id", "image_id", "score"]]


def test_a_lost_month_and_a_month_that_nobody_asks_about_are_found_and_shown(run: Run, tmp_path: Path) -> None:
    publish_album(tmp_path).to_csv("run.csv", index=False)
    out = run("notice", "album", "--run", "run.csv", "--draws", 20, "--out", "sets")[0]
    assert "would notice" in out and "month: 2024-03: 100% not found by their own queries, others 0%" in out
    assert "no query covers 30 images (25.0% of the gallery)" in out and "month 2024-04: 30 images" in out
    found = json.loads(Path("sets/album/notice/v1/notice.json").read_bytes())
    assert found["kinds"] == len(found["damages"]) and found["line"] in out and found["typing"] == []
    assert len(found["uncovered"]) == 30
    assert found["line"] in run("show", "album", "--out", "sets")[0] and found["line"] in qt.load("sets/album").card
    page = Path("sets/album/notice/v1/notice.html").read_text("utf-8")
    assert found["line"] in page and "month: 2024-03" in page and "month: 2024-04" in page
    run("notice", "album", "--run", "run.csv", "--draws", 20, "--out", "sets", "--to", "zh", "--page-language", "zh")
    page = Path("zh/notice.html").read_text("utf-8")
    assert "评测集能发现什么" in page and "月份：2024-03" in page and "missing" not in page
    Path("sets/album/notice/v1/notice.json").write_text("[]")
    assert "run `querytruth notice` again" in run.error("show", "album", "--out", "sets")


@pytest.mark.thorough
def test_vectors_are_damaged_and_grouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish_album(tmp_path)
    loaded = qt.load("sets/album")
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(120, 16))
    places = {"images": loaded.images["image_id"], "queries": loaded.queries["query_id"]}
    for name, ids in places.items():
        Path("v", name).mkdir(parents=True)
        noisy = vectors[: len(ids)] + rng.normal(0, 0.6, (len(ids), 16)) * (name == "queries")
        unit = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
        rows = pd.DataFrame({ids.name: ids, "vector": list(unit)})
        rows.to_parquet(f"v/{name}/part.parquet")
    found = qt.notice("sets/album", vectors="v", draws=20, to="found")
    damages = found["damages"].set_index("kind")
    assert damages.loc["vectors as int8", "reason"] in ("not_seen", "within_margin")
    assert damages.loc["half the dimensions", "loss"] > 0.05 and "coordinates too large for float16" in damages.index
    assert found["figure"] > 0.7 and found["page"].exists() and set(found["uncovered_parts"]["by"]) >= {"month"}


@pytest.mark.thorough
def test_a_system_is_asked_without_the_last_word_and_in_other_typing(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    assert "oracle: the set would notice" in run("notice", "small", "--out", "sets", "--draws", 10)[0]
    run("evaluate", "small", "--baseline", "lexical", "--out", "sets", "--no-page")
    assert "lexical: the set would notice" in run("notice", "small", "--out", "sets", "--draws", 10)[0]


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises((UserError, UsageError), match="exclude each other"):
        qt.notice("album", run="a", model="b")
    with pytest.raises((UserError, UsageError), match="metric"):
        qt.notice("album", run="a", metric="luck@10")


def test_words_of_results_in_both_languages() -> None:
    kind = {"reason": "too_few", "further": 1200, "loss": 0.02, "size": 0.05}
    assert describe_reason(kind, 0.01, "en").endswith("about 1,200 more queries.")
    assert describe_reason(kind | {"further": None}, 0.01, "zh") == PAGE_TEXTS["zh"]["too_few_alone"]
    sizes = {"smallest": 0.05, "low": 0.05, "high": None}
    assert describe_sizes(kind | sizes, "en") == "5% [5%, none]"
    assert describe_sizes({"size": 1.0, "reason": ""}, "zh") == "全部"
    assert translate_kind("folder: 2024/may", "zh") == "文件夹：2024/may"
    assert PAGE_TEXTS["en"].keys() == PAGE_TEXTS["zh"].keys()
    assert NoticeRequest(of="album").metric == "ndcg@10"


@pytest.mark.thorough
def test_evaluate_asks_again_in_other_typing(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    words = ("evaluate", "small", "--out", "sets", "--perturb", "--no-store")
    assert "the same queries in other spellings" in run(*words, "--baseline", "lexical")[0]
    shown = run.json(*words, "--baseline", "lexical")
    assert {row["kind"] for row in shown["typing"][0]} > {"upper case", "doubled blanks"}
    run_file = pd.DataFrame({"q": ["q"], "0": 0, "i": ["i"], "r": 1, "s": 1, "n": "x"})
    run_file.to_csv("r.trec", sep=" ", header=False, index=False)
    assert "needs a system that accepts new texts" in run.error(*words, "--run", "r.trec", "--max-unknown", 1)


@pytest.mark.thorough
def test_a_leak_is_in_the_table_in_the_files_and_on_the_card(run: Run, tmp_path: Path) -> None:
    tables = leak_captions(*draw_set(1))
    codes = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    tables.qrels["judged_by"], tables.qrels["evidence"] = "detector", None
    tables.qrels["relevance"] = tables.qrels["relevance"].astype("int8")
    for name, value in {"language": "en", "style": "word", "level": 1}.items():
        tables.queries[name] = value
    for name in ("path", "sha256", "taken_at", "latitude", "longitude", "duplicate_group"):
        tables.images[name] = None
    for name in ("source_url", "page_url", "licence"):
        tables.images[name] = None
    qrels = tables.qrels.sort_values(["query_id", "image_id"], ignore_index=True).astype(codes)
    built = BuiltTables(type(tables)(tables.queries, tables.images, qrels), Ledger(), {"1": "right"})
    definition = SetDefinition(kind="precision", name="leaky", out=tmp_path / "sets", lose_at_most=None)
    stored = set_files.read_set(publish_built(definition, built).path)
    out = run("notice", "leaky", "--out", "sets", "--to", "found", "--draws", 10)[0]
    assert "1 of 17 systems that ignore the images beat chance" in out and "  words in captions: nDCG" in out
    rows = json.loads(Path("found/notice.json").read_bytes())["shortcuts"]
    assert [one["system"] for one in rows if one["beats_chance"]] == [rows[0]["system"]] == ["words in captions"]
    assert rows[0]["low"] > rows[0]["random"] and rows[0]["p"] == 0.005
    assert set(rows[0]["examples"]) < set(tables.queries["text"])
    assert "ignores the images beats chance: words in captions" in (stored.path / "README.md").read_text("utf-8")
    page = Path("found/notice.html").read_text("utf-8")
    assert "1 of 17 systems that ignore the images beat chance" in page
    assert page.index("words in captions") < page.index("gallery position: first ones")
    run("notice", "leaky", "--out", "sets", "--to", "zh", "--page-language", "zh", "--draws", 10)
    page = Path("zh/notice.html").read_text("utf-8")
    assert "1 / 17 个不看图片的系统胜过随机" in page and "描述中的词" in page and "图库位置：最前的" in page
    assert not re.search("words in|ones", page)


@pytest.mark.thorough
def test_a_set_of_four_queries_measures_no_shortcut(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables())
    shown = run.json("notice", "small", "--out", "sets", "--to", "found", "--draws", 10)
    assert shown["shortcuts"] == [] and "Not measured" in Path("found/notice.html").read_text("utf-8")

"""`querytruth audit` as it is typed, on COCO's captions with ECCV Caption as the person who answers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

import querytruth as qt
from builders.publication import BuiltTables, publish_built, publish_decisions
from flows.definition_checks import render_starter
from flows.definition_loader import load_audit_definition
from querytruth.audit.definition import AuditDefinition
from querytruth.audit.notice import PAGE_TEXTS, describe_reason, describe_sizes
from querytruth.audit.requests import NoticeRequest
from querytruth.audit.shortcuts import translate_kind
from querytruth.definitions import SetDefinition
from querytruth.errors import UsageError, UserError
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from tests.audited_set import AuditedSet, make_audited_set, record
from tests.cli.conftest import Run
from tests.small_sets import publish_small_set, query_id_of, small_tables

BARE = "set: small\nruns: [tiny.trec]\ndepth: 4\nout: sets\n"


@pytest.fixture
def audited(tmp_path: Path, run: Run) -> AuditedSet:
    """A set without an audit; `run` works in its folder."""
    (tmp_path / "audit.yaml").write_text(BARE)
    return make_audited_set(tmp_path)


def test_the_starter_shows_every_key_with_its_default(tmp_path: Path) -> None:
    text = render_starter("audit", None, None, tmp_path)
    (tmp_path / "audit.yaml").write_text(text)
    found = load_audit_definition(tmp_path / "audit.yaml", [])
    runs = [tmp_path / "bm25.trec", tmp_path / "clip.trec"]
    assert found == AuditDefinition(set="my-queries", runs=runs)
    assert set(yaml.safe_load(text)) == set(AuditDefinition.model_fields) - {"out"}
    assert set(yaml.safe_load(text)["strata"]) == set(type(found.strata).model_fields)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: recall\n" + BARE, "has kind 'recall'.*querytruth init audit"),
        (BARE + "judgements: 20\n", "key 'judgements' is unknown.*judgments"),
        (BARE + "strata: {floors: 3}\n", r"key 'strata.floors' is unknown.*floor"),
        (BARE + "name: No Name\n", "key 'name'"),
        ("runs: [a]\n", "key 'set' is missing"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "audit.yaml").write_text(text)
    with pytest.raises(UserError, match=line) as caught:
        load_audit_definition(tmp_path / "audit.yaml", [])
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
def test_a_definition_draws_what_the_options_draw(run: Run, audited: AuditedSet) -> None:
    printed = run.json("audit", "start", "audit.yaml")
    options = ["small", "--run", audited.run, "--depth", 4, "--name", "audit", "--out", "sets"]
    assert run.json("audit", "start", *options) == printed
    other = run.json("audit", "start", "audit.yaml", "--set", "name=other", "--set", "seed=3")
    assert (other["name"], other["seed"]) == ("other", 3)
    assert "he file, or use --set" in run.error("audit", "plan", "audit.yaml", "--depth", 4, code=2)
    without = run.error("audit", "plan", "small", "--set", "depth=4", "--out", "sets", code=2)
    assert "need an audit definition" in without
    assert "querytruth audit plan new.yaml" in run("init", "audit", "--out", "new.yaml")[0]


@pytest.mark.thorough
def test_strata_people_and_judge_have_their_effect(run: Run, audited: AuditedSet) -> None:
    judge = f"judge={{model: replay, options: {{replies: {record(audited.run, wrong=1)}}}}}"
    planned = [
        run.json("audit", "plan", "audit.yaml", "--set", one, "--set", "judgments=20")
        for one in ("people=1", "people=2", "strata.judged_relevant=0.05", judge)
    ]
    assert planned[1]["hours"] > 1.5 * planned[0]["hours"] and planned[3]["judge"] == "seer"
    by_name = [{row["stratum"]: row["to_judge"] for row in one["strata"]} for one in planned]
    assert by_name[2] == by_name[0], "the floor of 15 holds"
    few = ["--set", "strata={floor: 2, judged_relevant: 0.05}", "--set", "judgments=20"]
    (row, *_) = run.json("audit", "plan", "audit.yaml", *few)["strata"]
    assert row == {"stratum": "judged_relevant", "pairs": 4, "to_judge": 2}


@pytest.mark.thorough
def test_pairs_wait_until_as_many_people_answered(run: Run, audited: AuditedSet) -> None:
    run("audit", "start", "audit.yaml", "--set", "people=2")
    audited.answer(16)
    audited.answer(10, "kim")
    printed = run("audit", "report", "small", "--out", "sets", "--no-page")[0]
    assert "16 of 16 pairs answered" in printed and "6 waiting for 2 people" in printed
    audited.answer(16, "bo")
    assert "wait for 2" not in run("audit", "report", "small", "--out", "sets", "--no-page")[0]


ASKED = (
    ["audit", "report", "small"],
    ["review", "import-csv", "small", "a.csv", "--audit", "audit"],
    ["review", "export-csv", "small", "--audit", "audit"],
)


@pytest.fixture
def drawn(tmp_path: Path, run: Run) -> AuditedSet:
    """A set with an audit of all its pairs, which nobody answered yet."""
    audited = make_audited_set(tmp_path)
    run("audit", "start", "small", "--run", audited.run, "--depth", 4, "--out", "sets")
    return audited


@pytest.mark.thorough
def test_a_version_that_changed_since_is_refused_by_all_that_need_it(run: Run, drawn: AuditedSet) -> None:
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", "--out", "sets")
    shutil.rmtree(drawn.path)
    for words in ASKED:
        error = run.error(*words, "--out", "sets")
        assert "small" in error and "Traceback" not in error, words
    publish_small_set(drawn.run.parent / "other", small_tables(graded=False))
    shutil.copytree(drawn.run.parent / "other" / "sets" / "small" / "v1", drawn.path)
    for words in ASKED:
        error = run.error(*words, "--out", "sets")
        assert "belongs to small/v1, and that version changed afterwards" in error, words


@pytest.mark.thorough
def test_a_sample_of_another_version_is_no_sample_of_this_audit(run: Run, drawn: AuditedSet) -> None:
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", "--out", "sets")
    drawn.answer(16)
    assert publish_decisions(drawn.path).version == 2
    lines = drawn.run.read_text().splitlines()
    later = drawn.run.with_name("later.trec")  # of v2, which has no query without a relevant image
    later.write_text("\n".join(line for line in lines if query_id_of("none") not in line) + "\n")
    again = ["audit", "start", "small", "--run", later, "--depth", 4, "--out", "sets"]
    assert "already exists for another version" in run.error(*again)
    run(*again, "--name", "second")
    error = run.error("review", "import-csv", "--audit", "second", "small", "a.csv", "--out", "sets")
    assert "is not the sample of audit second (set small/v1" in error and "export-csv small --audit second" in error


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_run_is_no_system(run: Run, drawn: AuditedSet, text: str) -> None:
    empty = drawn.run.with_name("empty.trec")
    empty.write_text(text)
    error = run.error("audit", "plan", "small", "--run", empty, "--depth", 4, "--out", "sets")
    assert "empty.trec" in error and "Traceback" not in error


def test_wrong_use_is_one_line(run: Run, drawn: AuditedSet) -> None:
    out, one = ["--out", "sets"], ["--run", drawn.run]
    assert "no system returns 500 results" in run.error("audit", "plan", "small", *one, "--depth", 500, *out)
    assert "the second system with the name tiny" in run.error("audit", "plan", "small", *one, *one, *out)
    assert "only 0 of 16 pairs have an answer" in run.error("audit", "report", "small", *out)


def test_a_run_of_another_set_is_refused(run: Run, drawn: AuditedSet) -> None:
    other = drawn.run.with_name("other.trec")
    other.write_text("q_elsewhere Q0 img_elsewhere 0 1 x\n")
    error = run.error("audit", "plan", "small", "--run", other, "--depth", 1, "--out", "sets")
    assert "1 of 1 results are not in small" in error and "give a run on small/v1" in error


def test_what_was_evaluated_is_audited_where_no_run_is_named(run: Run, tmp_path: Path) -> None:
    audited = make_audited_set(tmp_path)
    assert "evaluate a search on this version" in run.error("audit", "start", "small", "--out", "sets")
    run("evaluate", "small", "--run", audited.run, "--out", "sets", "--no-page")
    assert "Audit of small/v1" in run("audit", "plan", "small", "--depth", 4, "--out", "sets")[0]


def test_a_run_goes_by_the_name_that_evaluate_printed(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    run("evaluate", "small", "--baseline", "random", "--no-page", "--out", "sets")
    planned = run.json("audit", "plan", "small", "--run", "random", "--depth", 4, "--out", "sets")
    assert planned["systems"] == ["random"]
    error = run.error("audit", "plan", "small", "--run", "randon", "--depth", 4, "--out", "sets")
    assert "is neither a file nor a result of this version" in error and "random" in error


def _noise(seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((320, 240), Image.Resampling.BICUBIC)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A set whose images are four different ones."""
    folder = publish_small_set(tmp_path, small_tables(graded=False)).path
    for seed, name in enumerate(sorted(folder.glob("images/*/*.jpg"))):
        name.unlink()
        _noise(seed).save(name, "JPEG", quality=95)
    return folder


@pytest.mark.thorough
def test_a_set_against_itself_and_captions(run: Run, tmp_path: Path, album: Path) -> None:
    shown = run.json("overlap", "small", "--out", "sets", "--against", "small")
    assert shown["pairs"] == {"bytes": 4, "text": 4} and shown["leaked"] == 4
    assert shown["images_compared"] == 4
    next(album.glob("images/*/*.jpg")).unlink()
    out, _ = run("overlap", "small", "--out", "sets", "--against", "small")
    assert "3 of 4 images of the set were compared" in out
    assert "without a hash, so edited copies are not found: 1 whose file in the set could not be read" in out
    Path("captions.csv").write_text("id,caption\n1,A DOG wet\n2,a bird\n", "utf-8")
    out, _ = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--page-language", "zh")
    page = Path("sets/small/overlap/v1/pairs.html").read_text("utf-8")
    assert "1 / 4 条泄漏的查询" in page and "a dog, wet" in page and "row 1" in page
    assert "1 of 4 queries are leaked (0 by an image, 1 by the text)" in out and "not checked" in out
    for name, wrong in (("notes.md", "is not a folder, a set, a table"), ("notes.txt", "contains no readable image")):
        Path(name).write_text("x")
        assert wrong in run.error("overlap", "small", "--out", "sets", "--against", name)


@pytest.mark.thorough
def test_leaked_queries_are_a_slice_and_can_be_dropped(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    Path("captions.csv").write_text("caption\nA DOG wet\n", "utf-8")
    assert "overlap" in run.error("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap")
    shown = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--drop")[0]
    assert "1 queries marked to be dropped; next: querytruth apply small" in shown
    warning = "1 query is leaked: another collection (captions.csv) has the same image or text."
    assert f"warning: {warning}" in run("show", "small", "--out", "sets", "--page", "small.html")[0]
    assert warning in Path("small.html").read_text("utf-8")
    again = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--drop")[0]
    assert "0 queries marked" in again
    scored = run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap=leaked", "--json")[0]
    (result,) = json.loads(scored)["results"]
    assert {(row["slice"], row["value"], row["queries"]) for row in result["slices"]} == {("overlap", "leaked", 1)}
    both = "compare", "small", result["folder"], result["folder"], "--out", "sets"
    assert "3 queries" in run(*both, "--slice", "overlap=clean")[0]
    assert "choose from clean, leaked" in run.error(*both, "--slice", "overlap=other")
    run("apply", "small", "--out", "sets")
    assert "leaked" not in run("show", "small", "--out", "sets")[0], "of another version"
    assert "a dog, wet" not in set(pd.read_parquet("sets/small/v2/queries.parquet")["text"])
    wrong = run.error("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap")
    assert "run `querytruth overlap` on this version" in wrong


def test_a_damaged_result_is_refused(run: Run, album: Path) -> None:
    Path("captions.csv").write_text("caption\nA DOG wet\n", "utf-8")
    run("overlap", "small", "--out", "sets", "--against", "captions.csv")
    result = Path("sets/small/overlap/v1/overlap.json")
    for text in ("{}", result.read_text("utf-8").replace("{", '{"queries_by_overlap": {}, ', 1)):
        result.write_text(text, "utf-8")
        assert "is damaged" in run.error("evaluate", "small", "--out", "sets", "--baseline", "oracle")


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

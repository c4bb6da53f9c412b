"""A generated set from what people kept to a published version: the same whoever answers first, whenever it is stopped,
and without the web."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.generated.collect_stage import run_collect_stage
from builders.generated.definition import GeneratedDefinition
from builders.lint import lint_tables
from builders.publication import BuildResult
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.records import stable_hash
from querytruth.sets import set_files
from querytruth.sets.review_csv import ReviewTableOptions
from querytruth.sets.review_tables import ImportTolerances
from querytruth.sets.set_files import StoredSet, read_set, verify_set
from tests.backends.web.hostile_web import draw_image
from tests.flows.image_web import FakeImageWeb, allow_loopback, collect_with_decisions, make_definition
from tests.flows.scripted_judge import ScriptedJudge, answer_pairs, digests_of, list_judged
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.manifest_cuts import unrecorded_cuts

KINDS = ["", "gone", "", "twin", "", "", "page", "", "told_long", ""]  # 6 are good
RULES = {"first": 10, "keep": 5}
QUERIES = 4
Make = Callable[..., GeneratedDefinition]


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_loopback(monkeypatch)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A set of which people have chosen the queries."""
    folder = tmp_path_factory.mktemp("stages")
    return folder, collect_with_decisions(folder, "web", QUERIES)


@pytest.fixture
def make(stages: tuple[Path, list[str]], tmp_path: Path) -> Make:
    """The definition of such a set in a folder of its own."""

    def made(url: str, folder: str = "sets", **collect: Any) -> GeneratedDefinition:
        shutil.copytree(stages[0], tmp_path / folder, dirs_exist_ok=True)
        return make_definition(tmp_path / folder, url, **{**RULES, **collect})

    return made


def build(wanted: GeneratedDefinition, **run: Any) -> BuildResult:
    with active_run(BuildRun(**run)):
        return build_set(wanted)


@pytest.mark.thorough
def test_every_query_has_its_images_with_where_they_come_from(make: Make, stages: tuple[Path, list[str]]) -> None:
    with loopback(FakeImageWeb(KINDS)) as server:
        result = build(make(server.url, search="openverse"))
    stored = set_files.read_set(result.path)
    tables, manifest = stored.tables, stored.manifest
    assert list(set_files.verify_set(result.path)) == []
    assert unrecorded_cuts(manifest) == []
    assert sorted(tables.queries["text"]) == sorted(stages[1])
    assert set(tables.queries["style"]) == {"object"} and tables.queries["topic"].notna().all()
    assert set(tables.qrels["query_id"].value_counts()) == {5} and set(tables.qrels["judged_by"]) == {"web"}
    images = tables.images.set_index("image_id")
    assert len(images) == 5 * QUERIES and images["source_url"].str.startswith(f"{server.url}/good/").all()
    assert set(images["page_url"]) == {"http://pages.example/p"} and set(images["creator"]) == {"A. Photographer"}
    assert set(images["licence"]) == {"cc0-1.0", "cc-by-sa-4.0"} and set(images["width"]) == {160}
    assert all(caption.split()[0] in stages[1] and "<" not in caption for caption in images["caption"])
    assert (result.path / images["path"].iloc[0]).stat().st_size > 1000
    evidence = tables.qrels.set_index(["query_id", "image_id"])["evidence"]
    assert all(text.startswith("result ") and " of openverse: " in text for text in evidence)
    assert not [finding for finding in lint_tables(tables) if finding.severity == "error"]
    licences = manifest["notes"]["collection"]["licences"]
    assert manifest["notes"]["collection"]["choices_of_people"] > 0
    assert set(licences) == {"cc-by-sa", "cc0"} and sum(licences.values()) == len(images)
    assert [entry["role"] for entry in manifest["models"]] == ["topics", "objects", "novelty", "image search"]
    stages_told = [stage["stage"] for stage in manifest["funnel"]]
    assert stages_told[:5] == ["topics_replies", "topics_rows", "objects_replies", "objects_rows", "choice"]
    assert stages_told[5:] == ["search", "results", "batches", "queries", "images", "duplicates", "render"]
    assert manifest["funnel"][4]["rejected"]["dropped_by_person"] > 0
    card = (result.path / "README.md").read_text()
    assert "cc-by-sa-4.0" in card


@pytest.mark.thorough
def test_what_was_collected_is_not_asked_for_again_and_the_set_is_built_without_the_web(make: Make) -> None:
    with loopback(FakeImageWeb(KINDS)) as server:
        wanted = make(server.url)
        with active_run(BuildRun()):
            collected = run_collect_stage(wanted, "g.yaml")
        asked = len(server.asked)
        first = build(wanted)
        assert len(server.asked) == asked, "the build asks for nothing that was collected"
        assert build(wanted).is_new is False and len(server.asked) == asked
    assert collected.command == "querytruth build generated g.yaml" and collected.pending == 0
    offline = build(wanted, offline=True)
    assert not offline.is_new and offline.path == first.path
    again = rebuild_tables(first.path)
    assert (again.digest, again.inputs_changed) == (first.manifest["content_digest"], [])


@pytest.mark.thorough
def test_a_rebuild_says_which_input_is_another_and_never_asks_the_web(make: Make) -> None:
    with loopback(FakeImageWeb(KINDS)) as server:
        wanted = make(server.url)
        first = build(wanted)
        shutil.rmtree(wanted.out / "web" / "pages")
        asked = len(server.asked)
        with pytest.raises(UserError, match=r"no query has enough images .*not_fetched"):
            rebuild_tables(first.path)
        assert len(server.asked) == asked
        body = next(path for path in _bodies(wanted, build(wanted)) if path.stat().st_size > 1000)
        body.write_bytes(b"\xff\xd8\xff another")  # a body that is not what it was is as if it had never been
        again = rebuild_tables(first.path)
    assert again.inputs_changed == ["fetches: baidu"]


@pytest.mark.thorough
def test_a_build_follows_what_the_collection_was_allowed_to_overlook_and_only_of_that_table(make: Make) -> None:
    with loopback(FakeImageWeb(KINDS)) as server:
        wanted = make(server.url)
        calm = build(make(server.url, "calm"))
        table = wanted.out / "web" / "review" / "objects.csv"
        table.write_bytes(table.read_bytes().replace(b",people,", b",nobody,", 1))  # a cell that is not theirs
        for go_on in (lambda: build(wanted), lambda: run_collect_stage(wanted, "g.yaml"), lambda: plan_set(wanted)):
            with pytest.raises(UserError, match=r"row \d+, origin: .*Next: fix .*--allow-changed"):
                go_on()
        with active_run(BuildRun()):
            run_collect_stage(wanted, "g.yaml", ReviewTableOptions(ImportTolerances(changed=True)))
        built = build(wanted)
        assert plan_set(wanted)["queries"] == QUERIES
    assert built.manifest["content_digest"] == calm.manifest["content_digest"]
    again = rebuild_tables(built.path)
    assert (again.digest, again.inputs_changed) == (built.manifest["content_digest"], [])
    table.write_bytes(table.read_bytes().replace(b",people,", b",nobody,", 1))  # another file: nobody allowed that
    with pytest.raises(UserError, match="2 problems"):
        build(wanted)


def _bodies(wanted: GeneratedDefinition, result: BuildResult) -> list[Path]:
    images = set_files.read_set(result.path).tables.images
    folder = wanted.out / "web" / "pages" / "bodies"
    return [folder / sha256[:2] / sha256 for sha256 in images["sha256"]]


@pytest.mark.thorough
def test_a_plan_tells_what_would_be_asked_and_asks_nothing(make: Make) -> None:
    with loopback(FakeImageWeb(KINDS)) as server:
        wanted = make(server.url)
        plan = plan_set(wanted)
        assert not server.asked
        assert (plan["queries"], plan["complete"], plan["searches"]) == (QUERIES, 0, QUERIES)
        assert plan["images_at_most"] == QUERIES * 10 and plan["seconds_about"] > 0
        build(wanted)
        asked = len(server.asked)
        plan = plan_set(wanted)
        assert len(server.asked) == asked
    assert (plan["complete"], plan["searches"], plan["images_at_most"], plan["seconds_about"]) == (QUERIES, 0, 0, 0)


@pytest.mark.thorough
def test_a_full_disk_is_one_line_and_the_next_run_goes_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def full(handle: int) -> None:
        if "/pages/" in str(Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(28, "No space left on device")
        sync(handle)

    with loopback(FakeImageWeb(KINDS)) as server:
        wanted = make(server.url)
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            told = r"pages \(collect images\): cannot be written \(No space left on device\). Next: fix that, then"
            with pytest.raises(UserError, match=told):
                build(wanted)
        assert not list((wanted.out / "web").glob("v*"))
        assert build(wanted).manifest["counts"]["queries"] == QUERIES


@pytest.mark.thorough
def test_a_service_that_turns_us_away_stops_the_stage_which_can_go_on(make: Make) -> None:
    web, away = FakeImageWeb(KINDS), {"now": True}

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        is_second = asked.path.startswith("/acjson") and sum(a.path.startswith("/acjson") for a in server.asked) > 1
        return (
            CannedResponse({"antiFlag": 1, "message": "Forbid spider access"})
            if away["now"] and is_second
            else web(asked)
        )

    with loopback(answer) as server:
        wanted = make(server.url)
        with pytest.raises(UserError, match=r"baidu .*blocked us .*run the same command again later"):
            build(wanted)
        away["now"] = False
        assert build(wanted).manifest["counts"]["queries"] == QUERIES
        searches = Counter(asked.path for asked in server.asked if asked.path.startswith("/acjson"))
    assert sorted(searches.values()) == [1, 1, 1, 2]


def test_without_the_web_and_without_pages_it_says_so(make: Make) -> None:
    with pytest.raises(UserError, match=r"no query has enough images \(4 not_fetched\). Next: run without --offline"):
        build(make("http://127.0.0.1:9"), offline=True)


@pytest.mark.thorough
def test_the_table_says_what_became_of_every_query_and_runs_nothing(make: Make, stages: tuple[Path, list[str]]) -> None:
    with loopback(FakeImageWeb(KINDS, reported={stages[1][0]: 99})) as server, active_run(BuildRun()):
        result = run_collect_stage(make(server.url), "g.yaml")
    mark, *lines = result.file.read_text("utf-8-sig").splitlines()
    assert mark == "query_id,text,topic,reported,images,outcome,detail"
    outcomes = {cells[1]: (cells[3], cells[4], cells[5]) for cells in (line.split(",") for line in lines)}
    assert outcomes[stages[1][0]] == ("99", "0", "too_few_results")
    assert set(outcomes.values()) == {("99", "0", "too_few_results"), ("1500", "5", "kept")}
    summary = json.loads((result.file.with_name("collect.json")).read_text())
    assert summary["figures"]["queries"] == QUERIES - 1 and summary["stage"] == "collect"


@pytest.mark.thorough
def test_the_folder_search_needs_no_web(make: Make, tmp_path: Path, stages: tuple[Path, list[str]]) -> None:
    wanted = of_an_album(make, tmp_path, stages[1])
    result = build(wanted)
    images = set_files.read_set(result.path).tables.images
    assert result.manifest["counts"]["queries"] == QUERIES and len(images) == 5 * QUERIES
    assert images["source_url"].isna().all() and set(images["file_name"]) <= {f"{n}.jpg" for n in range(24)}
    assert not (wanted.out / "web" / "pages").exists()
    gone = next(stage for stage in result.manifest["funnel"] if stage["stage"] == "images")
    assert gone["quarantined"] == {"image_missing": 1}
    assert rebuild_tables(result.path).digest == result.manifest["content_digest"]


@pytest.mark.thorough
def test_a_host_that_is_busy_is_asked_again_only_where_a_query_waits_for_it(make: Make) -> None:
    with loopback(FakeImageWeb(["", "busy", "", "", "", "", ""])) as server:
        wanted = make(server.url, first=7)
        first = build(wanted)
        busy = sum("/busy/" in asked.path for asked in server.asked)
        assert busy and not build(wanted).is_new
        assert sum("/busy/" in asked.path for asked in server.asked) == busy
        with active_run(BuildRun()):
            run_collect_stage(wanted, "g.yaml")  # asked for by name, it tries what may come yet
        assert sum("/busy/" in asked.path for asked in server.asked) > busy
        more = make(server.url, first=7, keep=7)
        with pytest.raises(UserError, match="4 too_few_images"):
            build(more)
        web = FakeImageWeb(["", "busy", "", "", "", "", ""])
        server.answer = lambda asked: web.image("good", asked.path, "") if "/busy/" in asked.path else web(asked)
        assert build(more).manifest["counts"]["judgments"] == QUERIES * 7
    assert first.manifest["counts"]["judgments"] == QUERIES * 5


def of_an_album(make: Make, folder: Path, texts: list[str], out: str = "sets") -> GeneratedDefinition:
    """The set of a local album in which every query finds six images, and the first one a file that is gone."""
    rows = ["file_name,caption"]
    for number in range(6 * QUERIES):
        (folder / f"{number}.jpg").write_bytes(draw_image(number))
        rows.append(f"{number}.jpg,一张{texts[number % QUERIES]}的照片")
    rows += [f"gone.jpg,{texts[0]}"]
    (folder / "album.csv").write_text("\n".join(rows), "utf-8")
    wanted = make("http://127.0.0.1:9", out, min_results=1)
    album = {"search": "folder", "options": {"index": str(folder / "album.csv")}}
    return wanted.model_copy(update={"collect": wanted.collect.model_copy(update=album)})


JUDGED_QUERIES, KEEP = 20, 6


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GeneratedDefinition:
    """Twenty queries with six images each, of which the search is about three times in four right; all is fetched."""
    allow_loopback(monkeypatch)
    collect_with_decisions(tmp_path / "sets", "web", JUDGED_QUERIES)
    with loopback(FakeImageWeb([""] * KEEP)) as server:
        plain = make_definition(tmp_path / "sets", server.url, first=KEEP, keep=KEEP)
        with active_run(BuildRun()):
            build_set(plain)
    return plain


def fits(text: str, digest: str) -> bool:
    return stable_hash("truth", text, digest) % 4 > 0


def build_and_read(definition: GeneratedDefinition) -> tuple[BuildResult, StoredSet]:
    """A build that could not ask the web."""
    with active_run(BuildRun()):
        result = build_set(definition)
    return result, read_set(result.path)


def judge_with(definition: GeneratedDefinition, url: str) -> GeneratedDefinition:
    keys: dict[str, Any] = definition.model_dump() | {"judge": ScriptedJudge.keys(url)}
    return GeneratedDefinition.model_validate(keys)


@pytest.mark.thorough
def test_a_judge_takes_out_what_the_search_got_wrong_once_people_calibrate_it(found: GeneratedDefinition) -> None:
    with loopback(ScriptedJudge(fits)) as server:
        judged = judge_with(found, server.url)
        assert plan_set(judged)["judge_calls_at_most"] == JUDGED_QUERIES * KEEP
        first, unknown = build_and_read(judged)
        assert len(server.asked) == JUDGED_QUERIES * KEEP and not first.is_new, (
            "a judge that nobody checked changes nothing"
        )

        pairs = list_judged(unknown.tables, "web")
        texts, digests = texts_of(unknown), digests_of(unknown)
        answered = sorted(pairs, key=lambda pair: stable_hash("person", *pair))[:60]
        answer_pairs(unknown, answered, fits)
        done, sure = build_and_read(judged)
        assert len(server.asked) == JUDGED_QUERIES * KEEP, "no question is asked twice"
        assert not build_and_read(judged)[0].is_new
    notes, tables = done.manifest["notes"]["judge"], sure.tables
    assert notes["answers"] == 60 and notes["asked"] == JUDGED_QUERIES * KEEP == notes["merged"] + notes["waiting"]
    assert set(tables.qrels["judged_by"]) == {"human", "judge"}
    by_judge = list_judged(tables, "judge")
    before = np.mean([fits(texts[query], digests[image]) for query, image in pairs])
    after = np.mean([fits(texts[query], digests[image]) for query, image in by_judge])
    assert before < 0.85 < 0.95 < after, "the truth is what is right, no longer what was found"
    right = {pair for pair in pairs if fits(texts[pair[0]], digests[pair[1]])}
    kept = {*by_judge, *list_judged(tables, "human")}
    assert len(right & kept) > 0.85 * len(right)
    waiting = zip(tables.candidate_judgments["query_id"], tables.candidate_judgments["image_id"], strict=True)
    assert not kept & set(waiting) and (tables.candidate_judgments["score"] < 0.8).all()
    assert tables.candidate_judgments["evidence"].str.contains("result [1-6] of baidu", regex=True).all()
    assert not list(verify_set(done.path)) and not [one for one in lint_tables(tables) if one.severity == "error"]
    assert rebuild_tables(done.path).digest == done.manifest["content_digest"]
    assert "a judge or a person confirmed that it fits" in done.manifest["grades"]["1"]
    assert not any("nobody checked them" in one for one in done.manifest["known_limitations"])


def test_a_query_without_a_sure_image_is_quarantined_with_its_reason(found: GeneratedDefinition) -> None:
    plain = read_set(found.out / "web" / "v1")
    texts = texts_of(plain)
    unlucky = min(texts.values())

    def never(text: str, digest: str) -> bool:
        return fits(text, digest) and text != unlucky

    others = [pair for pair in list_judged(plain.tables, "web") if texts[pair[0]] != unlucky]
    answer_pairs(plain, others[:60], fits)
    with loopback(ScriptedJudge(never, hits=1.0, misses=0.0)) as server:
        done, sure = build_and_read(judge_with(found, server.url))
    (stage,) = [one for one in done.manifest["funnel"] if one["stage"] == "sure"]
    assert stage["quarantined"] == {"no_sure_image": 1} and unlucky not in set(sure.tables.queries["text"])
    assert unlucky not in set(sure.tables.candidate_judgments["query_id"].map(texts))


def texts_of(stored: StoredSet) -> dict[str, str]:
    return dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))

"""Deployments as prefect.yaml has them, on a real server and worker: fired by cron, waiting for people."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from querytruth.sets import set_files
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.version_difference import compare_versions
from tests.flows.bars_set import SMALL_ENCODERS, write_bars_set
from tests.flows.prefect_test_server import POOL, PrefectTestServer, run_prefect_server
from tests.flows.stub_generator import StubGenerator, answering
from tests.images import make_jpeg
from tests.loopback import loopback
from tests.small_sets import publish_small_set, query_id_of, small_tables
from tests.worlds import CAPTIONS, define_recall, draw_album, write_captions

NEW = "山坡上有两匹马"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectTestServer]:
    with run_prefect_server(tmp_path_factory.mktemp("world")) as made:
        made.start_server()
        made.prefect("work-pool", "create", POOL, "--type", "process")
        made.start_worker()
        yield made
    assert not made.children(), "a process was left behind"


def test_cron_publishes_says_unchanged_and_publishes_v2_when_an_image_came(world: PrefectTestServer) -> None:
    place = world.place / "cron"
    define_recall(place, out=str(world.place / "datasets"))
    world.deploy("flows.recall_set.recall_set", "monthly", "* * * * *", definition="cron/album.yaml")
    world.wait_for(lambda: len(world.finished_runs()) >= 1, 120)
    assert world.finished_runs()[0] == ("Published", "published album/v1: 5 images, 5 queries, 7 judgments")
    assert world.runs()[0]["name"].startswith("recall-set album 20")
    world.wait_for(lambda: len(world.finished_runs()) >= 2, 120)
    assert world.finished_runs()[1] == ("Unchanged", "unchanged: the content equals album/v1, nothing was published")
    sets = world.place / "datasets" / "album"
    assert [path.name for path in sets.glob("v*")] == ["v1"]

    draw_album(place / "album", [*CAPTIONS, "hill"])
    write_captions(place, {**CAPTIONS, "hill": NEW})
    world.wait_for(lambda: any(name == "Published" for name, _ in world.finished_runs()[2:]), 150)
    world.deploy("flows.recall_set.recall_set", "monthly", definition="cron/album.yaml")
    assert all(not list(set_files.verify_set(sets / version)) for version in ("v1", "v2"))
    change = compare_versions(set_files.read_set(sets / "v1").tables, set_files.read_set(sets / "v2").tables)
    assert [row["text"] for row in change.queries_added] == [NEW] and len(change.images_added) == 1
    assert not change.queries_removed and not change.images_removed and not change.judgments_removed
    shown = world.artifacts()
    assert {"album-funnel", "album-images", "album-card", "album-change", "album-page"} <= set(shown)
    assert f"- {NEW}" in shown["album-change"]["data"] and "| images added | 1 |" in shown["album-change"]["data"]
    assert shown["album-images"]["data"].startswith("data:image/jpeg;base64,")
    assert (sets / "shown" / "v2.html").as_uri() in shown["album-page"]["data"]
    assert all("街边有一辆公交车" in (sets / "shown" / f"{version}.html").read_text() for version in ("v1", "v2"))


def test_a_build_that_would_lose_much_waits_for_a_person_and_publishes_on_their_word(world: PrefectTestServer) -> None:
    define_recall(world.place / "less", out=str(world.place / "datasets"), name="shrinking")
    world.deploy("flows.recall_set.recall_set", "monthly", definition="less/album.yaml")
    assert world.wait_until(world.start_run("recall-set/monthly"), "Published", "Failed").startswith("published")
    write_captions(world.place / "less", {"beach": CAPTIONS["beach"]})
    waiting = world.start_run("recall-set/monthly")
    world.wait_for_question(waiting, "would lose 4 of its 5 queries (80%), more than lose_at_most (20%) allows")
    world.answer(waiting, publish=False)
    assert "would lose 4 of its 5 queries" in world.wait_until(waiting, "Failed", "Published", "Crashed")
    sets = world.place / "datasets" / "shrinking"
    assert [path.name for path in sets.glob("v*")] == ["v1"]
    meant = world.start_run("recall-set/monthly")
    world.wait_for_question(meant, "would lose 4 of its 5 queries")
    world.answer(meant, publish=True)
    assert world.wait_until(meant, "Failed", "Published", "Crashed").startswith("published shrinking/v2: 5 images, 1")


BROKEN = """
from prefect import flow
from prefect.client.schemas.objects import State
from flows.prefect_runs.flow_runner import capture_final_state

@flow(name="broken", persist_result=False)
def broken(build: dict) -> State:
    return capture_final_state(lambda: 1 / 0, "broken", None)
"""


def test_a_fault_of_the_user_s_is_one_line_of_the_log_and_a_defect_a_traceback(world: PrefectTestServer) -> None:
    define_recall(world.place / "faulty", out=str(world.place / "datasets"), name="faulty")
    (world.place / "faulty/captions.csv").write_text("file_name,words\nbeach.png,三只狗\n", "utf-8")
    world.deploy("flows.recall_set.recall_set", "monthly", called="faulty", definition="faulty/album.yaml")
    faulty = world.start_run("recall-set/faulty")
    line = world.wait_until(faulty, "Failed", "Published", "Crashed")
    assert "captions.csv (read captions): has only the columns file_name, words. Next: give an image column" in line
    assert world.call(f"flow_runs/{faulty}")["state"]["type"] == "FAILED"
    logged = world.wait_for(lambda: [text for text in _log(world, faulty) if text.startswith(str(world.place))], 30)
    assert logged == [line] and not [text for text in _log(world, faulty) if "\n" in text]

    (world.place / "broken.py").write_text(BROKEN)
    world.prefect("--no-prompt", "deploy", "broken.py:broken", "--name", "broken", "--pool", POOL)
    broken = world.start_run("broken/broken")
    assert "ZeroDivisionError" in world.wait_until(broken, "Failed", "Completed", "Crashed"), world.logs()
    world.wait_for(lambda: [text for text in _log(world, broken) if 'broken.py", line 8, in <lambda>' in text], 30)
    printed = "".join(path.read_text("utf-8", "replace") for path in world.place.glob("worker*.log"))
    assert "Traceback" not in printed.partition("for flow 'broken'")[0] and "Traceback" in printed
    assert "NoneType: None" not in printed


def _log(world: PrefectTestServer, run: str) -> list[str]:
    """What the server keeps of a run's log, its tasks' lines with it."""
    wanted = {"flow_run_id": {"any_": [run]}}
    return [entry["message"] for entry in world.call("logs/filter", {"logs": wanted, "sort": "TIMESTAMP_ASC"})]


def test_a_generated_set_waits_for_people_twice_and_is_published(world: PrefectTestServer) -> None:
    with loopback(answering(StubGenerator())) as endpoint:
        _write_generated(world.place, endpoint.url)
        world.deploy("flows.generated_set.generated_set", "with-people", definition="things.yaml")
        run = world.start_run("generated-set/with-people")
        tables = world.place / "datasets" / "things" / "review"
        said = world.wait_for_question(run, "**topics** wait for people: ")
        assert str(tables / "topics.csv") in said and len(endpoint.asked) == 8
        table = (tables / "topics.csv").read_bytes()
        (tables / "topics.csv").write_bytes(table.replace(b"topic,", b"topick,", 1))  # a damaged heading
        world.answer(run)
        world.wait_for_question(run, "Not accepted yet: ")
        (tables / "topics.csv").write_bytes(table)
        assert len(endpoint.asked) == 8, "topics are not asked again"
        world.answer(run)
        world.wait_for_question(run, "**objects** wait for people: ")
        _collect_from_here(world.place, tables / "objects.csv")
        world.answer(run)
        assert world.wait_until(run, "Published", "Failed", "Crashed").startswith("published things/v1: ")


def test_own_queries_wait_for_people_and_their_judgments_are_the_next_version(world: PrefectTestServer) -> None:
    photos = world.place / "own"
    photos.mkdir()
    for number in range(3):
        (photos / f"p{number}.jpg").write_bytes(make_jpeg((80 * number, 200, 90), (100, 80)))
    (world.place / "log.csv").write_text("query,count\na red ball,5\nmy boat,1\n", "utf-8")
    written = {"kind": "queries", "name": "asked", "queries": "log.csv", "images": "own", "render": {"size": 64}}
    (world.place / "asked.yaml").write_text(yaml.safe_dump(written), "utf-8")
    world.deploy("flows.queries_set.queries_set", "with-people", definition="asked.yaml")
    run = world.start_run("queries-set/with-people")
    said = world.wait_for_question(run, "**asked** waits for judgments")
    assert "querytruth review asked" in said
    stored = set_files.read_set(world.place / "datasets" / "asked" / "v1")
    query = stored.tables.queries.set_index("text").loc["a red ball", "query_id"]
    pair = {"query_id": query, "text": "a red ball", "image_id": stored.tables.images["image_id"].iloc[0]}
    DecisionLog(stored.path.parent, QueryDecision).append([QueryDecision(**pair, decision="grade", relevance=1)])
    world.answer(run)
    assert world.wait_until(run, "Published", "Failed", "Crashed").startswith("published asked/v2: ")


def _write_generated(place: Path, url: str) -> None:
    options = {"base_url": url, "name": "stub", "pause": 0.001, "concurrency": 4}
    keys: dict[str, Any] = {
        "name": "things",
        "kind": "generated",
        "topics": {"model": "openai_compatible", "options": options, "rounds": 8},
        "objects": {"embedder": "char_ngrams", "rounds": 2},
        "collect": {"search": "folder", "min_results": 0, "first": 1, "keep": 1, "min_side": 16},
        "render": {"size": 64},
    }
    keys["collect"]["options"] = {"index": str(place / "pictures.csv"), "images": str(place / "images")}
    (place / "things.yaml").write_text(yaml.safe_dump(keys), "utf-8")


def _collect_from_here(place: Path, table: Path) -> None:
    """Images for the first three objects of the table."""
    things = [row["text"] for row in csv.DictReader(table.read_text("utf-8-sig").splitlines())][:3]
    draw_album(place / "images", ["a", "b", "c"])
    rows = [f"{name}.png,{text}" for name, text in zip("abc", things, strict=True)]
    (place / "pictures.csv").write_text("\n".join(["file_name,caption", *rows]), "utf-8")


def test_files_of_others_are_a_set_and_again_where_they_changed(world: PrefectTestServer) -> None:
    folder = world.place / "theirs"
    folder.mkdir()
    (folder / "queries.tsv").write_text("q1\ta dog\nq2\ta boat\n")
    (folder / "images.txt").write_text("d1\nd2\n")
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    deployed = {"format": "trec", "source": "theirs", "to": "datasets/theirs"}
    world.deploy("flows.prefect_runs.import_flow.import_set", "on-demand", **deployed)
    ends = ("Published", "Unchanged", "Failed", "Crashed")
    for state, said in (("Published", "published theirs/v1: 2 images, 2 queries, 2 judgments"), ("Unchanged", "")):
        run = world.start_run("import/on-demand")
        assert world.wait_until(run, *ends).startswith(said or "unchanged: the content equals theirs/v1")
        assert world.state(run)[0] == state


def test_what_people_decided_is_the_next_version(world: PrefectTestServer) -> None:
    stored = publish_small_set(world.place, small_tables(), name="decided")
    query = query_id_of("dog")
    text = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))[query]
    DecisionLog(stored.path.parent, QueryDecision).append([QueryDecision(query, text, "drop")])
    world.deploy("flows.prefect_runs.apply_flow.apply", "nightly", of="decided", out="sets")
    run = world.start_run("apply/nightly")
    assert world.wait_until(run, "Published", "Unchanged", "Failed", "Crashed").startswith("published decided/v2")
    assert query not in set(set_files.read_set(stored.path.parent / "v2").tables.queries["query_id"])
    run = world.start_run("apply/nightly")
    assert world.wait_until(run, "Published", "Unchanged", "Failed", "Crashed").startswith(
        "unchanged: the content equals decided/v2"
    )


def test_a_training_leaves_its_report_and_is_done_once(world: PrefectTestServer) -> None:
    (world.place / "bars").mkdir()
    write_bars_set(world.place / "bars")
    keys = {
        "kind": "training",
        "name": "bars-model",
        "set": "bars/sets/bars",
        "out": "models",
        "size": 32,
        **SMALL_ENCODERS,
    }
    keys |= {"split": {"validation": 8, "test": 12}, "steps": {"batch": 8, "rate": 0.01, "stages": [], "epochs": 1}}
    (world.place / "training.yaml").write_text(yaml.safe_dump(keys), "utf-8")
    world.deploy("flows.prefect_runs.train_flow.train", "on-demand", definition="training.yaml")
    for state in ("Trained", "Unchanged"):
        run = world.start_run("train/on-demand")
        message = world.wait_until(run, "Trained", "Unchanged", "Failed", "Crashed", seconds=240)
        assert message.startswith("models/bars-model: hit@1 ") and ", by chance 0.083" in message
        assert world.state(run)[0] == state
    assert (world.place / "models/bars-model/report.md").read_text() == world.artifacts()["bars-model-training"]["data"]

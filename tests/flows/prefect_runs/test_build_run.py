"""What a run under Prefect is given, what is tried again, and what it says: told without a server."""

import errno
import io
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from PIL import Image
from prefect.client.schemas.objects import State
from prefect.flows import load_flow_from_entrypoint

from builders.publication import BuildResult
from builders.recall.definition import RecallDefinition
from flows import set_kind
from flows.prefect_runs import artifacts as build_artifacts
from flows.prefect_runs.artifacts import artifact_key, render_change_note
from flows.prefect_runs.build_run import is_transient
from flows.prefect_runs.evaluate_flow import EvaluationParameters
from flows.prefect_runs.flow_runner import capture_final_state, log_user_errors_in_one_line
from flows.prefect_runs.one_off_run import run_flow
from flows.requests import GeneratedBuild, RecallBuild
from flows.set_kind import SetKind
from querytruth.backends import steps
from querytruth.backends.images.rendering import make_contact_sheet
from querytruth.backends.steps import (
    Advance,
    BuildRun,
    SilentReporter,
    active_run,
    cluster_hosts,
    map_parts,
    use_cluster,
)
from querytruth.errors import BudgetSpentError, UserError
from querytruth.sets.review_csv import REVIEW_CSV_STAGE, ReviewTableOptions
from querytruth.sets.version_difference import VersionDifference
from tests.flows.prefect_test_server import prefect_environment
from tests.flows.stub_generator import Listener
from tests.images import encode_image

ROOT = Path(__file__).parents[3]
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda one: f"{one['entrypoint']} {one['name']}")
def test_every_deployment_names_a_flow_that_takes_its_parameters(deployment: dict[str, Any]) -> None:
    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    (given,) = flow.validate_parameters(deployment["parameters"]).values()
    assert given.workers == 2 and deployment["concurrency_limit"]["limit"] == 1
    assert deployment["work_pool"]["name"] == "querytruth" and "querytruth" in deployment["tags"]
    assert all(schedule["timezone"] == "Asia/Shanghai" for schedule in deployment.get("schedules", []))


def test_no_two_deployments_bear_one_name() -> None:
    named = [(one["entrypoint"], one["name"]) for one in DEPLOYMENTS]
    assert len(set(named)) == len(named)


def test_the_form_asks_for_a_file_and_simple_values() -> None:
    for model in (GeneratedBuild, EvaluationParameters):
        form = model.model_json_schema()["properties"]
        assert form[next(iter(form))]["type"] == "string", "what it is about comes first"
        assert "$ref" not in json.dumps(form) and all(field["description"] for field in form.values())
    assert next(iter(GeneratedBuild.model_fields)) == "definition"


def test_a_run_reads_the_file_anew_and_its_own_word_on_losses_counts_first(tmp_path: Path) -> None:
    file = tmp_path / "album.yaml"
    file.write_text("name: album\nkind: recall\nimages: images\n")
    build = RecallBuild(definition=file, overrides=["select.count=7"])
    read = build.load_definition()
    assert isinstance(read, RecallDefinition) and read.select.count == 7 and build.label == "album"
    assert read.images == str(tmp_path / "images") and read.lose_at_most == 0.2
    file.write_text("name: album\nkind: recall\nimages: images\nlose_at_most: 0.5\n")
    assert build.load_definition().lose_at_most == 0.5
    file.write_text("name: album\nkind: recall\nimages: images\nlose_at_most: null\n")
    assert build.load_definition().lose_at_most is None
    assert RecallBuild(definition=file, lose_at_most=0.1).load_definition().lose_at_most == 0.1
    assert RecallBuild(definition=read).load_definition() is read


def test_only_what_may_pass_by_itself_is_tried_again() -> None:
    def from_(cause: BaseException) -> UserError:
        try:
            try:
                raise cause
            except BaseException:
                raise UserError("scan", "x", "failed", "look") from None
        except UserError as error:
            return error

    passing = [ConnectionResetError(), TimeoutError(), OSError(errno.ESTALE, ""), OSError(errno.EIO, "")]
    lasting = [OSError(errno.ENOSPC, ""), FileNotFoundError(), ValueError(), UserError("a", "b", "c", "d")]
    assert all(is_transient(error) and is_transient(from_(error)) for error in passing)
    assert not any(is_transient(error) or is_transient(from_(error)) for error in lasting)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["definition"], "must have the form key=value"),
        (["workers=4"], "'definition' is missing"),
        (["defnition=x.yaml"], "did you mean 'definition'"),
        (["definition=x.yaml", "workers=0"], "greater than or equal to 1"),
    ],
)
def test_a_wrong_parameter_is_one_line(words: list[str], says: str) -> None:
    flow = load_flow_from_entrypoint("flows.recall_set.recall_set", use_placeholder_flow=False)
    with pytest.raises(UserError, match=says):
        run_flow(flow, words)


def test_a_flow_file_gives_its_flow_and_nothing_else() -> None:
    from flows import recall_set as module

    assert module.recall_set.name == "recall-set"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no_such_flow"):
        _ = module.no_such_flow  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_a_flow_file_s_help_shows_an_example_and_starts_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "flows.recall_set", "--help"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Example: python -m flows.recall_set -p definition=" in done.stdout
    assert not (tmp_path / "home").exists()


def test_a_change_note_counts_lists_and_lets_no_query_speak_for_itself() -> None:
    rows = [{"text": f"<img src=x> | [a](http://b) *{n}*"} for n in range(12)]
    note = render_change_note(VersionDifference(queries_added=rows, images_added=["img_1"]), "set/v1", "set/v2")
    assert "| queries added | 12 |" in note and "| images added | 1 |" in note and "queries removed" not in note
    assert "The galleries differ: figures are not comparable." in note and "… and 2 more" in note
    assert r"- \<img src=x\> \| \[a\]\(http://b\) \*0\*" in note


def test_a_contact_sheet_holds_eight_images_in_a_row() -> None:
    def small(colour: str) -> bytes:
        return encode_image(Image.new("RGB", (40, 30), colour), "JPEG")

    sheet = Image.open(io.BytesIO(make_contact_sheet([small("red")] * 8 + [small("blue")], 40)))
    assert sheet.size == (8 * 44 + 4, 2 * 44 + 4)
    assert sheet.getpixel((24, 24))[0] > 200 and sheet.getpixel((24, 68))[2] > 200  # type: ignore[index]
    assert Image.open(io.BytesIO(make_contact_sheet([small("red")], 40))).size == (48, 48)


def test_a_page_is_linked_and_one_that_cannot_be_written_is_said_and_costs_the_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked, said = [], Listener()
    result = BuildResult(tmp_path / "album" / "v2", 2, True, {"name": "My album"}, [])
    kind = SetKind(name="album", summary="", build_tables=lambda _: None, render_page=str)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(set_kind.set_files, "read_set", lambda path: f"about {path.name}")
    monkeypatch.setattr(
        build_artifacts.artifacts, "create_link_artifact", lambda link, text, key, about: linked.append((link, key))
    )
    page = tmp_path / "album" / "shown" / "v2.html"
    with active_run(BuildRun(said)):
        assert kind.write_version_page(result).page == page and page.read_text() == "about v2"
        page.unlink()
        page.mkdir()
        assert kind.write_version_page(result).page is None
    build_artifacts.create_page_link(page, "My album", "My album/v2")
    assert linked == [(page.as_uri(), "my-album-page")]
    (line,) = said.lines
    assert line.startswith(f"{page} (write page): cannot be written (Is a directory). Next: fix that")


def test_an_artifact_s_key_is_of_letters_digits_and_dashes() -> None:
    assert artifact_key("My_Set.v2", "scan images") == "my-set-v2-scan-images"


def test_a_spent_budget_is_a_state_of_its_own() -> None:
    def work() -> State[Any]:
        raise BudgetSpentError("ask chat model", "m", "the budget of 5 calls is spent", "run it again")

    state = capture_final_state(work, "album", None)
    assert (state.name, state.is_failed()) == ("BudgetSpent", True)
    assert str(state.message).endswith("the budget of 5 calls is spent. Next: run it again")


STORY = """
import json, time
from prefect import flow
from querytruth.errors import UserError
from flows.prefect_runs import build_run
from flows.prefect_runs.flow_runner import use_part_threads
from flows.prefect_runs.build_run import PrefectBuildRun
from querytruth.backends.steps import active_run, map_parts, step

build_run._FIRST_WAIT = 0.1
tried = {"flaky": 0, "bad": 0}

def flaky(part, advance):
    tried["flaky"] += 1
    if tried["flaky"] == 1:
        raise ConnectionResetError("hung up")
    advance(1)
    return part

def bad(part, advance):
    tried["bad"] += 1
    raise UserError("read", part, "is no image", "take it away")

@step("wait")
def wait():
    time.sleep(20)

@flow(persist_result=False)
def story():
    told = {}
    with active_run(PrefectBuildRun(workers=2)), use_part_threads(2):
        told["flaky"] = map_parts("flaky", flaky, ["a"], 1, "parts")
        try:
            map_parts("bad", bad, ["b"], 1, "parts")
        except UserError as error:
            told["bad"] = str(error)
    start = time.monotonic()
    with active_run(PrefectBuildRun(deadline=time.monotonic() + 1)), use_part_threads(2):
        try:
            wait()
        except TimeoutError:
            told["stopped after"] = time.monotonic() - start
    print("TOLD", json.dumps(told | {"tried": tried}))

story()
"""


@pytest.mark.slow
def test_a_transient_fault_is_tried_again_bad_input_is_not_and_a_run_ends_in_time(tmp_path: Path) -> None:
    (tmp_path / "story.py").write_text(STORY)
    words = [sys.executable, str(tmp_path / "story.py")]
    environment = prefect_environment(tmp_path / "home", PYTHONPATH=str(Path(__file__).parents[3]))
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
    told = json.loads(line.removeprefix("TOLD"))
    assert told["flaky"] == ["a"] and told["tried"] == {"flaky": 2, "bad": 1}
    assert told["bad"] == "b (read): is no image. Next: take it away"
    assert 1 <= told["stopped after"] < 10
    assert "Traceback" not in done.stderr.partition("hung up")[0], "what a user can mend is no traceback"


FAULT = UserError("read captions", "a.csv", "has no captions", "write some")


def raising(error: Exception) -> Callable[[], State[Any]]:
    def work() -> State[Any]:
        time.sleep(0.01)
        raise error

    return work


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
@pytest.mark.parametrize(
    ("error", "begins", "holds"),
    [
        (FAULT, "a.csv (read captions): has no captions. Next: write some", ""),
        (ZeroDivisionError("by 0"), "it ended: 1\n", "ZeroDivisionError: by 0"),
        (None, "it ended: 1", ""),
    ],
)
def test_a_fault_is_one_line_of_the_log_and_a_defect_keeps_its_traceback(
    name: str, error: Exception | None, begins: str, holds: str
) -> None:
    for _ in range(2):
        log_user_errors_in_one_line()
    logger = logging.getLogger(name)
    told = (type(error), error, None) if error else (None, None, None)
    record = logger.makeRecord(name, logging.ERROR, __file__, 1, "it ended: %s", (1,), told)
    assert logger.filter(record)
    said = logging.Formatter().format(record)
    assert said.startswith(begins) and holds in said and (holds or said == begins)
    assert [type(one).__name__ for one in logger.filters].count("_UserErrorFilter") == 1


def test_a_fault_is_a_failed_state_that_bears_it_and_a_defect_is_raised() -> None:
    state = capture_final_state(raising(FAULT), "captions", None)
    assert (state.name, state.message, state.data) == ("Failed", str(FAULT), FAULT)
    with pytest.raises(ZeroDivisionError):
        capture_final_state(raising(ZeroDivisionError()), "captions", 24)


def test_a_run_whose_time_is_over_is_stopped_and_one_that_was_not_answered_in_time_is_not() -> None:
    state = capture_final_state(raising(TimeoutError()), "captions", 1e-6)
    assert (state.name, state.type.value) == ("Stopped", "FAILED")
    assert state.message == "stopped after 1e-06 hours; the next run resumes"
    assert str(state.data) == "captions (run): stopped after 1e-06 hours. Next: run it again to resume"
    for hours in (None, 24):
        with pytest.raises(TimeoutError, match="no answer"):
            capture_final_state(raising(TimeoutError("no answer")), "captions", hours)


class CountingReporter(SilentReporter):
    def __init__(self) -> None:
        self.units = 0

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        def advance(count: int) -> None:
            self.units += count

        yield advance


def square(part: int, advance: Advance) -> tuple[int, int]:
    advance(part)
    return part * part, os.getpid()


def refuse(part: str, advance: Advance) -> None:
    try:
        raise ConnectionResetError("hung up")
    except OSError as error:
        raise UserError("read images", part, "cannot be read", "take it away") from error


def break_down(part: str, advance: Advance) -> None:
    raise ZeroDivisionError(part)


def die_once(died: Path, part: str, advance: Advance) -> str:
    if not died.exists():
        died.touch()
        os._exit(9)
    return part


def die(part: str, advance: Advance) -> None:
    os._exit(9)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    pytest.importorskip("distributed")
    with use_cluster("dask", 2) as started:
        assert started is not None
        yield started


@pytest.mark.thorough
def test_parts_are_done_by_other_processes_and_come_back_in_order(cluster: Executor) -> None:
    reporter = CountingReporter()
    with active_run(BuildRun(reporter, cluster=cluster)):
        results = map_parts("square", square, list(range(20)), 190, "numbers")
    assert [result for result, _ in results] == [n * n for n in range(20)]
    assert os.getpid() not in {process for _, process in results}
    assert reporter.units == sum(range(20))


@pytest.mark.thorough
def test_an_error_for_people_comes_back_with_the_fault_behind_it(cluster: Executor) -> None:
    with active_run(BuildRun(cluster=cluster)), pytest.raises(UserError) as refused:
        map_parts("read", refuse, ["a.jpg"], 1, "images")
    assert str(refused.value) == "a.jpg (read images): cannot be read. Next: take it away"
    assert is_transient(refused.value), "so that a flow tries again"
    with active_run(BuildRun(cluster=cluster)), pytest.raises(ZeroDivisionError, match=r"b\.jpg"):
        map_parts("read", break_down, ["b.jpg"], 1, "images")


@pytest.mark.thorough
def test_a_part_whose_worker_dies_is_done_again(cluster: Executor, tmp_path: Path) -> None:
    with active_run(BuildRun(cluster=cluster)):
        assert map_parts("read", partial(die_once, tmp_path / "died"), ["a", "b"], 2, "images") == ["a", "b"]
    assert (tmp_path / "died").exists()


@pytest.mark.thorough
def test_a_part_that_kills_every_worker_is_one_line(cluster: Executor) -> None:
    with active_run(BuildRun(cluster=cluster)), pytest.raises(UserError, match="lost the workers of a part") as lost:
        map_parts("read", die, ["a"], 1, "images")
    assert "\n" not in str(lost.value) and "dask" in str(lost.value)


def test_threads_are_no_cluster() -> None:
    with use_cluster("threads", 2) as cluster:
        assert cluster is None


@pytest.mark.parametrize(
    ("runner", "says"),
    [("dusk", "did you mean 'dask'"), ("threads:tcp://head", "unknown runner"), ("", "unknown runner")],
)
def test_an_unknown_runner_is_refused_and_the_nearest_is_named(runner: str, says: str) -> None:
    with pytest.raises(UserError, match=says), use_cluster(runner, 2):
        pass


def test_a_missing_library_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"is not installed.*querytruth\[dask\]"), use_cluster("dask", 2):
        pass


@pytest.mark.thorough
def test_a_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(steps, "_START_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UserError, match="does not answer") as refused, use_cluster(f"dask:{address}", 2):
        pass
    assert address in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("runner", "host"),
    [("dask:tcp://head:8786", "head"), ("dask:tls://10.0.0.5:8786", "10.0.0.5"), ("dask:head", "head")],
)
def test_an_offline_build_may_talk_to_its_cluster(runner: str, host: str) -> None:
    assert cluster_hosts(runner)[3:] == (host,)
    assert cluster_hosts("dask")[3:] == ()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that people get; each is answered at once."""
    from flows.prefect_runs import build_flows as generated_flows

    questions: list[str] = []

    def answer(_form: Any, _key: str, about: str) -> Any:
        questions.append(about)
        return SimpleNamespace(to_filling=ReviewTableOptions)

    monkeypatch.setattr(generated_flows.flow_runner, "ask_person", answer)
    monkeypatch.setattr(generated_flows, "_show_stage", lambda *_: None)
    return questions


def wait_for_choices(*errors: UserError) -> Any:
    from flows.prefect_runs import build_flows as generated_flows

    left = list(errors)

    def go_on(_filling: ReviewTableOptions) -> str:
        if left:
            raise left.pop(0)
        return "went on"

    stage: Any = SimpleNamespace(stage="topics", rows={"topics": 2}, file=Path("topics.csv"))
    definition: Any = SimpleNamespace(name="things")
    return generated_flows._continue_after_review(definition, stage, go_on)


def test_a_table_with_a_wrong_cell_is_asked_for_again(asked: list[str]) -> None:
    wrong_cell = UserError(REVIEW_CSV_STAGE, "topics.csv", "1 problems, the first: row 3", "fix those cells")
    nothing_kept = UserError("read reviewed topics", "things", "has no accepted topic with objects", "keep some")
    assert wait_for_choices(wrong_cell, nothing_kept) == "went on"
    assert ["row 3" in about for about in asked] == [False, True, False]
    assert "has no accepted topic" in asked[2]


def test_an_endpoint_without_a_key_ends_the_run_and_is_no_fault_of_the_table(asked: list[str]) -> None:
    no_key = UserError("load chat model", "environment variable KEY", "is empty or not set", "set it")
    with pytest.raises(UserError, match="environment variable KEY"):
        wait_for_choices(no_key)
    assert len(asked) == 1

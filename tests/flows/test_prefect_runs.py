"""What a run under Prefect is given, what is tried again, and what it says: told without a server."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
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
from flows.prefect_runs.flow_runner import capture_final_state
from flows.prefect_runs.one_off_run import run_flow
from flows.requests import GeneratedBuild, RecallBuild
from flows.set_kind import SetKind
from querytruth.backends.images.rendering import make_contact_sheet
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import BudgetSpentError, UserError
from querytruth.sets.version_difference import VersionDifference
from tests.flows.test_topics_and_objects import Listener
from tests.images import encode_image

ROOT = Path(__file__).parents[2]
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
    lasting = [
        OSError(errno.ENOSPC, ""),
        FileNotFoundError(),
        ValueError(),
        PermissionError(),
        UserError("a", "b", "c", "d"),
    ]
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


@pytest.mark.parametrize("name", ["gallery_set", "generated_set", "precision_set", "recall_set"])
@pytest.mark.thorough
def test_a_flow_file_s_help_shows_an_example_and_starts_nothing(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", f"flows.{name}", "--help"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"Example: python -m flows.{name} -p definition=" in done.stdout
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

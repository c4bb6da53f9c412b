"""The first hour: a definition from a line, its checks before a build, and endpoints that do not answer."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from builders.publication import BuildResult
from builders.recall.definition import RecallDefinition
from flows.definition_loader import load_definition
from querytruth.backends.models.chat import Failure
from querytruth.backends.models.chat_completion import explain_failure
from querytruth.cli import build_output
from tests.cli.conftest import Run
from tests.images import draw_scene, make_jpeg
from tests.loopback import CannedResponse, loopback, unused_url
from tests.small_sets import publish_small_set, query_id_of, small_tables


def folder_of_photos(tmp_path: Path) -> str:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(make_jpeg())
    return "photos"


def test_a_recall_definition_is_written_by_one_line(run: Run, tmp_path: Path) -> None:
    images = folder_of_photos(tmp_path)
    words = ["--images", images, "--endpoint", "http://host:8000/v1", "--model", "a:b", "--language", "en"]
    run("init", "recall", *words, "--key-env", "MY_KEY")
    written = load_definition(tmp_path / "recall.yaml", [], "recall")
    assert written.captions.model == "openai_compatible"  # type: ignore[attr-defined]
    assert written.captions.options == {  # type: ignore[attr-defined]
        "base_url": "http://host:8000/v1",
        "name": "a:b",
        "key_env": "MY_KEY",
    }
    assert written.captions.prompt == ["en/caption"]  # type: ignore[attr-defined]
    assert written.ambiguity.text_embedder == "sentence-transformers/all-MiniLM-L6-v2"  # type: ignore[attr-defined]


def test_without_options_the_starter_is_that_of_the_article(run: Run, tmp_path: Path) -> None:
    run("init", "recall")
    captions = yaml.safe_load((tmp_path / "recall.yaml").read_text())["captions"]
    assert (captions["model"], captions["prompt"]) == ("qwen_vl", "zh/caption")
    assert captions["options"] == {"name": "Qwen/Qwen3-VL-8B-Instruct"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["recall", "--endpoint", "http://host/v1"], "give --model"),
        (["recall", "--endpoint", "host:8000", "--model", "m"], "is not an http address"),
        (["recall", "--language", "fr"], "is not a caption language"),
        (["recall", "--key-env", "KEY"], "give --endpoint"),
        (["gallery", "--model", "m"], "--model (init): has no effect on gallery definitions"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(run: Run, options: list[str], named: str) -> None:
    assert named in run.error("init", *options)


def test_the_version_and_the_sets_are_listed(run: Run, tmp_path: Path) -> None:
    assert run("--version")[0].startswith("querytruth ")
    assert "is not a folder" in run.error("list")
    stored = publish_small_set(tmp_path, small_tables())
    [listed] = run.json("list", "--out", "sets")
    assert (listed["name"], listed["version"], listed["images"]) == (stored.manifest["name"], 1, 4)
    assert stored.manifest["name"] in run("list", "--out", "sets")[0]


def test_a_folder_of_runs_that_name_files_is_evaluated(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    (tmp_path / "runs").mkdir()
    query = query_id_of("狗")
    (tmp_path / "runs" / "with folders.out").write_text(
        json.dumps({query: ["holiday/beach 1.jpg", "holiday/tree 1.jpg"]})
    )
    (tmp_path / "runs" / "without.csv").write_text(
        f"query_id,image_id,rank\n{query},tree 1.jpg,2\n{query},beach 1.jpg,1\n"
    )
    words = ["evaluate", "small", "--out", "sets", "--run", "runs", "--metrics", "rr@2", "--no-page", "--json"]
    results = json.loads(run(*words, "--ids", "file_name")[0])["results"]
    assert [one["system"]["name"] for one in results] == ["with folders", "without"]
    values = {one["figures"][0]["value"] for one in results}
    assert len(values) == 1 and values.pop() > 0
    assert "did you mean 'file_name'?" in run.error(*words, "--ids", "filename", code=2)
    matched = json.loads(run(*words)[0])["results"]  # also where nobody says what the runs name
    assert [one["figures"][0]["value"] for one in matched] == [one["figures"][0]["value"] for one in results]
    assert [one["counts"]["ids_of_others"] for one in matched] == [{"images": {"file_name": 2}}] * 2


def definition(run: Run, tmp_path: Path, url: str) -> list[str]:
    run("init", "recall", "--images", folder_of_photos(tmp_path), "--endpoint", url, "--model", "tiny")
    return ["doctor", "recall.yaml", "--set", "ambiguity.text_embedder=char_ngrams"]


def test_a_doctor_names_what_is_well(run: Run, tmp_path: Path) -> None:
    with loopback(lambda _asked: CannedResponse({"data": [{"id": "tiny"}]})) as server:
        printed, _ = run(*definition(run, tmp_path, f"{server.url}/v1"))
        assert [(one.method, one.path) for one in server.asked] == [("GET", "/v1/models")]
    assert "1 files in" in printed and "serves tiny" in printed and "GB free" in printed
    assert "problem" not in printed


def test_a_doctor_asks_the_hub_for_models_that_must_be_downloaded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_hub: object, name: str, timeout: float) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("querytruth.backends.models.embedders.must_download_model", lambda _name: True)
    with loopback(lambda _asked: CannedResponse({"data": [{"id": "tiny"}]})) as server:
        words = [*definition(run, tmp_path, f"{server.url}/v1"), "--set", "ambiguity.text_embedder=nobody/such-a-model"]
        monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda _hub, name, timeout: name)
        assert "the build downloads nobody/such-a-model" in run(*words)[0]
        monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
        printed, _ = run(*words, code=1)
    assert "the hub did not provide it (ConnectionError)" in printed and "hf download nobody/such-a-model" in printed


def test_a_doctor_finds_a_missing_v1(run: Run, tmp_path: Path) -> None:
    with loopback(lambda _asked: CannedResponse("<html>", status=404)) as server:
        printed, _ = run(*definition(run, tmp_path, server.url), code=1)
        assert f"try base_url: {server.url}/v1" in printed


def test_a_doctor_finds_another_model(run: Run, tmp_path: Path) -> None:
    with loopback(lambda _asked: CannedResponse({"data": [{"id": "large"}]})) as server:
        printed, _ = run(*definition(run, tmp_path, f"{server.url}/v1"), code=1)
        assert "may not have a model 'tiny'" in printed and "its models: large" in printed


def test_a_doctor_finds_a_server_that_is_down_and_images_that_are_gone(run: Run, tmp_path: Path) -> None:
    words = definition(run, tmp_path, f"{unused_url()}/v1")
    (tmp_path / "photos" / "one.jpg").unlink()
    printed, _ = run(*words, code=1)
    assert "no server seems to listen there" in printed and "contains no images" in printed


@pytest.mark.parametrize(
    ("base_url", "reason", "detail", "cause"),
    [
        ("http://h:1", "not_found", "", "try base_url: http://h:1/v1"),
        ("http://h:1/v1", "not_found", "", "http://h:1/v1/models lists"),
        ("https://h:1/v1", "tls_error", "", "plain http://"),
        ("http://h:1/v1", "unauthorized", "", "set key_env to its variable"),
        ("http://nohost/v1", "connection_failed", "NameResolutionError", "the host 'nohost' does not exist"),
        ("http://h:1/v1", "server_error", "", "at http://h:1/v1"),
    ],
)
def test_a_failure_names_the_address_and_its_likely_cause(base_url: str, reason: str, detail: str, cause: str) -> None:
    assert cause in explain_failure(base_url, "tiny", None, Failure(reason, "blocked", detail))


def test_an_index_of_all_files_may_answer_with_copies_that_the_gallery_lists_once(run: Run, tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    beach = str(tables.images.loc[tables.images["file_name"] == "holiday/beach 1.jpg", "image_id"].iloc[0])
    group = {"duplicate_group": "g7", "width": 480, "height": 640, "distance": None, "edit": None}
    members = [
        {"image_id": beach, "item": "holiday/beach 1.jpg", "is_representative": True, "matched_by": None},
        {"image_id": beach, "item": "backup/beach 1.jpg", "is_representative": False, "matched_by": "bytes"},
        {"image_id": "img_of_a_crop", "item": "crops/b.jpg", "is_representative": False, "matched_by": "patches"},
    ]
    duplicates = pd.DataFrame([group | member for member in members])
    publish_small_set(tmp_path, replace(tables, duplicates=duplicates))
    query = query_id_of("狗")
    values = {}
    for name, answers in {
        "original": ["holiday/beach 1.jpg", "holiday/tree 1.jpg"],
        "copy": ["holiday/tree 1.jpg", "backup/beach 1.jpg", "holiday/beach 1.jpg"],
        "crop": ["crops/b.jpg"],
        "bare": ["beach 1.jpg"],
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({query: answers}))
        words = ["evaluate", "small", "--out", "sets", "--run", f"{name}.json", "--ids", "file_name", "--no-page"]
        (result,) = run.json(*words, "--metrics", "rr@2")["results"]
        values[name] = result["figures"][0]["value"]
    assert values["original"] == values["crop"] == values["bare"] == 2 * values["copy"] > 0


def test_a_set_of_keys_alone_is_named_after_its_file(run: Run, tmp_path: Path) -> None:
    """What `labels facts` prints as the next step."""
    (tmp_path / "photos").mkdir()
    for number in range(3):
        draw_scene(number).save(tmp_path / f"photos/p{number}.png")
    (tmp_path / "facts.csv").write_text("file_name,tag\np0.png,red\np1.png,red\n")
    keys = ["annotations=facts.csv", "images=photos", "searchable.min_images=1", "mixes.levels=1", "languages=[en]"]
    out, _ = run("build", "precision", *(part for key in keys for part in ("--set", key)))
    assert "facts/v1" in out
    _, told = run("build", "precision", code=2)
    assert "Next: give it, or --set annotations=…" in told


QUESTIONS = ("Folder of the images", "Address of the endpoint", "Model that writes the captions", "zh or en")


class Typist:
    """A person at a terminal, in front of a command."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.terminal, inner = pty.openpty()
        command = [sys.executable, "-m", "querytruth", "init", "recall", *arguments]
        self.process = subprocess.Popen(command, cwd=folder, stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)
        self.screen = ""

    def read_until(self, text: str) -> None:
        while text not in self.screen:
            assert select.select([self.terminal], [], [], 60)[0], f"no {text!r} in {self.screen!r}"
            self.screen += os.read(self.terminal, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def leave(self) -> int:
        """The exit status, once all that the command prints is read."""
        try:
            while more := os.read(self.terminal, 4096):
                self.screen += more.decode()
        except OSError:  # the other end is closed
            pass
        os.close(self.terminal)
        return self.process.wait()


def answer(folder: Path, answers: list[str], *arguments: str) -> Typist:
    typist = Typist(folder, *arguments)
    for question, reply in zip(QUESTIONS, answers, strict=True):
        typist.read_until(question)
        typist.type(f"{reply}\n")
    return typist


def read_definition(folder: Path) -> RecallDefinition:
    definition = load_definition(folder / "recall.yaml", [], "recall")
    assert isinstance(definition, RecallDefinition)
    return definition


@pytest.mark.thorough
def test_four_answers_make_a_definition_that_can_be_built(tmp_path: Path) -> None:
    typist = answer(tmp_path, ["我的照片", "http://127.0.0.1:9/v1", "qwen3-vl", "en"])
    assert typist.leave() == 0
    assert "Next: querytruth build recall recall.yaml --plan" in typist.screen
    definition = read_definition(tmp_path)
    assert definition.images == str(tmp_path / "我的照片") and definition.captions.prompt == ["en/caption"]
    assert definition.captions.model == "openai_compatible"
    assert definition.captions.options["base_url"] == "http://127.0.0.1:9/v1"
    assert definition.captions.options["name"] == "qwen3-vl"


@pytest.mark.slow
def test_ctrl_c_at_a_question_writes_nothing(tmp_path: Path) -> None:
    typist = Typist(tmp_path)
    typist.read_until(QUESTIONS[0])
    typist.process.send_signal(signal.SIGINT)
    assert typist.leave() in (130, 1)
    assert "Traceback" not in typist.screen and not (tmp_path / "recall.yaml").exists()


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """Eight images, half of them annotated in each of two files; a folder without any of them."""
    for folder in ("images", "elsewhere"):
        (tmp_path / folder).mkdir()
    for number in range(8):
        image = draw_scene(number)
        image.save(tmp_path / "images" / f"{number}.png")
    image.save(tmp_path / "elsewhere" / "holiday.png")
    for name, numbers in (("first", range(4)), ("second", range(4, 8))):
        images = [{"id": n, "file_name": f"{n}.png", "width": 160, "height": 120} for n in numbers]
        boxes = [{"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [10, 10, 100, 90]} for n in numbers]
        categories = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
        content = {"images": images, "annotations": boxes, "categories": categories}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_folder_without_the_annotated_images_stops_the_plan_and_the_build(run: Run, annotated: Path) -> None:
    run("init", "precision", "--annotations", "first.json", "--images", "elsewhere", "--out", "pets.yaml")
    for words in (["--plan"], []):
        _, err = run("build", "precision", "pets.yaml", *words, code=1)
        assert (
            "contains none of the 4 annotated images (4 image missing)" in err
            and "Next: set images to the folder" in err
        )
    assert not (annotated / "datasets" / "first" / "v1").exists()


def test_two_annotation_files_give_one_set(run: Run, annotated: Path) -> None:
    run("init", "precision", "--annotations", "first.json", "--annotations", "second.json", "--out", "pets.yaml")
    assert yaml.safe_load((annotated / "pets.yaml").read_text())["annotations"] == ["first.json", "second.json"]
    plan = run.json("build", "precision", "pets.yaml", "--plan")
    assert next(stage["entered"] for stage in plan["funnel"] if stage["stage"] == "images") == 8


@pytest.mark.parametrize("more", [[], ["--plan"]])
def test_a_file_where_sets_are_to_lie(run: Run, annotated: Path, more: list[str]) -> None:
    (annotated / "FILE").write_text("mine")
    for out in ("FILE", "FILE/below"):
        _, err = run("build", "gallery", "--set", "images=images", "--set", f"out={out}", *more, code=1)
        assert (
            "FILE (read definition): is a file, but the sets need a folder here. Next: set `out` to another folder"
            in err
        )
    assert (annotated / "FILE").read_text() == "mine"


def test_the_command_and_the_page_state_the_same_share(capsys: pytest.CaptureFixture[str]) -> None:
    """261 of 1,487 are 17.552%: 17.6%, also where the share is stored with four decimals."""
    from querytruth.formats.set_card import format_share

    part = {"queries": 1487, "ambiguous": 261, "share": 0.1755}
    figures = {"before": part, "after": part, "policy": "merge"}
    counts = {"images": 1, "queries": 0, "judgments": 0, "by_level": {}, "duplicate_groups": 0}

    manifest = {"funnel": [], "name": "a", "counts": counts, "notes": {"ambiguity": figures}}
    result = BuildResult(Path("a/v1"), 1, True, manifest, ())
    build_output.show_build_result(result)
    printed = " ".join(capsys.readouterr().out.split())
    assert format_share(part) == "17.6%" and "261 of 1,487 captions (17.6%) before" in printed

"""The first hour: a definition from a line, its checks before a build, and endpoints that do not answer."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.definition_loader import load_definition
from querytruth.backends.models.chat import Failure
from querytruth.backends.models.chat_completion import explain_failure
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
    assert named in run("init", *options, code=1)[1]


def test_the_version_and_the_sets_are_listed(run: Run, tmp_path: Path) -> None:
    assert run("--version")[0].startswith("querytruth ")
    assert "is not a folder" in run("list", code=1)[1]
    stored = publish_small_set(tmp_path, small_tables())
    [listed] = json.loads(run("list", "--out", "sets", "--json")[0])
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
    assert "did you mean 'file_name'?" in run(*words, "--ids", "filename", code=2)[1]
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
        (result,) = json.loads(run(*words, "--metrics", "rr@2", "--json")[0])["results"]
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

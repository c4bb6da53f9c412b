"""Sets of every kind that are built into a bucket, also under Prefect."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import querytruth as qt
from flows.definition_loader import load_definition
from querytruth.api.loaded_set import SetBuild
from querytruth.errors import UserError
from querytruth.sets import decision_log
from querytruth.sets.decision_records import QueryDecision
from tests.flows.prefect_test_server import ROOT, prefect_environment
from tests.images import make_jpeg
from tests.object_service import SECRET_KEY, ObjectService
from tests.worlds import make_album


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_service: ObjectService) -> Callable[[str], Path]:
    """Goes to the working directory of the machine with this name, which has a cache of its own."""

    def call(machine: str) -> Path:
        home = tmp_path / machine
        home.mkdir(exist_ok=True)
        monkeypatch.chdir(home)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        return home

    return call


@pytest.fixture
def album(tmp_path: Path) -> Path:
    return make_album(tmp_path)


def recall_keys(album: Path, out: str, **more: Any) -> dict[str, Any]:
    captions = {"model": "captions_file", "options": {"path": str(album / "captions.csv")}}
    keys = {"kind": "recall", "name": "album", "out": out, "lose_at_most": None, "captions": captions}
    return {**keys, "images": str(album / "album"), "render": {"size": 64}, "sizes": [2, 4]} | {
        "ambiguity": {"text_embedder": "char_ngrams"},
        **more,
    }


def manifests_of(service: ObjectService) -> list[str]:
    keys = [key.removeprefix("sets/") for key in service.list_keys() if key.endswith("/manifest.json")]
    assert not any(SECRET_KEY.encode() in service.ask("GET", f"sets/{key}") for key in keys)
    return sorted(key.removesuffix("/manifest.json") for key in keys)


@pytest.mark.thorough
def test_a_recall_set_is_stored_with_its_smaller_sets(
    enter: Callable[[str], Path], album: Path, object_service: ObjectService
) -> None:
    url = object_service.url
    enter("here")
    first = qt.build(recall_keys(album, url))
    assert [one.url for one in (first.result, *first.result.nested_results)] == [
        f"{url}/album/v1", f"{url}/album-2/v1", f"{url}/album-4/v1"
    ]  # fmt: skip
    assert manifests_of(object_service) == ["album-2/v1", "album-4/v1", "album/v1"]
    assert [qt.verify(f"{url}/{name}") for name in ("album", "album-2", "album-4")] == [[], [], []]
    enter("there")
    same = qt.build(recall_keys(album, url))
    assert not same.is_new and not any(one.is_new for one in same.result.nested_results)
    assert manifests_of(object_service) == ["album-2/v1", "album-4/v1", "album/v1"]
    query = qt.load(f"{url}/album-2").queries.iloc[0]
    decision = QueryDecision(query["query_id"], query["text"], "edit", new_text="换个说法")
    decision_log.append_decisions(same.path.parent, [decision])
    assert qt.build(recall_keys(album, url)).is_new
    enter("here")  # which has only the first versions, and not the decision
    again = qt.build(recall_keys(album, url))
    assert not again.is_new and again.result.url == f"{url}/album/v2"
    for name in ("album", "album-2"):
        assert "换个说法" in set(qt.load(f"{url}/{name}/v2").queries["text"])
    names = ("album-2", "album-4", "album")
    assert manifests_of(object_service) == [f"{name}/{version}" for name in names for version in ("v1", "v2")]


@pytest.mark.thorough
def test_a_recall_set_of_a_gallery_in_the_bucket_is_built_on_another_machine(
    enter: Callable[[str], Path], album: Path, object_service: ObjectService
) -> None:
    url = object_service.url
    enter("here")
    images = {"kind": "gallery", "name": "images", "images": str(album / "album"), "render": {"size": 64}}
    assert qt.build(images | {"out": url}).result.url == f"{url}/images/v1"
    enter("there")
    done = qt.build(recall_keys(album, url, images=None, render=None, gallery="images", sizes=[]))
    assert done.result.url == f"{url}/album/v1"
    assert done.result.manifest["configuration"]["gallery"] == "images/v1"


@pytest.mark.thorough
@pytest.mark.slow
def test_under_prefect_the_same_versions_are_stored(
    enter: Callable[[str], Path], album: Path, object_service: ObjectService
) -> None:
    home = enter("here")
    definition = album / "album.yaml"
    definition.write_text(json.dumps(recall_keys(album, object_service.url)))
    first = json.loads(build_under_prefect(home, definition, "recall").stdout)
    stored = manifests_of(object_service)
    assert stored == ["album-2/v1", "album-4/v1", "album/v1"]
    assert sorted(one["url"] for one in (first, *first["smaller"])) == [f"{object_service.url}/{one}" for one in stored]
    again = json.loads(build_under_prefect(home, definition, "recall").stdout)
    assert not again["published"] and again["url"] == first["url"]
    enter("there")
    assert not qt.build(definition).is_new  # the same digest without Prefect


def build_under_prefect(
    home: Path, definition: Path, kind: str, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    """What the command printed, which had a server of its own."""
    environment = prefect_environment(home / "prefect", PYTHONPATH=str(ROOT), **more)
    command = [sys.executable, "-m", "querytruth", "build", kind, str(definition), "--prefect", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr[-3000:]
    assert SECRET_KEY not in done.stdout + done.stderr
    return done


@pytest.fixture
def build(enter: Callable[[str], Path], object_service: ObjectService) -> Callable[..., SetBuild]:
    """Build a gallery of some colours on the machine with this name, which has its own working directory."""

    def call(machine: str, colours: list[tuple[int, int, int]]) -> SetBuild:
        images = enter(machine) / "images"
        images.mkdir(exist_ok=True)
        for number, colour in enumerate(colours):
            (images / f"{number}.jpg").write_bytes(make_jpeg(colour, (64 + number, 64)))
        keys = {"kind": "gallery", "name": "colours", "images": str(images), "out": object_service.url}
        return qt.build({**keys, "near_duplicates": {"distance": None}, "lose_at_most": None})

    return call


RED, GREEN, BLUE = (200, 20, 20), (20, 200, 20), (20, 20, 200)


@pytest.mark.thorough
def test_a_version_that_was_built_and_not_stored_is_stored_by_the_next_build(
    build: Callable[..., SetBuild], object_service: ObjectService
) -> None:
    build("here", [RED])
    build("here", [RED, GREEN])
    for key in object_service.list_keys():
        if "/v2/" in key:
            object_service.ask("DELETE", key)
    done = build("here", [RED, GREEN])
    assert not done.is_new and done.result.url == f"{object_service.url}/colours/v2"
    assert qt.verify(f"{object_service.url}/colours/v2") == []


@pytest.mark.thorough
def test_a_version_that_two_machines_built_is_refused_before_the_work(
    build: Callable[..., SetBuild], object_service: ObjectService, tmp_path: Path
) -> None:
    build("here", [RED])
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    build("here", [RED, GREEN])
    manifest = "sets/colours/v2/manifest.json"
    stored = object_service.ask("GET", manifest)
    object_service.ask("DELETE", manifest)
    build("there", [RED, BLUE])
    object_service.ask("PUT", manifest, stored)  # it was there first
    with pytest.raises(UserError, match=r"differs from .*/v2: both were built from the version before them") as refused:
        build("there", [RED, BLUE])
    assert "v2 away, then run the same command" in str(refused.value)


def test_out_may_be_a_url_and_then_names_a_work_folder() -> None:
    keys = ["name=a", "images=b"]
    by_out = load_definition(None, [*keys, "out=s3://benchmarks/sets"], "gallery")
    assert (str(by_out.out), by_out.publish_to) == ("s3-work/benchmarks/sets", "s3://benchmarks/sets")
    both = load_definition(None, [*keys, "out=here", "publish_to=s3://benchmarks/sets"], "gallery")
    assert (str(both.out), both.publish_to) == ("here", "s3://benchmarks/sets")
    assert load_definition(None, keys, "gallery").publish_to is None
    for wrong in ("out=s3://me:secret@b/x", "publish_to=s3://me:secret@b/x", "publish_to=https://b/x", "out=s3://B!"):
        with pytest.raises(UserError) as refused:
            load_definition(None, [*keys, wrong], "gallery")
        assert "secret" not in json.dumps(str(refused.value))
    with pytest.raises(UserError, match="models are stored on disk"):
        load_definition(None, ["name=a", "set=b", "out=s3://benchmarks/models"], "training")

"""Builds that store their versions in a bucket."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import querytruth as qt
from flows.definition_loader import load_definition
from querytruth.api.loaded_set import SetBuild
from querytruth.errors import UserError
from tests.images import make_jpeg
from tests.object_service import SECRET_KEY, ObjectService


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_service: ObjectService) -> Callable[..., SetBuild]:
    """Builds a gallery of some colours on the machine with this name, which has its own working directory."""

    def call(machine: str, colours: list[tuple[int, int, int]]) -> SetBuild:
        home = tmp_path / machine
        images = home / "images"
        images.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(home)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        for number, colour in enumerate(colours):
            (images / f"{number}.jpg").write_bytes(make_jpeg(colour, (64 + number, 64)))
        keys = {"kind": "gallery", "name": "colours", "images": str(images), "out": object_service.url}
        return qt.build({**keys, "near_duplicates": {"distance": None}, "lose_at_most": None})

    return call


RED, GREEN, BLUE = (200, 20, 20), (20, 200, 20), (20, 20, 200)


@pytest.mark.thorough
def test_builds_on_two_machines_follow_each_other(
    build: Callable[..., SetBuild], object_service: ObjectService, tmp_path: Path
) -> None:
    first = build("here", [RED, GREEN])
    assert first.is_new and first.result.url == f"{object_service.url}/colours/v1"
    assert first.path.is_relative_to("s3-work") and (tmp_path / "here" / first.path).is_dir()
    again = build("here", [RED, GREEN])
    assert not again.is_new and again.result.url == first.result.url
    same = build("there", [RED, GREEN])  # which fetches v1 before
    assert not same.is_new and same.path.name == "v1"
    second = build("there", [RED, GREEN, BLUE])
    assert second.is_new and second.result.url == f"{object_service.url}/colours/v2"
    assert second.result.manifest["parent"]["version"] == 1
    loaded = qt.load(f"{object_service.url}/colours")
    assert loaded.name == "colours/v2" and len(loaded.images) == 3
    assert not any(SECRET_KEY.encode() in object_service.ask("GET", key) for key in object_service.list_keys())


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

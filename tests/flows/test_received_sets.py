"""A set that somebody else published: nothing in it chooses what is read, written, asked or run here."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from builders.publication import BuiltTables, publish_built, publish_decisions
from flows.definition_loader import parse_definition
from flows.import_set import import_set
from flows.rebuild import list_outside_names, rebuild_tables
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.records import are_own_ids
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.ledger import Ledger
from querytruth.sets.published_files import image_roots, is_own_version
from querytruth.sets.set_files import StoredSet
from tests.command_runner import invoke
from tests.images import make_jpeg
from tests.resealed_sets import reseal
from tests.small_sets import SMALL_SET_GRADES, publish_small_set, small_tables


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    """A set whose definition names an endpoint, a key and a folder; published by another user."""
    stored = publish_small_set(tmp_path, small_tables())
    path = stored.path / "manifest.json"
    manifest = json.loads(path.read_bytes())
    options = {"base_url": "http://127.0.0.1:9/v1", "key_env": "MY_KEY", "name": "x"}
    captions = {"model": "openai_compatible", "options": options}
    definition = {"kind": "recall", "name": "small", "images": "/home/me/Pictures", "captions": captions, "out": "/tmp"}
    path.write_text(json.dumps(manifest | {"kind": "recall", "envelope": {"definition": definition}}))
    reseal(stored.path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    return stored


def test_a_rebuild_does_not_run_the_definition_of_a_stranger(received: StoredSet) -> None:
    with pytest.raises(UserError, match=r"captions.model: openai_compatible and 4 more.*--trust-definition"):
        rebuild_tables(received.path)


def test_the_person_reads_the_lines_and_refuses(received: StoredSet) -> None:
    done = invoke("rebuild", received.path, "--check", "--trust-definition", typed="n\n")
    assert "captions.options.base_url: http://127.0.0.1:9/v1" in done.output
    assert "captions.options.key_env: MY_KEY" in done.output and "Build with them?" in done.output
    assert isinstance(done.exception, UserError)


def test_lines_that_name_nothing_outside_need_no_agreement() -> None:
    harmless = {"kind": "recall", "name": "a", "title": "a/b", "seed": 1, "captions": {"prompt": ["zh/caption"]}}
    assert list_outside_names({**harmless, "out": "/anywhere"}) == []
    assert list_outside_names({**harmless, "gallery": "album"}) == ["gallery: album"]
    assert list_outside_names({"labels": "../tables", "filter": {"max_side": 9}}) == ["labels: ../tables"]


def test_a_set_is_ones_own_until_its_manifest_changes(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    assert stored.is_own and set_files.read_set(stored.path).own_definition["name"] == "small"
    manifest = stored.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("A small set", "Another set"))
    reseal(stored.path)
    assert not is_own_version(stored.path) and set_files.read_set(stored.path).own_definition == {}


def test_images_outside_a_received_set_are_not_read_unless_the_person_names_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    (photos / "holiday").mkdir(parents=True)
    for name in ("dog", "beach", "cat", "tree"):
        (photos / "holiday" / f"{name} 1.jpg").write_bytes(make_jpeg((len(name), 0, 0), (16, 16)))
    tables = small_tables()
    paths = [str(photos / name) for name in tables.images["file_name"]]
    by_reference = Tables(tables.queries, tables.images.assign(path=paths), tables.qrels)
    definition = SetDefinition(kind="precision", name="small", out=tmp_path / "sets")
    stored = publish_built(definition, BuiltTables(by_reference, Ledger(), SMALL_SET_GRADES))
    assert set_files.read_set(stored.path).tables.images["path"].tolist() == paths, "one's own set"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    assert set_files.read_set(stored.path).tables.images["path"].isna().all()
    with image_roots([str(photos)]):
        assert set_files.read_set(stored.path).tables.images["path"].tolist() == paths
    with image_roots([str(tmp_path / "elsewhere")]):
        assert set_files.read_set(stored.path).tables.images["path"].isna().all()


def test_ids_of_an_archive_that_are_paths_become_ids_of_ours(tmp_path: Path) -> None:
    victim = tmp_path / "victim.jpg"
    victim.write_text("mine")
    folder = tmp_path / "archive" / "test"
    folder.mkdir(parents=True)
    ids = {"image_id": f"img_{'../' * 12}{str(victim.with_suffix(''))[1:]}", "query_ids": ["../../q"]}
    members = {"0.jpg": make_jpeg((9, 9, 9), (32, 32)), "0.txt": b"a dog", "0.json": json.dumps(ids).encode()}
    with tarfile.open(folder / "0.tar", "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (folder / "nshards.txt").write_text("1\n")
    definition = parse_definition(
        {
            "name": "got",
            "format": "webdataset",
            "annotations": str(tmp_path / "archive"),
            "out": str(tmp_path / "sets"),
        },
        "imported",
        "test",
    )
    tables = set_files.read_set(import_set(definition).path).tables  # type: ignore[arg-type]
    assert victim.read_text() == "mine"
    assert are_own_ids(tables.images["image_id"], tables.queries["query_id"])
    assert tables.images["source_id"].tolist() == [ids["image_id"]]
    assert tables.queries["source_id"].tolist() == ["../../q"]


def test_an_apply_writes_nothing_where_a_path_of_the_set_leads(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    shutil.rmtree(stored.path / "images")
    (stored.path / "images").symlink_to(tmp_path / "rendered" / "images")
    query = stored.tables.queries.iloc[0]
    append_decisions(stored.path.parent, [QueryDecision(query["query_id"], query["text"], "drop", reviewer="lin")])
    with pytest.raises(UserError, match="is a link"):
        publish_decisions(stored.path)

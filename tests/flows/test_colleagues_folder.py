"""A set in the folder of a colleague: rebuilt from inputs that lie elsewhere now; what a copy without its work says."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flows import rebuild
from flows.definition_checks import check_definition
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.errors import UserError
from tests.images import make_jpeg

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a colleague: a version of a set of own queries, photos and log; where they were, nothing is."""
    made = tmp_path / "made"
    (made / "my photos").mkdir(parents=True)
    for number in range(3):
        (made / f"my photos/{number}.jpg").write_bytes(make_jpeg((90 * number, 80, 200), (160 + number, 120)))
    (made / "log.csv").write_text("query,count\nred dog,3\nblue cat,2\n")
    inputs = [f"queries={made / 'log.csv'}", f"images={made / 'my photos'}", f"out={made / 'sets'}", "name=mine"]
    build_set(load_definition(None, inputs, "queries"))
    theirs = tmp_path / "theirs"
    shutil.copytree(made / "sets/mine/v1", theirs / "mine/v1")
    shutil.move(made / "my photos", theirs / "my photos")
    shutil.move(made / "log.csv", theirs / "log.csv")
    shutil.rmtree(made)
    monkeypatch.chdir(theirs)
    return theirs


def test_a_version_is_rebuilt_from_inputs_beside_it(copied: Path) -> None:
    rebuilt = rebuild.rebuild_tables(Path("mine/v1"))

    published = rebuild.read_manifest(copied / "mine/v1")["content_digest"]
    assert rebuilt.digest == published
    assert sorted(line.partition(" (it was")[0] for line in rebuilt.inputs_moved) == [
        f"images: {copied / 'my photos'}",
        f"queries: {copied / 'log.csv'}",
    ]


def test_a_copy_without_its_inputs_says_which_and_what_works_without(copied: Path) -> None:
    shutil.rmtree(copied / "my photos")

    with pytest.raises(
        UserError, match=r"misses files it was built from: images .*my photos; verify.*copy my photos to this folder"
    ):
        rebuild.rebuild_tables(Path("mine/v1"))


def test_nothing_is_taken_from_outside_of_the_folders(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "here").mkdir()
    moved: list[str] = []

    for value in ("/gone/../../secret", "relative/secret", "/gone/secret", 7, None):
        assert rebuild.find_moved_inputs(value, ("images",), [tmp_path / "here"], moved) == value
    assert not moved


def test_a_copy_without_replies_says_so(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_definition: object) -> object:
        raise UserError("caption pictures", "mine", "got no reply to any of the 3 questions (not_recorded: none)", "x")

    monkeypatch.setitem(rebuild.SET_KINDS, "queries", rebuild.replace(rebuild.SET_KINDS["queries"], build_tables=ask))

    with pytest.raises(UserError, match=r"without the replies .*copy mine/replies\.sqlite beside .*--online"):
        rebuild.rebuild_tables(Path("mine/v1"))


def test_the_doctor_offers_the_embedded_way(tmp_path: Path) -> None:
    (tmp_path / "topics.yaml").write_text("kind: generated\nname: mine\nobjects: {embedder: nobody/nothing}\n")
    definition = load_definition(tmp_path / "topics.yaml", [])

    found = {one.name: one for one in check_definition(definition)}

    assert "char_ngrams" in str(found["models"].problem)

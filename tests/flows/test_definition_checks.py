"""Definitions: every fault is one line that names the key and the likeliest cure."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.gallery.definition import GalleryDefinition
from builders.precision.definition import PrecisionDefinition
from flows import rebuild
from flows.definition_checks import check_definition, render_starter
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.errors import UserError
from tests.images import make_jpeg

GOOD = "name: pets\nkind: precision\nannotations: a.json\n"
NOT_SHOWN = {"out", "publish_to", "publish_places", "publish_names", "work", "tables", "quarantine"}


def load(tmp_path: Path, text: str, *overrides: str, kind: str = "precision") -> Any:
    (tmp_path / "d.yaml").write_text(text)
    return load_definition(tmp_path / "d.yaml", list(overrides), kind)


def test_paths_are_beside_the_definition_and_defaults_are_the_articles(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert found.annotations == [tmp_path / "a.json"]
    assert (found.searchable.area_ratio, found.searchable.min_images, found.searchable.count) == (
        0.10,
        10,
        "any",
    )
    mixes = found.mixes
    assert (mixes.levels, mixes.mode, mixes.cap, mixes.near_misses) == (3, "sampled", [1212, 889], 100)
    assert (found.texts, found.languages, found.grades) == (["word", "sentence"], None, "graded")


@pytest.mark.parametrize(("kind", "key"), [("training", "set"), ("recall", "gallery")])
def test_a_folder_that_is_no_set_does_not_hide_the_set_of_its_name(kind: str, key: str, tmp_path: Path) -> None:
    """As at the command line: the name is looked up below `out`."""
    (tmp_path / "captr").mkdir()
    (tmp_path / "d.yaml").write_text(f"name: mine\nkind: {kind}\n{key}: captr\n")
    assert getattr(load_definition(tmp_path / "d.yaml", [], kind), key) == "captr"
    (tmp_path / "captr/v1").mkdir()
    (tmp_path / "captr/v1/manifest.json").write_text("{}")
    assert getattr(load_definition(tmp_path / "d.yaml", [], kind), key) == str(tmp_path / "captr")


def test_overrides_reach_into_groups_and_lists(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD, "mixes.levels=2", "annotations=[x.json, y.json]", "languages=[zh]", "compatible=null")
    assert found.mixes.levels == 2
    assert [path.name for path in found.annotations] == ["x.json", "y.json"]
    assert found.languages == ["zh"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD + "anotations: b.json\n", r"key 'anotations' is unknown. Next: did you mean 'annotations'\?"),
        (GOOD + "mixes: {levls: 2}\n", r"key 'mixes.levls' is unknown. Next: did you mean 'levels'\?"),
        (GOOD + "mixes: {levels: 0}\n", r"key 'mixes.levels': .* given 0"),
        (GOOD + "texts: []\n", r"key 'texts'"),
        (GOOD + "languages: [zh, zh]\n", r"key 'languages': .*contains a value twice"),
        (GOOD + "grades: fine\n", r"key 'grades': .*'graded' or 'binary'"),
        ("kind: precision\nannotations: a.json\n", r"key 'name' is missing"),
        ("name: UPPER\nannotations: a.json\n", r"key 'name'"),
        ("name: a/../b\nannotations: a.json\n", r"key 'name'"),
        (GOOD.replace("precision", "recall"), r"has kind 'recall'. Next: run querytruth build recall"),
        ("- a\n- b\n", r"is not a mapping of keys to values"),
        ("name: [unclosed\n", r"line 2: .*is not valid YAML|line 2 .*is not valid YAML"),
    ],
)
def test_a_fault_is_one_line_with_its_cure(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_an_override_that_is_none_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must have the form key=value"):
        load(tmp_path, GOOD, "levels")
    with pytest.raises(UserError, match="querytruth init"):
        load_definition(tmp_path / "gone.yaml", [], "precision")


def test_the_starter_is_a_definition_that_loads_with_the_defaults(tmp_path: Path) -> None:
    text = render_starter("precision", None, None, tmp_path)
    found = load(tmp_path, text)
    assert found.model_copy(update={"name": "pets", "title": ""}) == load(
        tmp_path, GOOD.replace("a.json", "instances.json")
    )
    assert set(yaml.safe_load(text)) == set(PrecisionDefinition.model_fields) - NOT_SHOWN


def test_the_gallery_starter_loads_with_the_defaults_and_shows_every_key(tmp_path: Path) -> None:
    text = render_starter("gallery", None, str(tmp_path / "My Images"), tmp_path)
    (tmp_path / "gallery.yaml").write_text(text)
    found = load_definition(tmp_path / "gallery.yaml", [], "gallery")
    bare = load_definition(
        None,
        [f"images={tmp_path / 'My Images'}", "name=my-images", "title=my-images", "filter.max_side=10000"],
        "gallery",
    )
    assert found == bare
    keys = yaml.safe_load(text)
    assert set(keys) == set(GalleryDefinition.model_fields) - NOT_SHOWN
    for name in ("filter", "near_duplicates", "select", "render"):
        assert set(keys[name]) == set(type(getattr(found, name)).model_fields)


def test_paths_on_the_command_line_are_relative_to_where_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = load_definition(None, ["name=a", "images=images"], "gallery")
    assert isinstance(found, GalleryDefinition) and found.images == str(tmp_path / "images")


RECALL = "name: pets\nkind: recall\nimages: images\n"


def test_of_a_recall_set_the_defaults_are_the_articles(tmp_path: Path) -> None:
    found = load(tmp_path, RECALL, kind="recall")
    assert found.images == str(tmp_path / "images")
    assert (found.captions.model, found.captions.prompt, found.captions.per_image) == ("qwen_vl", ["zh/caption"], 1)
    assert (found.ambiguity.rivals, found.ambiguity.text_embedder) == (5, "BAAI/bge-small-zh-v1.5")
    assert (found.sizes, found.descriptions, found.replies) == ([], None, None)


def test_paths_within_options_are_beside_the_definition_and_names_stay(tmp_path: Path) -> None:
    (tmp_path / "bge").mkdir()
    text = RECALL + "captions: {model: captions_file, options: {path: c.csv, name: Qwen/Qwen3}}\nreplies: r.sqlite\n"
    found = load(tmp_path, text + "ambiguity: {text_embedder: bge, image_embedder: OFA-Sys/x}\n", kind="recall")
    assert found.captions.options == {"path": str(tmp_path / "c.csv"), "name": "Qwen/Qwen3"}
    assert found.replies == str(tmp_path / "r.sqlite")
    assert (found.ambiguity.text_embedder, found.ambiguity.image_embedder) == (str(tmp_path / "bge"), "OFA-Sys/x")
    assert load(tmp_path, RECALL, "replies=sqlite:///x.db", kind="recall").replies == "sqlite:///x.db"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (RECALL + "captions: {promt: zh/caption}\n", r"key 'captions.promt' is unknown. Next: did you mean 'prompt'\?"),
        (RECALL + "captions: {prompt: caption}\n", r"key 'captions.prompt.0': .*language/name"),
        (RECALL + "captions: {prompt: [zh/caption, zh/caption]}\n", r"contains a value twice"),
        (RECALL + "sizes: [10, 10]\n", r"key 'sizes': must be different whole numbers"),
        (RECALL + "gallery: album\n", r"give either gallery .a published set. or images"),
        ("name: pets\n", r"give either gallery .a published set. or images"),
        (
            RECALL.replace("images: images", "gallery: a") + "filter: {min_side: 9}\n",
            r"filter has no effect together with gallery",
        ),
        (
            RECALL.replace("images: images", "gallery: a") + "select: {count: 9}\n",
            r"select.count has no effect together with gallery",
        ),
        (RECALL + "ambiguity: {policy: ask}\n", r"key 'ambiguity.policy'"),
        (RECALL + "descriptions: {options: {a: 1}}\n", r"options need a model"),
        (RECALL + "replies: postgresql://me:word@host/db\n", r"contains a user or password"),
    ],
)
def test_a_faulty_recall_definition_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        load(tmp_path, text, kind="recall")
    assert "\n" not in str(caught.value) and "me:word" not in str(caught.value)


def test_the_recall_starter_says_the_defaults(tmp_path: Path) -> None:
    text = render_starter("recall", None, str(tmp_path / "My Images"), tmp_path)
    found = load(tmp_path, text, kind="recall")
    bare = "name: my-images\ntitle: my-images\nkind: recall\nimages: My Images\nfilter: {max_side: 10000}\n"
    plain = load(tmp_path, bare, kind="recall")
    assert found.captions.options == {"name": "Qwen/Qwen3-VL-8B-Instruct"}
    assert found.model_copy(update={"captions": plain.captions}) == plain


def test_a_key_that_is_there_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "album.yaml"
    file.write_text("name: album\nkind: gallery\nimages: photos\nselect:\n  count: 5\n  count: 7\n")
    with pytest.raises(UserError, match=r"album\.yaml line 6 .*has the key 'count' twice"):
        load_definition(file, [], "gallery")


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

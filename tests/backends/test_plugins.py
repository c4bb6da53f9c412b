"""A plug-in is one file in its folder: it is used by its name, and no other file knows it."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from builders.generated.definition import GeneratedDefinition
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.models.chat import CHAT_MODELS
from querytruth.backends.plugins import PluginPackage
from querytruth.backends.steps import BuildRun, active_run
from querytruth.backends.web.image_search import load_image_search
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.command_runner import invoke
from tests.small_sets import publish_small_set, small_tables
from tests.worlds import CAPTIONS
from tests.worlds import draw_album as draw

CHAT_MODEL = """
from pathlib import Path
from querytruth.backends.models.chat import Reply
from querytruth.backends.plugins import ModelIdentity, PluginOptions

class ParrotOptions(PluginOptions):
    sentences: Path
    beams: int = 1

def load(options: ParrotOptions):
    return Parrot(options.sentences.read_text("utf-8").splitlines())

class Parrot:
    is_recorded = False
    identity = ModelIdentity("parrot")

    def __init__(self, sentences):
        self.sentences = sentences

    def reply(self, requests, on_answers=lambda answers: True):
        answers = [Reply(sentence, "stop") for sentence, _ in zip(self.sentences, requests)]
        on_answers(list(enumerate(answers)))
        return answers
"""
EMBEDDER = """
from querytruth.backends.models.embedders.char_ngrams import CharNgramEmbedder, CharNgramOptions

class LetterEmbedder(CharNgramEmbedder):
    name = "letters"
    compares_spelling = False

def load(options: CharNgramOptions):
    return LetterEmbedder(options.dimensions)
"""
IMAGE_SEARCH = """
from pathlib import Path
from querytruth.backends.web.image_search import ImageCandidate, SearchResult
from querytruth.backends.plugins import ModelIdentity, PluginOptions

class ShelfOptions(PluginOptions):
    shelf: Path
    sort: str = "name"

def load(options: ShelfOptions):
    return Shelf(options)

class Shelf:
    identity = ModelIdentity("shelf")

    def __init__(self, options):
        self.options = options

    def search(self, query, limit, fetch):
        return SearchResult(1, (ImageCandidate(url=f"{self.options.shelf}/{query}.jpg"),))
"""
EXPORTER = """
from querytruth.formats.set_description import FormatLimits

LIMITS = FormatLimits(omissions=("everything but the queries",))

def export(stored, out):
    texts = stored.tables.queries["text"]
    (out / "texts.txt").write_text("".join(f"{' '.join(text.split())}\\n" for text in texts), "utf-8")
"""
IMPORTER = """
from querytruth.formats.import_layouts import build_caption_set, build_named_images

def read(source, split, image_store):
    lines = source.read_text("utf-8").splitlines()
    captions = [(str(number), text, f"{number}.jpg") for number, text in enumerate(lines)]
    return build_caption_set(captions, build_named_images(captions), [source], None, "one text an image")
"""
FILTER = """
from typing import Annotated
from annotated_types import Gt
from builders.gallery.filters import ImageFilter

FILTERS = (
    ImageFilter(
        "min_pixels", "pixels", "at least", "too_few_pixels", ("width", "height"),
        lambda frame: (frame["width"] * frame["height"]).to_numpy(float), Annotated[int, Gt(0)], 1,
    ),
)
"""
BUILD = """
import sys
import builders.gallery.filters
builders.gallery.filters.__path__.append(sys.argv.pop(1))
from querytruth.cli.app import main
main()
"""
Drop = Callable[[str, str, str], None]


@pytest.fixture
def drop(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drop]:
    """Put a file into the folder of a package, under a name."""
    before = set(sys.modules)

    def drop_file(package: str, name: str, source: str) -> None:
        folder = tmp_path_factory.mktemp(name)
        (folder / f"{name}.py").write_text(source, "utf-8")
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])

    yield drop_file
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.thorough
def test_a_chat_model_and_an_embedder_build_a_set(drop: Drop, tmp_path: Path) -> None:
    drop("querytruth.backends.models.chat", "parrot", CHAT_MODEL)
    drop("querytruth.backends.models.embedders", "letters", EMBEDDER)
    draw(tmp_path / "album", list(CAPTIONS))
    (tmp_path / "sentences.txt").write_text("\n".join(CAPTIONS.values()), "utf-8")
    (tmp_path / "recall.yaml").write_text(
        "name: album\nkind: recall\nimages: album\nrender: {size: 64}\n"
        "captions: {model: parrot, options: {sentences: sentences.txt}}\n"
        "ambiguity: {policy: drop, text_embedder: letters}\n"
    )
    with active_run(BuildRun()):
        result = build_set(load_definition(tmp_path / "recall.yaml", [f"out={tmp_path / 'sets'}"], "recall"))
    assert {model["name"] for model in result.manifest["models"]} == {"parrot", "letters"}
    texts = set(set_files.read_set(result.path).tables.queries["text"])
    assert texts and texts < set(CAPTIONS.values()), "those that sound alike by its own threshold are dropped"


def test_an_image_search_gets_its_paths_from_beside_the_definition(drop: Drop, tmp_path: Path) -> None:
    drop("querytruth.backends.web.image_search", "shelf", IMAGE_SEARCH)
    text = "name: dogs\nkind: generated\ncollect: {search: shelf, options: {shelf: books, sort: date}}\n"
    (tmp_path / "generated.yaml").write_text(text)
    definition = load_definition(tmp_path / "generated.yaml", [], "generated")
    assert isinstance(definition, GeneratedDefinition)
    assert definition.collect.options == {"shelf": str(tmp_path / "books"), "sort": "date"}
    search = load_image_search(definition.collect.search, **definition.collect.options)
    assert search.search("dog", 1, lambda page, read: read(b"")).candidates[0].url == f"{tmp_path}/books/dog.jpg"
    with pytest.raises(
        UserError, match=r"shelf: shlef .*unknown option. Next: did you mean 'shelf'\? \(choose from she"
    ):
        load_image_search("shelf", shlef="x")


def test_an_exporter_and_an_importer_are_formats_of_the_commands(drop: Drop, tmp_path: Path) -> None:
    drop("querytruth.formats.exporters", "texts", EXPORTER)
    drop("querytruth.formats.importers", "texts", IMPORTER)
    stored = publish_small_set(tmp_path, small_tables())
    exported = invoke("export", stored.path, "texts", tmp_path / "out")
    assert exported.exit_code == 0 and "everything but the queries" in exported.output
    source = tmp_path / "out" / "texts.txt"
    imported = invoke("import", "texts", source, tmp_path / "again")
    assert imported.exit_code == 0, imported.output
    queries = set_files.read_set(set_files.find_set("again", tmp_path)).tables.queries
    assert set(queries["text"]) == {" ".join(text.split()) for text in stored.tables.queries["text"]}


@pytest.mark.thorough
def test_a_filter_is_a_key_of_the_definition_and_a_reason_of_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "dropped").mkdir()
    (tmp_path / "dropped" / "pixels.py").write_text(FILTER)
    draw(tmp_path / "album", ["a", "b"])
    Image.new("RGB", (20, 20)).save(tmp_path / "album" / "small.png")
    (tmp_path / "gallery.yaml").write_text("name: album\nkind: gallery\nimages: album\nfilter: {min_pixels: 500}\n")
    command = [sys.executable, "-c", BUILD, str(tmp_path / "dropped"), "build", "gallery", "gallery.yaml"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    stored = set_files.read_set(set_files.find_set("album", tmp_path / "datasets"))
    assert stored.tables.ledger.set_index("item")["reason"].to_dict()["small.png"] == "too_few_pixels"
    thresholds = {line["name"]: line["value"] for line in stored.manifest["thresholds"]}
    assert thresholds["filter.min_pixels"] == 500
    assert stored.manifest["configuration"]["filter"]["min_pixels"] == 500


def test_a_library_that_is_missing_is_named(drop: Drop) -> None:
    drop("querytruth.backends.models.chat", "eager", "import no_such_library.part")
    drop(
        "querytruth.backends.models.chat",
        "lazy",
        CHAT_MODEL.replace("    return Parrot(", "    import other_library\n    return Parrot("),
    )
    with pytest.raises(UserError, match=r"eager .*needs no_such_library, .*Next: pip install no_such_library"):
        CHAT_MODELS.load_plugin("eager", {})
    with pytest.raises(UserError, match=r"lazy .*needs other_library, which is not installed"):
        CHAT_MODELS.load_plugin("lazy", {"sentences": __file__})


def test_the_names_are_those_of_the_files() -> None:
    package = PluginPackage("querytruth.backends.models.chat", "chat model", "load chat model")
    assert {*package.list_plugins(), "human"} == set(CHAT_MODELS.list_plugins())
    assert CHAT_MODELS.list_plugins() == sorted(CHAT_MODELS.list_plugins())
    assert package.options_class("replay").__name__ == "ReplayOptions"

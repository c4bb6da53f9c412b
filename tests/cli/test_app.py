"""The command as a user types it: what it prints, what it leaves, how it ends."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from cyclopts import App
from PIL import Image
from pydantic import Field

from flows.requests import DrawRequest, RecallBuild
from querytruth.__main__ import start
from querytruth.audit.definition import AuditDefinition
from querytruth.cli import command_line, command_list
from querytruth.cli.app import app
from querytruth.errors import UsageError
from querytruth.requests import IN_FORMS, ByName, takes_request
from tests.cli.conftest import Run
from tests.images import make_jpeg
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.thorough
def test_init_plan_build_show_export(run: Run, tmp_path: Path, make_world: Callable[..., Path]) -> None:
    make_world()
    assert "pets" not in run("init", "precision", "--annotations", "instances.json", "--out", "mine.yaml")[0]
    planned = run("build", "precision", "mine.yaml", "--plan")[0]
    assert "80 labels → 3 of level 1 → 3 of level 2 → 1 of level 3" in planned
    assert not (tmp_path / "datasets").exists()
    run("build", "precision", "mine.yaml", "--set", "name=pets", "--set", "title=Pets & friends <3")
    shown = run("show", "pets")[0]
    assert "pets/v1" in shown and "never prominent" in shown
    card = (tmp_path / "datasets" / "pets" / "v1" / "README.md").read_text()
    assert "# Pets &amp; friends &lt;3" in card and "licence" not in card.split("---")[1]
    run("export", "pets", "trec", "out")
    assert (tmp_path / "out" / "qrels.txt").exists()
    assert run.json("show", "pets")["name"] == "pets"


@pytest.mark.thorough
def test_the_command_says_something_within_a_second_or_so(tmp_path: Path) -> None:
    """The line comes before the libraries are loaded; the bound is wide because machines are busy."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "querytruth", "build", "precision", "x.yaml"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("querytruth: reading x.yaml")
    elapsed = time.monotonic() - start
    process.communicate(timeout=60)
    assert elapsed < 20


_HEAVY = (
    "pandas",
    "numpy",
    "pyarrow",
    "scipy",
    "pydantic",
    "torch",
    "prefect",
    "PIL",
    "fastapi",
    "sqlalchemy",
    "obstore",
)


def loaded_by(code: str, names: tuple[str, ...]) -> str:
    """Which of these modules a process has loaded after it ran the code: a count, where seconds differ by machine."""
    program = f"import sys\n{code}\nprint([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def loaded_by_command(words: list[str], names: tuple[str, ...]) -> str:
    """The same of a command that ends well."""
    code = f"sys.argv = ['querytruth', *{words}]\nfrom querytruth.__main__ import start\n"
    return loaded_by(code + "try: start()\nexcept SystemExit as end: assert not end.code", names)


def test_a_set_is_shown_without_heavy_libraries(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    assert loaded_by_command(["show", str(stored.path)], (*_HEAVY, "packaging")) == "[]"


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("querytruth.cli.app", (*_HEAVY, "packaging", "rich.progress")),
        ("flows.review_site", ("scipy", "torch", "sqlalchemy", "prefect", "querytruth.evaluation.statistics")),
        ("builders.precision.annotation_files", ("scipy", "torch", "sqlalchemy")),
        (
            "flows.set_kinds",
            ("fastapi", "sqlalchemy", "scipy.optimize", "scipy.sparse.csgraph", "faiss", "torch", "prefect"),
        ),
    ],
)
def test_a_part_starts_without_the_libraries_that_it_may_not_need(module: str, unused: tuple[str, ...]) -> None:
    """Each of them takes longer than all else that a command does before its own work."""
    assert loaded_by(f"import {module}", unused) == "[]"


def test_an_evaluation_loads_no_store_of_replies_and_no_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.qrels").write_text("q1 0 img1 1\nq2 0 img2 1\n")
    Path("a.run").write_text("q1 Q0 img1 1 2 x\nq2 Q0 img1 1 2 x\n")
    arguments = ["evaluate", "--qrels", "a.qrels", "--run", "a.run", "--out", "out"]
    unused = ("sqlalchemy", "scipy.optimize", "querytruth.audit.report", "torch")
    assert loaded_by_command(arguments, unused) == "[]"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["--version"]])
def test_the_list_of_commands_is_printed_before_any_library_is_loaded(words: list[str]) -> None:
    assert loaded_by_command(words, (*_HEAVY, "cyclopts", "rich", "yaml", "msgspec", "querytruth.errors")) == "[]"


def test_the_list_of_commands_names_all_and_fits_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for columns in (60, 80, 100):
        lines = command_list.describe(columns).splitlines()
        assert max(map(len, lines)) <= columns
        names = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
        assert names == set(app) - {"-h"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["querytruth", "show", "nothing"])
        with pytest.raises(SystemExit):
            start()
    assert "nothing" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_definition_names_its_kind_and_what_was_refused_is_listed_by_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(2):
        noise = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((640, 480)).save(tmp_path / f"photos/{number}.png")
    (tmp_path / "photos/notes.jpg").write_text("no image", "utf-8")
    (tmp_path / "mine.yaml").write_text("kind: gallery\nname: mine\nimages: photos\n", "utf-8")
    run("build", "mine.yaml")
    assert "notes.jpg" in run("show", "mine", "--rejected", "all")[0]
    (refused,) = run.json("show", "mine", "--rejected", "not_an_image")
    assert (refused["item"], refused["stage"], refused["bucket"]) == ("notes.jpg", "scan", "quarantined")
    assert "choose all, or one of not_an_image (1)" in run.error("show", "mine", "--rejected", "blurred")
    (tmp_path / "none.yaml").write_text("name: mine\n", "utf-8")
    assert "key 'kind' is missing" in run.error("build", "none.yaml")


class WiderBuild(RecallBuild):
    """A build with two options more."""

    colours: Annotated[int, ByName("--colours", "COUNT")] = Field(3, ge=1, description="How many colours.")
    nights: Annotated[int, IN_FORMS] = Field(2, description="Nights until it is built again.")


def made_app(seen: list[WiderBuild]) -> App:
    app = App("wider", result_action="return_value", exit_on_error=False, print_error=False)

    @app.command
    @command_line.command
    def build(*, request: WiderBuild) -> None:
        """Build it."""
        seen.append(request)

    return app


def test_one_line_adds_an_option_an_argument_a_field_of_the_form_and_a_line_of_the_reference() -> None:
    seen = list[WiderBuild]()
    app = made_app(seen)
    command_line.run_command(app, ["build", "album.yaml", "--colours", "5", "--set", "seed=1"], lambda *_: None)
    assert (seen[0].definition, seen[0].colours, seen[0].overrides) == (Path("album.yaml"), 5, ["seed=1"])
    assert "`--colours COUNT`: How many colours. *[default: 3]*" in command_line.describe_commands(app)
    build = takes_request(WiderBuild)(lambda request: request.colours)
    assert build("album.yaml", colours=4) == 4 and "colours: How many colours." in str(build.__doc__)
    form = WiderBuild.model_json_schema()["properties"]["colours"]
    assert form["default"] == 3 and form["minimum"] == 1 and form["description"] == "How many colours."


def test_what_only_deployments_take_is_in_the_form_alone() -> None:
    app = made_app([])
    assert "nights" in WiderBuild.model_json_schema()["properties"]
    assert "nights" not in command_line.describe_commands(app)
    with pytest.raises(UsageError, match="--nights"):
        command_line.run_command(app, ["build", "album.yaml", "--nights", "3"], lambda *_: None)


def test_a_default_is_the_same_whether_typed_or_written_in_a_definition() -> None:
    shared = AuditDefinition.model_fields.keys() & DrawRequest.model_fields.keys() - {"judge"}
    assert {"runs", "depth", "judgments", "people", "seed"} <= shared
    for name in shared:
        one, other = (model.model_fields[name] for model in (AuditDefinition, DrawRequest))
        assert one.get_default(call_default_factory=True) == other.get_default(call_default_factory=True), name


SPLIT = {"split": {"validation": 1, "test": 1}}
LIBRARIES = ("torch", "transformers", "sentence_transformers")
# As where these are not installed: neither their modules nor their versions are found.
WITHOUT = f"""
import importlib.metadata, sys
for library in {LIBRARIES!r}:
    sys.modules[library] = None
found = importlib.metadata.version
def version(name):
    if name.replace("-", "_") in {LIBRARIES!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
from querytruth.cli.app import main
main()
"""


def run_without_torch(place: Path, *words: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *words], cwd=place, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, " ".join(done.stderr.split())


@pytest.fixture
def album(tmp_path: Path) -> Path:
    for number, name in enumerate(("dog", "cat", "boat")):
        (tmp_path / "album").mkdir(exist_ok=True)
        (tmp_path / "album" / f"{name}.jpg").write_bytes(make_jpeg((70 * number, 200 - 70 * number, 90), (100, 80)))
    rows = ["file_name,language,caption", "dog.jpg,en,a wet dog", "cat.jpg,en,a grey cat", "boat.jpg,en,one red boat"]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    return tmp_path


def write_recall(place: Path, **keys: object) -> str:
    captions = {"model": "captions_file", "options": {"path": "captions.csv"}, "prompt": ["en/caption"]}
    definition = {"name": "album", "kind": "recall", "images": "album", "render": {"size": 64}, "captions": captions}
    definition |= {"near_duplicates": {"distance": None}, "ambiguity": {"text_embedder": "char_ngrams"}, **keys}
    (place / "album.yaml").write_text(json.dumps(definition))
    return "album.yaml"


@pytest.mark.slow
def test_a_set_is_built_evaluated_and_linted(album: Path) -> None:
    out, _ = run_without_torch(album, "build", "recall", write_recall(album), "--in-process")
    assert "album/v1 published" in out
    out, _ = run_without_torch(album, "evaluate", "album", "--baseline", "lexical")
    assert "hit@1" in out
    (result,) = (album / "datasets" / "album" / "evaluations").rglob("result.json")
    assert "torch" not in json.loads(result.read_text("utf-8"))["envelope"]["versions"]
    run_without_torch(album, "lint", "album")


@pytest.mark.thorough
def test_an_evaluation_of_a_model_and_a_training_name_what_is_missing(tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    _, err = run_without_torch(tmp_path, "evaluate", "small", "--out", "sets", "--model", "model", code=1)
    assert "needs torch, which is not installed. Next: pip install torch" in err
    (tmp_path / "training.yaml").write_text(
        json.dumps({"name": "mine", "kind": "training", "set": "sets/small", **SPLIT})
    )
    _, err = run_without_torch(tmp_path, "train", "training.yaml", code=1)
    assert "needs torch, which is not installed. Next: pip install torch" in err

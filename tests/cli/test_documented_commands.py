"""What the documents say to type, and what a script does that uses only what a page names."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image, ImageDraw
from pillow_heif import register_heif_opener

import querytruth as qt
from flows.definition_loader import load_definition
from querytruth.backends.models.chat import load_chat_model
from querytruth.cli.app import app
from querytruth.cli.command_line import describe_commands
from querytruth.cli.command_list import COMMANDS
from querytruth.errors import UserError
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import find_set, read_set
from tests.checks.golden_world import PHOTOS, serve
from tests.cli.conftest import Run
from tests.command_runner import invoke
from tests.loopback import unused_url

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/zh/*.md"), *ROOT.glob("querytruth/*.py")])
# What an error names as the next step stands in the source, with {parts} that it fills in.
SOURCES = sorted(path for room in ("builders", "flows", "querytruth") for path in (ROOT / room).rglob("*.py"))
_LINE = re.compile(r"(?m)^    \s*(?:\$ |Example: )?(querytruth [a-z][^\n]*)|`(querytruth [a-z][^`\n]*)`")


def documented(page: Path) -> Iterator[list[str]]:
    text = page.read_text("utf-8").replace("\\\n", " ")
    for one, other in _LINE.findall(text):
        line = re.split(r"\s[|>#&]|\s{3,}|…|\.\.\.|，|。", one or other)[0]
        try:
            yield shlex.split(line)[1:]
        except ValueError:
            continue


def unknown_parts(words: list[str]) -> list[str]:
    command, words = app, list(words)
    while words and words[0] in command and not words[0].startswith("-"):
        command = command[words.pop(0)]
    if command.default_command is None and words and not words[0].startswith("-"):
        return [words[0]] if re.fullmatch(r"[a-z][a-z-]+", words[0]) else []
    # Of a group: also those of its commands.
    parts = [command, *(command[name] for name in command if not name.startswith("-"))]
    options = [one for part in parts if part.default_command for one in part.assemble_argument_collection()]
    known = {name for one in options for name in one.names}
    given = [word.partition("=")[0].rstrip(".,;:)") for word in words if re.match(r"--[a-z]", word)]
    return [option for option in given if option not in known | {"--help", "--install-completion", "--version"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_and_options_exist(page: Path) -> None:
    faults = [(" ".join(words), unknown) for words in documented(page) if (unknown := unknown_parts(words))]
    assert not faults


def test_next_steps_name_commands_and_options_that_exist() -> None:
    named = [(path.name, words) for path in SOURCES for words in documented(path)]
    assert len(named) > 30
    assert not [(name, " ".join(words)) for name, words in named if unknown_parts(words)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_lines_have_the_arguments_that_their_commands_want(page: Path) -> None:
    for words in documented(page):
        is_line = any(word.startswith("-") or not re.fullmatch(r"[a-z-]+", word) for word in words)
        if is_line and not {"FORMAT", "<kind>", "FILE.yaml"} & set(words):
            app.parse_args(words, exit_on_error=False, print_error=False)


def test_the_reference_is_what_the_commands_say_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)  # cyclopts writes `python -m …` where it finds one
    assert (ROOT / "docs" / "reference.md").read_text("utf-8") == describe_commands(app), "run make reference"


def test_the_list_of_commands_says_what_each_says_itself() -> None:
    for panel in COMMANDS.values():
        for name, (_, about) in panel.items():
            own = " ".join(app[name].help.split())
            assert own.split()[:5] == about.split()[:5], f"{name}: the list says {about!r}, the command {own!r}"


def test_the_documents_hold_commands() -> None:
    assert sum(1 for page in PAGES for _ in documented(page)) > 300
    assert unknown_parts(["build", "gallery", "--nowhere", "x"]) == ["--nowhere"] and unknown_parts(["biuld"]) == [
        "biuld"
    ]


def test_documented_options_of_judges_are_those_of_their_models() -> None:
    lines = [words for page in PAGES for words in documented(page) if "--judge-option" in words and "--judge" in words]
    assert len(lines) > 5
    for words in lines:
        pairs = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "--judge-option"]
        options = {key: "http://127.0.0.1:1/v1" if key == "base_url" else value for key, _, value in pairs}
        model = words[words.index("--judge") + 1]
        if model == "openai_compatible":
            load_chat_model(model, **{"base_url": "http://127.0.0.1:1/v1", **options})


def test_an_option_named_model_is_one_line_and_no_traceback() -> None:
    with pytest.raises(UserError, match="model"):
        load_chat_model("openai_compatible", model="qwen3-vl", base_url="http://127.0.0.1:1/v1")


def test_starters_name_no_page_that_a_wheel_lacks() -> None:
    for starter in sorted((ROOT / "datasets" / "starters").glob("*.yaml")):
        assert "docs/" not in starter.read_text("utf-8"), starter.name


@pytest.mark.parametrize("key", ["near_duplicates", "mixes"])
def test_a_section_that_is_null_is_told_without_a_python_class(key: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"name: p\nkind: precision\nannotations: a.json\n{key}: null\n")
    with pytest.raises(UserError, match=f"key '{key}': needs a mapping of keys.*cannot be null") as caught:
        load_definition(file, [], "precision")
    assert "Options" not in str(caught.value)


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headlines, as GitHub makes them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", headline)).strip().lower().replace(" ", "-")
        for headline in re.findall(r"(?m)^#+ (.+)$", text)
    }


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.suffix == ".md" and page.name != "reference.md"], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?m)^    .*$", "", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in list_anchors(file)):
            lost.append(target)
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_kinds_of_counts_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"\bcount/[a-z0-9+]+", page.read_text("utf-8")))
    assert named <= {"count/2", "count/3+"}, "as builders/precision/families/count.py asks them"


HELPED = re.findall(r"(?m)^#{2,3} querytruth ([a-z][a-z -]*)$", (ROOT / "docs/reference.md").read_text("utf-8"))


@pytest.mark.parametrize("command", HELPED)
def test_every_command_prints_its_help(command: str) -> None:
    ended = invoke(*command.split(), "--help")
    assert (ended.exit_code, ended.exception) == (0, None) and "Usage: querytruth" in ended.stdout
    assert "Example: querytruth" in ended.stdout or app[command].default_command is None


AGENTS = (Path(__file__).parents[2] / "AGENTS.md").read_text("utf-8")


@pytest.mark.thorough
def test_the_first_hour_with_what_the_page_names(run: Run, tmp_path: Path) -> None:
    system, golden = re.findall(r"```yaml\n(.*?)```", AGENTS, re.DOTALL)
    with serve(tmp_path) as search:
        search.lists["green"] = PHOTOS[3:]
        url = (tmp_path / "mine.yaml").read_text().partition("url: ")[2].partition("/?")[0]
        system = system.replace("http://localhost:8000/search", url).replace('size: "{k}"', 'k: "{k}"')
        system = system.replace("results: hits", "results: results").replace("id: file ", "id: id ")
        (tmp_path / "my-search.yaml").write_text(system)
        (tmp_path / "golden.yaml").write_text(golden)
        (tmp_path / "captions.csv").write_text("image,text\np00.jpg,red\np03.jpg,green\n")
        trial = run.json("search", "red", "--system", "my-search.yaml", "--trial")
        assert {"rank", "id", "score"} <= trial["hits"][0].keys()
        (case,) = run.json("check", "golden.yaml")["cases"]
        assert case["status"] == "pass" and {"query", "problems", "ranks"} <= case.keys()
        made = run.json("import", "pairs", "captions.csv", "datasets/mine", "--images", "photos")
        assert {"path", "counts"} <= made.keys()
        (result,) = run.json("evaluate", "mine", "--system", "my-search.yaml")["results"]
        assert {"metric", "value", "low", "high"} <= result["figures"][0].keys()
        run("evaluate", "mine", "--baseline", "random", "--json")
        (pair, *_) = run.json("compare", "mine", "my-search", "random")["pairs"]
        assert {"difference", "low", "high", "p_holm"} <= pair.keys()
        gate = ("gate", "mine", "--candidate", "my-search", "--baseline", "random", "--metric", "ndcg@10")
        assert "verdict" in run.json(*gate, "--margin", "0.02", "--undecided", "pass")
        assert run("lint", "mine", "--json")[0] and "problems" in run.json("verify", "mine")
        assert run("list", "--json")[0].startswith("[")
        url = qt.open("photos", show=False)
        assert url.startswith("http://127.0.0.1:") and "?token=" in url


def test_the_page_is_one_page_and_lies_in_the_package() -> None:
    assert AGENTS.count("\n") < 80 and Path(qt.__file__).with_name("AGENTS.md").read_text("utf-8") == AGENTS


DOCS = Path(__file__).parents[2] / "docs"
ENGLISH = (DOCS / "first-hour.md").read_text("utf-8")
CHINESE = (DOCS / "zh" / "first-hour.md").read_text("utf-8")


def commands(page: str) -> list[str]:
    """What a page says to type."""
    return re.findall(r"^    \$ (.+)$", page.partition("## 7. ")[0], re.MULTILINE)


def own_query_commands(page: str) -> list[str]:
    """What the walk with own queries says to type."""
    return re.findall(r"^    \$ (.+)$", page.partition("## 7. ")[2], re.MULTILINE)


def test_both_pages_have_the_same_commands_and_the_same_file() -> None:
    assert commands(ENGLISH) == commands(CHINESE) and len(commands(ENGLISH)) == 11
    assert own_query_commands(ENGLISH) == own_query_commands(CHINESE) and len(own_query_commands(ENGLISH)) == 9
    files = [re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) for page in (ENGLISH, CHINESE)]
    assert files[0] == files[1] and len(files[0]) == 1


def draw_photos(folder: Path) -> None:
    """Twelve photos, one of them HEIC, a second copy of one, and one that is broken."""
    register_heif_opener()
    (folder / "backup").mkdir(parents=True)
    for n in range(12):
        image = Image.new("RGB", (400, 300), (n * 20, 255 - n * 20, (n * 67) % 255))
        for part in range(9):
            corner = (part % 3 * 133, part // 3 * 100)
            colour = tuple((n * 53 + part * step) % 256 for step in (91, 37, 149))
            ImageDraw.Draw(image).rectangle((*corner, corner[0] + 110 - n * 3, corner[1] + 60 + n * 3), fill=colour)
        image.save(folder / (f"IMG_{n}.HEIC" if n == 0 else f"photo {n}.jpg"))
    shutil.copy(folder / "photo 5.jpg", folder / "backup")
    (folder / "broken.jpg").write_bytes((folder / "photo 6.jpg").read_bytes()[:900])


@pytest.mark.slow
def test_the_walk_of_the_page_works_as_typed(run: Run, tmp_path: Path) -> None:
    draw_photos(tmp_path / "photos")
    urls = {f"http://127.0.0.1:{port}": unused_url() for port in (8001, 8002)}
    ports = [url.rpartition(":")[2] for url in urls.values()]
    server = [sys.executable, "-m", "querytruth", "demo-servers", "photos"]
    options = ["--captions", ports[0], "--search", ports[1]]
    process = subprocess.Popen([*server, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("13 images")
        time.sleep(0.5)
        page = ENGLISH
        for written, used in urls.items():
            page = page.replace(written, used)
        (file,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        (tmp_path / "my-search.yaml").write_text(file)
        printed = {}
        for command in commands(page):
            if command == "querytruth review photos":  # a person at the page drops a query
                stored = read_set(find_set("photos", tmp_path / "datasets"))
                query = stored.tables.queries.iloc[0]
                dropped = QueryDecision(query["query_id"], query["text"], "drop", reviewer="lin", at="2026-01-01")
                append_decisions(stored.path.parent, [dropped])
                continue
            printed[command] = run(*shlex.split(command)[1:])[0]
            if command.startswith("querytruth init"):  # without a model: texts alike by their letters
                definition = tmp_path / "recall.yaml"
                text = definition.read_text().replace("sentence-transformers/all-MiniLM-L6-v2", "char_ngrams")
                definition.write_text(text)
    finally:
        process.kill()
        process.communicate()
    plan, evaluated = (printed[one] for one in printed if "--plan" in one or " evaluate " in one)
    assert "12 images, 12 captions" in plan and "exact duplicate" in plan and "cannot be decoded" in plan
    assert "photos/v2" in evaluated and "my-search" in evaluated
    assert "published in" in printed["querytruth apply photos"] and (tmp_path / "search.html").is_file()
    assert "intact" in printed["querytruth verify photos"]


BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
PYTHON_PAGES = ("python.md", "zh/python.md")
TASK = re.compile(r"^\*\*(\d+)\.", re.MULTILINE)


def read_blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / page).read_text("utf-8"))


def run_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """The code of each block, its output in the page, and what it prints."""
    names: dict[str, Any] = {}
    for code, expected in read_blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        yield code, expected, printed.getvalue()


def test_the_pages_have_ten_tasks_of_at_most_five_lines_and_the_same_code() -> None:
    for page in PYTHON_PAGES:
        text = (DOCS / page).read_text("utf-8")
        assert TASK.findall(text) == [str(number) for number in range(1, 11)]
        assert max(len(list(filter(None, code.splitlines()))) for code, _ in read_blocks(page)[1:11]) <= 5
    assert read_blocks(PYTHON_PAGES[0]) == read_blocks(PYTHON_PAGES[1])


@pytest.mark.thorough
def test_every_block_runs_on_a_small_album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample_album(Path("album"), 40)
    ran = list(run_blocks(PYTHON_PAGES[0]))
    assert len(ran) == 14 and all(printed for _, expected, printed in ran if expected)


@pytest.mark.slow
def test_every_block_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample_album(Path("album"))
    for code, expected, printed in run_blocks(PYTHON_PAGES[0]):
        assert printed == expected, code


@pytest.mark.thorough
def test_the_notebook_runs_and_shows_its_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    write_sample_album(tmp_path / "album", 40)
    notebook = nbformat.read(DOCS / "python.ipynb", as_version=4)
    stored = [kinds_of_outputs(cell) for cell in notebook.cells]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [kinds_of_outputs(cell) for cell in notebook.cells] == stored
    shown = "".join(output.data.get("text/html", "") for cell in notebook.cells for output in displayed(cell))
    assert "data:image/jpeg;base64," in shown and "recall set notebook/v1" in shown and "lexical, random on" in shown


def displayed(cell: Any) -> list[Any]:
    return [output for output in cell.get("outputs", []) if output.output_type == "execute_result"]


def kinds_of_outputs(cell: Any) -> list[str]:
    return [output.output_type for output in cell.get("outputs", [])]

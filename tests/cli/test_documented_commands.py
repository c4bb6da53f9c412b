"""Every command line in the documents names commands and options that exist, and starters name what a wheel has."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from querytruth.backends.models.chat import load_chat_model
from querytruth.cli.app import app
from querytruth.cli.command_line import describe_commands
from querytruth.cli.command_list import COMMANDS
from querytruth.errors import UserError
from tests.command_runner import invoke

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

"""Files from a stranger are data: whatever a set, its results or a publisher's files hold, no command reads, writes or
connects where they say."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from querytruth.backends.files.parquet_files import read_parquet
from querytruth.errors import UserError
from querytruth.sets.set_files import find_set
from tests.command_runner import invoke
from tests.hostile_imports import HostileImport, hostile_imports
from tests.hostile_results import hostile_results
from tests.hostile_sets import HostileCase, hostile_cases, version_of
from tests.publisher_files import PUBLISHER_FILES, FirstEntry, write_source
from tests.resealed_sets import reseal
from tests.small_sets import publish_small_set, small_tables, strangers_tables
from tests.watched_commands import (
    do_work_in_process,
    list_opened,
    make_home,
    run_cases,
    run_command,
    run_watched,
    use_set,
)

_Commands = Callable[[Path, Path], list[list[str]]]
_Use = Callable[[Path, Path], tuple[list[str], str]]  # of a version and of a whole set: the problems, what is printed
_STEP = 4  # of so many cases that slow tests could try, one is tried
_IMPORTS = {
    layout: list(cases)
    for layout, cases in groupby(sorted(hostile_imports(), key=lambda case: case.layout), key=lambda case: case.layout)
}
_OUR_ID = re.compile("(img|q)_[0-9a-f]{20}")
# Keys that differ in every import.
_ONES_OWN = ("build_digest", "canary", "content_digest", "envelope", "files", "inputs", "manifest_digest")


def _list_stored_commands(version: Path, whole: Path) -> list[list[str]]:
    """The commands that read the results, audits and overlaps that came with a set."""
    spec, sent = str(version), str(version.parent / "evaluations" / "v1" / "oracle")
    mine, latency = str(whole / "evaluations" / "v1" / "oracle"), ["--max-latency", "p95=9"]
    return [
        ["compare", spec, sent, mine, "--page", "compare.html"],
        ["gate", spec, "--candidate", sent, "--baseline", mine, "--metric", "hit@1", "--margin", "0.1", *latency],
        ["search", spec, "a dog, wet", "--run", sent, "--page", "search.html"],
        ["leaderboard", spec, "--to", "board.html"],
        ["evaluate", spec, "--baseline", "oracle"],
        ["audit", "plan", spec, "--run", sent, "--depth", "1"],
        ["audit", "report", spec, "--name", "first"],
        ["review", "export-csv", "--audit", "first", spec],
    ]


def _give(commands: _Commands) -> _Use:
    def use(version: Path, whole: Path) -> tuple[list[str], str]:
        given = [(command, *run_command(command)) for command in commands(version, whole)]
        problems = [f"{' '.join(command[:2])}: {problem}" for command, problem, _ in given if problem]
        return problems, "".join(printed for _, _, printed in given)

    return use


def _run(case: HostileCase, use: _Use, template: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is printed by the use of a set in which the case has replaced something."""
    home, folder, whole = make_home(place), place / "sets" / "small", place / "sets" / "whole"
    shutil.copytree(template, folder)
    shutil.copytree(template, whole)
    case[1](folder, home)
    reseal(version_of(folder))
    do_work_in_process(monkeypatch)
    return run_watched(lambda: use(version_of(folder), whole), home, place, monkeypatch)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole set of four images, as a stranger would publish it."""
    return publish_small_set(tmp_path_factory.mktemp("template"), strangers_tables()).path.parent


@pytest.mark.parametrize(
    "some",
    [
        pytest.param(slice(None, None, 13), id="a sample", marks=pytest.mark.thorough),
        pytest.param(slice(1, None, _STEP), id="more", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(1200)
def test_hostile_sets(some: slice, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cases(list(hostile_cases())[some], lambda case, at: _run(case, use_set, template, at, monkeypatch), tmp_path)


def test_a_version_that_is_a_link_is_not_followed(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template, tmp_path / "private")
    shutil.copytree(template, tmp_path / "sent")
    (tmp_path / "sent" / "v9").symlink_to(tmp_path / "private" / "v1")
    with pytest.raises(UserError, match=r"v9 \(find set\): is a link"):
        find_set(str(tmp_path / "sent"))
    assert find_set(str(tmp_path / "sent" / "v1")).name == "v1"


def test_no_page_is_written_through_a_link(template: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "sets" / "small", tmp_path / "outside"
    shutil.copytree(template, folder)
    outside.mkdir()
    (folder / "shown").symlink_to(outside)
    said = invoke("apply", folder / "v1")
    assert said.exit_code == 0 and "shown (write page): is a link" in said.output
    assert not list(outside.iterdir())


@pytest.fixture(scope="module")
def with_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a set with a result, an audit and a list of overlaps."""
    folder = tmp_path_factory.mktemp("results")
    stored = publish_small_set(folder, strangers_tables())
    result = stored.path.parent / "evaluations" / "v1" / "oracle"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        do_work_in_process(patch)
        for command in (
            ["evaluate", str(stored.path), "--baseline", "oracle"],
            ["audit", "start", str(stored.path), "--run", str(result), "--depth", "1", "--name", "first"],
            ["overlap", str(stored.path), "--against", str(stored.path.parent)],
        ):
            problem, _ = run_command(command)
            assert not problem, problem
    return stored.path.parent


@pytest.mark.thorough
def test_whole_results_pass_every_command(with_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: HostileCase = ("whole", lambda _folder, _home: None)
    printed = _run(whole, _give(_list_stored_commands), with_results, tmp_path, monkeypatch)
    errors = [line.partition(".")[0] for line in printed.splitlines() if line.startswith("Error: ")]
    assert errors == [
        "Error: oracle (gate): has no measured latency",
        "Error: first (audit): only 0 of 4 pairs have an answer",
    ]


@pytest.fixture(scope="module")
def readers(with_results: Path, tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """The files of the set that each command on stored results opens."""
    place = tmp_path_factory.mktemp("readers")
    sets = [Path(shutil.copytree(with_results, place / name)) for name in ("small", "whole")]
    commands = _list_stored_commands(version_of(sets[0]), sets[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        do_work_in_process(patch)
        return [list_opened(command, sets[0]) for command in commands]


def test_every_file_of_results_is_opened_by_a_command(with_results: Path, readers: list[set[str]]) -> None:
    assert {_file_of(case) for case in hostile_results(with_results)} <= set().union(*readers)


def _file_of(case: HostileCase) -> str:
    return case[0].partition(" ")[0]


@pytest.mark.parametrize(
    "some",
    [
        pytest.param(slice(None, None, 149), id="a sample", marks=pytest.mark.thorough),
        pytest.param(slice(1, None, _STEP), id="more", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(1200)
def test_hostile_results(
    some: slice, with_results: Path, readers: list[set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given to the commands that open the file in which a case has replaced something."""

    def run(case: HostileCase, place: Path) -> None:
        def list_readers(version: Path, whole: Path) -> list[list[str]]:
            commands = _list_stored_commands(version, whole)
            return [one for one, opened in zip(commands, readers, strict=True) if _file_of(case) in opened]

        _run(case, _give(list_readers), with_results, place, monkeypatch)

    run_cases(hostile_results(with_results)[some], run, tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of four images, with which imported ones are compared."""
    return publish_small_set(tmp_path_factory.mktemp("whole"), small_tables()).path.parent


@pytest.fixture(scope="module")
def used() -> set[bytes]:
    """What the sets said that commands were given on."""
    return set()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("layout", _IMPORTS)
def test_hostile_imports(
    layout: str, whole: Path, used: set[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that says what another one said, in every cell of it, is imported and not used again."""
    do_work_in_process(monkeypatch)

    def run(case: HostileImport, place: Path) -> None:
        _import_and_use(case, whole, used, place, monkeypatch)

    first = HostileImport("whole", layout, lambda source, _home: write_source(layout, source, FirstEntry()))
    run(first, tmp_path)
    assert (tmp_path / "sets" / "taken" / "v1" / "manifest.json").is_file()
    run_cases(_IMPORTS[layout][::_STEP], run, tmp_path)


def test_every_layout_has_hostile_imports() -> None:
    assert _IMPORTS.keys() == PUBLISHER_FILES.keys()


def _import_and_use(
    case: HostileImport, whole: Path, used: set[bytes], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, sets = make_home(place), place / "sets"
    case.write(sets / "received" / "source", home)
    taken = sets / "taken" / "v1"

    def run() -> tuple[list[str], str]:
        received = sets / "received"
        command = ["import", case.layout.split()[0], str(received / "source"), str(taken.parent), "--images"]
        problem, printed = run_command([*command, str(received / "photos")])
        problems = [f"import: {problem}"] if problem else []
        if not (taken / "manifest.json").is_file() or used >= (said := _list_statements(taken, place)):
            return problems, printed
        used.update(said)
        more, told = use_set(taken, whole)
        return problems + more, printed + told

    run_watched(run, home, place, monkeypatch)


def _list_statements(version: Path, place: Path) -> set[bytes]:
    """The digest of every cell of a set's tables but our ids, with its column, and of every key of its manifest."""
    manifest = json.loads((version / "manifest.json").read_bytes())
    said = {repr((key, value)) for key, value in manifest.items() if key not in _ONES_OWN}
    for path in version.glob("*.parquet"):
        for column, values in read_parquet(path).to_pydict().items():
            said |= {repr((path.name, column, value)) for value in values if not _OUR_ID.fullmatch(str(value))}
    texts = [one.replace(str(place), "") for one in said]
    return {hashlib.sha256(one.encode("utf-8", "surrogatepass")).digest() for one in texts}

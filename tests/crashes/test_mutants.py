"""Each guard of stored data taken out of a copy of the code: a named test fails then."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes.mutants import MUTANTS, Mutant
from tests.forked_pytest import ForkedPytest, fork_pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedPytest]:
    """The tree, without what is hidden or large; compiled modules stay valid."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (Debian: strace)")
    folder = tmp_path_factory.mktemp("copy")
    for one in ROOT.iterdir():
        if (one / "__init__.py").is_file() or one.name in ("tests", "prompts"):
            shutil.copytree(one, folder / one.name)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    with fork_pytest(folder, tmp_path_factory.mktemp("printed") / "printed") as forked:
        yield forked


def run_tests(copy: ForkedPytest, fails: str) -> int:
    """The exit status of pytest: 0 where all pass, 1 where a test fails, another where none ran."""
    file, _, names = fails.partition("::")
    return copy.run([file], "-m", "slow or not slow", "-k", names)[0]


def test_every_guard_is_there_once() -> None:
    """Found at once, not by the hour that the mutants take."""
    texts = {file: (ROOT / file).read_text("utf-8") for file in {mutant.file for mutant in MUTANTS}}
    assert [mutant.guard for mutant in MUTANTS if texts[mutant.file].count(mutant.text) != 1] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_without_any_one_guard_the_named_test_fails(mutant: Mutant, copy: ForkedPytest) -> None:
    file = copy.folder / mutant.file
    whole = file.read_text("utf-8")
    assert whole.count(mutant.text) == 1, "the guard is not there"
    file.write_text(whole.replace(mutant.text, mutant.instead), "utf-8")
    try:
        assert run_tests(copy, mutant.fails) == 1
    finally:
        file.write_text(whole, "utf-8")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_all_guards_the_named_tests_pass(copy: ForkedPytest) -> None:
    for fails in sorted({mutant.fails for mutant in MUTANTS}):
        assert run_tests(copy, fails) == 0, fails


OTHER_WAITS = {  # for names alone; of what is lost the next run writes a new one
    ("querytruth/dual_encoder/checkpoints.py", "sync_folder(folder)"),
    ("querytruth/audit/audit_files.py", "durable_files.sync_folder(folder)"),
    ("querytruth/review/pool_views.py", "durable_files.sync_folder(table.parent)"),
}


def test_every_fsync_is_one_of_the_mutants() -> None:
    waits = {
        (path.relative_to(ROOT).as_posix(), line.strip())
        for folder in ("builders", "flows", "querytruth")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.match(r" +(?:\w+\.)?(fsync|sync_folder|sync_file)\(", line)
    }
    taken_out = {(file, line) for file, line in waits for one in MUTANTS if one.file == file and line in one.text}
    assert waits - taken_out == OTHER_WAITS

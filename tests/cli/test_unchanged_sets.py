"""Commands that read a set leave its folder as it was, also where they may write to it."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small_sets import publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]
READS = [
    ["show", "small"],
    ["verify", "small"],
    ["lint", "small"],
    ["diff", "small/v1", "small/v1"],
    ["export", "small", "csv", "exported"],
    ["evaluate", "small", "--baseline", "oracle", "--report", "report"],
    ["search", "small", "a dog, wet", "--run", "report", "--page", "search.html"],
    ["compare", "small", "report", "report", "--page", "compare.html"],
]


def state_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """By path: rights, time of the last change in nanoseconds, and digest."""
    state = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        state[str(path)] = path.stat().st_mode, path.stat().st_mtime_ns, digest
    return state


@pytest.mark.parametrize("is_writable", [True, False])
@pytest.mark.slow
def test_commands_that_read_leave_a_set_as_it_was(is_writable: bool, run: Run, tmp_path: Path) -> None:
    sets = publish_small_set(tmp_path, small_tables()).path.parent.parent
    folders = [sets, *(path for path in sets.rglob("*") if path.is_dir())]
    if not is_writable:
        for folder in folders:
            folder.chmod(0o555)
    before = state_of(sets)
    try:
        for command in READS:
            run(*command, "--out", sets, code=int(command[0] == "lint"))  # lint finds an empty truth
            assert state_of(sets) == before, command
    finally:
        for folder in folders:
            folder.chmod(0o755)

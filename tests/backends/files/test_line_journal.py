"""A journal on disk: whole lines or none, whenever the machine stops, and one writer at a time."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from querytruth.backends.files import durable_files as append_log
from querytruth.backends.files.durable_files import open_journal
from querytruth.backends.files.durable_files import read_journal_lines as read_lines
from querytruth.errors import UserError


def test_lines_are_there_for_the_next_who_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.jsonl"
    with open_journal(path) as journal:
        assert journal.lines == []
        journal.append("one")
        journal.append("zwei 二")
    with open_journal(path) as journal:
        assert journal.lines == ["one", "zwei 二"]
    assert read_lines(path) == ["one", "zwei 二"]


def test_a_line_is_on_disk_before_the_call_returns(tmp_path: Path) -> None:
    with open_journal(tmp_path / "a") as journal:
        journal.append("one")
        assert (tmp_path / "a").read_text() == "one\n"
        with pytest.raises(ValueError, match="line end"):
            journal.append("two\nlines")
        assert (tmp_path / "a").read_text() == "one\n"


@pytest.mark.parametrize("torn", ["", "t", "two", "zw\u00e4".encode()[:3].decode("latin-1")])
def test_a_line_without_its_end_is_cut_off_and_the_next_begins_there(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\n" + torn.encode("latin-1"))
    with open_journal(path) as journal:
        assert journal.lines == ["one"]
        journal.append("three")
    assert path.read_text() == "one\nthree\n"


def test_begun_anew_it_is_empty(tmp_path: Path) -> None:
    with open_journal(tmp_path / "a") as journal:
        journal.append("one")
        journal.clear()
        journal.append("two")
    assert read_lines(tmp_path / "a") == ["two"]


def test_a_second_writer_is_told_to_wait(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path / "a"),
        pytest.raises(UserError, match="is being written by another run"),
        open_journal(tmp_path / "a"),
    ):
        pass
    with open_journal(tmp_path / "a") as journal:
        journal.append("one")


def test_what_is_damaged_or_out_of_reach_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n\xff\xfe\n")
    with pytest.raises(UserError, match=r"a line 2 .*is damaged"), open_journal(tmp_path / "a"):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot be opened"), open_journal(tmp_path / "folder"):
        pass
    with pytest.raises(UserError, match="cannot be read"):
        read_lines(tmp_path / "none")


@pytest.mark.thorough
def test_a_full_disk_leaves_the_lines_that_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_journal(tmp_path / "a") as journal:
        journal.append("one")
        real = os.write

        def full(handle: int, data: bytes) -> int:
            if len(data) <= 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(handle, bytes(data)[:-2])

        monkeypatch.setattr(append_log.os, "write", full)
        with pytest.raises(UserError, match="No space left"):
            journal.append("two")
        monkeypatch.undo()
        journal.append("three")
    assert read_lines(tmp_path / "a") == ["one", "three"]


WRITER = """
import sys
from pathlib import Path
from querytruth.backends.files.durable_files import open_journal
with open_journal(Path(sys.argv[1])) as journal:
    for number in range(len(journal.lines), 100_000):
        journal.append(str(number) * 50)
"""


@pytest.mark.slow
def test_killed_again_and_again_it_holds_every_line_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for _ in range(10):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=Path(__file__).parents[3])
        before = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size <= before:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    with open_journal(path) as journal:
        assert journal.lines == [str(number) * 50 for number in range(len(journal.lines))]
        assert len(journal.lines) > 9

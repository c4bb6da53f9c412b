"""Files, lines and folders of tasks that are there once they were acknowledged, and never half."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from querytruth.backends.files import durable_files
from querytruth.backends.files.durable_files import (
    link_or_copy,
    open_journal,
    open_task_folder,
    replace_atomically,
    task_root,
    write_atomically,
)
from querytruth.backends.files.durable_files import read_journal_lines as read_lines
from querytruth.errors import UserError


def test_bytes_are_waited_for_before_they_replace_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real, replace = os.fsync, Path.replace
    monkeypatch.setattr(durable_files.os, "fsync", lambda handle: (done.append("fsync"), real(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append(Path(to).name), replace(self, to))[1])
    write_atomically(tmp_path / "new" / "one.txt", b"one")
    replace_atomically(tmp_path / "new" / "two.bin", lambda file: file.write(b"two"))
    assert done == ["fsync", "one.txt", "fsync", "two.bin"]
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "new").iterdir()) == [
        ("one.txt", b"one"),
        ("two.bin", b"two"),
    ]


def test_an_image_copied_for_want_of_links_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "image.jpg").write_bytes(b"image")
    synced: list[int] = []

    def refuse(*_paths: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(durable_files.os, "link", refuse)
    monkeypatch.setattr(durable_files.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    link_or_copy(tmp_path / "image.jpg", tmp_path / "copied.jpg")
    assert (tmp_path / "copied.jpg").read_bytes() == b"image"
    assert synced == [(tmp_path / "copied.jpg").stat().st_ino]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, fault: BaseException) -> None:
    write_atomically(tmp_path / "state", b"old")

    def half(file: IO[bytes]) -> None:
        file.write(b"ne")
        raise fault

    with pytest.raises(type(fault)):
        replace_atomically(tmp_path / "state", half)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("state", b"old")]


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


ROOT = Path(__file__).parents[3]


def test_a_folder_is_removed_with_what_is_in_it() -> None:
    with open_task_folder() as one, open_task_folder() as other:
        (one / "file").write_text("x")
        assert one != other and one.parent == other.parent == task_root()
    assert not one.exists() and not other.exists()
    with pytest.raises(ZeroDivisionError), open_task_folder() as one:
        1 / 0  # noqa: B018
    assert not one.exists()


def test_the_end_of_the_process_removes_all_and_that_of_a_fork_nothing(tmp_path: Path) -> None:
    program = """
import os, sys
from querytruth.backends.files.durable_files import task_root
place = task_root()
if not (child := os.fork()):
    assert task_root() != place
    sys.exit()
os.waitpid(child, 0)
print(place.exists(), len(list(place.parent.iterdir())))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]
    assert list(tmp_path.iterdir()) == []

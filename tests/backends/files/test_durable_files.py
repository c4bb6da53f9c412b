"""Files are whole or not there: written beside, waited for, then put in place."""

import errno
import os
from pathlib import Path
from typing import IO

import pytest

from querytruth.backends.files import durable_files
from querytruth.backends.files.durable_files import link_or_copy, replace_atomically, write_atomically


def test_bytes_are_waited_for_before_they_take_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_an_image_that_is_copied_for_want_of_links_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_cannot_be_written_to_its_end_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, fault: BaseException
) -> None:
    write_atomically(tmp_path / "state", b"old")

    def half(file: IO[bytes]) -> None:
        file.write(b"ne")
        raise fault

    with pytest.raises(type(fault)):
        replace_atomically(tmp_path / "state", half)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("state", b"old")]

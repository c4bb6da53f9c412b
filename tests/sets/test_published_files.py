"""What killed runs leave below a set's folder, and what is no leftover."""

import os
import time
from pathlib import Path

import pytest

from querytruth.backends.files.durable_files import make_staging_folder
from querytruth.cli import set_commands
from querytruth.errors import UserError
from querytruth.sets.published_files import find_leftovers
from tests.small_sets import publish_small_set, small_tables

DAY = 86_400


def make_old(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 2 * DAY,) * 2, follow_symlinks=False)


def test_unfinished_writes_are_leftovers_and_nothing_else_is(tmp_path: Path) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    (folder / "decisions.jsonl").write_text("{}\n")
    (folder / "replies.sqlite").write_bytes(b"")
    body = folder / "pages" / "bodies" / "00" / ("00" * 32)
    torn = folder / ".rendered" / "512-fit" / ".a.jpg.0123456789abcdef"
    arriving = folder / "pages" / "incoming" / "x"
    outside = tmp_path / "outside"
    for path in (body, torn, arriving, outside):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    (folder / ".link.0123456789abcdef").symlink_to(outside)
    assert find_leftovers(folder, time.time() - DAY) == [], "a run may still be writing them"
    make_old(folder)
    assert find_leftovers(folder, time.time() - DAY) == sorted([torn, arriving])


def test_gc_names_leftovers_and_a_dry_run_leaves_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = tmp_path / "pets" / ".rendered" / ".a.jpg.0123456789abcdef"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"left")
    make_old(tmp_path)
    set_commands.gc("pets", out=tmp_path, hours=24, dry_run=True)
    assert torn.exists() and "1 files would be removed" in capsys.readouterr().err
    set_commands.gc("pets", out=tmp_path, hours=24)
    assert not torn.exists() and "1 files removed" in capsys.readouterr().err
    with pytest.raises(UserError, match="is not a folder there"):
        set_commands.gc("nobody", out=tmp_path, hours=24)


def test_a_version_of_a_killed_build_is_a_leftover_and_one_being_written_is_not(tmp_path: Path) -> None:
    running = make_staging_folder(tmp_path / "pets" / ".publish")
    killed = running.with_name(running.name.replace(f"-{os.getpid()}-", "-4194303-"))
    for staging in (running, killed):
        (staging / "images").mkdir(parents=True, exist_ok=True)
        (staging / "images" / "a.jpg").write_bytes(b"left")
    make_old(tmp_path)
    os.utime(running)
    assert find_leftovers(tmp_path / "pets", time.time() - DAY) == [killed / "images" / "a.jpg"]
    set_commands.gc("pets", out=tmp_path, hours=24)
    assert running.is_dir() and not killed.exists()

"""A disk that is full or may not be written, and a clock that jumps: one line, nothing half published, then on."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.imported_set import ImportDefinition
from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.images import make_jpeg
from tests.publisher_files import write_muge
from tests.worlds import define_gallery, define_recall, fill_pile

TOLD = r"No space left on device|Read-only file system|disk I/O error|disk is full"  # in SQLite's words, too


@pytest.fixture
def definition(kind: str, tmp_path: Path, publisher: Path) -> Any:
    """Of a set of this kind: its file, or its keys."""
    if kind == "imported":
        return {"kind": kind, "name": "muge", "format": "muge", "annotations": str(publisher), "out": "sets"}
    if kind == "gallery":
        return define_gallery(tmp_path, fill_pile(tmp_path / "pile"), render={"mode": "squash"})
    return define_recall(tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", place]).returncode:
        pytest.skip("cannot mount a small disk here")
    yield place
    subprocess.run(["umount", place], check=True)  # fails where anything, an idle image worker too, holds a file there


def build(kind: str, definition: Any, out: Path) -> BuildResult:
    with active_run(BuildRun()):
        return build_set(load_definition(definition, [f"out={out}"], kind))


def refuse(build: Callable[[], object], disk: Path) -> None:
    """The build ends with one line that says what to do, and publishes nothing."""
    with pytest.raises(UserError, match=TOLD) as told:
        build()
    assert "\n" not in str(told.value) and "Next: " in str(told.value) and not versions(disk)


def go_on(build: Callable[[], BuildResult], calm: BuildResult, disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw,size=30m", disk], check=True)
    again = build()
    assert again.manifest["content_digest"] == calm.manifest["content_digest"]
    assert not list(set_files.verify_set(again.path))


def versions(out: Path) -> list[str]:
    return [path.name for path in out.glob("*/v*")]


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("gallery", [60]), ("recall", [60]), ("imported", [4, 12, 24, 48])],
)
@pytest.mark.slow
def test_a_disk_that_cannot_be_written_is_one_line_and_the_same_command_goes_on(
    kind: str, sizes: list[int], definition: Any, disk: Path, tmp_path: Path
) -> None:
    calm = build(kind, definition, tmp_path / "calm")
    for how in [*(f"size={size}k" for size in sizes), "ro"]:
        subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)
        refuse(lambda: build(kind, definition, disk), disk)
    go_on(lambda: build(kind, definition, disk), calm, disk)


@pytest.fixture
def publisher(tmp_path: Path) -> Path:
    return write_muge(tmp_path / "muge", {n: make_jpeg((20 * n, 9, 9), (160, 120)) for n in (10, 11, 12)})


def import_set_to(out: Path, publisher: Path) -> BuildResult:
    keys = {"format": "muge", "annotations": publisher, "out": out}
    with active_run(BuildRun()):
        return build_set(ImportDefinition(kind="imported", name="muge", **keys))


@pytest.mark.parametrize(("call", "number"), [("replace", errno.ENOSPC), ("link", errno.EROFS), ("rename", errno.EIO)])
@pytest.mark.slow
def test_whatever_a_disk_refuses_an_import_is_one_line(
    number: int, call: str, tmp_path: Path, publisher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = os if call == "link" else Path
    real, count = getattr(holder, call), 0

    def fail_after(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count > allowed:
            raise OSError(number, os.strerror(number))
        return real(*given, **options)

    monkeypatch.setattr(holder, call, fail_after)
    failed = 0
    for allowed in range(40):
        count, out = 0, tmp_path / f"sets{allowed}"
        try:
            import_set_to(out, publisher)
        except UserError as error:
            assert os.strerror(number) in str(error) and "\n" not in str(error) and not versions(out)
            failed += 1
        else:
            break
    assert failed and list(versions(out))

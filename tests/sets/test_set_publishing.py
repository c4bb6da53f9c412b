"""Publishing where files cannot be locked: refused before the work, or, where locks only seem to work, still whole."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.files.durable_files import is_abandoned, make_staging_folder, remove_abandoned_folders
from querytruth.errors import UserError
from querytruth.sets import set_publishing
from querytruth.sets.set_files import read_set, verify_set
from tests.sets.test_set_files import put, tables
from tests.worlds import define_gallery as definition
from tests.worlds import save_photo as photo


@pytest.fixture
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems: every lock is granted, and none excludes anybody."""
    monkeypatch.setattr(fcntl, "flock", lambda *_given: None)


def meet(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Every first version is written when all builds have begun to write theirs."""
    barrier, write = threading.Barrier(count), set_publishing._write_table
    arrived = threading.local()

    def write_together(*given: Any) -> Any:
        if not getattr(arrived, "once", False):
            arrived.once = True
            barrier.wait(30)
        return write(*given)

    monkeypatch.setattr(set_publishing, "_write_table", write_together)


@pytest.mark.usefixtures("_no_locks")
@pytest.mark.thorough
def test_builds_at_once_without_locks_have_a_version_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["dog", "cat", "bird", "fish"]
    meet(monkeypatch, len(words))
    with ThreadPoolExecutor(len(words)) as pool:
        published = list(pool.map(lambda word: put(tmp_path / "pets", tables((word,))), words))
    assert sorted(one.version for one in published) == [1, 2, 3, 4] and all(one.is_new for one in published)
    for one, word in zip(published, words, strict=True):
        assert list(verify_set(one.path)) == []
        assert list(read_set(one.path).tables.queries["text"]) == list(tables((word,)).queries["text"])
        parent = read_set(one.path).manifest["parent"]
        assert (parent and parent["version"]) == (one.version - 1 or None), "each follows the one before it"
    assert (tmp_path / "pets" / "latest").read_text() == "v4\n" and not (tmp_path / "pets" / ".publish").exists()


@pytest.mark.usefixtures("_no_locks")
def test_builds_of_the_same_content_at_once_publish_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(monkeypatch, 3)
    with ThreadPoolExecutor(3) as pool:
        published = list(pool.map(lambda _: put(tmp_path / "pets", tables()), range(3)))
    assert {one.path.name for one in published} == {"v1"} and sum(one.is_new for one in published) == 1
    assert [path.name for path in (tmp_path / "pets").glob("v*")] == ["v1"] and not list(verify_set(published[0].path))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_a_build_ends_before_work(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo(tmp_path / "photos" / "1.jpg", 1)
    file = definition(tmp_path, tmp_path / "photos")

    def fail(*_given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(UserError) as refused:
        build_set(load_definition(file, [], "gallery"))
    assert f"{tmp_path / 'sets' / 'pile'} (publish): cannot be locked ({os.strerror(number)})" in str(refused.value)
    assert not (tmp_path / "sets").exists(), "nothing was scanned, and nothing is left there"
    with pytest.raises(UserError, match="cannot be locked"):
        put(tmp_path / "pets", tables())


def test_a_staging_folder_is_abandoned_when_its_process_has_ended_and_not_before(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from querytruth.backends.files.durable_files import make_staging_folder\n"
        "print(make_staging_folder(Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin and other.stdout
    theirs, mine = Path(other.stdout.readline().strip()), make_staging_folder(tmp_path)
    elsewhere = tmp_path / f"{'0' * 12}-1-{'0' * 8}"
    elsewhere.mkdir()
    (tmp_path / "queries.parquet").write_bytes(b"of an earlier release")
    remove_abandoned_folders(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([theirs, mine, elsewhere])
    other.kill()
    other.wait()
    os.utime(elsewhere, (time.time() - 2 * 86_400,) * 2)
    assert is_abandoned(theirs) and is_abandoned(elsewhere) and not is_abandoned(mine)
    remove_abandoned_folders(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]

"""Files from a stranger are data, in every import format, when they are imported and when the set is used."""

import hashlib
import json
import re
from itertools import groupby
from pathlib import Path

import pytest

from querytruth.backends.files.parquet_files import read_parquet
from tests.hostile_imports import HostileImport, hostile_imports
from tests.publisher_files import PUBLISHER_FILES, FirstEntry, write_source
from tests.small_sets import publish_small_set, small_tables
from tests.watched_commands import do_work_in_process, make_home, run_cases, run_command, run_watched, use_set

_CASES = {
    layout: list(cases)
    for layout, cases in groupby(sorted(hostile_imports(), key=lambda case: case.layout), key=lambda case: case.layout)
}
_OUR_ID = re.compile("(img|q)_[0-9a-f]{20}")
# Keys that differ in every import.
_ONES_OWN = ("build_digest", "canary", "content_digest", "envelope", "files", "inputs", "manifest_digest")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of four images, with which the others are compared."""
    return publish_small_set(tmp_path_factory.mktemp("whole"), small_tables()).path.parent


@pytest.fixture(scope="module")
def used() -> set[bytes]:
    """What the sets said that commands were given on."""
    return set()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("layout", _CASES)
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
    run_cases(_CASES[layout], run, tmp_path)


def test_every_layout_has_hostile_imports() -> None:
    assert _CASES.keys() == PUBLISHER_FILES.keys()


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

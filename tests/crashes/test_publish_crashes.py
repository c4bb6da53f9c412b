"""A machine that stops at any moment of a publish: the old version or the new one, whole; never a third."""

from pathlib import Path

import pytest

from querytruth.sets import set_files
from tests.crash_states import crash_states, find_needless_syncs, find_problems
from tests.recorded_operations import Entry, Operation, record_operations

PUBLISH_TWICE = """
from pathlib import Path
from querytruth.backends.files.durable_files import write_atomically
from querytruth.sets.ledger import Ledger
from flows.definition_loader import SetDefinition
from builders.publication import BuiltTables, publish_built
from tests.images import make_jpeg
from tests.small_sets import SMALL_SET_GRADES, small_tables
folder = Path(sys.argv[1])
for graded in (True, False):
    tables = small_tables(graded=graded)
    for path in tables.images["path"]:
        write_atomically(folder / "rendered" / path, make_jpeg((9, 9, 9), (8, 8)))
    definition = SetDefinition(kind="precision", name="small", out=folder / "sets")
    built = BuiltTables(tables, Ledger(), SMALL_SET_GRADES, rendered_folder=folder / "rendered")
    print(publish_built(definition, built).version, flush=True)
"""
HIDDEN = (".publish", "rendered")  # no reader opens them


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(PUBLISH_TWICE, tmp_path_factory.mktemp("recorded") / "sets")


def check_versions(folder: Path, printed: list[str]) -> None:
    small = folder / "sets" / "small"
    versions = sorted(small.glob("v*"))
    assert [path.name for path in versions] == [f"v{n + 1}" for n in range(len(versions))]
    assert len(versions) >= len(printed), "a published version is gone"
    for path in versions:
        assert list(set_files.verify_set(path)) == []
    if printed or (small / "latest").exists():
        named = (small / "latest").read_text().strip()
        assert named in [path.name for path in versions[max(0, len(printed) - 1) :]]


@pytest.mark.thorough
def test_whenever_the_machine_stops_the_old_version_is_there_or_the_new_one(
    operations: list[Operation], memory_folder: Path
) -> None:
    states = list(crash_states(operations, HIDDEN))
    assert len(states) > 80 and list(find_problems(states, check_versions, memory_folder)) == []


@pytest.mark.thorough
def test_without_any_one_fsync_some_state_is_broken(operations: list[Operation], memory_folder: Path) -> None:
    assert find_needless_syncs(operations, check_versions, memory_folder, HIDDEN) == []


@pytest.mark.parametrize("early_by", [1, 4])
@pytest.mark.thorough
def test_a_version_put_in_place_before_its_files_are_on_disk_is_a_third_state(
    early_by: int, operations: list[Operation], memory_folder: Path
) -> None:
    place = next(n for n, one in enumerate(operations) if isinstance(one, Entry) and one.name == "v1")
    turned = [*operations[:place], *operations[place + 1 :]]
    turned.insert(place - early_by, operations[place])
    assert any(find_problems(crash_states(turned, HIDDEN), check_versions, memory_folder))

"""A machine that stops at any moment of a fetch: the version is in place, whole, or it is not there."""

from pathlib import Path

import pytest

from querytruth.sets import set_files
from tests.crash_states import crash_states, find_problems
from tests.recorded_operations import Operation, record_operations

INSTALL = """
from pathlib import Path
from querytruth.sets.set_publishing import install_version
from querytruth.sets.ledger import Ledger
from flows.definition_loader import SetDefinition
from builders.publication import BuiltTables, publish_built
from tests.small_sets import SMALL_SET_GRADES, small_tables
folder = Path(sys.argv[1])
definition = SetDefinition(kind="precision", name="small", out=folder / "elsewhere")
publish_built(definition, BuiltTables(small_tables(), Ledger(), SMALL_SET_GRADES))
for path in sorted((folder / "elsewhere" / "small" / "v1").rglob("*")):  # a download does not wait for the disk
    place = folder / "cache" / path.relative_to(folder / "elsewhere")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.mkdir() if path.is_dir() else place.write_bytes(path.read_bytes())
print(install_version(folder / "cache" / "small" / "v1", folder / "sets" / "small").version, flush=True)
"""
HIDDEN = (".publish", "elsewhere", "cache")  # no reader opens them


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(INSTALL, tmp_path_factory.mktemp("recorded") / "sets")


def check_version(folder: Path, printed: list[str]) -> None:
    small = folder / "sets" / "small"
    versions = [path.name for path in small.glob("v*")]
    assert versions in ([], ["v1"]) and len(versions) >= len(printed), "a fetched version is gone"
    for name in versions:
        assert list(set_files.verify_set(small / name)) == []


@pytest.mark.thorough
def test_whenever_the_machine_stops_the_version_is_whole_or_not_there(
    operations: list[Operation], memory_folder: Path
) -> None:
    states = list(crash_states(operations, HIDDEN))
    assert len(states) > 10 and list(find_problems(states, check_version, memory_folder)) == []

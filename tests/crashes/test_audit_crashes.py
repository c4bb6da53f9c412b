"""A machine that stops while audits are started: each is there whole, or not at all; a damaged one is refused."""

from pathlib import Path

import pytest

from querytruth.audit.audit_files import list_audits, read_audit, write_audit
from querytruth.errors import UserError
from tests.crash_states import crash_states, find_needless_syncs, find_problems
from tests.recorded_operations import Operation, record_operations
from tests.small_audits import MANIFEST, TABLES

START_TWICE = """
from pathlib import Path
from tests.crashes.test_audit_crashes import start_audit
for name in ("first", "second"):
    start_audit(Path(sys.argv[1]), name)
    print(name, flush=True)
"""
HIDDEN = (".start-first", ".start-second")  # no reader opens them


def start_audit(folder: Path, name: str) -> Path:
    audit = folder / "pets" / "audits" / name
    write_audit(audit, {**MANIFEST, "name": name}, TABLES)
    return audit


def check_audits(folder: Path, printed: list[str]) -> None:
    found = list_audits(folder / "pets")
    assert set(printed) <= set(found), "an audit that was started is gone"
    for name in found:
        stored = read_audit(folder / "pets" / "audits" / name)
        assert stored.manifest["name"] == name and stored.pool["query_id"].tolist() == ["q_1"]


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(START_TWICE, tmp_path_factory.mktemp("recorded") / "sets")


@pytest.mark.thorough
def test_whenever_the_machine_stops_each_audit_is_whole(operations: list[Operation], memory_folder: Path) -> None:
    states = list(crash_states(operations, HIDDEN))
    assert len(states) > 10 and list(find_problems(states, check_audits, memory_folder)) == []


@pytest.mark.thorough
def test_without_any_one_fsync_some_state_is_broken(operations: list[Operation], memory_folder: Path) -> None:
    needless = find_needless_syncs(operations, check_audits, memory_folder, HIDDEN)
    assert needless == ["pets/audits"] * 2, "the names of the hidden folders: that after the rename makes up for them"


@pytest.mark.parametrize("name", ["audit.json", "pool.parquet", "sample.parquet"])
def test_a_flipped_bit_of_an_audit_is_named(name: str, tmp_path: Path) -> None:
    audit = start_audit(tmp_path, "first")
    data = (audit / name).read_bytes()
    changed = data.replace(b"first", b"fir5t") if name == "audit.json" else data[:10] + b"~" + data[11:]
    assert changed != data
    (audit / name).write_bytes(changed)
    with pytest.raises(UserError, match=f"{name}.*(changed since it was written|checksum does not match)"):
        read_audit(audit)

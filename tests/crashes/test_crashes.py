"""A machine that stops at any moment while something is stored: what was acknowledged is there, whole; never a half."""

from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.audit.audit_files import read_audit
from querytruth.errors import UserError
from tests.crash_states import crash_states, find_needless_syncs, find_problems
from tests.crashes.recorded_programs import PROGRAMS, start_audit
from tests.recorded_operations import Acknowledged, Entry, Operation, Piece, Sync, record_operations

Operations = list[Operation]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Operations]:
    """The operations of a program on its files, by its name; each is recorded once."""
    recorded: dict[str, Operations] = {}

    def find(name: str) -> Operations:
        if name not in recorded:
            recorded[name] = record_operations(PROGRAMS[name].source, tmp_path_factory.mktemp("recorded") / "sets")
        return recorded[name]

    return find


def problems_of(name: str, operations: Operations, folder: Path) -> list[str]:
    """What the crashes of a program break, up to the first that breaks something."""
    program = PROGRAMS[name]
    found = find_problems(crash_states(operations, program.hidden), program.check, folder)
    return [problem for problem in [next(found, "")] if problem]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow if name == "replies" else pytest.mark.thorough]) for name in PROGRAMS],
)
def test_whenever_the_machine_stops_what_was_acknowledged_is_there(
    name: str, record: Callable[[str], Operations], memory_folder: Path
) -> None:
    program = PROGRAMS[name]
    states = list(crash_states(record(name), program.hidden))
    assert len(states) > program.states and list(find_problems(states, program.check, memory_folder)) == []


@pytest.mark.parametrize(
    ("name", "needless"),
    [
        ("publish", []),
        ("decisions", []),
        ("audits", ["pets/audits"] * 2),  # the names of the hidden folders: that after the rename makes up for them
    ],
)
@pytest.mark.thorough
def test_without_any_one_fsync_some_state_is_broken(
    name: str, needless: list[str], record: Callable[[str], Operations], memory_folder: Path
) -> None:
    program = PROGRAMS[name]
    assert find_needless_syncs(record(name), program.check, memory_folder, program.hidden) == needless


def test_without_any_one_fsync_of_a_page_s_body_or_folder_some_state_is_broken(
    record: Callable[[str], Operations], memory_folder: Path
) -> None:
    # SQLite waits for its own files, and with them for the names in their folder, more often than these pages need.
    by_sqlite = {"pages", *(f"pages/fetches.sqlite{suffix}" for suffix in ("", "-wal", "-journal"))}
    operations, program = record("pages"), PROGRAMS["pages"]
    ours = {one.path for one in operations if isinstance(one, Sync)} - by_sqlite
    assert {path.partition("/")[2].partition("/")[0] for path in ours} == {"", "bodies", "incoming"}
    assert find_needless_syncs(operations, program.check, memory_folder, program.hidden, by_sqlite) == []


@pytest.mark.parametrize("early_by", [1, 4])
@pytest.mark.thorough
def test_a_version_put_in_place_before_its_files_are_on_disk_is_a_third_state(
    early_by: int, record: Callable[[str], Operations], memory_folder: Path
) -> None:
    operations = record("publish")
    place = next(n for n, one in enumerate(operations) if isinstance(one, Entry) and one.name == "v1")
    turned = [*operations[:place], *operations[place + 1 :]]
    turned.insert(place - early_by, operations[place])
    assert problems_of("publish", turned, memory_folder)


def test_a_save_that_ends_with_its_line_feed_at_once_may_arrive_in_part(
    record: Callable[[str], Operations], memory_folder: Path
) -> None:
    """The fsync between the lines and the line feed of the second save is taken out, and the writes are one."""
    operations = record("decisions")
    first, second = [n for n, one in enumerate(operations) if isinstance(one, Acknowledged)][:2]
    syncs = [n for n in range(first, second) if isinstance(operations[n], Sync)]
    feed = [n for n in range(first, second) if isinstance(one := operations[n], Piece) and one.data == b"\n"]
    assert len(syncs) == 2 and len(feed) == 1
    mutant = [*operations[: syncs[0]], *operations[syncs[0] + 1 :]]
    assert problems_of("decisions", mutant, memory_folder)


@pytest.mark.parametrize("path", [".", "sets/replies.sqlite-wal"])
@pytest.mark.slow
def test_without_an_fsync_before_a_reply_is_acknowledged_it_may_be_gone(
    path: str, record: Callable[[str], Operations], memory_folder: Path
) -> None:
    """The name of a new folder, and the commit."""
    operations = record("replies")
    acknowledged = next(n for n, one in enumerate(operations) if isinstance(one, Acknowledged))
    before = operations[: acknowledged + 1]
    last = max(n for n, one in enumerate(before) if isinstance(one, Sync) and one.path == path)
    assert not problems_of("replies", before, memory_folder / "calm")
    assert problems_of("replies", before[:last] + before[last + 1 :], memory_folder / "mutant")


@pytest.mark.parametrize("name", ["audit.json", "pool.parquet", "sample.parquet"])
def test_a_flipped_bit_of_an_audit_is_named(name: str, tmp_path: Path) -> None:
    audit = start_audit(tmp_path, "first")
    data = (audit / name).read_bytes()
    changed = data.replace(b"first", b"fir5t") if name == "audit.json" else data[:10] + b"~" + data[11:]
    assert changed != data
    (audit / name).write_bytes(changed)
    with pytest.raises(UserError, match=f"{name}.*(changed since it was written|checksum does not match)"):
        read_audit(audit)

"""A machine that stops while decisions are saved: the confirmed ones are there, each save whole or not at all."""

from pathlib import Path

import pytest

from querytruth.sets.decision_log import append_decisions, read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.crash_states import crash_states, find_needless_syncs, find_problems
from tests.recorded_operations import Acknowledged, Operation, Piece, Sync, record_operations

SAVE_THREE_TIMES = """
from pathlib import Path
from tests.crashes.test_log_crashes import SAVES
from querytruth.sets.decision_log import append_decisions
for number, decisions in enumerate(SAVES):
    append_decisions(Path(sys.argv[1]) / "sets" / "pets", decisions)
    print(number, flush=True)
"""
SAVES = [  # of several blocks, so that some may arrive without the others
    [QueryDecision("q_1", "狗", "drop", note="模糊\n两行" * 400)],
    [QueryDecision(f"q_{n}", "猫", "edit", new_text="大猫" * 200) for n in range(3)],
    [QueryDecision("q_1", "狗", "grade", "img_1", relevance=1, note="清楚" * 800)],
]


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(SAVE_THREE_TIMES, tmp_path_factory.mktemp("recorded") / "sets")


def check_decisions(folder: Path, printed: list[str]) -> None:
    pets = folder / "sets" / "pets"
    saved = [[decision for save in SAVES[:count] for decision in save] for count in range(len(SAVES) + 1)]
    found = read_decisions(pets, QueryDecision)
    assert found in saved[len(printed) :], f"{len(found)} decisions"
    append_decisions(pets, SAVES[2])
    assert read_decisions(pets, QueryDecision) == [*found, *SAVES[2]]


@pytest.mark.thorough
def test_whenever_the_machine_stops_what_was_confirmed_is_there(
    operations: list[Operation], memory_folder: Path
) -> None:
    states = list(crash_states(operations))
    assert len(states) > 20 and list(find_problems(states, check_decisions, memory_folder)) == []


@pytest.mark.thorough
def test_without_any_one_fsync_some_state_is_broken(operations: list[Operation], memory_folder: Path) -> None:
    assert find_needless_syncs(operations, check_decisions, memory_folder) == []


def test_a_save_that_ends_with_its_line_feed_at_once_may_arrive_in_part(
    operations: list[Operation], memory_folder: Path
) -> None:
    """The fsync between the lines and the line feed of the second save is taken out, and the writes are one."""
    first, second = [n for n, one in enumerate(operations) if isinstance(one, Acknowledged)][:2]
    syncs = [n for n in range(first, second) if isinstance(operations[n], Sync)]
    feed = [n for n in range(first, second) if isinstance(one := operations[n], Piece) and one.data == b"\n"]
    assert len(syncs) == 2 and len(feed) == 1
    mutant = [*operations[: syncs[0]], *operations[syncs[0] + 1 :]]
    assert any(find_problems(crash_states(mutant), check_decisions, memory_folder))

"""A machine that stops while replies are stored: every reply that was acknowledged is there, as it came."""

from pathlib import Path

import pytest

from querytruth.backends.models.chat import ChatRequest, Message, Reply
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import reply_key
from querytruth.backends.plugins import ModelIdentity
from tests.crash_states import crash_states, find_problems
from tests.recorded_operations import Acknowledged, Operation, Sync, record_operations

STORE_REPLIES = """
from pathlib import Path
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from tests.crashes.test_reply_crashes import IDENTITY, answered
for number in range(3):
    with open_reply_store(Path(sys.argv[1]) / "sets" / "replies.sqlite") as store:
        store.save(IDENTITY, [answered(number)])
        print(number, flush=True)
"""
IDENTITY = ModelIdentity("stub", "1")
HIDDEN = ("replies.sqlite-shm",)  # shared memory, which SQLite makes anew


def answered(number: int) -> tuple[str, ChatRequest, Reply]:
    request = ChatRequest((Message("user", f"问题 {number}"),))
    return reply_key(IDENTITY, request), request, Reply(f"答案 {number}", "stop", 1, 1, f'{{"n": {number}}}')


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(STORE_REPLIES, tmp_path_factory.mktemp("recorded") / "sets")


def check_replies(folder: Path, printed: list[str]) -> None:
    known = {key: reply for key, _, reply in map(answered, range(3))}
    with open_reply_store(folder / "sets" / "replies.sqlite") as store:
        found = store.find(list(known))
        assert all(found[key].text == known[key].text for key in found)
        assert set(list(known)[: len(printed)]) <= set(found), "an acknowledged reply is gone"
        store.save(IDENTITY, [answered(0)])
        assert answered(0)[0] in store.find(list(known))


@pytest.mark.slow
def test_whenever_the_machine_stops_acknowledged_replies_are_there(
    operations: list[Operation], memory_folder: Path
) -> None:
    states = list(crash_states(operations, HIDDEN))
    assert len(states) > 200 and list(find_problems(states, check_replies, memory_folder)) == []


@pytest.mark.parametrize("path", [".", "sets/replies.sqlite-wal"])
@pytest.mark.slow
def test_without_an_fsync_before_a_reply_is_acknowledged_it_may_be_gone(
    path: str, operations: list[Operation], memory_folder: Path
) -> None:
    """The name of a new folder, and the commit."""
    acknowledged = next(n for n, one in enumerate(operations) if isinstance(one, Acknowledged))
    before = operations[: acknowledged + 1]
    last = max(n for n, one in enumerate(before) if isinstance(one, Sync) and one.path == path)
    mutant = before[:last] + before[last + 1 :]
    assert not any(find_problems(crash_states(before, HIDDEN), check_replies, memory_folder / "calm"))
    assert any(find_problems(crash_states(mutant, HIDDEN), check_replies, memory_folder / "mutant"))

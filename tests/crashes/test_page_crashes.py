"""A machine that stops while fetches are stored: every page that was acknowledged is there, with its bytes."""

import hashlib
from pathlib import Path

import pytest

from querytruth.backends.web.page_store import FetchToStore, PageStore
from querytruth.backends.web.web_records import FetchedResource, WebRequest
from tests.crash_states import crash_states, find_needless_syncs, find_problems
from tests.recorded_operations import Operation, Sync, record_operations

STORE_PAGES = """
from pathlib import Path
from tests.crashes.test_page_crashes import store_pages
store_pages(Path(sys.argv[1]) / "pages")
"""
HIDDEN = ("fetches.sqlite-shm",)  # shared memory, which SQLite makes anew
BODIES = [b"<html>one</html>", b"\xff\xd8" + bytes(5000), b"<html>three</html>"]


def page(number: int) -> tuple[WebRequest, FetchedResource, bytes]:
    body, url = BODIES[number], f"https://example.org/{number}"
    resource = FetchedResource(url, 200, {}, hashlib.sha256(body).hexdigest(), len(body))
    return WebRequest(url, "image"), resource, body


def store_pages(folder: Path) -> None:
    """The first and the last as bytes, the second as a file."""
    store = PageStore(folder)
    for number in range(len(BODIES)):
        request, resource, body = page(number)
        if number == 1:
            incoming = store.open_incoming_body()
            incoming.file.write(body)
            store.save_all([FetchToStore(request, resource, incoming)])
            incoming.close()
        else:
            store.save(request, resource, body)
        print(number, flush=True)
    store.close()


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    return record_operations(STORE_PAGES, tmp_path_factory.mktemp("recorded") / "sets")


def check_pages(folder: Path, printed: list[str]) -> None:
    store = PageStore(folder / "pages")
    try:
        found = store.find([page(number)[0] for number in range(len(BODIES))])
        for number, body in enumerate(BODIES):
            one = found.get(page(number)[0].key)
            assert one is not None or number >= len(printed), "an acknowledged page is gone"
            assert one is None or store.read_body(one.sha256) == body
        request, resource, body = page(0)
        store.save(request, resource, body)
        assert store.find([request])
    finally:
        store.close()


@pytest.mark.thorough
def test_whenever_the_machine_stops_acknowledged_pages_are_there(
    operations: list[Operation], memory_folder: Path
) -> None:
    states = list(crash_states(operations, HIDDEN))
    assert len(states) > 100 and list(find_problems(states, check_pages, memory_folder)) == []


def test_without_any_one_fsync_of_a_body_or_of_a_folder_some_state_is_broken(
    operations: list[Operation], memory_folder: Path
) -> None:
    # SQLite waits for its own files, and with them for the names in their folder, more often than these pages need.
    by_sqlite = {"pages", *(f"pages/fetches.sqlite{suffix}" for suffix in ("", "-wal", "-journal"))}
    ours = {one.path for one in operations if isinstance(one, Sync)} - by_sqlite
    assert {path.partition("/")[2].partition("/")[0] for path in ours} == {"", "bodies", "incoming"}
    assert find_needless_syncs(operations, check_pages, memory_folder, HIDDEN, by_sqlite) == []

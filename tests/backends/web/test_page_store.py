"""What was fetched is on disk before anything is made of it."""

import hashlib
import threading
from pathlib import Path

import pytest
from sqlalchemy import event

from querytruth.backends.web.page_store import FetchToStore, PageStore, fetches_digest
from querytruth.backends.web.web_records import FailedFetch, FetchedResource, StoreWriteError, WebRequest
from tests.backends.web.hostile_web import stored_files

REQUEST = WebRequest("http://a.example/x", referer="http://a.example/page")


def fetched(data: bytes, url: str = "http://b.example/x") -> FetchedResource:
    return FetchedResource(url, 200, {"content-type": "image/jpeg"}, hashlib.sha256(data).hexdigest(), len(data))


def test_a_store_comes_back_with_request_address_status_headers_and_time(tmp_path: Path) -> None:
    kept = PageStore(tmp_path).save(REQUEST, fetched(b"body"), b"body")
    store = PageStore(tmp_path)
    found = store.find([REQUEST, WebRequest("http://a.example/other")])
    assert found == {REQUEST.key: kept}
    assert (kept.url, kept.referer, kept.final_url) == (REQUEST.url, REQUEST.referer, "http://b.example/x")
    assert (kept.status, kept.headers, kept.size) == (200, {"content-type": "image/jpeg"}, 4)
    assert kept.fetched_at.endswith("+00:00")
    assert store.read_body(kept.sha256) == b"body"
    assert store.body_path(kept.sha256).name == hashlib.sha256(b"body").hexdigest()
    assert kept.result == fetched(b"body")


def test_nothing_is_made_before_something_is_kept(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "store")
    assert store.find([REQUEST]) == {}
    assert store.read_image_facts(["00"], "reader") == {}
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("damage", ["gone", "flipped", "cut"])
def test_a_body_that_is_not_what_it_was_counts_for_nothing(tmp_path: Path, damage: str) -> None:
    store = PageStore(tmp_path)
    kept = store.save(REQUEST, fetched(b"body"), b"body")
    path = store.body_path(kept.sha256)
    path.write_bytes({"gone": b"", "flipped": b"bodx", "cut": b"bod"}[damage])
    if damage == "gone":
        path.unlink()
    assert store.find([REQUEST]) == {}
    store.save(REQUEST, fetched(b"body"), b"body")
    assert store.find([REQUEST])[REQUEST.key].outcome == "kept"


def test_a_failure_gives_way_to_a_body_and_never_the_other_way_round(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    store.save(REQUEST, FailedFetch("timeout", "transient", "no byte"))
    assert store.find([REQUEST])[REQUEST.key].result == FailedFetch("timeout", "transient", "no byte")
    store.save(REQUEST, FailedFetch("not_found", "final"))
    assert store.find([REQUEST])[REQUEST.key].outcome == "final"
    store.save(REQUEST, fetched(b"body"), b"body")
    store.save(REQUEST, FailedFetch("timeout", "transient"))
    assert store.find([REQUEST])[REQUEST.key].outcome == "kept"


def test_a_file_of_the_store_s_own_is_taken_over_and_one_that_is_not_kept_is_gone(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    taken, dropped = store.open_incoming_body(), store.open_incoming_body()
    for new in (taken, dropped):
        new.file.write(b"body")
    store.save_all([FetchToStore(REQUEST, fetched(b"body"), taken)])
    for new in (taken, dropped):
        new.close()
    assert {path.name for path in stored_files(tmp_path)} >= {hashlib.sha256(b"body").hexdigest(), "fetches.sqlite"}
    assert not stored_files(tmp_path / "incoming")


def test_what_a_reader_saw_is_kept_with_the_reader_s_name(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    digest = fetched(b"body").sha256
    store.save_all([FetchToStore(REQUEST, fetched(b"body"), None, ("reader 1", {"width": 3}))])
    assert store.read_image_facts([digest], "reader 1") == {digest: {"width": 3}}
    assert store.read_image_facts([digest], "reader 2") == {}
    store.save_image_facts(digest, "reader 2", {"width": 4})
    assert PageStore(tmp_path).read_image_facts([digest], "reader 2") == {digest: {"width": 4}}


def test_hostile_texts_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = WebRequest("http://a.example/'); drop table fetches; --\ud800\x00", referer="\udfff")
    PageStore(tmp_path).save(odd, FailedFetch("bad_url", "final", "a\x00b\ud800"))
    assert PageStore(tmp_path).find([odd])[odd.key].reason == "bad_url"


def test_many_threads_and_stores_write_at_a_time(tmp_path: Path) -> None:
    stores = [PageStore(tmp_path), PageStore(tmp_path)]
    requests = [WebRequest(f"http://a.example/{n}") for n in range(60)]

    def keep(first: int) -> None:
        for number in range(first, 60, 6):
            data = b"%d" % number
            stores[first % 2].save(requests[number], fetched(data), data)
            assert requests[number].key in stores[first % 2].find([requests[number]])

    threads = [threading.Thread(target=keep, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = PageStore(tmp_path).find(requests)
    assert {one.url: one.sha256 for one in found.values()} == {
        f"http://a.example/{n}": hashlib.sha256(b"%d" % n).hexdigest() for n in range(60)
    }


def test_the_digest_is_that_of_what_came_and_not_of_when(tmp_path: Path) -> None:
    requests = [WebRequest(f"http://a.example/{n}") for n in range(3)]
    digests = []
    for order in (requests, requests[::-1]):
        store = PageStore(tmp_path / str(len(digests)))
        for request in order:
            store.save(request, fetched(request.url.encode()), request.url.encode())
        digests.append(fetches_digest(store.find(order).values()))
    assert digests[0] == digests[1]
    assert digests[0] != fetches_digest(store.find(requests[:2]).values())


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(StoreWriteError):
        PageStore(tmp_path / "store").save(REQUEST, fetched(b"body"), b"body")
    with pytest.raises(StoreWriteError):
        PageStore(tmp_path / "store").open_incoming_body()


def test_a_database_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "fetches.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreWriteError, match="not a database"):
        PageStore(tmp_path).find([REQUEST])
    with pytest.raises(StoreWriteError, match="not a database"):
        PageStore(tmp_path).save(REQUEST, FailedFetch("x", "final"))


def test_a_disk_that_is_full_is_told_to_all_who_wait(tmp_path: Path) -> None:
    """Nobody takes for kept what another thread could not write for them."""
    store = PageStore(tmp_path)
    store.save(REQUEST, FailedFetch("x", "final"))
    engine = store._rows._opened()
    event.listen(engine, "connect", lambda connection, _record: connection.execute("pragma max_page_count=1"))
    engine.dispose()
    failures: list[int] = []

    def keep(number: int) -> None:
        try:
            store.save(WebRequest(f"http://a.example/{number}"), FailedFetch("x", "final", "y" * 100_000))
        except StoreWriteError:
            failures.append(number)

    threads = [threading.Thread(target=keep, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 8

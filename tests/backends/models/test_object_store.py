"""What goes wrong between a reply store and its bucket: busy services, lost answers, strange objects, killed builds."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.files import bucket
from querytruth.backends.files.bucket_urls import cache_folder
from querytruth.backends.models import reply_objects
from querytruth.backends.models.chat import Reply
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.web.offline import forbid_connections
from querytruth.errors import UserError
from tests.bucket_stores import found, keep, keep_many, key_of, objects
from tests.object_service import (
    ObjectService,
    busy,
    forget_to_answer,
    ignore_condition,
    object_environment,
)

Move = Callable[[str], None]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("part", ["answers/", "store.json", "models/", "leases.json"])
def test_a_write_whose_answer_is_lost_is_ones_own(part: str, url: str, service: ObjectService) -> None:
    service.fault_of = lambda method, key, number: (
        forget_to_answer if method == "PUT" and part in key and number == 1 else None
    )
    with open_reply_store(url) as store, store.create_leases().hold(["k"]) as held:
        assert held == {"k"}
        assert keep(store) == Reply("answer 0", "stop", 12, 5)
        with store.create_leases().hold(["k", "l"]) as others:
            assert others == {"l"}
    assert len(objects(service, "answers/")) == 1


def test_a_bucket_that_is_down_costs_a_line(url: str, service: ObjectService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_ATTEMPTS", 2)
    with open_reply_store(url) as store:
        keep(store)
    service.fault_of = lambda _method, _key, _number: busy
    with open_reply_store(url) as store:
        for work in (lambda: store.find([key_of(0)]), lambda: keep(store, 1)):
            with pytest.raises(UserError, match="the service failed") as refused:
                work()
            assert "\n" not in str(refused.value)
    service.fault_of = lambda _method, _key, _number: None
    with open_reply_store(url) as store:
        assert found(store, range(2)) == {0}


def test_a_service_that_ignores_conditions_is_refused(url: str, service: ObjectService) -> None:
    service.fault_of = lambda _method, _key, _number: ignore_condition
    with open_reply_store(url) as store, pytest.raises(UserError, match="ignores the conditions"):
        keep(store)
    assert not objects(service, "answers/")


def test_offline_refuses_a_bucket(url: str) -> None:
    with forbid_connections(), open_reply_store(url) as store, pytest.raises(UserError, match="--offline") as refused:
        store.find(["k"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("bad", ["s3://key:word-x@bucket/replies", "s3://B/..", "s3:///replies"])
def test_an_address_that_is_none_is_refused_and_a_password_not_even_named(bad: str) -> None:
    with pytest.raises(UserError) as refused:
        open_reply_store(bad)
    assert "word-x" not in str(refused.value)


def sealed(fields: dict[str, Any]) -> bytes:
    data = json.dumps(fields).encode()
    return f"{sha256(data).hexdigest()} ".encode() + data


ROW = {"key": key_of(0), "generation": 0, "identity": "{}", "kind": "reply", "reason": "stop", "text": "x", "raw": ""}
ROW |= {"prompt_tokens": None, "completion_tokens": None, "stored_at": "2026-01-01T00:00:00+00:00", "request": "{}"}
HOSTILE = {
    "empty": b"",
    "no JSON": sealed(ROW)[:65] + b"[[[",
    "a byte is another": sealed(ROW).replace(b'"x"', b'"y"'),
    "a list": sealed({}) + b"[]",
    "of another key": sealed(ROW | {"key": key_of(1)}),
    "of another generation": sealed(ROW | {"generation": 1}),
    "no text": sealed(ROW | {"text": 7}),
    "half a character": sealed(ROW | {"text": "\ud800"}),
    "of no kind": sealed(ROW | {"kind": "wrong"}),
    "without a column": sealed({"key": key_of(0), "generation": 0}),
    "a huge number": sealed(ROW | {"prompt_tokens": 10**60}),
    "deep": b"%s %s" % (sha256(b"[" * 9999).hexdigest().encode(), b"[" * 9999),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_object_that_is_not_what_was_stored_is_named_and_not_believed(
    what: str, url: str, service: ObjectService, move: Move
) -> None:
    with open_reply_store(url) as store:
        keep(store)
    (key,) = objects(service, "answers/")
    service.ask("PUT", key, HOSTILE[what])
    move("another")
    with open_reply_store(url) as store, pytest.raises(UserError, match=r"answers/.*is damaged") as refused:
        store.find([key_of(0)])
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 500


def test_a_huge_object_is_not_read_to_its_end(url: str, service: ObjectService, move: Move) -> None:
    with open_reply_store(url) as store:
        keep(store)
    (key,) = objects(service, "answers/")
    service.ask("PUT", key, b"x" * (17 << 20))
    move("another")
    with open_reply_store(url) as store, pytest.raises(UserError, match="is larger than"):
        store.find([key_of(0)])


@pytest.mark.parametrize("kind", ["pack", "refresh"])
@pytest.mark.parametrize(
    "what", ["another byte", "no gzip", "no JSON", "a number", "other rows", "unpacks to too much"]
)
def test_an_index_that_is_not_what_was_stored_is_named(
    kind: str, what: str, url: str, service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_reply_store(url) as store:
        keep(store)
    monkeypatch.setattr(reply_objects, "_MAX_UNPACKED_BYTES", 1 << 20)
    text = {"no JSON": b"{", "a number": b"7", "unpacks to too much": b" " * (2 << 20)}.get(what)
    rows = b"[]" if what == "another byte" else b"[[1]]"
    whole = b'{"identities": [], "answers": %s, "refreshed_at": "2026-01-01T00:00:00+00:00"}' % rows
    data = b"no gzip" if what == "no gzip" else gzip.compress(text or whole)
    digest = sha256(b"other" if what == "another byte" else data).hexdigest()
    service.ask("PUT", f"sets/replies/index/{kind}-{digest}", data)
    with open_reply_store(url) as store, pytest.raises(UserError, match=rf"{kind}-.*is damaged"):
        store.find([key_of(0)])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("store.json", b'{"format": "querytruth replies 1", "id": "../../../../etc/passwd........"}'),
        ("store.json", b'{"format": "querytruth replies 2", "id": "0123456789abcdef0123456789abcdef"}'),
        ("store.json", b"<html>"),
        ("models/x", b'{"name": "tiny"}'),
        ("leases.json", b"[]"),
        ("leases.json", b'{"one": {"expires": 1e9, "keys": []}}'),
        ("leases.json", b'{"m 1 1 x": {"expires": "soon", "keys": []}}'),
    ],
)
def test_other_objects_that_are_strange_are_one_line(name: str, data: bytes, url: str, service: ObjectService) -> None:
    service.ask("PUT", f"sets/replies/{name}", data)

    def use() -> None:
        with open_reply_store(url) as store:
            store.identities()
            store.find([key_of(0)])
            with store.create_leases().hold(["k"]):
                pass

    with pytest.raises(UserError, match=name) as refused:
        use()
    assert "\n" not in str(refused.value)


def test_a_cache_that_is_damaged_is_one_line(url: str) -> None:
    with open_reply_store(url) as store:
        keep(store)
    (file,) = (cache_folder() / "replies").glob("*.sqlite")
    file.write_bytes(b"no database, but long enough to be taken for one" * 40)
    with open_reply_store(url) as store, pytest.raises(UserError, match=r"sqlite.*delete it"):
        store.find([key_of(0)])


CHILD = """
import sys
from querytruth.backends.models.reply_store import open_reply_store
from tests.bucket_stores import keep, keep_many
with open_reply_store(sys.argv[1]) as store:
    for number in range(4):
        keep(store, number)
        print(number, flush=True)
    keep_many(store, 70)
"""


def check_killed(url: str, service: ObjectService, folder: Path, at: int, move: Move) -> bool:
    """Whether the process was killed, when its request to write of this number came."""
    environment = {**os.environ, **object_environment(service, folder), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", CHILD, url], env=environment, cwd=ROOT, stdout=subprocess.PIPE)
    seen: list[str] = []

    def kill(method: str, key: str, _number: int) -> None:
        if method == "PUT":
            seen.append(key)
            if len(seen) == at:
                process.send_signal(signal.SIGKILL)
                process.wait()

    service.fault_of = kill
    printed = [int(line) for line in process.communicate(timeout=120)[0].split()]
    time.sleep(0.3)  # the last requests that it sent end
    service.fault_of = lambda _method, _key, _number: None
    move(f"the reader {at}")
    with open_reply_store(url) as store:
        assert set(printed) <= found(store, range(70)), "an acknowledged reply is gone"
        keep_many(store, 70)
        assert found(store, range(70)) == set(range(70))
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_build_leaves_answers(url: str, service: ObjectService, tmp_path: Path, move: Move) -> None:
    for at in (1, 2, 7, 60, 78):  # store, conditions, answers
        assert check_killed(f"{url}/{at}", service, tmp_path / str(at), at, move)

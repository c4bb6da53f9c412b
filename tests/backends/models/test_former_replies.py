"""Replies in the tables of an earlier version are found, and asked for no more than before."""

import gzip
import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from querytruth.backends.files.object_store import DatabaseObjects
from querytruth.backends.models import reply_objects
from querytruth.backends.models.chat import Failure, Reply
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import replies_as_of
from querytruth.backends.plugins import ModelIdentity

IDENTITY = '{"name":"chat","parameters":{},"revision":""}'
COLUMNS = (
    "key TEXT PRIMARY KEY, identity TEXT, request TEXT, kind TEXT, reason TEXT, text TEXT, prompt_tokens INTEGER, "
    "completion_tokens INTEGER, raw TEXT, stored_at TEXT"
)
KEYS = ["a" * 64, "b" * 64, "c" * 64]


def write_former_store(path: Path) -> None:
    def row(key: str, kind: str, reason: str, text: str, stored_at: str) -> tuple[object, ...]:
        return key, IDENTITY, "{}", kind, reason, text, 3, 4, "raw", stored_at

    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE replies ({COLUMNS})")
        database.execute(f"CREATE TABLE earlier_replies ({COLUMNS.replace(' PRIMARY KEY', '')}, refreshed_at TEXT)")
        rows = [
            row(KEYS[0], "reply", "stop", "a new dog", "2026-03-01T00:00:00+00:00"),
            row(KEYS[1], "final", "content_filter", "no", "2026-01-02T00:00:00+00:00"),
            row(KEYS[2], "transient", "server_error", "busy", "2026-01-02T00:00:00+00:00"),
        ]
        database.executemany(f"INSERT INTO replies VALUES ({','.join('?' * 10)})", rows)
        before = row(KEYS[0], "reply", "stop", "an old dog", "2026-01-01T00:00:00+00:00")
        database.execute(
            f"INSERT INTO earlier_replies VALUES ({','.join('?' * 11)})", (*before, "2026-02-01T00:00:00+00:00")
        )


def test_replies_of_former_tables_are_found_now_and_as_of_then(tmp_path: Path) -> None:
    write_former_store(tmp_path / "replies.sqlite")
    for _ in range(2):  # the second time they are there already
        store = open_reply_store(tmp_path / "replies.sqlite")
        assert store.find(KEYS) == {
            KEYS[0]: Reply("a new dog", "stop", 3, 4), KEYS[1]: Failure("content_filter", "final", "no")
        }  # fmt: skip
        with replies_as_of("2026-01-15T00:00:00+00:00"):
            assert store.find(KEYS[:1]) == {KEYS[0]: Reply("an old dog", "stop", 3, 4)}
        store.close()


def test_a_former_answer_can_be_set_aside_and_asked_again(tmp_path: Path) -> None:
    write_former_store(tmp_path / "replies.sqlite")
    store = open_reply_store(tmp_path / "replies.sqlite")
    assert store.refresh([ModelIdentity("chat")]) == 2
    assert store.find(KEYS) == {}


def test_replies_that_were_all_set_aside_are_taken_over_too(tmp_path: Path) -> None:
    write_former_store(tmp_path / "replies.sqlite")
    with sqlite3.connect(tmp_path / "replies.sqlite") as database:
        database.execute("DELETE FROM replies")
    store = open_reply_store(tmp_path / "replies.sqlite")
    assert store.find(KEYS) == {}
    with replies_as_of("2026-01-15T00:00:00+00:00"):
        assert store.find(KEYS[:1]) == {KEYS[0]: Reply("an old dog", "stop", 3, 4)}


def test_former_tables_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_former_store(tmp_path / "replies.sqlite")
    open_reply_store(tmp_path / "replies.sqlite").find(KEYS)
    monkeypatch.setattr(DatabaseObjects, "read_table", None)
    assert len(open_reply_store(tmp_path / "replies.sqlite").find(KEYS)) == 2


def test_a_former_pack_of_a_bucket_is_passed_over() -> None:
    data = gzip.compress(json.dumps({"identities": [IDENTITY], "answers": []}).encode(), 6, mtime=0)
    assert reply_objects.unpack_answers(f"s3://b/index/pack-{hashlib.sha256(data).hexdigest()}", data) == []

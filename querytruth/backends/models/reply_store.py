"""The reply store: every answer is stored before it is used, so that no paid request is repeated.

A file (SQLite), a database (PostgreSQL) or a folder of a bucket (S3). Several threads and processes, and machines where
the place allows it, may use one store at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from querytruth.backends.files.bucket_urls import BucketFolder, is_object_url
from querytruth.backends.models import bucket_replies, database_replies, question_leases
from querytruth.backends.models.chat import ChatAnswer, ChatRequest
from querytruth.backends.plugins import ModelIdentity


class ReplyStore(Protocol):
    """Answers by key. Nothing is created before the first answer is stored. Methods raise UserError for errors of the
    place."""

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Returns stored replies and final failures by key, without raw replies."""

    def save(
        self, identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
    ) -> dict[str, ChatAnswer]:
        """Stores answers and returns the valid ones by key when they are durable: where another process stored a reply
        first, its reply. Failures that are neither final nor have a raw reply are not stored."""

    def create_leases(self) -> question_leases.QuestionLeases:
        """Returns leases for one run that asks questions."""

    def refresh(self, identities: Sequence[ModelIdentity], before: str | None = None) -> int:
        """Sets the answers of these models aside, those stored before an ISO time or all, so that they are asked for
        again; returns their number. `replies_as_of` still finds them."""

    def record_pace(self, identity: ModelIdentity, role: str, pace: question_leases.QuestionPace) -> None:
        """Stores the measured pace of a run of questions."""

    def find_turn_seconds(self, identity: ModelIdentity, role: str) -> float | None:
        """Returns the measured seconds of a turn of calls side by side; None where nothing was measured."""

    def find_mean_tokens(self, identity: ModelIdentity) -> tuple[float, float] | None:
        """Returns the mean tokens in and out of this model's replies; None where the endpoint counts none."""

    def raw(self, key: str) -> str | None:
        """Returns the raw reply of a key, also of a transient failure, up to MAX_RAW_CHARACTERS."""

    def identities(self) -> list[ModelIdentity]:
        """Returns the models with stored answers."""

    def close(self) -> None:
        """Closes the connections; the store may be used again."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_reply_store(location: str | Path) -> ReplyStore:
    """Returns the store in a file, a database or a folder of a bucket, by its path, SQLAlchemy URL or `s3://` URL.
    Connects to nothing yet. Raises UserError for another URL."""
    if isinstance(location, str) and is_object_url(location):
        return bucket_replies.BucketReplyStore(BucketFolder.parse(location))
    return database_replies.DatabaseReplyStore(location)

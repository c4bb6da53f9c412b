"""Replies that a refresh has set aside: the next build asks again, and a rebuild of an older version uses them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from sqlalchemy import Column, ColumnElement, MetaData, String, Table, delete, func, insert, literal, select
from sqlalchemy.engine import Connection

_as_of: ContextVar[str | None] = ContextVar("replies_as_of", default=None)


@contextmanager
def replies_as_of(moment: str | None) -> Iterator[None]:
    """Makes reply stores answer as they did at a moment, an ISO time in UTC; None: as they do now."""
    token = _as_of.set(moment)
    try:
        yield
    finally:
        _as_of.reset(token)


def current_moment() -> str | None:
    """Returns the moment of `replies_as_of`; None outside of it."""
    return _as_of.get()


def define_earlier_replies(replies: Table) -> Table:
    """Returns the table of replies set aside: the columns of `replies`, and when that happened."""
    columns = [
        Column(one.name, one.type, primary_key=one.primary_key, nullable=one.nullable) for one in replies.columns
    ]
    return Table("earlier_replies", MetaData(), *columns, Column("refreshed_at", String(40), primary_key=True))


def set_aside(
    connection: Connection, replies: Table, earlier: Table, identities: Sequence[str], before: str | None
) -> int:
    """Moves the replies of these models, those stored before a time or all; returns their number."""
    chosen: ColumnElement[bool] = replies.c.identity.in_(identities)
    if before is not None:
        chosen = chosen & (replies.c.stored_at < before)
    count = connection.execute(select(func.count()).select_from(replies).where(chosen)).scalar_one()
    # Whole seconds, as a version states when it was made: a version of the same second comes after the refresh.
    now = datetime.now(UTC).isoformat(timespec="seconds")
    again = earlier.c.key.in_(select(replies.c.key).where(chosen)) & (earlier.c.refreshed_at == now)
    connection.execute(delete(earlier).where(again))  # no version can have used what was there for less than a second
    rows = select(*replies.columns, literal(now)).where(chosen)
    connection.execute(insert(earlier).from_select([one.name for one in earlier.columns], rows))
    connection.execute(delete(replies).where(chosen))
    return int(count)

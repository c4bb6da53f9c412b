"""Leases on questions as rows of a database."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Column, Float, MetaData, String, Table, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from backends.replies.question_leases import is_over

LEASES = Table(
    "question_leases",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("holder", String(200), nullable=False),  # machine, process, its start, one run in it
    Column("expires", Float, nullable=False),  # seconds since 1970
)
_AT_ONCE = 500  # keys in one statement


class DatabaseLeases:
    """The leases of all runs. `begin` opens a transaction on the database of the replies."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._begin = begin

    def take(self, keys: Sequence[str], holder: str, expires: float) -> set[str]:
        """Gives those of the keys to the holder that no other one holds (seconds since 1970), and returns them."""
        parts = (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))
        return {key for part in parts for key in self._take(part, {"holder": holder, "expires": expires})}

    def renew(self, holder: str, expires: float) -> None:
        """Prolongs all leases of the holder."""
        with self._begin() as connection:
            connection.execute(update(LEASES).where(LEASES.c.holder == holder).values(expires=expires))

    def release(self, holder: str) -> None:
        """Ends all leases of the holder."""
        with self._begin() as connection:
            connection.execute(delete(LEASES).where(LEASES.c.holder == holder))

    def _take(self, keys: Sequence[str], mine: dict[str, Any]) -> list[str]:
        with self._begin() as connection:
            dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            insert = dialect.insert(LEASES).on_conflict_do_nothing()
            connection.execute(insert, [{"key": key, **mine} for key in sorted(keys)])
            rows = connection.execute(select(LEASES).where(LEASES.c.key.in_(keys))).all()
            for row in rows:
                if row.holder != mine["holder"] and is_over(row.holder, row.expires):
                    found = (LEASES.c.key == row.key) & (LEASES.c.holder == row.holder)
                    connection.execute(update(LEASES).where(found).values(**mine))
            held = select(LEASES.c.key).where(LEASES.c.key.in_(keys), LEASES.c.holder == mine["holder"])
            return list(connection.execute(held).scalars())

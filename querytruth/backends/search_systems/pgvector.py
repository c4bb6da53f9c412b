"""Vectors in PostgreSQL with pgvector, or any query in SQL."""

from __future__ import annotations

import re
import threading
from typing import Any, Literal

from pydantic import model_validator

from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.plugins import ModelIdentity, read_secret
from querytruth.backends.search_systems import (
    SEARCH_SYSTEMS,
    QueryEncoder,
    SearchFailure,
    SearchHit,
    SearchSystemOptions,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_OPERATORS = {"cosine": "<=>", "inner_product": "<#>", "l2": "<->"}


class PgvectorOptions(SearchSystemOptions):
    """`dsn_env`: the variable with the connection string. `table`, `id_column`, `vector_column`, `distance` and
    `embedder`; or `sql`, a statement with `%(query)s`, `%(vector)s` (with an embedder) and `%(k)s`, which returns ids
    and scores, the best first."""

    dsn_env: str
    table: str | None = None
    id_column: str = "id"
    vector_column: str = "embedding"
    distance: Literal["cosine", "inner_product", "l2"] = "cosine"
    embedder: PathOrName | None = None
    sql: str | None = None

    @model_validator(mode="after")
    def _check_statement(self) -> PgvectorOptions:
        if (self.sql is None) == (self.table is None):
            raise ValueError("give either table or sql")
        if self.embedder is None and (self.sql is None or "%(vector)s" in self.sql):
            raise ValueError("a vector search needs embedder")
        names = [self.table or "t", self.id_column, self.vector_column]
        if wrong := [name for name in names if not _NAME.fullmatch(name)]:
            raise ValueError(f"{wrong[0]!r} is not a table or column name: use sql")
        return self


def load(options: PgvectorOptions) -> PgvectorIndex:
    """Return the system. Raises ModuleNotFoundError without psycopg."""
    import psycopg  # noqa: F401 - missing is an error before the first query

    return PgvectorIndex(options)


class PgvectorIndex:
    """A table, or a statement; each thread has a connection, on which nothing can be written."""

    def __init__(self, options: PgvectorOptions) -> None:
        self.options = options
        self._encoder = None if options.embedder is None else QueryEncoder(options.embedder)
        self._local = threading.local()

    @property
    def identity(self) -> ModelIdentity:
        """Return the statement and the embedder; not the connection."""
        return ModelIdentity("pgvector", "", {"sql": self._statement, "embedder": self.options.embedder})

    @property
    def _statement(self) -> str:
        options = self.options
        if options.sql is not None:
            return options.sql
        distance = f"{options.vector_column} {_OPERATORS[options.distance]} %(vector)s::vector"
        return f"SELECT {options.id_column}, -({distance}) FROM {options.table} ORDER BY {distance} LIMIT %(k)s"

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return the rows in the statement's order. Raises SearchFailure."""
        values: dict[str, Any] = {"query": text, "k": k}
        if self._encoder is not None:
            values["vector"] = "[" + ",".join(map(repr, self._encoder.encode(text).astype(float).tolist())) + "]"
        rows = self._execute(self._statement, values)
        return [SearchHit("" if row[0] is None else str(row[0]), _read_score(row)) for row in rows[:k]]

    def count_items(self) -> int | None:
        """Return the number of rows; None for a statement in SQL."""
        if self.options.table is None:
            return None
        return int(self._execute(f"SELECT count(*) FROM {self.options.table}", None)[0][0])

    def _execute(self, statement: str, values: dict[str, Any] | None) -> list[Any]:
        import psycopg

        try:
            if getattr(self._local, "connection", None) is None or self._local.connection.closed:
                connection = psycopg.connect(
                    read_secret(self.options.dsn_env, SEARCH_SYSTEMS.stage), connect_timeout=10, autocommit=True
                )
                connection.execute("SET default_transaction_read_only = on")
                connection.execute(f"SET statement_timeout = {round(self.options.deadline * 1000)}")
                self._local.connection = connection
            rows: list[Any] = self._local.connection.execute(statement, values).fetchall()
        except psycopg.errors.QueryCanceled:
            raise SearchFailure("timeout", "", 0.0) from None
        except psycopg.Error as error:  # its text could hold the connection string
            is_lost = isinstance(error, psycopg.OperationalError)
            raise SearchFailure("database_error", type(error).__name__, 0.0 if is_lost else None) from None
        return rows


def _read_score(row: Any) -> float | None:
    return float(row[1]) if len(row) > 1 and row[1] is not None else None

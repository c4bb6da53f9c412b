"""A robots.txt through the store: asked for once a day at most, also by runs that were cut short."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from backends.web.guarded_web import Stored
from backends.web.page_store import PageStore
from backends.web.web_records import Failed, Fetched, WebRequest

_FRESH = timedelta(hours=24)  # RFC 9309, 2.4


def robots_through(store: PageStore) -> Stored:
    """The way for `GuardedWeb` to read robots.txt."""

    def through(request: WebRequest, fetch: Callable[[BinaryIO], Fetched | Failed]) -> tuple[Fetched | Failed, bytes]:
        known = store.find([request]).get(request.key)
        if known is not None and known.outcome in ("kept", "final"):
            age = datetime.now(UTC) - datetime.fromisoformat(known.fetched_at)
            if timedelta(0) <= age < _FRESH:
                return known.result, store.body(known.sha256) if known.outcome == "kept" else b""
        out = io.BytesIO()
        answer = fetch(out)
        if not (isinstance(answer, Failed) and answer.reason == "stopped"):
            store.keep(request, answer, out.getvalue() if isinstance(answer, Fetched) else None)
        return answer, out.getvalue()

    return through

"""A robots.txt from the store, or fetched: at most once a day, also by runs that were cut short."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from backends.web.page_store import PageStore
from backends.web.web_records import FailedFetch, FetchedResource, WebRequest

_FRESH = timedelta(hours=24)  # RFC 9309, 2.4


def fetch_robots(
    store: PageStore | None, request: WebRequest, fetch: Callable[[BinaryIO], FetchedResource | FailedFetch]
) -> tuple[FetchedResource | FailedFetch, bytes]:
    """Returns the answer and its body. Without a store it is fetched whenever it is needed."""
    known = store.find([request]).get(request.key) if store else None
    if store and known and known.outcome in ("kept", "final"):
        age = datetime.now(UTC) - datetime.fromisoformat(known.fetched_at)
        if timedelta(0) <= age < _FRESH:
            return known.result, store.read_body(known.sha256) if known.outcome == "kept" else b""
    out = io.BytesIO()
    answer = fetch(out)
    if store:
        store.save(request, answer, out.getvalue() if isinstance(answer, FetchedResource) else None)
    return answer, out.getvalue()

"""A robots.txt through the store: asked for once a day at most, also by runs that were cut short."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from backends.web.crawler_client import RobotsFetch
from backends.web.page_store import PageStore
from backends.web.web_records import FailedFetch, FetchedResource, WebRequest

_FRESH = timedelta(hours=24)  # RFC 9309, 2.4


def make_robots_cache(store: PageStore) -> RobotsFetch:
    """The way for `CrawlerClient` to read robots.txt."""

    def through(
        request: WebRequest, fetch: Callable[[BinaryIO], FetchedResource | FailedFetch]
    ) -> tuple[FetchedResource | FailedFetch, bytes]:
        known = store.find([request]).get(request.key)
        if known is not None and known.outcome in ("kept", "final"):
            age = datetime.now(UTC) - datetime.fromisoformat(known.fetched_at)
            if timedelta(0) <= age < _FRESH:
                return known.result, store.read_body(known.sha256) if known.outcome == "kept" else b""
        out = io.BytesIO()
        answer = fetch(out)
        if not (isinstance(answer, FailedFetch) and answer.reason == "stopped"):
            store.save(request, answer, out.getvalue() if isinstance(answer, FetchedResource) else None)
        return answer, out.getvalue()

    return through

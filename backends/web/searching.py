"""Queries put to an image search through the store: what was answered is read again, and only the rest is asked for."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from backends.image_search import ImageSearch, NoAnswer, PageRequest, SearchResult
from backends.web.guarded_web import ROBOTS_REASONS, GuardedWeb
from backends.web.page_store import PageStore
from backends.web.web_records import Failed, Fetched, WebRequest
from backends.web.web_urls import spelled
from builders.errors import UserError

T = TypeVar("T")

GIVE_UP_AFTER = 5  # queries in a row that the service did not answer
MISSING = NoAnswer("not_fetched", "transient", "nothing is stored for it")
_STAGE = "search pictures"
_KEPT = "what was fetched is kept: run the same command again later"


@dataclass(slots=True)
class Pages:
    """The pages of one service: from the store, else (with `web`) from the web, and then kept before they are read.
    `asked` lists all that were wanted."""

    store: PageStore
    web: GuardedWeb | None
    asked: list[WebRequest] = field(default_factory=list)

    def fetch(self, page: PageRequest, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a page; NoAnswer where there is none, or it makes nothing of it. A page that was kept
        and is no answer is asked for again, unless the store is all there is."""
        request = WebRequest(page.url, "page", page.referer, page.is_api)
        self.asked.append(request)
        known = self.store.find([request]).get(request.key)
        problem = MISSING
        if known is not None:
            try:
                return read(self.store.body(known.sha256)) if known.outcome == "kept" else _raised(known.result)
            except NoAnswer as no_answer:
                problem = no_answer
        if self.web is None or (known is not None and problem.kind == "final"):
            raise problem
        return self._asked(self.web, request, read)

    def _asked(self, web: GuardedWeb, request: WebRequest, read: Callable[[bytes], T]) -> T:
        for attempt in range(1, web.limits.tries + 1):
            out = io.BytesIO()
            answer = web.fetch_patiently(request, out)
            if isinstance(answer, Failed):
                if answer.reason != "stopped":
                    self.store.keep(request, answer)
                return _raised(answer)
            self.store.keep(request, answer, out.getvalue())
            try:
                return read(out.getvalue())
            except NoAnswer as no_answer:
                if no_answer.kind != "transient" or attempt == web.limits.tries:
                    raise
                web.stopped.wait(web.limits.pause * 2.0 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")


def search_each(
    search: ImageSearch,
    queries: Sequence[str],
    wanted: int,
    pages: Pages,
    advance: Callable[[int], None] = lambda _count: None,
) -> list[SearchResult | NoAnswer]:
    """Per query the first `wanted` results, or why there is no answer. One after the other: that is how services want
    to be asked. UserError where the service turns us away, or does not answer several queries in a row; from the store
    alone these are answers like others."""
    answers: list[SearchResult | NoAnswer] = []
    failed_in_a_row = 0
    for query in queries:
        try:
            answers.append(_spelled(search.search(query, wanted, pages.fetch)))
            failed_in_a_row = 0
        except NoAnswer as no_answer:
            answers.append(no_answer)
            failed_in_a_row += pages.web is not None and no_answer.kind == "transient"
            if no_answer.kind == "blocked" and pages.web is not None:
                raise _stopped(search, f"turned us away ({no_answer.reason}: {no_answer.detail})") from None
            if failed_in_a_row >= GIVE_UP_AFTER:
                told = f"{no_answer.reason}{': ' * bool(no_answer.detail)}{no_answer.detail}"
                raise _stopped(search, f"did not answer {failed_in_a_row} queries in a row ({told})") from None
        advance(1)
    return answers


def _spelled(result: SearchResult) -> SearchResult:
    """With addresses in one spelling: what is the same address is the same text."""
    return replace(result, candidates=tuple(replace(one, url=spelled(one.url)) for one in result.candidates))


def _stopped(search: ImageSearch, reason: str) -> UserError:
    return UserError(_STAGE, search.identity.name, reason, _KEPT)


def _raised(result: Fetched | Failed) -> T:  # type: ignore[type-var]
    assert isinstance(result, Failed)
    if result.reason in ROBOTS_REASONS:
        raise NoAnswer(result.reason, "blocked", f"{result.detail} does not want programs to ask")
    raise NoAnswer(result.reason, result.kind, result.detail)

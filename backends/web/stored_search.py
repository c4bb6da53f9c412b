"""Image searches through the store: stored result pages are read again, and only the others are fetched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from backends.image_search import ImageSearch, SearchError, SearchResult
from backends.web.crawler_client import ROBOTS_REASONS, CrawlerClient
from backends.web.page_store import PageStore
from backends.web.web_records import FailedFetch, FetchResult, WebRequest
from backends.web.web_urls import normalize_url
from builders.errors import UserError

T = TypeVar("T")

GIVE_UP_AFTER = 5  # unanswered queries in a row
NOTHING_STORED = SearchError("not_fetched", "transient", "nothing is stored for it")
_STAGE = "search pictures"
_KEPT = "what was fetched is kept: run the same command again later"


@dataclass(slots=True)
class SearchPageFetcher:
    """The result pages of one service: from the store, else (with `web`) from the web, stored before they are parsed.
    `requests` lists all that were requested."""

    store: PageStore
    web: CrawlerClient | None
    requests: list[WebRequest] = field(default_factory=list)

    def fetch(self, request: WebRequest, read: Callable[[bytes], T]) -> T:
        """Returns what `read` parses from a page. Raises SearchError where there is none, or `read` cannot parse it; a
        stored page with such an error is fetched again where `web` is given."""
        self.requests.append(request)
        known = self.store.find([request]).get(request.key)
        problem = NOTHING_STORED
        if known is not None:
            try:
                _raise_failure(known.result)
                return read(self.store.read_body(known.sha256))
            except SearchError as no_answer:
                problem = no_answer
        if self.web is None or problem.kind == "final":
            raise problem
        return self._fetch_and_read(self.web, request, read)

    def _fetch_and_read(self, web: CrawlerClient, request: WebRequest, read: Callable[[bytes], T]) -> T:
        for attempt in range(1, web.limits.tries + 1):
            answer, body = web.fetch_with_retries(request)
            self.store.save(request, answer, body)
            _raise_failure(answer)
            try:
                return read(body)
            except SearchError as no_answer:
                if no_answer.kind != "transient" or attempt == web.limits.tries:
                    raise
                web.stopped.wait(web.limits.pause * 2.0 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")


def search_queries(
    search: ImageSearch,
    queries: Sequence[str],
    wanted: int,
    pages: SearchPageFetcher,
    advance: Callable[[int], None] = lambda _count: None,
) -> list[SearchResult | SearchError]:
    """Returns for each query the first `wanted` results, or why there are none. Queries run one after the other. Raises
    UserError where the service blocks us, or does not answer several queries in a row (not without the web)."""
    answers: list[SearchResult | SearchError] = []
    failed_in_a_row = 0
    for query in queries:
        try:
            answers.append(_normalize_urls(search.search(query, wanted, pages.fetch)))
            failed_in_a_row = 0
        except SearchError as no_answer:
            answers.append(no_answer)
            failed_in_a_row += pages.web is not None and no_answer.kind == "transient"
            if no_answer.kind == "blocked" and pages.web is not None:
                raise _search_stopped(search, f"turned us away ({no_answer.reason}: {no_answer.detail})") from None
            if failed_in_a_row >= GIVE_UP_AFTER:
                detail = f"{no_answer.reason}{': ' * bool(no_answer.detail)}{no_answer.detail}"
                raise _search_stopped(search, f"did not answer {failed_in_a_row} queries in a row ({detail})") from None
        advance(1)
    return answers


def _normalize_urls(result: SearchResult) -> SearchResult:
    """Returns the result with normalized addresses: the same address is the same text."""
    return replace(result, candidates=tuple(replace(one, url=normalize_url(one.url)) for one in result.candidates))


def _search_stopped(search: ImageSearch, reason: str) -> UserError:
    return UserError(_STAGE, search.identity.name, reason, _KEPT)


def _raise_failure(result: FetchResult) -> None:
    """Raises SearchError for a failed fetch."""
    if isinstance(result, FailedFetch) and result.reason in ROBOTS_REASONS:
        raise SearchError(result.reason, "blocked", f"{result.detail} does not want programs to ask")
    if isinstance(result, FailedFetch):
        raise SearchError(result.reason, result.kind, result.detail)

"""Image searches and images through the store: what is stored is read again, and only the rest is fetched.

The result of an image depends only on its addresses, never on which host answers first, and is replayed without the
web.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from querytruth.backends.web import image_fetch_pool
from querytruth.backends.web.crawler_client import ROBOTS_REASONS, CrawlerClient
from querytruth.backends.web.image_search import ImageSearch, SearchError, SearchResult
from querytruth.backends.web.page_store import PageStore, StoredFetch, make_stored_fetch
from querytruth.backends.web.web_records import FailedFetch, FetchResult, WebRequest, normalize_url
from querytruth.errors import UserError

NOT_FETCHED = FailedFetch("not_fetched", "transient", "no stored response")
OnImageFetched = Callable[[image_fetch_pool.FetchedImage], None]
T = TypeVar("T")

GIVE_UP_AFTER = 5  # unanswered queries in a row
NOTHING_STORED = SearchError("not_fetched", "transient", "no stored response")
_STAGE = "search images"
_KEPT = "run the same command again later: fetched pages are kept"


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image: its addresses (the first that works is used) or a local file. `referer` is the page that shows it."""

    urls: tuple[str, ...] = ()
    referer: str = ""
    path: Path | None = None


def fetch_images(
    store: PageStore,
    web: CrawlerClient | None,
    wanted: Sequence[WantedImage],
    advance: OnImageFetched = lambda _image: None,
) -> list[image_fetch_pool.FetchedImage]:
    """Return an image or a failure per wanted image, in order. Without `web`, stored fetches are replayed, including
    transient failures. `advance` is called for every finished address or file, in the caller's thread.

    Raises StoreWriteError if the disk is full. Ctrl-C ends running fetches; stored ones remain for the next run.
    """
    fetched: list[image_fetch_pool.FetchedImage | None] = [None] * len(wanted)
    for place, one in enumerate(wanted):
        if one.path is not None:
            fetched[place] = image = image_fetch_pool.read_local_image(one.path)
            advance(image)
    for number in range(max((len(one.urls) for one in wanted), default=0)):
        missing = [n for n, one in enumerate(wanted) if _is_missing(fetched[n]) and number < len(one.urls)]
        requests = {n: WebRequest(wanted[n].urls[number], "picture", wanted[n].referer) for n in missing}
        answers = _each_once(store, web, list(requests.values()), advance)
        for n, request in requests.items():
            fetched[n] = answers[request.key]
    return [image or image_fetch_pool.FetchedImage("", "no_image_url", "final") for image in fetched]


def _is_missing(fetched: image_fetch_pool.FetchedImage | None) -> bool:
    return fetched is None or bool(fetched.reason and not fetched.path)


def _each_once(
    store: PageStore, web: CrawlerClient | None, requests: Sequence[WebRequest], advance: OnImageFetched
) -> dict[str, image_fetch_pool.FetchedImage]:
    """Return an image per key; an address that is wanted several times is fetched once."""
    known = store.find(requests)
    facts_by_digest = store.read_image_facts(
        (one.sha256 for one in known.values() if one.sha256), image_fetch_pool.READER_VERSION
    )
    answers: dict[str, image_fetch_pool.FetchedImage] = {}
    to_fetch: list[WebRequest] = []
    for request in {request.key: request for request in requests}.values():
        one = known.get(request.key)
        is_outdated = one and web and one.reason in ROBOTS_REASONS and not web.respects_robots
        if web is not None and (one is None or one.outcome == "transient" or is_outdated):
            to_fetch.append(request)
            continue
        answers[request.key] = _replay(store, request, one, facts_by_digest)
        advance(answers[request.key])
    if web is not None and to_fetch:
        for key, image in image_fetch_pool.ImageFetchPool(store, web).run(to_fetch):
            answers[key] = image
            advance(image)
    return answers


def _replay(
    store: PageStore, request: WebRequest, one: StoredFetch | None, facts_by_digest: dict[str, dict[str, Any]]
) -> image_fetch_pool.FetchedImage:
    if one is None or one.outcome != "kept":
        return image_fetch_pool.fetched_image_of(store, one or make_stored_fetch(request, NOT_FETCHED), {})
    facts = facts_by_digest.get(one.sha256)
    if facts is None:
        [image] = image_fetch_pool.decode_images([store.body_path(one.sha256)])
        if image.reason:
            return image_fetch_pool.FetchedImage(one.url, image.reason, "final", image.detail or "")
        facts = image_fetch_pool.image_facts_as_json(image)
        store.save_image_facts(one.sha256, image_fetch_pool.READER_VERSION, facts)
    return image_fetch_pool.fetched_image_of(store, one, facts)


@dataclass(slots=True)
class SearchPageFetcher:
    """The result pages of one service: from the store, else (with `web`) from the web, stored before they are parsed.
    `requests` lists all that were requested."""

    store: PageStore
    web: CrawlerClient | None
    requests: list[WebRequest] = field(default_factory=list)

    def fetch(self, request: WebRequest, read: Callable[[bytes], T]) -> T:
        """Return what `read` parses from a page. Raises SearchError if there is no page or `read` cannot parse it; a
        stored page with such an error is fetched again if `web` is given."""
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
    """Return for each query the first `wanted` results or the failure. Queries run one after the other. Raises
    UserError if the service blocks us or does not answer several queries in a row (only with the web)."""
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
                raise _search_stopped(search, f"blocked us ({no_answer.reason}: {no_answer.detail})") from None
            if failed_in_a_row >= GIVE_UP_AFTER:
                detail = f"{no_answer.reason}{': ' * bool(no_answer.detail)}{no_answer.detail}"
                raise _search_stopped(search, f"did not answer {failed_in_a_row} queries in a row ({detail})") from None
        advance(1)
    return answers


def _normalize_urls(result: SearchResult) -> SearchResult:
    """Return the result with normalized addresses: the same address is the same text."""
    return replace(result, candidates=tuple(replace(one, url=normalize_url(one.url)) for one in result.candidates))


def _search_stopped(search: ImageSearch, reason: str) -> UserError:
    return UserError(_STAGE, search.identity.name, reason, _KEPT)


def _raise_failure(result: FetchResult) -> None:
    """Raise SearchError for a failed fetch."""
    if isinstance(result, FailedFetch) and result.reason in ROBOTS_REASONS:
        raise SearchError(result.reason, "blocked", f"{result.detail} forbids automated requests")
    if isinstance(result, FailedFetch):
        raise SearchError(result.reason, result.kind, result.detail)

"""Images fetched through the store: stored ones are not fetched again, and are replayed without the web.

The result of an image depends only on its addresses, never on which host answers first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.web.crawler_client import ROBOTS_REASONS, CrawlerClient
from backends.web.decoded_images import (
    READER_VERSION,
    FetchedImage,
    decode_images,
    fetched_image_of,
    image_facts_as_json,
    read_local_image,
)
from backends.web.image_fetch_pool import ImageFetchPool
from backends.web.page_store import PageStore, StoredFetch, make_stored_fetch
from backends.web.web_records import FailedFetch, WebRequest

NOT_FETCHED = FailedFetch("not_fetched", "transient", "nothing is stored for it")
OnImageFetched = Callable[[FetchedImage], None]


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image: its addresses, of which the first that works counts, or a local file. `referer` is the page that
    shows it."""

    urls: tuple[str, ...] = ()
    referer: str = ""
    path: Path | None = None


def fetch_images(
    store: PageStore,
    web: CrawlerClient | None,
    wanted: Sequence[WantedImage],
    advance: OnImageFetched = lambda _image: None,
) -> list[FetchedImage]:
    """Returns an image, or why there is none, per wanted one, in order. Without `web` stored fetches are replayed,
    transient failures included. `advance` is called for every address or file that is done, in the caller's thread.

    Raises StoreWriteError where the disk is full. Ctrl-C ends running fetches; stored ones stay for the next run.
    """
    fetched: list[FetchedImage | None] = [None] * len(wanted)
    for place, one in enumerate(wanted):
        if one.path is not None:
            fetched[place] = image = read_local_image(one.path)
            advance(image)
    for number in range(max((len(one.urls) for one in wanted), default=0)):
        missing = [n for n, one in enumerate(wanted) if _is_missing(fetched[n]) and number < len(one.urls)]
        requests = {n: WebRequest(wanted[n].urls[number], "picture", wanted[n].referer) for n in missing}
        answers = _each_once(store, web, list(requests.values()), advance)
        for n, request in requests.items():
            fetched[n] = answers[request.key]
    return [image or FetchedImage("", "no_image_url", "final") for image in fetched]


def _is_missing(fetched: FetchedImage | None) -> bool:
    return fetched is None or bool(fetched.reason and not fetched.path)


def _each_once(
    store: PageStore, web: CrawlerClient | None, requests: Sequence[WebRequest], advance: OnImageFetched
) -> dict[str, FetchedImage]:
    """Returns an image per key; an address that is wanted several times is fetched once."""
    known = store.find(requests)
    facts_by_digest = store.read_image_facts((one.sha256 for one in known.values() if one.sha256), READER_VERSION)
    answers: dict[str, FetchedImage] = {}
    to_fetch: list[WebRequest] = []
    for request in {request.key: request for request in requests}.values():
        one = known.get(request.key)
        if web is not None and (one is None or one.outcome == "transient" or _is_outdated(one, web)):
            to_fetch.append(request)
            continue
        answers[request.key] = _replay(store, request, one, facts_by_digest)
        advance(answers[request.key])
    if web is not None and to_fetch:
        for key, image in ImageFetchPool(store, web).run(to_fetch):
            answers[key] = image
            advance(image)
    return answers


def _is_outdated(one: StoredFetch, web: CrawlerClient) -> bool:
    """Whether robots.txt forbade the fetch and is ignored now."""
    return one.reason in ROBOTS_REASONS and not web.respects_robots


def _replay(
    store: PageStore, request: WebRequest, one: StoredFetch | None, facts_by_digest: dict[str, dict[str, Any]]
) -> FetchedImage:
    if one is None or one.outcome != "kept":
        return fetched_image_of(store, one or make_stored_fetch(request, NOT_FETCHED), {})
    facts = facts_by_digest.get(one.sha256)
    if facts is None:
        [image] = decode_images([store.body_path(one.sha256)])
        if image.reason:
            return FetchedImage(one.url, image.reason, "final", image.detail or "")
        facts = image_facts_as_json(image)
        store.save_image_facts(one.sha256, READER_VERSION, facts)
    return fetched_image_of(store, one, facts)

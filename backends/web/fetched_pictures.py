"""Pictures fetched through the store: what is there is not fetched again, and without the web it is replayed.

What becomes of a picture depends on its address alone, never on which host answered first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.web.decoded_pictures import READER, FetchedPicture, decoded, facts_of, kept_picture, local_picture
from backends.web.guarded_web import ROBOTS_REASONS, GuardedWeb
from backends.web.page_store import PageStore, StoredFetch, stored
from backends.web.picture_fetching import PictureFetching
from backends.web.web_records import Failed, WebRequest

NOT_FETCHED = Failed("not_fetched", "transient", "nothing is stored for it")
Advance = Callable[[FetchedPicture], None]


@dataclass(frozen=True, slots=True)
class WantedPicture:
    """A picture and the addresses at which it is said to lie, of which the first that gives it counts; or a local
    file. `referer` is the page that shows it."""

    urls: tuple[str, ...] = ()
    referer: str = ""
    path: Path | None = None


def fetch_pictures(
    store: PageStore,
    web: GuardedWeb | None,
    wanted: Sequence[WantedPicture],
    advance: Advance = lambda _picture: None,
) -> list[FetchedPicture]:
    """A picture, or why there is none, per wanted one, in order. Without `web` what is stored is replayed: all of it,
    failures that might pass by now too. `advance` is told of every address or file that is done, in the caller's
    thread.

    CannotKeep where the disk is full. Ctrl-C ends at once what is under way; what was kept is there for the next run.
    """
    found: list[FetchedPicture | None] = [None] * len(wanted)
    for place, one in enumerate(wanted):
        if one.path is not None:
            found[place] = picture = local_picture(one.path)
            advance(picture)
    for number in range(max((len(one.urls) for one in wanted), default=0)):
        missing = [n for n, one in enumerate(wanted) if _is_missing(found[n]) and number < len(one.urls)]
        requests = {n: WebRequest(wanted[n].urls[number], "picture", wanted[n].referer) for n in missing}
        answers = _each_once(store, web, list(requests.values()), advance)
        for n, request in requests.items():
            found[n] = answers[request.key]
    return [picture or FetchedPicture("", "no_picture_url", "final") for picture in found]


def _is_missing(found: FetchedPicture | None) -> bool:
    return found is None or bool(found.reason and not found.path)


def _each_once(
    store: PageStore, web: GuardedWeb | None, requests: Sequence[WebRequest], advance: Advance
) -> dict[str, FetchedPicture]:
    """Every address once, however often it is wanted."""
    known = store.find(requests)
    looks = store.looks((one.sha256 for one in known.values() if one.sha256), READER)
    answers: dict[str, FetchedPicture] = {}
    to_fetch: list[WebRequest] = []
    for request in {request.key: request for request in requests}.values():
        one = known.get(request.key)
        if web is not None and (one is None or one.outcome == "transient" or _is_no_longer_so(one, web)):
            to_fetch.append(request)
            continue
        answers[request.key] = _known(store, request, one, looks)
        advance(answers[request.key])
    if web is not None and to_fetch:
        for key, picture in PictureFetching(store, web).run(to_fetch):
            answers[key] = picture
            advance(picture)
    return answers


def _is_no_longer_so(one: StoredFetch, web: GuardedWeb) -> bool:
    return one.reason in ROBOTS_REASONS and not web.respects_robots


def _known(
    store: PageStore, request: WebRequest, one: StoredFetch | None, looks: dict[str, dict[str, Any]]
) -> FetchedPicture:
    if one is None or one.outcome != "kept":
        return kept_picture(store, one or stored(request, NOT_FETCHED), {})
    facts = looks.get(one.sha256)
    if facts is None:
        [picture] = decoded([store.body_path(one.sha256)])
        if picture.reason:
            return FetchedPicture(one.url, picture.reason, "final", picture.detail or "")
        facts = facts_of(picture)
        store.keep_looks(one.sha256, READER, facts)
    return kept_picture(store, one, facts)

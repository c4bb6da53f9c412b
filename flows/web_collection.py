"""The third stage of a generated set: pictures for the queries that people kept, by the seed article's rules.

queries ─► search ─► screen ─► fetch what is needed to tell, again and again ─► settle

Whatever came from the web is in the page store before anything is made of it. What becomes of it hangs on that store
alone, so that a run that was stopped goes on, and a build without the web comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.image_search import Candidate, web_address
from backends.web.decoded_pictures import FetchedPicture
from backends.web.fetched_pictures import WantedPicture, fetch_pictures
from backends.web.guarded_web import GuardedWeb
from backends.web.page_store import PageStore, fetches_digest
from backends.web.stored_robots import robots_through
from backends.web.web_records import CannotKeep, WebLimits, WebRequest
from builders.errors import UserError
from builders.gallery.near_duplicates import Duplicates
from builders.generated.collection_rules import PICTURES, Collected, next_to_fetch, settle
from builders.generated.result_rules import CollectionRules, screen
from builders.ledger import Ledger
from builders.records import PANDAS_TYPES, SCANNED
from builders.rescues import Rescue
from builders.told import Told
from flows.definitions.generated import Collect, GeneratedDefinition
from flows.generation.fetch_watch import FetchWatch, fetch_figures
from flows.generation.searched_queries import Searched, search_queries
from flows.pictures.duplicate_groups import group_duplicates, looks_of
from flows.steps import current, step
from flows.told import told_rescues

_TOLD = pa.schema([(name, pa.string()) for name in ("url", "reason", "kind", "detail")])
_SEEN = [SCANNED.field(name) for name in (*PICTURES[4:], "turned")]
_TABLE = pa.schema([*_TOLD, *(field.with_nullable(True) for field in _SEEN)])
_MISSING = partial(FetchedPicture, reason="picture_missing", kind="final", detail="the index names it, and it is gone")


@dataclass(frozen=True, slots=True)
class Collection:
    """What a collection came to: the truth, the pictures by the address that the results have, and what the manifest
    says of where they come from; what became of people's words on pictures, and those on queries and results that
    were followed. `fetches`: made now."""

    searched: Searched
    collected: Collected
    pictures: dict[str, FetchedPicture]
    inputs: list[dict[str, Any]]
    models: list[dict[str, Any]]
    figures: dict[str, Any]
    fetches: int
    told: Told
    rescues: Mapping[str, Rescue]


@dataclass(slots=True)
class _Grouping:
    """Which pictures are the same, by the definition's measure; `models` helped to tell."""

    definition: GeneratedDefinition
    pictures: dict[str, FetchedPicture]
    models: list[dict[str, Any]] = field(default_factory=list)
    told: Told = field(default_factory=Told)

    def __call__(self, frame: pd.DataFrame) -> Duplicates:
        rules, folder = self.definition.near_duplicates, self.definition.out / self.definition.name
        looks = frame[[*looks_of(rules), "sha256", "pixels"]]
        found, self.models = group_duplicates(looks, rules, self._locate, folder)
        self.told = found.told
        return found

    def _locate(self, urls: Sequence[str]) -> list[str]:
        return [str(Path(self.pictures[url].path).absolute()) for url in urls]


def collect_pictures(
    definition: GeneratedDefinition, chosen: pd.DataFrame, ledger: Ledger, *, connected: bool
) -> Collection:
    """The truth of the queries that people kept (query_id, text, topic). Not `connected`: from what is stored."""
    wanted, rules = definition.collect, rules_of(definition.collect)
    rescues = told_rescues(definition.out / definition.name)
    people = frozenset(rescues)
    with _opened(definition, connected) as (store, web):
        searched = search_queries(wanted, chosen, store, web)
        batches = screen(searched.queries, searched.results, rules, ledger, people)
        watch, grouping = FetchWatch(), _Grouping(definition, {})
        fetch_needed(batches, searched.candidates, rules, people, grouping, partial(_fetch, store, web, watch))
        if connected:
            current().reporter.say(watch.line)
        collected = settle_queries(batches, rules, people, grouping, ledger)
        requests = [*searched.pages, *_used(searched.candidates, grouping.pictures)]
        used = fetches_digest(store.find(requests).values())
    counts = {"pages": len(searched.pages), "pictures": len(grouping.pictures)}
    return Collection(
        searched,
        collected,
        grouping.pictures,
        [{"file": f"fetches: {wanted.search}", "sha256": used, "counts": counts}],
        [{"role": "image search", **searched.identity.described()}, *grouping.models],
        {
            **collected.figures,
            "by_topic": _by_topic(chosen, collected),
            "fetched": fetch_figures(grouping.pictures.values()),
        },
        watch.fetched,
        grouping.told,
        rescues,
    )


@contextmanager
def _opened(definition: GeneratedDefinition, connected: bool) -> Iterator[tuple[PageStore, GuardedWeb | None]]:
    """The page store beside the set's versions, and the way to the web, if there is to be one."""
    wanted = definition.collect
    store = PageStore(definition.out / definition.name / "pages")
    web = None
    if connected:
        web = GuardedWeb(
            WebLimits(**wanted.limits.model_dump()),
            contact=wanted.contact,
            respect_robots=wanted.respect_robots,
            robots_through=robots_through(store),
        )
    try:
        yield store, web
    except CannotKeep as fault:
        next_step = "mend that, then run the same command: what was fetched is kept"
        raise UserError("collect pictures", store.folder, f"cannot be written ({fault})", next_step) from None
    finally:
        if web is not None:
            web.stop()
        store.close()


@step("fetch pictures")
def fetch_needed(
    batches: pd.DataFrame,
    candidates: dict[str, Candidate],
    rules: CollectionRules,
    people: frozenset[str],
    grouping: _Grouping,
    fetch: Callable[[list[WantedPicture]], list[FetchedPicture]],
) -> None:
    """Fetch until it can be told which pictures are kept: first those that come first, then what stands in for the ones
    that failed. `people` want these queries and results."""
    known = grouping.pictures
    while needed := next_to_fetch(batches, picture_table(known), rules, grouping, people):
        places = {url: place for url in needed if (place := _place(candidates[url])) is not None}
        answers = dict(zip(places, fetch(list(places.values())), strict=True))
        known |= {url: answers[url] if url in places else _MISSING(url) for url in needed}


def _fetch(
    store: PageStore, web: GuardedWeb | None, watch: FetchWatch, wanted: list[WantedPicture]
) -> list[FetchedPicture]:
    with current().reporter.bar("fetch pictures", len(wanted), "pictures") as advance:
        return fetch_pictures(store, web, wanted, lambda picture: watch.note(picture, advance))


@step("settle queries")
def settle_queries(
    batches: pd.DataFrame, rules: CollectionRules, people: frozenset[str], grouping: _Grouping, ledger: Ledger
) -> Collected:
    """The truth, one query after the other."""
    return settle(batches, picture_table(grouping.pictures), rules, grouping, ledger, people)


def picture_table(pictures: dict[str, FetchedPicture]) -> pd.DataFrame:
    """What came of addresses, as the rules read it (columns PICTURES, and turned)."""
    rows = [{"url": url} | {name: getattr(one, name) for name in _TABLE.names[1:]} for url, one in pictures.items()]
    return pa.Table.from_pylist(rows, _TABLE).to_pandas(types_mapper=PANDAS_TYPES.get)


def rules_of(wanted: Collect) -> CollectionRules:
    """The definition's rules."""
    given = wanted.model_dump(include=set(CollectionRules.__slots__) - {"licences"})
    return CollectionRules(**given, licences=None if wanted.licences is None else frozenset(wanted.licences))


def _place(candidate: Candidate) -> WantedPicture | None:
    """Where to have it from; None for a file that is gone."""
    if candidate.path is not None:
        return WantedPicture(path=Path(candidate.path))
    urls = tuple(url for url in (candidate.url, *candidate.also_at) if web_address(url))
    return WantedPicture(urls, candidate.page_url or "") if urls else None


def _used(candidates: dict[str, Candidate], pictures: dict[str, FetchedPicture]) -> Iterator[WebRequest]:
    """Every address that a picture took: those that failed, and the one that gave it."""
    for url, picture in pictures.items():
        place = _place(candidates[url])
        for address in place.urls if place is not None else ():
            request = WebRequest(address)
            yield request
            if not picture.reason and request.key == WebRequest(picture.url).key:
                break


def _by_topic(chosen: pd.DataFrame, collected: Collected) -> list[dict[str, Any]]:
    """How many queries of a topic keep pictures, in the order of the topics."""
    kept = chosen["query_id"].isin(collected.query_ids)
    return [
        {"topic": str(topic), "queries": len(rows), "kept": int(rows.sum())}
        for topic, rows in kept.groupby(chosen["topic"], sort=True)
    ]

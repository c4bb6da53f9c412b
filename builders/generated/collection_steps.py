"""The third stage of a generated set: images for the queries that people kept, by the seed article's rules.

queries ─► search ─► screen ─► fetch, in rounds, what the rules need ─► assign images

Answers of searches are tables that the rules read. Everything that comes from the web is in the page store before it is
used, and the result depends on that store alone: a stopped run continues, and a build without the web gives the same.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa

from builders.gallery.near_duplicates import DuplicateGroups
from builders.gallery.steps import duplicate_columns, group_duplicates
from builders.generated import image_collection, result_screening
from builders.generated.definition import CollectOptions, GeneratedDefinition
from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.steps import Advance, current_run, step
from querytruth.backends.web import image_search
from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.image_fetch_pool import FetchedImage
from querytruth.backends.web.image_search import ImageCandidate, SearchResult, normalize_web_url, visible_text
from querytruth.backends.web.page_store import PageStore, fetches_digest
from querytruth.backends.web.stored_fetches import SearchPageFetcher, WantedImage, fetch_images, search_queries
from querytruth.backends.web.web_records import BadUrl, StoreWriteError, WebLimits, WebRequest, parse_host, parse_url
from querytruth.errors import UserError
from querytruth.records import ARROW_TO_PANDAS_TYPES, SCANNED_IMAGES_SCHEMA
from querytruth.sets import decision_log, decision_records
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Input, Provenance, Threshold, describe_model, describe_threshold
from querytruth.sets.manifest_notes import Collection

_REPORT_INTERVAL = 15.0  # seconds
_MAX_LISTED = 12  # hosts and reasons listed
_FETCH_FIELDS = pa.schema([(name, pa.string()) for name in ("url", "reason", "kind", "detail")])
_SCAN_FIELDS = [SCANNED_IMAGES_SCHEMA.field(name) for name in (*image_collection.FETCHED_IMAGE_COLUMNS[4:], "details")]
_IMAGE_TABLE_SCHEMA = pa.schema([*_FETCH_FIELDS, *(field.with_nullable(True) for field in _SCAN_FIELDS)])
_missing_image = partial(FetchedImage, reason="image_missing", kind="final", detail="listed in the index, but missing")


@dataclass(slots=True)
class FetchProgress:
    """Counts finished fetches, and reports the progress at intervals."""

    started: float = field(default_factory=time.monotonic)
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    succeeded: int = 0
    fetched: int = 0  # now: the rest was known
    failed: Counter[str] = field(default_factory=Counter)
    hosts: set[str] = field(default_factory=set)
    _last_report: float = field(default_factory=time.monotonic)

    def record(self, image: FetchedImage, advance: Advance) -> None:
        """Count one more finished fetch."""
        advance(1)
        if image.reason:
            self.failed[image.reason] += 1
        else:
            self.succeeded += 1
        if host := parse_host(image.url):
            self.hosts.add(host)
            self.fetched += image.fetched_at >= self.started_at
        if time.monotonic() - self._last_report > _REPORT_INTERVAL:
            self._last_report = time.monotonic()
            current_run().reporter.log(self.summary)

    @property
    def summary(self) -> str:
        """Return the progress as one line."""
        seconds = max(time.monotonic() - self.started, 0.001)
        hosts = f"{len(self.hosts):,} host{'s' if len(self.hosts) > 1 else ''}"
        text = f"{self.succeeded:,} images" + (f" from {hosts}" if self.hosts else "")
        text += f", {self.fetched:,} addresses fetched now ({self.fetched / seconds:.0f}/s)" if self.fetched else ""
        reasons = sorted(self.failed.items(), key=lambda item: (-item[1], item[0]))[:_MAX_LISTED]
        why = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons)
        return f"{text}; failed: {why}" if why else text


def summarize_fetches(images: Iterable[FetchedImage]) -> dict[str, Any]:
    """Count the fetched images, the failures by reason, and the hosts."""
    failed: Counter[str] = Counter()
    hosts: dict[str, list[int]] = {}
    times: list[str] = []
    there = 0
    for image in images:
        if image.reason:
            failed[image.reason] += 1
        else:
            there += 1
            times += [image.fetched_at] if image.fetched_at else []
        if host := parse_host(image.url):
            hosts.setdefault(host, [0, 0])[bool(image.reason)] += 1
    most = sorted(hosts.items(), key=lambda item: (-sum(item[1]), item[0]))[:_MAX_LISTED]
    return {
        "there": there,
        "failed": dict(sorted(failed.items())),
        "hosts": len(hosts),
        "most": [{"host": host, "there": good, "failed": bad} for host, (good, bad) in most],
        "first": min(times, default=None),
        "last": max(times, default=None),
    }


@dataclass(frozen=True, slots=True)
class QuerySearchResults:
    """The results of the search. `queries` and `results` have the columns SEARCHED_QUERY_COLUMNS and
    SEARCH_RESULT_COLUMNS (ranks from 1); `candidates` has per address the details from the first query, by id, that
    found it; `pages` are the stored pages that were read."""

    identity: ModelIdentity
    queries: pd.DataFrame
    results: pd.DataFrame
    candidates: dict[str, ImageCandidate]
    pages: list[WebRequest]


@step("search images")
def search_images_of_queries(
    wanted: CollectOptions, chosen: pd.DataFrame, store: PageStore, web: CrawlerClient | None
) -> QuerySearchResults:
    """Request the first results of every query (query_id, text), one after the other. Raises UserError where the
    service refuses; earlier answers stay stored."""
    search = image_search.load_image_search(wanted.search, **wanted.options)
    ordered = chosen.sort_values("query_id", ignore_index=True)
    pages, texts = SearchPageFetcher(store, web), ordered["text"].tolist()
    with current_run().reporter.bar("search images", len(texts), "queries") as advance:
        answers = search_queries(search, texts, wanted.first, pages, advance)
    queries: list[list[Any]] = []
    results: list[list[Any]] = []
    candidates: dict[str, ImageCandidate] = {}
    for query_id, text, answer in zip(ordered["query_id"], texts, answers, strict=True):
        if not isinstance(answer, SearchResult):
            queries.append([query_id, text, None, answer.reason, answer.kind, answer.detail])
            continue
        queries.append([query_id, text, answer.reported, "", "", ""])
        for rank, candidate in enumerate(_readable(answer), start=1):
            candidates.setdefault(candidate.url, candidate)
            results.append(
                [query_id, rank, *(getattr(candidate, name) for name in result_screening.SEARCH_RESULT_COLUMNS[2:])]
            )
    query_table = pd.DataFrame(queries, columns=result_screening.SEARCHED_QUERY_COLUMNS).astype({"reported": "Int64"})
    result_table = pd.DataFrame(results, columns=result_screening.SEARCH_RESULT_COLUMNS).astype(
        {"width": "Int64", "height": "Int64"}
    )
    return QuerySearchResults(search.identity, query_table, result_table, candidates, pages.requests)


def _readable(answer: SearchResult) -> Iterator[ImageCandidate]:
    """Yield the candidates with texts that any file can store, and page addresses only where they are valid."""
    for candidate in answer.candidates:
        licence = (visible_text(candidate.licence) or "")[:100] or None
        url = candidate.url.encode("utf-8", "backslashreplace").decode()
        yield replace(candidate, url=url, page_url=_normalize(candidate.page_url), licence=licence)


def _normalize(url: str | None) -> str | None:
    try:
        return parse_url(url).normalized if url else None
    except BadUrl:
        return None


@dataclass(frozen=True, slots=True)
class WebCollection:
    """The result of a collection: the images of each query, the fetched images by the URL in the results, and their
    provenance. `decision_outcome`: of decisions on image pairs; `overrides`: on queries and results; `fetch_count`:
    fetches of this run."""

    search_results: QuerySearchResults
    collected: image_collection.CollectionResult
    images: dict[str, FetchedImage]
    provenance: Provenance
    figures: Collection
    fetch_count: int
    decision_outcome: DecisionOutcome
    overrides: Mapping[str, decision_records.Override]


@dataclass(slots=True)
class _Grouping:
    """Groups duplicate images by the definition's rules; keeps the models, cuts and decisions of the last call."""

    definition: GeneratedDefinition
    images: dict[str, FetchedImage]
    found_by: Provenance = field(default_factory=Provenance)
    decision_outcome: DecisionOutcome = field(default_factory=DecisionOutcome)

    def __call__(self, frame: pd.DataFrame) -> DuplicateGroups:
        rules, folder = self.definition.near_duplicates, self.definition.out / self.definition.name
        similarity_features = frame[[name for name in (*duplicate_columns(rules), "sha256", "pixels") if name in frame]]
        duplicates, self.found_by = group_duplicates(similarity_features, rules, self._locate, folder)
        self.decision_outcome = duplicates.decision_outcome
        return duplicates

    def _locate(self, urls: Sequence[str]) -> list[str]:
        return [str(Path(self.images[url].path).absolute()) for url in urls]


def collect_images(
    definition: GeneratedDefinition, chosen: pd.DataFrame, ledger: Ledger, *, connected: bool
) -> WebCollection:
    """Return the images of the `chosen` queries (query_id, text, topic). Not `connected`: from the stored pages alone.
    Raises UserError where the page store cannot be written."""
    collect_rules, rules = definition.collect, build_collection_rules(definition.collect)
    overrides = decision_log.load_decisions(definition.out / definition.name, decision_records.Override)
    overridden_ids = frozenset(overrides)
    with _open_web(definition, connected) as (store, web):
        search_results = search_images_of_queries(collect_rules, chosen, store, web)
        batches = result_screening.screen_results(
            search_results.queries, search_results.results, rules, ledger, overridden_ids
        )
        batches["topic"] = batches["query_id"].map(dict(zip(chosen["query_id"], chosen["topic"], strict=True)))
        progress, grouping = FetchProgress(), _Grouping(definition, {})
        fetch = partial(_fetch, store, web, progress)
        fetch_until_decided(batches, search_results.candidates, rules, overridden_ids, grouping, fetch)
        if connected:
            current_run().reporter.log(progress.summary)
        assign = step("assign images")(image_collection.assign_images)
        collected = assign(batches, tabulate_images(grouping.images), rules, grouping, ledger, overridden_ids)
        requests = [*search_results.pages, *_list_used_requests(search_results.candidates, grouping.images)]
        used = fetches_digest(store.find(requests).values())
    counts = {"pages": len(search_results.pages), "images": len(grouping.images)}
    figures = {
        **collected.figures,
        "search": collect_rules.search,
        "by_topic": _count_by_topic(chosen, collected),
        "fetched": summarize_fetches(grouping.images.values()),
    }
    return WebCollection(
        search_results,
        collected,
        grouping.images,
        Provenance(
            inputs=[Input(file=f"fetches: {collect_rules.search}", sha256=used, counts=counts)],
            models=[describe_model("image search", search_results.identity)],
            thresholds=_list_thresholds(definition, rules),
        )
        + grouping.found_by,
        cast(Collection, figures),
        progress.fetched,
        grouping.decision_outcome,
        overrides,
    )


def _list_thresholds(definition: GeneratedDefinition, rules: result_screening.CollectionRules) -> list[Threshold]:
    limits = definition.collect.limits.model_dump(include={"seconds", "max_bytes", "redirects"})
    fetch_thresholds = [
        describe_threshold(f"collect.limits.{name}", "at most", limit) for name, limit in limits.items()
    ]
    return result_screening.list_collection_thresholds(rules) + fetch_thresholds


@contextmanager
def _open_web(definition: GeneratedDefinition, connected: bool) -> Iterator[tuple[PageStore, CrawlerClient | None]]:
    """Return the page store beside the set's versions, and a crawler client if `connected`."""
    collect_rules = definition.collect
    store = PageStore(definition.out / definition.name / "pages")
    web = None
    if connected:
        web = CrawlerClient(
            WebLimits(**collect_rules.limits.model_dump()),
            contact=collect_rules.contact,
            respect_robots=collect_rules.respect_robots,
            robots_store=store,
        )
    try:
        yield store, web
    except StoreWriteError as fault:
        next_step = "fix that, then run the same command: what was fetched is kept"
        raise UserError("collect images", store.folder, f"cannot be written ({fault})", next_step) from None
    finally:
        if web is not None:
            web.stop()
        store.close()


@step("fetch images")
def fetch_until_decided(
    batches: pd.DataFrame,
    candidates: dict[str, ImageCandidate],
    rules: result_screening.CollectionRules,
    overridden_ids: frozenset[str],
    grouping: _Grouping,
    fetch: Callable[[list[WantedImage]], list[FetchedImage]],
) -> None:
    """Fetch until the images of every query are decided: first the first results, then replacements of those that
    failed. `overridden_ids`: queries and results that people want."""
    fetched_by_url = grouping.images
    while needed := image_collection.list_urls_to_fetch(
        batches, tabulate_images(fetched_by_url), rules, grouping, overridden_ids
    ):
        locations = {url: place for url in needed if (place := _wanted_location(candidates[url])) is not None}
        answers = dict(zip(locations, fetch(list(locations.values())), strict=True))
        fetched_by_url |= {url: answers[url] if url in locations else _missing_image(url) for url in needed}


def _fetch(
    store: PageStore, web: CrawlerClient | None, watch: FetchProgress, wanted: list[WantedImage]
) -> list[FetchedImage]:
    with current_run().reporter.bar("fetch images", len(wanted), "images") as advance:
        return fetch_images(store, web, wanted, lambda image: watch.record(image, advance))


def tabulate_images(images: dict[str, FetchedImage]) -> pd.DataFrame:
    """Return a row per URL: FETCHED_IMAGE_COLUMNS and the other fields that duplicates are found by."""
    rows = [
        {"url": url} | {name: getattr(one, name) for name in _IMAGE_TABLE_SCHEMA.names[1:]}
        for url, one in images.items()
    ]
    return pa.Table.from_pylist(rows, _IMAGE_TABLE_SCHEMA).to_pandas(types_mapper=ARROW_TO_PANDAS_TYPES.get)


def build_collection_rules(collect_rules: CollectOptions) -> result_screening.CollectionRules:
    """Return the definition's options as rules."""
    given = collect_rules.model_dump(include=set(result_screening.CollectionRules.__slots__) - {"licences"})
    licences = collect_rules.licences
    return result_screening.CollectionRules(**given, licences=None if licences is None else frozenset(licences))


def _wanted_location(candidate: ImageCandidate) -> WantedImage | None:
    """Return the path or URLs of an image; None where none can be read."""
    if candidate.path is not None:
        return WantedImage(path=Path(candidate.path))
    urls = tuple(url for url in (candidate.url, *candidate.alternative_urls) if normalize_web_url(url))
    return WantedImage(urls, candidate.page_url or "") if urls else None


def _list_used_requests(candidates: dict[str, ImageCandidate], images: dict[str, FetchedImage]) -> Iterator[WebRequest]:
    """Return every URL that was tried for the images: the failed ones, and the one that succeeded."""
    for url, image in images.items():
        place = _wanted_location(candidates[url])
        for address in place.urls if place is not None else ():
            request = WebRequest(address)
            yield request
            if not image.reason and request.key == WebRequest(image.url).key:
                break


def _count_by_topic(chosen: pd.DataFrame, collected: image_collection.CollectionResult) -> list[dict[str, Any]]:
    """Return the number of queries with images by topic, sorted by topic."""
    has_images = chosen["query_id"].isin(collected.query_ids)
    return [
        {"topic": str(topic), "queries": len(rows), "kept": int(rows.sum())}
        for topic, rows in has_images.groupby(chosen["topic"], sort=True)
    ]

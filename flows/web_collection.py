"""The third stage of a generated set: images for the queries that people kept, by the seed article's rules.

queries ─► search ─► screen ─► fetch, in rounds, what the rules need ─► assign images

Everything that comes from the web is in the page store before it is used, and the result depends on that store alone:
a stopped run continues, and a build without the web gives the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.image_search import ImageCandidate, normalize_web_url
from backends.sets.decision_log import load_decisions
from backends.web.crawler_client import CrawlerClient
from backends.web.decoded_images import FetchedImage
from backends.web.fetched_images import WantedImage, fetch_images
from backends.web.page_store import PageStore, fetches_digest
from backends.web.web_records import StoreWriteError, WebLimits, WebRequest
from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from builders.errors import UserError
from builders.gallery.near_duplicates import DuplicateGroups
from builders.ledger import Ledger
from builders.manifest_records import InputRecord, ModelRecord, Provenance, ThresholdRecord
from builders.records import ARROW_TO_PANDAS_TYPES, SCANNED_IMAGES_SCHEMA
from builders.self_instruct.image_collection import (
    FETCHED_IMAGE_COLUMNS,
    CollectionResult,
    assign_images,
    list_urls_to_fetch,
)
from builders.self_instruct.result_screening import CollectionRules, list_collection_thresholds, screen_results
from flows.definitions.generated import CollectOptions, GeneratedDefinition
from flows.generation.fetch_progress import FetchProgress, summarize_fetches
from flows.generation.query_search import QuerySearchResults, search_images_of_queries
from flows.images.duplicate_groups import duplicate_columns, group_duplicates
from flows.steps import current_run, step

_FETCH_FIELDS = pa.schema([(name, pa.string()) for name in ("url", "reason", "kind", "detail")])
_SCAN_FIELDS = [
    SCANNED_IMAGES_SCHEMA.field(name)
    for name in (*FETCHED_IMAGE_COLUMNS[4:], "turned", "patches", "thumbnail", "colours", "details")
]
_IMAGE_TABLE_SCHEMA = pa.schema([*_FETCH_FIELDS, *(field.with_nullable(True) for field in _SCAN_FIELDS)])
_missing_image = partial(
    FetchedImage, reason="image_missing", kind="final", detail="the index names it, and it is gone"
)


@dataclass(frozen=True, slots=True)
class WebCollection:
    """The result of a collection: the images of each query, the fetched images by the URL in the results, and their
    provenance. `decision_outcome`: of decisions on image pairs; `overrides`: on queries and results; `fetch_count`:
    fetches of this run."""

    search_results: QuerySearchResults
    collected: CollectionResult
    images: dict[str, FetchedImage]
    provenance: Provenance
    figures: dict[str, Any]
    fetch_count: int
    decision_outcome: DecisionOutcome
    overrides: Mapping[str, Override]


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
    """The images of the `chosen` queries (query_id, text, topic). Not `connected`: from the stored pages alone. Raises
    UserError where the page store cannot be written."""
    collect_rules, rules = definition.collect, build_collection_rules(definition.collect)
    overrides = load_decisions(definition.out / definition.name, Override)
    overridden_ids = frozenset(overrides)
    with _open_web(definition, connected) as (store, web):
        search_results = search_images_of_queries(collect_rules, chosen, store, web)
        batches = screen_results(search_results.queries, search_results.results, rules, ledger, overridden_ids)
        batches["topic"] = batches["query_id"].map(dict(zip(chosen["query_id"], chosen["topic"], strict=True)))
        progress, grouping = FetchProgress(), _Grouping(definition, {})
        fetch = partial(_fetch, store, web, progress)
        fetch_until_decided(batches, search_results.candidates, rules, overridden_ids, grouping, fetch)
        if connected:
            current_run().reporter.log(progress.summary)
        assign = step("assign pictures")(assign_images)
        collected = assign(batches, tabulate_images(grouping.images), rules, grouping, ledger, overridden_ids)
        requests = [*search_results.pages, *_list_used_requests(search_results.candidates, grouping.images)]
        used = fetches_digest(store.find(requests).values())
    counts = {"pages": len(search_results.pages), "pictures": len(grouping.images)}
    return WebCollection(
        search_results,
        collected,
        grouping.images,
        Provenance(
            inputs=[InputRecord(f"fetches: {collect_rules.search}", used, counts)],
            models=[ModelRecord("image search", **search_results.identity.as_record())],
            thresholds=_list_thresholds(definition, rules),
        )
        + grouping.found_by,
        {
            **collected.figures,
            "by_topic": _count_by_topic(chosen, collected),
            "fetched": summarize_fetches(grouping.images.values()),
        },
        progress.fetched,
        grouping.decision_outcome,
        overrides,
    )


def _list_thresholds(definition: GeneratedDefinition, rules: CollectionRules) -> list[ThresholdRecord]:
    limits = definition.collect.limits.model_dump(include={"seconds", "max_bytes", "redirects"})
    fetch_thresholds = [ThresholdRecord(f"collect.limits.{name}", "at most", limit) for name, limit in limits.items()]
    return list_collection_thresholds(rules) + fetch_thresholds


@contextmanager
def _open_web(definition: GeneratedDefinition, connected: bool) -> Iterator[tuple[PageStore, CrawlerClient | None]]:
    """The page store beside the set's versions, and a crawler client if `connected`."""
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
        raise UserError("collect pictures", store.folder, f"cannot be written ({fault})", next_step) from None
    finally:
        if web is not None:
            web.stop()
        store.close()


@step("fetch pictures")
def fetch_until_decided(
    batches: pd.DataFrame,
    candidates: dict[str, ImageCandidate],
    rules: CollectionRules,
    overridden_ids: frozenset[str],
    grouping: _Grouping,
    fetch: Callable[[list[WantedImage]], list[FetchedImage]],
) -> None:
    """Fetch until the images of every query are decided: first the first results, then replacements of those that
    failed. `overridden_ids`: queries and results that people want."""
    fetched_by_url = grouping.images
    while needed := list_urls_to_fetch(batches, tabulate_images(fetched_by_url), rules, grouping, overridden_ids):
        locations = {url: place for url in needed if (place := _wanted_location(candidates[url])) is not None}
        answers = dict(zip(locations, fetch(list(locations.values())), strict=True))
        fetched_by_url |= {url: answers[url] if url in locations else _missing_image(url) for url in needed}


def _fetch(
    store: PageStore, web: CrawlerClient | None, watch: FetchProgress, wanted: list[WantedImage]
) -> list[FetchedImage]:
    with current_run().reporter.bar("fetch pictures", len(wanted), "pictures") as advance:
        return fetch_images(store, web, wanted, lambda image: watch.record(image, advance))


def tabulate_images(images: dict[str, FetchedImage]) -> pd.DataFrame:
    """A row per URL: FETCHED_IMAGE_COLUMNS and the other fields that duplicates are found by."""
    rows = [
        {"url": url} | {name: getattr(one, name) for name in _IMAGE_TABLE_SCHEMA.names[1:]}
        for url, one in images.items()
    ]
    return pa.Table.from_pylist(rows, _IMAGE_TABLE_SCHEMA).to_pandas(types_mapper=ARROW_TO_PANDAS_TYPES.get)


def build_collection_rules(collect_rules: CollectOptions) -> CollectionRules:
    """The definition's options as rules."""
    given = collect_rules.model_dump(include=set(CollectionRules.__slots__) - {"licences"})
    licences = collect_rules.licences
    return CollectionRules(**given, licences=None if licences is None else frozenset(licences))


def _wanted_location(candidate: ImageCandidate) -> WantedImage | None:
    """The path or URLs of an image; None where none can be read."""
    if candidate.path is not None:
        return WantedImage(path=Path(candidate.path))
    urls = tuple(url for url in (candidate.url, *candidate.alternative_urls) if normalize_web_url(url))
    return WantedImage(urls, candidate.page_url or "") if urls else None


def _list_used_requests(candidates: dict[str, ImageCandidate], images: dict[str, FetchedImage]) -> Iterator[WebRequest]:
    """Every URL that was tried for the images: the failed ones, and the one that succeeded."""
    for url, image in images.items():
        place = _wanted_location(candidates[url])
        for address in place.urls if place is not None else ():
            request = WebRequest(address)
            yield request
            if not image.reason and request.key == WebRequest(image.url).key:
                break


def _count_by_topic(chosen: pd.DataFrame, collected: CollectionResult) -> list[dict[str, Any]]:
    """The number of queries with images by topic, sorted by topic."""
    has_images = chosen["query_id"].isin(collected.query_ids)
    return [
        {"topic": str(topic), "queries": len(rows), "kept": int(rows.sum())}
        for topic, rows in has_images.groupby(chosen["topic"], sort=True)
    ]

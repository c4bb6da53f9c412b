"""Searches images for queries, and returns the answers as the tables that the rules read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from backends import image_search
from backends.image_search import ImageCandidate, SearchResult, visible_text
from backends.plugin_loader import ModelIdentity
from backends.web.crawler_client import CrawlerClient
from backends.web.page_store import PageStore
from backends.web.stored_search import SearchPageFetcher, search_queries
from backends.web.web_records import WebRequest
from backends.web.web_urls import BadUrl, parse_url
from builders.self_instruct.result_screening import SEARCH_RESULT_COLUMNS, SEARCHED_QUERY_COLUMNS
from flows.definitions.generated import CollectOptions
from flows.steps import current_run, step


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


@step("search pictures")
def search_images_of_queries(
    wanted: CollectOptions, chosen: pd.DataFrame, store: PageStore, web: CrawlerClient | None
) -> QuerySearchResults:
    """Requests the first results of every query (query_id, text), one after the other. Raises UserError where the
    service refuses; earlier answers stay stored."""
    search = image_search.load_image_search(wanted.search, **wanted.options)
    ordered = chosen.sort_values("query_id", ignore_index=True)
    pages, texts = SearchPageFetcher(store, web), ordered["text"].tolist()
    with current_run().reporter.bar("search pictures", len(texts), "queries") as advance:
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
            results.append([query_id, rank, *(getattr(candidate, name) for name in SEARCH_RESULT_COLUMNS[2:])])
    query_table = pd.DataFrame(queries, columns=SEARCHED_QUERY_COLUMNS).astype({"reported": "Int64"})
    result_table = pd.DataFrame(results, columns=SEARCH_RESULT_COLUMNS).astype({"width": "Int64", "height": "Int64"})
    return QuerySearchResults(search.identity, query_table, result_table, candidates, pages.requests)


def _readable(answer: SearchResult) -> Iterator[ImageCandidate]:
    """Yields the candidates with texts that any file can store, and page addresses only where they are valid."""
    for candidate in answer.candidates:
        licence = (visible_text(candidate.licence) or "")[:100] or None
        url = candidate.url.encode("utf-8", "backslashreplace").decode()
        yield replace(candidate, url=url, page_url=_normalize(candidate.page_url), licence=licence)


def _normalize(url: str | None) -> str | None:
    try:
        return parse_url(url).normalized if url else None
    except BadUrl:
        return None

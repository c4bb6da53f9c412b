"""Queries put to an image search, and what it answered as the tables that the rules read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from backends import image_search
from backends.image_search import Candidate, SearchIdentity, SearchResult, shown_text
from backends.web.guarded_web import GuardedWeb
from backends.web.page_store import PageStore
from backends.web.searching import Pages, search_each
from backends.web.web_records import WebRequest
from backends.web.web_urls import BadUrl, read_url
from builders.generated.result_rules import RESULTS, SEARCHED
from flows.definitions.generated import Collect
from flows.steps import current, step

_SIZES = {"width": "Int64", "height": "Int64"}


@dataclass(frozen=True, slots=True)
class Searched:
    """`queries` (columns SEARCHED) and `results` (columns RESULTS, ranks from 1) of the search; `candidates`: per
    address what the first query by id that has it tells; `pages`: what was asked of the store."""

    identity: SearchIdentity
    queries: pd.DataFrame
    results: pd.DataFrame
    candidates: dict[str, Candidate]
    pages: list[WebRequest]


@step("search pictures")
def search_queries(wanted: Collect, chosen: pd.DataFrame, store: PageStore, web: GuardedWeb | None) -> Searched:
    """Ask for the first results of every query (query_id, text), one after the other. UserError where the service turns
    us away: what it answered before is kept."""
    search = image_search.load(wanted.search, **wanted.options)
    ordered = chosen.sort_values("query_id", ignore_index=True)
    pages, texts = Pages(store, web), ordered["text"].tolist()
    with current().reporter.bar("search pictures", len(texts), "queries") as advance:
        answers = search_each(search, texts, wanted.first, pages, advance)
    queries: list[list[Any]] = []
    results: list[list[Any]] = []
    candidates: dict[str, Candidate] = {}
    for query_id, text, answer in zip(ordered["query_id"], texts, answers, strict=True):
        if not isinstance(answer, SearchResult):
            queries.append([query_id, text, None, answer.reason, answer.kind, answer.detail])
            continue
        queries.append([query_id, text, answer.reported, "", "", ""])
        for rank, one in enumerate(_readable(answer), start=1):
            candidates.setdefault(one.url, one)
            results.append([query_id, rank, *(getattr(one, name) for name in RESULTS[2:])])
    asked = pd.DataFrame(queries, columns=SEARCHED).astype({"reported": "Int64"})
    return Searched(
        search.identity, asked, pd.DataFrame(results, columns=RESULTS).astype(_SIZES), candidates, pages.asked
    )


def _readable(answer: SearchResult) -> Iterator[Candidate]:
    """With texts that any file can hold, and pages only where their address is one."""
    for one in answer.candidates:
        licence = (shown_text(one.licence) or "")[:100] or None
        yield replace(one, url=_writable(one.url), page_url=_address(one.page_url), licence=licence)


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _address(url: str | None) -> str | None:
    try:
        return read_url(url).text if url else None
    except BadUrl:
        return None

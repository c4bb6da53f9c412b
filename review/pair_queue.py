"""Which pairs of a query and a picture a person is shown one by one."""

from __future__ import annotations

import heapq

from builders.records import stable_hash
from review.cards import Cards

SOURCES = {
    "waiting": "nobody judged them, and they may be right; the surest first",
    "disagreements": "two reviewers differ; the word said here settles it",
    "sample": "an audit: judgments drawn by hash, every query in turn",
}
_SAMPLE = 500


def pair_queue(cards: Cards, source: str) -> list[tuple[str, str]]:
    """The pairs of a source in their order."""
    if source == "waiting":
        scored = [
            (-score, query, image) for query, found in cards.waiting.items() for image, (score, _) in found.items()
        ]
        return [(query, image) for _, query, image in sorted(scored)]
    if source == "disagreements":
        return [(query, image) for query, image in cards.disputed() if image is not None]
    return drawn(cards, _SAMPLE)


def drawn(cards: Cards, count: int) -> list[tuple[str, str]]:
    """Up to so many judgments, in which every query has its turn before any has a second one; both by hash."""
    judged = [entry.query_id for entry in cards.entries if entry.judged]
    queries = heapq.nsmallest(count, judged, key=lambda query: stable_hash("audit", query))
    turns = -(-count // max(len(queries), 1))
    found: list[tuple[int, int, str, str]] = []
    for place, query in enumerate(queries):
        images = heapq.nsmallest(turns, cards.judged(query), key=lambda image: stable_hash("audit", query, image))
        found += [(turn, place, query, image) for turn, image in enumerate(images)]
    return [(query, image) for _, _, query, image in sorted(found)[:count]]

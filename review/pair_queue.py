"""Queues of query-image pairs that a reviewer judges one by one."""

import heapq

from builders.records import stable_hash
from review.query_cards import QueryCards

PAIR_SOURCES = {
    "results": "what searches returned and nobody judged, the first results first",
    "candidates": "nobody judged them, and they may be right; the most certain first",
    "disagreements": "two reviewers differ; the decision made here is final",
    "sample": "an audit: judgments drawn by hash, every query in turn",
}
_SAMPLE = 500


def build_pair_queue(cards: QueryCards, source: str, results: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs (query_id, image_id) of a source of PAIR_SOURCES, in the order of review; queries that ask the
    same have one. `results`: the pool of the searches."""
    if source == "results":
        return [pair for pair in results if cards.has_target(pair)]
    if source == "candidates":
        scored = [
            (-score, cards.get_group(query).key, image)
            for query, candidates in cards.candidate_judgments.items()
            for image, (score, _) in candidates.items()
        ]
        return list(dict.fromkeys((query, image) for _, query, image in sorted(scored)))
    if source == "disagreements":
        disputed = [(query, image) for query, image in cards.list_disputed_targets() if image is not None]
        return list(dict.fromkeys((cards.get_group(query).key, image) for query, image in disputed))
    return _sample_judgments(cards)


def _sample_judgments(cards: QueryCards) -> list[tuple[str, str]]:
    """Return up to `_SAMPLE` judged pairs, chosen by hash; every query occurs once before any occurs twice."""
    judged = [group.key for group in cards.groups if any(entry.judged_count for entry in group.members)]
    queries = heapq.nsmallest(_SAMPLE, judged, key=lambda query: stable_hash("audit", query))
    turns = -(-_SAMPLE // max(len(queries), 1))
    ordered: list[tuple[int, int, str, str]] = []
    for place, query in enumerate(queries):
        images = heapq.nsmallest(turns, cards.get_grades(query), key=lambda image: stable_hash("audit", query, image))
        ordered += [(turn, place, query, image) for turn, image in enumerate(images)]
    return [(query, image) for _, _, query, image in sorted(ordered)[:_SAMPLE]]

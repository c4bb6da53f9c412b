"""The views of queries and of pairs of a query and an image: where their cards come from, and their fields.

The routes that find images of the gallery for a query: by a text, by another image, by a file.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from querytruth.records import stable_hash
from querytruth.review import query_queue
from querytruth.review.deck import CardData, DeckView, ShortText, choice_field, queue_of, search_field, state_field
from querytruth.review.page_parts import text_or_empty, translate
from querytruth.review.query_cards import QueryCards
from querytruth.review.query_decisions import Action, ReviewSession
from querytruth.review.similar_images import MAX_FOUND_IMAGES, FoundImages, SimilarImageSearch
from querytruth.sets import benchmark_set

PAIR_SOURCES = {
    "results": "results of searches that nobody judged, the first results first",
    "candidates": "nobody judged them and they may be relevant; the most certain first",
    "disagreements": "two reviewers disagree; the decision made here is final",
    "sample": "an audit: judgments drawn by hash, one query after another",
}
_SAMPLE = 500


class _SessionView(DeckView):
    """A view on the queries of a version."""

    verdict_model = Action
    promise = "You do not see the decisions of others, unless you disagree."

    def __init__(self, session: ReviewSession) -> None:
        self._session, self._cards = session, session.cards
        self.grades = session.cards.grades

    def refresh(self) -> None:
        """Apply the new entries of the log."""
        self._session.refresh()

    def is_decided(self, key: str) -> bool:
        """Return whether the reviewer decided on a pair, or on a query and on those that ask the same."""
        query, _, image = key.partition("/")
        if image:
            return self._cards.is_pair_decided((query, image))
        return self._cards.is_decided(self._cards.get_group(query))

    def decide(self, verdict: Action) -> CardData:
        """Write the decisions of an action."""
        return self._session.record(verdict)

    def undo(self) -> CardData:
        """Undo the last action, of any view."""
        return self._session.undo(self.name)


class QueriesView(_SessionView):
    """The queries; a card has all that ask the same, and their images."""

    name, filter_model = "queries", query_queue.QueryFilter

    def list_fields(self) -> list[CardData]:
        """Return the search, a field for each value that tells queries apart, and the order."""
        choices = query_queue.list_filter_choices(self._cards.entries)
        flags = choices.pop("flag", [])
        fields = [
            choice_field(name, name.capitalize(), {str(value): str(value) for value in values}, "all")
            for name, values in choices.items()
        ]
        shown = {name: translate(name.replace("_", " ")) for name in flags}
        if self._cards.list_disputed_targets():
            shown["disagreements"] = translate("reviewers disagree")
        orders = {"priority": "what matters most", "text": "by text", "images": "fewest images"}
        return [
            search_field("text or id ( / )"),
            *fields,
            *([choice_field("flag", "Flag", shown, "any", titles=query_queue.QUERY_FLAGS)] if shown else []),
            state_field(),
            choice_field("order", "Order", {name: translate(text) for name, text in orders.items()}),
        ]

    def build_queue(self, card_filter: query_queue.QueryFilter) -> CardData:
        """Return the first query of each group that passes the filter."""
        groups, cards = self._cards.groups, self._cards
        if card_filter.flag == "disagreements":
            disputed = {cards.get_group(query).key for query, image in cards.list_disputed_targets() if image is None}
            groups = [group for group in groups if group.key in disputed]
            card_filter = card_filter.model_copy(update={"flag": ""})
        matching = query_queue.filter_groups(groups, card_filter, cards.text_of, cards.is_decided)
        return queue_of([group.key for group in matching], self.is_decided)

    def build_cards(self, keys: Iterable[str]) -> list[CardData]:
        """Return the queries with these ids, and those that ask the same."""
        return [self._cards.build_query_card(name) for name in keys if name in self._cards.entries_by_id]


class PairFilter(BaseModel, extra="forbid", frozen=True):
    """The pairs that are shown."""

    source: Literal["results", "candidates", "disagreements", "sample"] = "sample"
    state: ShortText = "all"


class PairsView(_SessionView):
    """Pairs of a query and an image, from a source."""

    name, filter_model = "pairs", PairFilter

    def list_fields(self) -> list[CardData]:
        """Return the sources with the number of their pairs."""
        counts = {name: len(build_pair_queue(self._cards, name, self._session.results)) for name in PAIR_SOURCES}
        texts = {
            name: f"{translate(name)} ({counts[name]:,}): {translate(text)}" for name, text in PAIR_SOURCES.items()
        }
        empty = [name for name, count in counts.items() if not count]
        return [choice_field("source", "Show", texts, disabled=empty, **{"class": "wide"}), state_field()]

    def build_queue(self, card_filter: PairFilter) -> CardData:
        """Return the pairs of the source that pass the filter, as query/image."""
        targets = build_pair_queue(self._cards, card_filter.source, self._session.results)
        done = [self._cards.is_pair_decided(target) for target in targets]
        shown = [n for n in range(len(targets)) if card_filter.state in ("all", ("open", "decided")[done[n]])]
        return {"keys": ["/".join(targets[n]) for n in shown], "done": [int(done[n]) for n in shown]}

    def build_cards(self, keys: Iterable[str]) -> list[CardData]:
        """Return the pairs of the version with these keys."""
        targets = [(query, image) for query, _, image in (name.partition("/") for name in keys)]
        known = [target for target in targets if target[1] and self._cards.has_target(target)]
        return [self._cards.build_pair_card(target) for target in known]


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


def find_images_by_text(tables: benchmark_set.Tables, cards: QueryCards, search: str) -> FoundImages:
    """Return up to 60 images with the reason: those with the text in their name first, then in a label, in a caption,
    and in a query that they are right for."""
    wanted = search.strip().casefold()
    found: dict[str, str] = {}
    if not wanted:
        return []
    for image_id, reason in _iterate_matches(tables, cards, wanted):
        found.setdefault(image_id, reason)
        if len(found) == MAX_FOUND_IMAGES:
            break
    return list(found.items())


def _iterate_matches(tables: benchmark_set.Tables, cards: QueryCards, wanted: str) -> Iterator[tuple[str, str]]:
    columns = (tables.images[name] for name in ("image_id", "file_name", "caption"))
    images = [tuple(map(text_or_empty, row)) for row in zip(*columns, strict=True)]
    for name, image_id in sorted((name, one) for one, name, _ in images if wanted in name.casefold() or wanted == one):
        yield image_id, f"name: {name}"
    by_label = [entry for entry in cards.entries if any(wanted in label.casefold() for label in entry.labels)]
    for entry in sorted(by_label, key=lambda entry: (len(entry.labels), entry.query_id)):
        yield from _right_images(cards, entry.query_id, f"label: {' & '.join(entry.labels)}")
    for image_id, _, caption in images:
        if wanted in caption.casefold():
            yield image_id, f"caption: {caption}"
    for entry in cards.entries:
        if wanted in cards.text_of(entry).casefold():
            yield from _right_images(cards, entry.query_id, f"relevant for: {cards.text_of(entry)}")


def _right_images(cards: QueryCards, query_id: str, reason: str) -> Iterator[tuple[str, str]]:
    for image_id, grade in cards.get_grades(query_id).items():
        if grade > 0:
            yield image_id, reason


def image_finder_routes(session: ReviewSession, tables: benchmark_set.Tables, similar: SimilarImageSearch) -> APIRouter:
    """Return the routes: of images as the card of the query shows them, beyond its first, or found, with the reason."""
    routes = APIRouter()
    cards = session.cards

    @routes.get("/api/queries/images")
    def more_images(key: ShortText, start: Annotated[int, Query(ge=0, le=10_000_000)]) -> CardData:
        if key not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        return {"images": cards.build_query_card(key, start)["images"]}

    def answer(query: str, found: FoundImages, remark: str = "") -> dict[str, Any]:
        if query not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        session.refresh()
        views = cards.build_image_views(query, [image_id for image_id, _ in found])
        return {"images": [view | {"why": why} for view, (_, why) in zip(views, found, strict=True)], "remark": remark}

    @routes.get("/api/finder/text")
    def by_text(query: ShortText, search: ShortText) -> dict[str, Any]:
        return answer(query, find_images_by_text(tables, cards, search))

    @routes.get("/api/finder/similar")
    def by_image(query: ShortText, image_id: ShortText) -> dict[str, Any]:
        if not cards.has_image(image_id):
            raise HTTPException(404, "this image is not in the set")
        return answer(query, *similar.find_by_image(image_id))

    @routes.post("/api/finder/file")
    async def by_file(request: Request, query: Annotated[ShortText, Query()]) -> dict[str, Any]:
        data = await request.body()
        return await run_in_threadpool(lambda: answer(query, *similar.find_by_file(data)))

    return routes

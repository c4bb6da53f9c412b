"""One deck behind all views where people judge: a queue of cards, verdicts on them, undo, and the page around them.

A view says where its cards come from, what is on a card, and which verdicts it has; the routes are the same for all.
static/deck.js is their counterpart in the browser.

A log that a view writes and follows: each decision is on disk before the response.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self

from pydantic import BaseModel, Field

from querytruth.review.page_parts import render_template, translate
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import MAX_TEXT_CHARS, DecisionT

if TYPE_CHECKING:
    from fastapi import APIRouter

ShortText = Annotated[str, Field(max_length=200)]  # a name, an id or a search
LongText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
CardKeys = Annotated[list[ShortText], Field(max_length=48)]
DecisionState = Literal["all", "open", "decided"]
CardData = dict[str, Any]


class ActionError(Exception):
    """An action that is not possible; the message is one sentence for the reviewer."""


class CardFilter(BaseModel, extra="forbid", frozen=True):
    """A filter of cards; an empty text excludes none."""

    state: DecisionState = "all"
    search: ShortText = ""


class Verdict(BaseModel, extra="forbid", strict=True):
    """A decision of a person on a card of a view."""

    view: ShortText


class LogSession(Generic[DecisionT]):
    """A session on one log, safe for threads; entries of other processes are read before each response."""

    def __init__(self, apply_entries: Callable[[list[DecisionT]], None], log: DecisionLog[DecisionT]) -> None:
        self._apply_entries, self._log = apply_entries, log
        self._position, self._lock = 0, Lock()
        self.refresh()

    def refresh(self) -> None:
        """Apply the new entries of the log."""
        with self._lock:
            self._refresh()

    def append(
        self, build_entries: Callable[[str], list[DecisionT]], build_card: Callable[[list[DecisionT]], CardData]
    ) -> CardData:
        """Write the decisions that `build_entries` returns for the present time; return the card after them."""
        with self._lock:
            self._refresh()
            # To the microsecond, so that no two actions have one time.
            entries = build_entries(datetime.now(UTC).isoformat(timespec="microseconds"))
            self._log.append(entries)
            self._refresh()
            return build_card(entries)

    def _refresh(self) -> None:
        entries, self._position = self._log.read_from(self._position)
        self._apply_entries(entries)


class DeckView:
    """A view of the page. `name`: its script and its place in the addresses; `path`: its page; `promise`: a sentence
    more below its keys."""

    name = ""
    promise = ""
    filter_model: type[BaseModel] = CardFilter
    verdict_model: type[BaseModel] = Verdict
    grades: Iterable[int] = ()

    @property
    def path(self) -> str:
        """Return the path of the page, without the slash."""
        return self.name

    def refresh(self) -> None:
        """Read what was decided elsewhere meanwhile."""
        raise NotImplementedError

    def list_fields(self) -> list[CardData]:
        """Return the fields of the form above the cards: of `search_field`, `choice_field` and `state_field`."""
        raise NotImplementedError

    def list_notes(self) -> list[str]:
        """Return sentences beside the form."""
        return []

    def describe_progress(self) -> str:
        """Return what the verdicts have shown so far, or ""."""
        return ""

    def build_queue(self, card_filter: Any) -> CardData:
        """Return the keys of the cards that pass the filter, and which of them are done."""
        raise NotImplementedError

    def is_decided(self, key: str) -> bool:
        """Return whether a card is done."""
        raise NotImplementedError

    def build_cards(self, keys: Iterable[str]) -> list[CardData]:
        """Return the cards of these keys; unknown ones are skipped."""
        raise NotImplementedError

    def decide(self, verdict: Any) -> CardData:
        """Store a verdict; return its card. Raises ActionError where it is invalid."""
        raise NotImplementedError

    def undo(self) -> CardData:
        """Undo the reviewer's last action; return its card. Raises ActionError without one."""
        raise NotImplementedError


class LogView(DeckView, Generic[DecisionT]):
    """A view whose verdicts are single entries of a log."""

    session: LogSession[DecisionT]

    def follow(self, log: DecisionLog[DecisionT]) -> Self:
        """Read a log, and write verdicts into it."""
        self.session = LogSession(self.apply_entries, log)
        return self

    def refresh(self) -> None:
        """Apply the new entries of the log."""
        self.session.refresh()

    def apply_entries(self, entries: Iterable[DecisionT]) -> None:
        """Apply the next entries of the log."""
        raise NotImplementedError

    def find_card(self, decision: DecisionT) -> CardData:
        """Return the card of a decision."""
        raise NotImplementedError

    def create_undo(self, at: str) -> DecisionT:
        """Return the decision that undoes the reviewer's last one. Raises ActionError without one."""
        raise NotImplementedError

    def append_one(self, create: Callable[[str], DecisionT]) -> CardData:
        """Write the decision that `create` returns for the present time; return its card."""
        return self.session.append(lambda at: [create(at)], lambda entries: self.find_card(entries[0]))

    def undo(self) -> CardData:
        """Undo the reviewer's last decision."""
        return self.append_one(self.create_undo) | {"undone": 1}


def queue_of(keys: list[str], is_decided: Callable[[str], bool]) -> CardData:
    """Return a queue: the keys, and 1 for each that is decided."""
    return {"keys": keys, "done": [int(is_decided(key)) for key in keys]}


def search_field(placeholder: str) -> CardData:
    """Return a field for a text."""
    return {"name": "search", "label": "Search", "placeholder": placeholder, "options": None, "class": "search"}


def choice_field(name: str, label: str, options: Mapping[str, str], every: str = "", **more: object) -> CardData:
    """Return a field of values with their texts, after one entry for `every` value, which filters nothing."""
    rows = [{"value": value, "text": text} for value, text in ({"": translate(every)} if every else {}).items()]
    rows += [{"value": value, "text": text} for value, text in options.items()]
    return {"name": name, "label": label, "options": rows, "class": "", **more}


def state_field(label: str = "Decided", decided: str = "by you", **more: str) -> CardData:
    """Return the field that names the decided item."""
    states = {"all": "all", "open": "not yet", "decided": decided, **more}
    return choice_field("state", label, {state: translate(text) for state, text in states.items()})


def deck_routes(view: DeckView, about: Mapping[str, Any]) -> "APIRouter":
    """Return the routes of a view: its page, its queue and cards, verdicts and undo. `about` describes the set."""
    from fastapi import APIRouter, Query  # builds count as the page does, and serve none
    from fastapi.responses import HTMLResponse

    routes, home = APIRouter(), f"/api/{view.name}"

    def with_state(card: CardData) -> CardData:
        return card | {"done": view.is_decided(card["key"])}

    @routes.get(f"/{view.path}", response_class=HTMLResponse)
    def page() -> str:
        view.refresh()
        return render_template("review_queue.html", about=about, view=view)

    @routes.get(f"{home}/queue")
    def queue(card_filter: Annotated[view.filter_model, Query()]) -> CardData:  # type: ignore[name-defined] # by view
        view.refresh()
        return view.build_queue(card_filter)

    @routes.get(f"{home}/cards")
    def some(key: Annotated[CardKeys, Query()]) -> CardData:
        view.refresh()
        return {"cards": [with_state(card) for card in view.build_cards(key)]}

    @routes.post(f"{home}/decide")
    def decide(verdict: view.verdict_model) -> CardData:  # type: ignore[name-defined] # by view
        return {"card": with_state(view.decide(verdict))}

    @routes.post(f"{home}/undo")
    def undo() -> CardData:
        return {"card": with_state(view.undo())}

    return routes


def clean_text(text: str, what: str, allowed: str = "\n") -> str:
    """Return a text without surrounding blanks, as a log can hold it; `what` names it in errors. Raises ActionError for
    a text that is too long or has control characters other than `allowed`."""
    if len(text) > MAX_TEXT_CHARS:
        raise ActionError(f"{what} has more than {MAX_TEXT_CHARS:,} characters")
    text = text.replace("\r\n", "\n").strip()
    refused = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in refused and c not in allowed for c in text):
        raise ActionError(f"{what} contains a character that cannot be stored")
    return text

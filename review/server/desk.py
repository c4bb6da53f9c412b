"""One reviewer at one version: acts become lines of the log, and the cards follow the log."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from builders.decisions import Decision
from review import saying
from review.cards import Card, Cards
from review.saying import Said
from review.words import Words


@dataclass(frozen=True, slots=True)
class Outside:
    """What the page needs from the world. `append` returns when the lines are on disk; `read_on` gives the lines
    after a place in the log and the place where they end; `picture` a JPEG by picture and longer side, or None."""

    append: Callable[[list[Decision]], None]
    read_on: Callable[[int], tuple[list[Decision], int]]
    picture: Callable[[str, int], bytes | None]
    hand_out: Callable[[str], bytes]  # a view's CSV
    take_csv: Callable[[str, bytes, bool], dict[str, Any]]  # its name, its bytes, whether it is only a dry run
    stale: Callable[[], list[dict[str, str]]]  # decisions that no longer apply, and why


class Desk:
    """Threads take turns; what other processes add to the log is heard before each answer."""

    def __init__(self, cards: Cards, outside: Outside) -> None:
        self.cards, self.outside = cards, outside
        self._words: Words = cards.words
        self._heard = 0
        self._lock = Lock()
        self._session = f"s_{secrets.token_hex(6)}"
        self.listen()

    def listen(self) -> None:
        """Hear what is new in the log."""
        with self._lock:
            self._listen()

    def say(self, said: Said) -> Card:
        """Take an act: on disk first, then the card as it is now."""
        with self._lock:
            self._listen()
            self._append(saying.decisions_of(said, self.cards, self._session, _now()))
            return self._card(said.view, said.query_id, said.image_id)

    def undo(self, view: str) -> Card:
        """Take the last act back, whichever view it was made in; the card that it was about."""
        with self._lock:
            self._listen()
            lines = saying.undo_of(self.cards, view, self._session, _now())
            self._append(lines)
            return {**self._card(view, lines[0].query_id, lines[0].image_id), "undone": len(lines)}

    def _append(self, lines: list[Decision]) -> None:
        self.outside.append(lines)
        self._listen()

    def _listen(self) -> None:
        decisions, self._heard = self.outside.read_on(self._heard)
        self._words.hear(decisions)

    def _card(self, view: str, query_id: str, image_id: str | None) -> Card:
        if view == "queries" or image_id is None:
            return self.cards.query(query_id)
        return self.cards.pair((query_id, image_id))


def _now() -> str:
    """To the microsecond, so that no two acts have one time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")

"""One reviewer at one version: acts become lines of the log, and the cards follow the log."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from builders.decisions import Decision
from review import saying
from review.cards import Card, Cards
from review.saying import Said
from review.server.log_desk import Log, LogDesk
from review.server.upload import Upload


@dataclass(frozen=True, slots=True)
class Outside:
    """What judging needs from the world."""

    log: Log[Decision]
    hand_out: Callable[[str], bytes]  # a view's CSV
    take_csv: Callable[[bytes, Upload], dict[str, Any]]
    stale: Callable[[], list[dict[str, str]]]  # decisions that no longer apply, and why


class Desk:
    """An act gives several lines, and taking it back takes them all."""

    def __init__(self, cards: Cards, outside: Outside) -> None:
        self.cards, self.outside = cards, outside
        self._desk = LogDesk(cards.words.hear, outside.log)
        self._session = f"s_{secrets.token_hex(6)}"

    def listen(self) -> None:
        """Hear what is new in the log."""
        self._desk.listen()

    def say(self, said: Said) -> Card:
        """Take an act: on disk first, then the card as it is now."""
        return self._desk.keep(
            lambda at: saying.decisions_of(said, self.cards, self._session, at),
            lambda _lines: self._card(said.view, said.query_id, said.image_id),
        )

    def undo(self, view: str) -> Card:
        """Take the last act back, whichever view it was made in; the card that it was about."""
        return self._desk.keep(
            lambda at: saying.undo_of(self.cards, view, self._session, at),
            lambda lines: self._card(view, lines[0].query_id, lines[0].image_id) | {"undone": len(lines)},
        )

    def _card(self, view: str, query_id: str, image_id: str | None) -> Card:
        if view == "queries" or image_id is None:
            return self.cards.query(query_id)
        return self.cards.pair((query_id, image_id))

"""The session of one reviewer on one version: actions become decisions in the log, and the cards follow the log."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import QueryDecision
from review import actions
from review.actions import Action
from review.query_cards import CardData, QueryCards
from review.server.csv_upload import CsvUploadOptions
from review.server.log_session import FollowedLog, LogSession


@dataclass(frozen=True, slots=True)
class ReviewStorage:
    """Access to the log and the CSV files of a set."""

    log: FollowedLog[QueryDecision]
    export_csv: Callable[[str], bytes]  # a view's CSV
    import_csv: Callable[[bytes, CsvUploadOptions], dict[str, Any]]
    read_outcome: Callable[[], DecisionOutcome]  # of the decisions in the log on the version


class ReviewSession(LogSession[QueryDecision]):
    """A session in which an action makes several decisions, and undo takes all of them back. `results`: unjudged pairs
    that searches returned, by rank."""

    def __init__(self, cards: QueryCards, storage: ReviewStorage, results: list[tuple[str, str]] | None = None) -> None:
        super().__init__(cards.state.apply_entries, storage.log)
        self.cards, self.storage, self.results = cards, storage, results or []
        self._source = f"s_{secrets.token_hex(6)}"

    def record(self, action: Action) -> CardData:
        """Write the decisions of an action and return its card. Raises ActionError where the action is invalid."""
        return self.append(
            lambda at: actions.build_decisions(action, self.cards, self._source, at),
            lambda _lines: self._card(action.view, action.query_id, action.image_id),
        )

    def undo(self, view: str) -> CardData:
        """Undo the last action of any view and return its card. Raises ActionError without one."""
        return self.append(
            lambda at: actions.build_undo_decisions(self.cards, view, self._source, at),
            lambda lines: self._card(view, lines[0].query_id, lines[0].image_id) | {"undone": len(lines)},
        )

    def _card(self, view: str, query_id: str, image_id: str | None) -> CardData:
        if view == "queries" or image_id is None:
            return self.cards.build_query_card(query_id)
        return self.cards.build_pair_card((self.cards.get_group(query_id).key, image_id))

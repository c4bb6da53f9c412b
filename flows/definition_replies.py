"""The reply store of a definition."""

from pathlib import Path
from typing import Protocol

from backends.replies.reply_store import ReplyStore, open_reply_store
from flows.definitions.common import BudgetOptions


class AskingDefinition(Protocol):
    """A definition of a kind of set whose build asks chat models."""

    @property
    def name(self) -> str:
        """The name of the set."""

    @property
    def out(self) -> Path:
        """The folder of all sets."""

    @property
    def replies(self) -> str | None:
        """A reply store; None: the one beside the set's versions."""

    @property
    def budget(self) -> BudgetOptions | None:
        """What a run may spend."""


def open_definition_replies(definition: AskingDefinition) -> ReplyStore:
    """Opens the reply store that the definition names, or the one beside the set's versions."""
    return open_reply_store(definition.replies or definition.out / definition.name / "replies.sqlite")

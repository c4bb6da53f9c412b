"""The reply store of a definition."""

from backends.replies.reply_store import ReplyStore, open_reply_store
from flows.definitions import GeneratedDefinition, PrecisionDefinition, RecallDefinition


def open_definition_replies(definition: RecallDefinition | PrecisionDefinition | GeneratedDefinition) -> ReplyStore:
    """Opens the reply store that the definition names, or the one beside the set's versions."""
    return open_reply_store(definition.replies or definition.out / definition.name / "replies.sqlite")

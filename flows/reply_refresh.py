"""Asks again what a model answered: for a model that changed behind its name."""

from collections import Counter
from datetime import UTC, date, datetime, time

from builders.errors import UserError, suggest_choice
from flows.definition_replies import open_definition_replies
from flows.definitions import GeneratedDefinition, PrecisionDefinition, RecallDefinition, SetDefinition

_STAGE = "refresh replies"


def refresh_replies(definition: SetDefinition, model: str, before: date | None = None) -> int:
    """Sets the stored replies of a model aside, those of before a day (UTC) or all; returns their number. The next
    build asks again; a rebuild of an older version uses them. Raises UserError for a model without replies."""
    if not isinstance(definition, RecallDefinition | GeneratedDefinition | PrecisionDefinition):
        raise UserError(_STAGE, definition.name, f"is of kind {definition.kind}, which asks no model", "name another")
    moment = None if before is None else datetime.combine(before, time(), UTC).isoformat(timespec="seconds")
    with open_definition_replies(definition) as store:
        known = store.identities()
        chosen = [identity for identity in known if identity.name == model]
        if not chosen:
            names = sorted(Counter(identity.name for identity in known))
            next_step = suggest_choice(model, names) if names else "build the set first"
            raise UserError(_STAGE, model, f"has no stored reply of {definition.name}", next_step)
        return store.refresh(chosen, moment)

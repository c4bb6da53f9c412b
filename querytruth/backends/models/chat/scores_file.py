"""Scores of pairs that were made elsewhere: a table with the columns query_id, image_id and score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.models import chat
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError

TAKES_PAIRS = True
_STAGE = "read scores"
_MISSING = chat.Failure("not_recorded", "transient", "the file has no score for this pair")


class ScoresFileOptions(PluginOptions):
    """`file`: the table; `name`: of the model that made the scores."""

    file: Path
    name: str = "scores"


def load(options: ScoresFileOptions) -> ScoresFile:
    """Return the scores. Raises UserError for a table without these columns and for an invalid score."""
    scores: dict[tuple[str, str], float] = {}
    for place, row in iterate_rows(options.file, ("query_id", "image_id", "score"), stage=_STAGE):
        pair = str(row["query_id"]), str(row["image_id"])
        try:
            score = float(row["score"])
        except (ValueError, TypeError):
            score = math.nan
        if not math.isfinite(score) or pair in scores:
            reason = f"has an invalid or a second score for {' '.join(pair)}"
            raise UserError(_STAGE, place, reason, "fix the table")
        scores[pair] = score
    return ScoresFile(scores, ModelIdentity(options.name, file_sha256(options.file)[0][:12], {}))


class ScoresFile:
    """A judge whose answers are in a table."""

    is_recorded = True

    def __init__(self, scores: dict[tuple[str, str], float], identity: ModelIdentity) -> None:
        self._scores, self.identity = scores, identity

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Return the scores of the pairs; `not_recorded` for missing ones."""
        pairs = [(request.item, request.messages[0].images[0].image_id) for request in requests]
        found = [self._scores.get(pair) for pair in pairs]
        answers: list[chat.ChatAnswer] = [
            _MISSING if one is None else chat.Reply(chat.write_score(one), "stop") for one in found
        ]
        on_answers(list(enumerate(answers)))
        return answers

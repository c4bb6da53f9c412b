"""Scores of pairs that were made elsewhere: a table with the columns query_id, image_id and score, as CSV or TSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import refuse_repeated_columns
from querytruth.backends.models.chat import (
    ChatAnswer,
    ChatRequest,
    Failure,
    OnAnswers,
    Reply,
    always_continue,
    write_score,
)
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError, translate_read_errors

TAKES_PAIRS = True
_STAGE = "read scores"
_MISSING = Failure("not_recorded", "transient", "the file has no score of this pair")


class ScoresFileOptions(PluginOptions):
    """`file`: the table; `name`: of the model that made the scores."""

    file: Path
    name: str = "scores"


def load(options: ScoresFileOptions) -> ScoresFile:
    """Returns the scores. Raises UserError for a table without these columns, and for a score that is no number."""
    with translate_read_errors(
        _STAGE, options.file, "give a table with query_id, image_id and score", also=(ValueError, KeyError, TypeError)
    ):
        text = read_regular(options.file).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if options.file.suffix == ".tsv" else ",")
        refuse_repeated_columns(_STAGE, options.file, list(rows.fieldnames or ()), ("query_id", "image_id", "score"))
        scores: dict[tuple[str, str], float] = {}
        for row in rows:
            score = float(row["score"])
            if not math.isfinite(score) or (row["query_id"], row["image_id"]) in scores:
                reason = f"has a score that is no number, or two, of {row['query_id']} {row['image_id']}"
                raise UserError(_STAGE, options.file, reason, "correct the table")
            scores[row["query_id"], row["image_id"]] = score
        return ScoresFile(scores, ModelIdentity(options.name, file_sha256(options.file)[0][:12], {}))


class ScoresFile:
    """A judge whose answers are in a table."""

    is_recorded = True

    def __init__(self, scores: dict[tuple[str, str], float], identity: ModelIdentity) -> None:
        self._scores, self.identity = scores, identity

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """Returns the scores of the pairs; `not_recorded` where there is none."""
        pairs = [(request.item, request.messages[0].images[0].image_id) for request in requests]
        found = [self._scores.get(pair) for pair in pairs]
        answers: list[ChatAnswer] = [_MISSING if one is None else Reply(write_score(one), "stop") for one in found]
        on_answers(list(enumerate(answers)))
        return answers

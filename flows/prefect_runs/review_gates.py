"""Where a deployed run waits for people: suspended, its process gone, until somebody fills in a form.

A resumed run starts over, and our own files make what was done before cheap; each question has a key, so that an answer
once given is found again.
"""

from __future__ import annotations

import re
from typing import TypeVar

from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment
from pydantic import Field

from builders.decisions.review_tables import ImportTolerances
from flows.generation.pool_review import ReviewTableOptions

InputForm = TypeVar("InputForm", bound=RunInput)

_ANSWER_TIMEOUT = 30 * 24 * 3600  # seconds that a question stays open; the next run asks again


class PublishAnyway(RunInput):
    """Whether a version that loses much is meant."""

    publish: bool = Field(False, description="Publish it. Otherwise the run fails, and the last version stays.")


class FilledTableForm(RunInput):
    """That the table is filled in, and how it is read: what it may lack, as `querytruth objects --help` says."""

    encoding: str = Field("", description="The file's, where it does not say; e.g. gb18030.")
    allow_missing: bool = Field(False, description="Rows may have been deleted from the table.")
    allow_doubled: bool = Field(False, description="Rows may be there twice if they agree.")
    allow_unknown: bool = Field(False, description="Rows may have been added; they are passed over.")
    allow_changed: bool = Field(False, description="Cells may differ that nobody was to change.")

    def to_filling(self) -> ReviewTableOptions:
        """The same for those who read the table."""
        allow = ImportTolerances(self.allow_missing, self.allow_doubled, self.allow_unknown, self.allow_changed)
        return ReviewTableOptions(allow, self.encoding or None)


def is_deployed_run() -> bool:
    """Whether somebody can answer: a one-off run ends instead, and names the next command."""
    return deployment.id is not None


def ask_person(question: type[InputForm], key: str, about: str) -> InputForm:
    """Suspend the run until a person has filled in the form; `about` (Markdown) says what it is about."""
    form = question.with_initial_data(description=about)
    key = re.sub(r"[^a-z0-9]+", "-", key.lower())
    answer: InputForm = suspend_flow_run(wait_for_input=form, key=key, timeout=_ANSWER_TIMEOUT)
    return answer

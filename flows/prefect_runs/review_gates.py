"""Suspends a deployed run, which ends its process, until a person fills in a form.

A resumed run starts over, and finds what was done before in the set's files; each question has a key by which its
answer is found again.
"""

import re
from typing import TypeVar

from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment
from pydantic import Field

from builders.decisions.review_tables import ImportTolerances
from flows.generation.pool_review import ReviewTableOptions

InputForm = TypeVar("InputForm", bound=RunInput)

_ANSWER_TIMEOUT = 30 * 24 * 3600  # seconds; after that the next run asks again


class PublishAnyway(RunInput):
    """Whether to publish a version that loses much of the last one."""

    publish: bool = Field(False, description="Publish it. Otherwise the run fails, and the last version stays.")


class FilledTableForm(RunInput):
    """Confirms that the table is filled in; its options are those of `querytruth objects --help`."""

    encoding: str = Field("", description="The file's, where it does not say; e.g. gb18030.")
    allow_missing: bool = Field(False, description="Rows may have been deleted from the table.")
    allow_doubled: bool = Field(False, description="Rows may be there twice if they agree.")
    allow_unknown: bool = Field(False, description="Rows may have been added; they are passed over.")
    allow_changed: bool = Field(False, description="Cells may differ that nobody was to change.")

    def to_filling(self) -> ReviewTableOptions:
        """The options as the table's reader takes them."""
        allow = ImportTolerances(self.allow_missing, self.allow_doubled, self.allow_unknown, self.allow_changed)
        return ReviewTableOptions(allow, self.encoding or None)


def is_deployed_run() -> bool:
    """Whether the run can wait for a person: a one-off run ends instead, and prints the next command."""
    return deployment.id is not None


def ask_person(question: type[InputForm], key: str, about: str) -> InputForm:
    """Suspend the run until a person has filled in the form; `about` is its description, in Markdown."""
    form = question.with_initial_data(description=about)
    key = re.sub(r"[^a-z0-9]+", "-", key.lower())
    answer: InputForm = suspend_flow_run(wait_for_input=form, key=key, timeout=_ANSWER_TIMEOUT)
    return answer

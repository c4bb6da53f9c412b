"""A deployed build that waits for people's choices: only what is wrong with their table is asked again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from querytruth.errors import UserError
from querytruth.sets.review_csv import REVIEW_CSV_STAGE, ReviewTableOptions


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that people get; each is answered at once."""
    from flows.prefect_runs import build_flows as generated_flows

    questions: list[str] = []

    def answer(_form: Any, _key: str, about: str) -> Any:
        questions.append(about)
        return SimpleNamespace(to_filling=ReviewTableOptions)

    monkeypatch.setattr(generated_flows, "ask_person", answer)
    monkeypatch.setattr(generated_flows, "_show_stage", lambda *_: None)
    return questions


def wait_for_choices(*errors: UserError) -> Any:
    from flows.prefect_runs import build_flows as generated_flows

    left = list(errors)

    def go_on(_filling: ReviewTableOptions) -> str:
        if left:
            raise left.pop(0)
        return "went on"

    stage: Any = SimpleNamespace(stage="topics", rows={"topics": 2}, file=Path("topics.csv"))
    definition: Any = SimpleNamespace(name="things")
    return generated_flows._continue_after_review(definition, stage, go_on)


def test_a_table_with_a_wrong_cell_is_asked_for_again(asked: list[str]) -> None:
    wrong_cell = UserError(REVIEW_CSV_STAGE, "topics.csv", "1 problems, the first: row 3", "fix those cells")
    nothing_kept = UserError("read reviewed topics", "things", "has no accepted topic with objects", "keep some")
    assert wait_for_choices(wrong_cell, nothing_kept) == "went on"
    assert ["row 3" in about for about in asked] == [False, True, False]
    assert "has no accepted topic" in asked[2]


def test_an_endpoint_without_a_key_ends_the_run_and_is_no_fault_of_the_table(asked: list[str]) -> None:
    no_key = UserError("load chat model", "environment variable KEY", "is empty or not set", "set it")
    with pytest.raises(UserError, match="environment variable KEY"):
        wait_for_choices(no_key)
    assert len(asked) == 1

"""How a run ends that did not succeed: a fault that the user can mend is one line of state and log, a defect says where
it happened."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from flows.prefect_runs.flow_runner import capture_final_state, log_user_errors_in_one_line
from querytruth.errors import UserError

FAULT = UserError("read captions", "a.csv", "has no captions", "write some")


def raising(error: Exception) -> Callable[[], State[Any]]:
    def work() -> State[Any]:
        time.sleep(0.01)
        raise error

    return work


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
@pytest.mark.parametrize(
    ("error", "begins", "holds"),
    [
        (FAULT, "a.csv (read captions): has no captions. Next: write some", ""),
        (ZeroDivisionError("by 0"), "it ended: 1\n", "ZeroDivisionError: by 0"),
        (None, "it ended: 1", ""),
    ],
)
def test_a_fault_is_one_line_of_the_log_and_a_defect_keeps_its_traceback(
    name: str, error: Exception | None, begins: str, holds: str
) -> None:
    for _ in range(2):
        log_user_errors_in_one_line()
    logger = logging.getLogger(name)
    told = (type(error), error, None) if error else (None, None, None)
    record = logger.makeRecord(name, logging.ERROR, __file__, 1, "it ended: %s", (1,), told)
    assert logger.filter(record)
    said = logging.Formatter().format(record)
    assert said.startswith(begins) and holds in said and (holds or said == begins)
    assert [type(one).__name__ for one in logger.filters].count("_UserErrorFilter") == 1


def test_a_fault_is_a_failed_state_that_bears_it_and_a_defect_is_raised() -> None:
    state = capture_final_state(raising(FAULT), "captions", None)
    assert (state.name, state.message, state.data) == ("Failed", str(FAULT), FAULT)
    with pytest.raises(ZeroDivisionError):
        capture_final_state(raising(ZeroDivisionError()), "captions", 24)


def test_a_run_whose_time_is_over_is_stopped_and_one_that_was_not_answered_in_time_is_not() -> None:
    state = capture_final_state(raising(TimeoutError()), "captions", 1e-6)
    assert (state.name, state.type.value) == ("Stopped", "FAILED")
    assert state.message == "stopped after 1e-06 hours; the next run resumes"
    assert str(state.data) == "captions (run): stopped after 1e-06 hours. Next: run it again to resume"
    for hours in (None, 24):
        with pytest.raises(TimeoutError, match="no answer"):
            capture_final_state(raising(TimeoutError("no answer")), "captions", hours)

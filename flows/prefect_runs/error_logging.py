"""What the log of a failed run says: of a fault that the user can mend one line, of a defect where it happened."""

from __future__ import annotations

import logging

from builders.errors import UserError

# A failed run's error is raised by Prefect once more when the state is set, and logged as something unexpected.
_LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")


class _UserErrorFilter(logging.Filter):
    """Changes records before any handler, the terminal's or the server's, has seen them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record goes on."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, UserError):
            record.msg, record.args = str(error), None
        if error is None or isinstance(error, UserError):
            record.exc_info = None  # without an error Prefect would print “NoneType: None”
        return True


_USER_ERROR_FILTER = _UserErrorFilter()


def log_user_errors_in_one_line() -> None:
    """For all runs of this process from now on; a second time changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_USER_ERROR_FILTER)

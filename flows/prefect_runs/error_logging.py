"""Logs a UserError of a failed run in one line, and any other error with its traceback."""

import logging

from builders.errors import UserError

# Prefect raises a failed run's error again when it sets the state, and logs it as unexpected.
_LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")


class _UserErrorFilter(logging.Filter):
    """Changes records before they reach the handlers of the terminal and the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the traceback of a UserError; every record passes."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, UserError):
            record.msg, record.args = str(error), None
        if error is None or isinstance(error, UserError):
            record.exc_info = None  # without an error Prefect would print “NoneType: None”
        return True


_USER_ERROR_FILTER = _UserErrorFilter()


def log_user_errors_in_one_line() -> None:
    """Install the filter for all runs of this process; a second call changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_USER_ERROR_FILTER)

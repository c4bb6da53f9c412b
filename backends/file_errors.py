"""Translation of the system's file errors into UserErrors."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from builders.errors import UserError, first_line

_WRITE_FIXES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "choose another folder",
    errno.EACCES: "allow writing there",
}


@contextmanager
def translate_read_errors(
    stage: str, item: object, next_step: str = "check the path", also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raises UserError in place of OSError, UnicodeDecodeError and the errors in `also`."""
    errors: tuple[type[Exception], ...] = (OSError, *also)
    try:
        yield
    except UnicodeDecodeError as error:
        raise UserError(stage, item, f"is not UTF-8 ({error.reason})", "save it as UTF-8") from None
    except errors as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise UserError(stage, item, f"cannot be read ({reason})", next_step) from None


@contextmanager
def translate_write_errors(stage: str, item: object, then: str = "then run the same command") -> Iterator[None]:
    """Raises UserError in place of OSError. The next step is the fix for that error, and `then`."""
    try:
        yield
    except OSError as error:
        fix = _WRITE_FIXES.get(error.errno or 0, "fix that")
        raise UserError(stage, item, f"cannot be written ({error.strerror})", f"{fix}, {then}") from None

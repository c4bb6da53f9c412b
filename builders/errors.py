"""The error that users see: one line with item, stage, reason and next step."""

from __future__ import annotations


class UserError(Exception):
    """An error that the user can fix; shown as one line without a traceback. A command ends with `exit_code`."""

    exit_code = 1

    def __init__(self, stage: str, item: object, reason: str, next_step: str) -> None:
        self.stage, self.item, self.reason, self.next_step = stage, str(item), reason, next_step
        super().__init__(f"{self.item} ({stage}): {reason}. Next: {next_step}")

    def __reduce__(self) -> tuple[type[UserError], tuple[str, str, str, str]]:
        """Pickles all fields, so that a worker process can raise it."""
        return type(self), (self.stage, self.item, self.reason, self.next_step)


class BudgetSpentError(UserError):
    """The end of a run whose budget is spent: nothing is lost, and the next run goes on from there."""

    exit_code = 4


def first_line(error: Exception) -> str:
    """Returns the first non-empty line of a library's message, at most 200 characters; else the error's class."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)[:200].rstrip(".")


def suggest_choice(unknown: str, choices: list[str]) -> str:
    """Returns a clause that names the closest choice, or the first 20 choices where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(unknown.casefold(), [c.casefold() for c in choices], n=1, cutoff=0.6)
    if close:
        return f"did you mean {next(c for c in choices if c.casefold() == close[0])!r}?"
    return "choose from " + ", ".join(sorted(choices)[:20])

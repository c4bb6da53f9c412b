"""The command line in this process, by tests that need no capture of their own."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from querytruth.cli.app import advise, app
from querytruth.cli.command_line import run_command


@dataclass(frozen=True)
class Ended:
    """What a command printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    exception: BaseException | None

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(*words: object, typed: str = "", catch: bool = True) -> Ended:
    """Run a command, with `typed` on its standard input; what it raises is raised unless it is to be caught."""
    out, err, code, caught = io.StringIO(), io.StringIO(), 0, None
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", io.StringIO(typed))
        try:
            run_command(app, list(map(str, words)), advise)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except Exception as error:
            if not catch:
                raise
            code, caught = getattr(error, "exit_code", 1), error
    return Ended(code, out.getvalue(), err.getvalue(), caught)

"""The command, also as `python -m querytruth`. `--help` and `--version` load no library; all else is `cli/app.py`."""

import gc
import shutil
import sys
from contextlib import suppress

from querytruth.cli.command_list import describe, name_version

_MOST_COLUMNS = 100


def start() -> None:
    """Run the command; see `querytruth.cli.app.main` for how it ends."""
    gc.set_threshold(100_000)  # imports drop nothing: the collector would look through it again and again
    words = sys.argv[1:]
    if words in ([], ["--help"], ["-h"]):
        with suppress(BrokenPipeError):
            print(describe(min(shutil.get_terminal_size().columns, _MOST_COLUMNS)), flush=True)
    elif words == ["--version"]:
        print(name_version())
    else:
        from querytruth.cli.app import main

        main()


if __name__ == "__main__":
    start()

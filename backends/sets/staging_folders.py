"""Folders in which runs write before they put the result in place: one for each run, so that none removes another's.

The name holds the machine and the process. A folder is abandoned when its process has ended, or, where that is on
another machine, after a day.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"([0-9a-f]{12})-([0-9]+)-[0-9a-f]{8}")
_ABANDONED = 24 * 3600  # seconds


def make_staging_folder(parent: Path) -> Path:
    """Creates a folder of this process below `parent`, which is created if missing."""
    folder = parent / f"{_this_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    for _ in range(9):
        with suppress(FileNotFoundError):  # another run removed the empty parent at this moment
            folder.mkdir(parents=True)
            return folder
    folder.mkdir(parents=True)
    return folder


def is_abandoned(folder: Path) -> bool:
    """Whether no run writes to the folder any more. One that has no name of ours is."""
    if not (named := _NAME.fullmatch(folder.name)):
        return True
    if named[1] == _this_machine() and not _is_running(int(named[2])):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED
    except FileNotFoundError:
        return False


def remove_abandoned_folders(parent: Path) -> None:
    """Removes what ended runs left below `parent`, and `parent` where it is empty then."""
    with suppress(OSError):
        for path in parent.iterdir():
            if not is_abandoned(path):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        parent.rmdir()


def _this_machine() -> str:
    """Returns a digest of the machine and of the space of process ids: containers may share a host's name."""
    spaces = [platform.node()]
    with suppress(OSError):
        spaces.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
        spaces.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(spaces).encode()).hexdigest()[:12]


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

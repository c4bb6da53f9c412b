"""Durable writes: files that are replaced atomically, logs and journals of lines, folders that a run leaves clean.

Every line of a log is on disk before the call returns. Lines that are appended together are separated by a carriage
return; the last one ends with a line feed, written when everything before it is on disk. Anything after the last line
feed is an unfinished write, also after a power failure: readers skip it, and the next write replaces it. A journal has
a line per step, for one process at a time.

If a result is a folder, each run first writes it to its own staging folder, whose name has the machine and the process,
and then moves it into place. A folder is abandoned when its process has ended or, on another machine, after a day.
"""

import atexit
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from querytruth.backends.environment import process_start, this_machine
from querytruth.backends.files.safe_paths import MAX_DOCUMENT_BYTES, open_regular, require_regular
from querytruth.errors import UserError, translate_write_errors

_BLOCK_BYTES = 1 << 20
_LINE_END = re.compile(rb"\r\n?|\n")  # CRLF: of an editor
_STAGE = "keep journal"
_STAGING_NAME = re.compile(r"([0-9a-f]{12})-([0-9]+)-[0-9a-f]{8}")  # machine and process
_ABANDONED = 24 * 3600  # seconds


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file and create its folder; after a crash the file holds the old bytes or all new ones. Only
    `sync_folder` of its folder makes sure of the new ones. Without `sync`, a crash of the machine may leave a part of
    them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, lambda file: file.write(data), sync=sync)


def replace_atomically(path: Path, write: Callable[[IO[bytes]], object], *, sync: bool = True) -> None:
    """Replace a file with what `write` puts into a new one, as `write_atomically` does. The folder must exist."""
    # A random name, not the process id: hosts that share a folder may share that, too.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            write(file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_page(page: Path, html: str, then: str = "or give another file to --page") -> None:
    """Write a page and create its folder. Raises UserError where it cannot be written; `then` ends its next step."""
    with translate_write_errors("write page", page, then):
        write_atomically(page, html.encode("utf-8", "replace"))


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link, or where the file system has no links a copy, whose bytes are on disk when the call returns.
    Raises OSError."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        sync_file(target)


def make_durable_folder(folder: Path) -> None:
    """Create a folder and its missing parents; their names are on disk when the call returns."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_file(path: Path) -> None:
    """Wait until the bytes of a file are on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries are on disk."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> tuple[str, int]:
    """Return a file's SHA-256 and its size in bytes; reads it in pieces."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path) as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
            progress(len(data))
    return digest.hexdigest(), size


@contextmanager
def open_log(path: Path, *, wait: bool) -> Iterator[int]:
    """Lock a log for this process and yield its descriptor; creates a missing one. Where another process holds the
    lock, waits, or without `wait` raises BlockingIOError. Raises OSError where the log cannot be opened."""
    make_durable_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        require_regular(handle)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.fstat(handle).st_size:
            sync_folder(path.parent)
        yield handle
    finally:
        os.close(handle)


def append_lines(handle: int, lines: Sequence[str]) -> None:
    """Append lines after the last whole one, all or none, and wait until they are on disk. Raises OSError."""
    if not lines:
        return
    end = _end_of_lines(handle)
    os.ftruncate(handle, end)
    try:
        _write_durably(handle, "\r".join(lines).encode())
        _write_durably(handle, b"\n")
    except BaseException:
        os.ftruncate(handle, end)
        raise


def read_lines(path: Path, start: int = 0, *, lock: bool = True) -> tuple[list[bytes], int]:
    """Return the whole lines after the first `start` bytes, and the offset of their end. Raises OSError.

    Without `lock`, the last lines may be part of an append that another process is making.
    """
    with open_regular(path) as file:
        if lock:
            fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file.fileno()).st_size - start > MAX_DOCUMENT_BYTES:
            raise OSError(errno.EFBIG, f"is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return _LINE_END.split(whole)[:-1], start + len(whole)


def read_last_line(handle: int) -> bytes:
    """Return the last whole line of an open log, without its end; b"" for none."""
    end = _end_of_lines(handle)
    start, line = end, b""
    while start and b"\n" not in line[:-1]:
        start = max(0, end - _BLOCK_BYTES - len(line))
        line = os.pread(handle, end - start, start)
    return _LINE_END.split(line.rstrip(b"\r\n"))[-1]


def _write_durably(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a nearly full disk takes a part, and fails only at the next write
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _end_of_lines(handle: int) -> int:
    """Return the offset of the end of the last whole line."""
    end = os.lseek(handle, 0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK_BYTES)
        place = os.pread(handle, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0


def task_root() -> Path:
    """Return the folder of all tasks of this process: a decoder process that may write there serves one after another.
    It is removed when the process ends."""
    root = _make_root(os.getpid())
    root.mkdir(exist_ok=True)
    return root


@contextmanager
def open_task_folder() -> Iterator[Path]:
    """Make a folder for a task, and remove it afterwards."""
    with tempfile.TemporaryDirectory(dir=task_root()) as folder:
        yield Path(folder)


@cache
def _make_root(process: int) -> Path:
    root = Path(tempfile.mkdtemp(prefix="querytruth-"))
    atexit.register(_remove, root, process)
    return root


def _remove(root: Path, process: int) -> None:
    if os.getpid() == process:  # a fork of the process has its own
        shutil.rmtree(root, ignore_errors=True)


def make_staging_folder(parent: Path) -> Path:
    """Create a folder for this process below `parent`; `parent` is created if missing."""
    folder = parent / f"{_hash_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    for _ in range(9):
        with suppress(FileNotFoundError):  # another run removed the empty parent at this moment
            folder.mkdir(parents=True)
            return folder
    folder.mkdir(parents=True)
    return folder


def is_abandoned(folder: Path) -> bool:
    """Return whether no run writes to the folder any more. A folder with any other form of name counts as abandoned."""
    if not (named := _STAGING_NAME.fullmatch(folder.name)):
        return True
    if named[1] == _hash_machine() and not process_start(int(named[2])):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED
    except FileNotFoundError:
        return False


def remove_abandoned_folders(parent: Path) -> None:
    """Remove what ended runs left below `parent`, and `parent` where it is empty then."""
    with suppress(OSError):
        for path in parent.iterdir():
            if not is_abandoned(path):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        parent.rmdir()


def _hash_machine() -> str:
    return hashlib.sha256(this_machine().encode()).hexdigest()[:12]


class LineJournal:
    """An open journal and the lines that it held when it was opened."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.lines = path, read_journal_lines(path)
        self._handle = handle

    def append(self, line: str) -> None:
        """Append a line; it is on disk when the call returns. Raises UserError, and then writes nothing."""
        if "\n" in line or "\r" in line:
            raise ValueError("a journal line must not contain a line end")
        try:
            append_lines(self._handle, [line])
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            raise UserError(_STAGE, self.path, reason, "fix that, then run the same command") from None

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self._handle, 0)
        self.lines = []


@contextmanager
def open_journal(path: Path) -> Iterator[LineJournal]:
    """Open the journal at `path`, created if missing. Raises UserError where another process has it open."""
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(open_log(path, wait=False))
        except BlockingIOError:
            raise UserError(_STAGE, path, "is being written by another run", "wait for it to end") from None
        except OSError as error:
            raise UserError(_STAGE, path, f"cannot be opened ({error.strerror})", "check the path") from None
        yield LineJournal(path, handle)


def read_journal_lines(path: Path) -> list[str]:
    """Return the complete lines of a journal, open or not. Raises UserError where it is missing or damaged."""
    lines: list[str] = []
    try:
        for line in read_lines(path, lock=False)[0]:
            lines.append(line.decode())  # noqa: PERF401 - their number is the place of an error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise UserError(_STAGE, path, reason, "run the stage that writes it again") from None
    except UnicodeDecodeError:
        next_step = "remove the file: it is rebuilt from stored replies"
        raise UserError(_STAGE, f"{path} line {len(lines) + 1}", "is damaged", next_step) from None
    return lines

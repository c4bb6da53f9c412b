"""Commands on what a stranger sent, run in this process, with everything recorded that they open, change and connect
to."""

import contextlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from starlette.testclient import TestClient

from flows.review_site import open_review_site
from querytruth.backends.images.worker_processes import _MappedItems
from querytruth.backends.images.worker_starts import _START
from querytruth.errors import UserError, make_visible
from querytruth.review.server import create_app
from querytruth.sets.set_files import read_set
from tests.command_runner import invoke
from tests.images import make_jpeg
from tests.review.server.pages import DOOR, HOME, TOKEN
from tests.small_sets import files_of

C = TypeVar("C", bound=tuple[Any, ...])  # a case: its name comes first
SECRET = "the-victims-own-secret"
SECONDS = 60  # for all commands on one set
MEMORY = 1 << 30  # bytes that they may need beyond those of the process before
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CONNECTS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "subprocess.Popen", "os.system"}
_OF_LINKS = {"os.rename", "os.link", "os.symlink", "os.remove"}
_CHANGES = {f"os.{name}" for name in ("rename", "link", "symlink", "mkdir", "remove", "rmdir", "truncate", "chmod")}


class Watch:
    """What this process opens, changes and connects to, by Python's audit events, while a case runs."""

    def __init__(self) -> None:
        self.root: Path | None = None  # of all tests
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] = []
        self.opened: set[str] = set()
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def watching(self, root: Path, allowed: list[Path]) -> Iterator[list[str]]:
        self.root, self.allowed, self.seen = root, tuple(map(str, allowed)), []
        self.opened = set()
        # A module that is imported here for the first time would have its bytecode written, which is no fault.
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield self.seen
        finally:
            sys.dont_write_bytecode = before
            self.root = None

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if self.root is None:
            return
        if event == "subprocess.Popen" and _START in values[1]:
            return  # a worker, which has no rights
        if event in _CONNECTS:
            self.seen.append(f"{event} {values[1:]}")
        elif event == "open" and isinstance(values[0], str | bytes | Path):
            self.opened.add(os.path.realpath(values[0]))
            self._check(event, values[0], bool((values[2] or 0) & _WRITES))
        elif event in _CHANGES:
            for value in values:
                if isinstance(value, str | bytes | Path):
                    self._check(event, value, writes=True)
        elif event == "sqlite3.connect":
            self._check(event, values[0], writes=True)

    def _check(self, event: str, value: Any, writes: bool) -> None:
        name = Path(os.fsdecode(value))
        # These act on a link itself, not on what it leads to.
        path = os.path.realpath(name) if event not in _OF_LINKS else f"{os.path.realpath(name.parent)}/{name.name}"
        inside = any(path == one or path.startswith(one + "/") for one in self.allowed)
        private = path.startswith(str(self.root)) or path in ("/etc/passwd", "/etc/shadow")
        if not inside and (private or (writes and not path.startswith("/dev/"))):
            self.seen.append(f"{event} {path}")


_WATCH = Watch()


def do_work_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are other processes, which no audit hook of this one sees: their work is done here. Parquet alone is read
    by them, whose memory is bounded."""

    def map_here(items: _MappedItems, upcoming: Iterator[Any]) -> Iterator[Any]:
        done = [items.work(item) for item in upcoming]
        yield from items.finish(done) if items.finish else done

    monkeypatch.setattr(_MappedItems, "map", map_here)
    monkeypatch.setattr("os.sync", lambda: None)  # waits for the disks of the whole machine


def run_watched(
    run: Callable[[], tuple[list[str], str]], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Run commands in the new folder `work`, and check that nothing was read or written but there, in `sets`, and in
    the user's state folder, that nothing of `home` was taken, and that time and memory stay in bounds. `run` returns
    the problems and what was printed; the latter is returned."""
    before = files_of(home)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VICTIM_KEY", SECRET)
    monkeypatch.setenv("TMPDIR", str(work))
    monkeypatch.setattr("tempfile.tempdir", None)  # which Python remembers from before
    started, needed = time.monotonic(), _forget_peak()
    with _WATCH.watching(tmp_path, [work, tmp_path / "sets", Path(os.environ["XDG_STATE_HOME"])]) as seen, _alarm():
        problems, printed = run()
    assert problems == [], "\n".join(problems)
    assert seen == [], "\n".join(seen)
    assert files_of(home) == before, "the victim's folder is another"
    assert SECRET not in printed and not _holds(SECRET.encode(), work), "the secret was taken"
    hidden = [line for line in printed.splitlines() if set(line) & set("\x1b\u202e\u200b")]
    assert not hidden, ascii(hidden[:3])
    assert time.monotonic() - started < SECONDS
    assert (needs := _peak() - needed) < MEMORY, f"needs {needs >> 20} MiB"
    return printed


def run_cases(cases: list[C], run: Callable[[C, Path], object], place: Path) -> None:
    """Run all cases, each in a folder of its own, also after one has failed, and name those that fail."""
    failed = []
    for number, case in enumerate(cases):
        (place / str(number)).mkdir()
        try:
            run(case, place / str(number))
        except AssertionError as error:
            failed.append(f"{case[0]}: {error}")
        shutil.rmtree(place / str(number))
    assert cases and not failed, "\n".join(failed)


def set_commands(version: Path, whole: Path) -> list[list[str]]:
    """The commands that somebody gives on a set from elsewhere."""
    spec = str(version)
    return [
        ["show", spec],
        ["show", spec, "--json", "--page", "page.html"],
        ["verify", spec],
        ["lint", spec],
        ["diff", spec, str(whole)],
        ["export", spec, "huggingface", "hf", "--allow-loss"],
        ["export", spec, "karpathy", "karpathy", "--allow-loss"],
        ["review", "export-csv", spec],
        ["evaluate", spec, "--baseline", "oracle", "--report", "report"],
        ["rebuild", spec, "--check"],
        ["apply", spec],
    ]


def use_set(version: Path, whole: Path) -> tuple[list[str], str]:
    """Give all commands on a set and open its review page. Returns the problems and what was printed."""
    problems, printed = list[str](), ""
    for command in set_commands(version, whole):
        problem, output = run_command(command)
        printed += output
        problems += [f"{' '.join(command[:2])}: {problem}"] if problem else []
    problem = _review(version)
    return problems + ([f"review: {problem}"] if problem else []), printed


def list_opened(command: list[str], folder: Path) -> set[str]:
    """The files below a folder that a command opens, by their paths in it."""
    with _WATCH.watching(folder, [folder]):
        problem, _ = run_command(command)
    assert not problem, problem
    root = f"{os.path.realpath(folder)}/"
    return {path.removeprefix(root) for path in _WATCH.opened if path.startswith(root)}


def run_command(command: list[str]) -> tuple[str, str]:
    """What went wrong beyond an error of one line, and what was printed."""
    done = invoke(*command)
    error = done.exception
    if error is None or isinstance(error, SystemExit):
        return "", done.output
    if isinstance(error, UserError):
        problem = "" if "\n" not in str(error) else f"error of several lines {error!s:.200}"
        return problem, f"{done.output}Error: {make_visible(str(error))}\n"  # as the command prints it
    return _describe(error), done.output


def _describe(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error!s:.200} at {last.filename}:{last.lineno}"


def _review(version: Path) -> str:
    """The same for the review page: opened, and all of its views and images fetched."""
    try:
        site = open_review_site(read_set(version), "lin")
        site.prepare()
        client = TestClient(create_app(site.routes, DOOR, site.start_path), base_url=HOME)
        client.get("/", params={"token": TOKEN})
        pages = [f"/{view.lower()}" for view in site.about["views"]]
        answers = [
            client.get(page) for page in [*pages, "/api/queries/queue", "/api/pairs/queue", "/api/rejects/queue"]
        ]
        for image in {key for answer in answers for key in answer.text.split('"') if key.startswith("img_")}:
            client.get(f"/image/320/{image}")
        keys = [key for answer in answers[len(pages) :] for key in answer.text.split('"') if key.startswith("q_")]
        client.get("/api/queries/cards", params={"key": keys[:4]})
    except UserError:
        return ""
    except Exception as error:
        return _describe(error)
    return ""


def make_home(tmp_path: Path) -> Path:
    """The victim's folder, with private files."""
    home = tmp_path / "home"
    (home / "target").mkdir(parents=True)
    (home / "private.jpg").write_bytes(make_jpeg((1, 2, 3), (16, 16)) + SECRET.encode())
    (home / "private.parquet").write_bytes(SECRET.encode())
    (home / "note.txt").write_text(SECRET)
    return home


def _holds(secret: bytes, folder: Path) -> bool:
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _forget_peak() -> int:
    """Make the peak of the memory that of now, where the kernel can, and return it in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10
    return 0


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Interrupts a case that a pipe or a long text holds up."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError("took too long")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)

"""A set from a stranger is data: whatever it holds, no command reads, writes or connects where the set says."""

import contextlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from builders.errors import UserError
from flows.review_session.review_site import open_review_site
from querytruth.app import app
from review.server.application import create_app
from tests.hostile_sets import SECRET, HostileCase, hostile_cases, version_of
from tests.images import make_jpeg
from tests.review.server.pages import DOOR, HOME, TOKEN
from tests.small_sets import publish_small_set, small_tables

_CASES = list(hostile_cases())
_SECONDS = 60  # for all commands on one set
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


_CHANGES = {f"os.{name}" for name in ("rename", "link", "symlink", "mkdir", "remove", "rmdir", "truncate", "chmod")}


class Watch:
    """What this process opens, changes and connects to, by Python's audit events, while a case runs."""

    def __init__(self) -> None:
        self.root: Path | None = None  # of all tests
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def watching(self, root: Path, allowed: list[Path]) -> Iterator[list[str]]:
        self.root, self.allowed, self.seen = root, tuple(map(str, allowed)), []
        try:
            yield self.seen
        finally:
            self.root = None

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if self.root is None:
            return
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "subprocess.Popen", "os.system"):
            self.seen.append(f"{event} {values[1:]}")
        elif event == "open" and isinstance(values[0], str | bytes | Path):
            self._check(event, values[0], bool((values[2] or 0) & _WRITES))
        elif event in (
            "os.rename",
            "os.link",
            "os.symlink",
            "os.mkdir",
            "os.remove",
            "os.rmdir",
            "os.truncate",
            "os.chmod",
        ):
            for value in values:
                if isinstance(value, str | bytes | Path):
                    self._check(event, value, writes=True)
        elif event == "sqlite3.connect":
            self._check(event, values[0], writes=True)

    def _check(self, event: str, value: Any, writes: bool) -> None:
        path = os.path.realpath(os.fsdecode(value))
        inside = any(path == one or path.startswith(one + "/") for one in self.allowed)
        private = path.startswith(str(self.root)) or path in ("/etc/passwd", "/etc/shadow")
        if not inside and (private or (writes and not path.startswith("/dev/"))):
            self.seen.append(f"{event} {path}")


_WATCH = Watch()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole set of four pictures, as a stranger would publish it."""
    folder = tmp_path_factory.mktemp("template")
    tables = small_tables()
    shared = tables.images.assign(duplicate_group=None)
    return publish_small_set(folder, type(tables)(tables.queries, shared, tables.qrels)).path.parent


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are other processes, which no audit hook of this one sees: their work is done here."""

    def call(work: Callable[[Any], Any], items: Any, *_more: Any, **_options: Any) -> Iterator[Any]:
        return iter([work(item) for item in items])

    for module in ("backends.sets.set_thumbnails", "flows.review_session.rejected_files"):
        monkeypatch.setattr(f"{module}.map_in_workers", call)
    monkeypatch.setattr("backends.images.thumbnails.map_in_parallel", call)


@pytest.mark.parametrize("case", _CASES[::13], ids=lambda case: case[0])
def test_a_sample_of_hostile_sets(
    case: HostileCase, template: Path, tmp_path: Path, in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_case(case, template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case[0])
def test_all_hostile_sets(
    case: HostileCase, template: Path, tmp_path: Path, in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_case(case, template, tmp_path, monkeypatch)


def _run_case(case: HostileCase, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = _make_home(tmp_path), tmp_path / "sets" / "small"
    shutil.copytree(template, folder)
    shutil.copytree(template, tmp_path / "sets" / "whole")
    before = _contents(home)
    case[1](folder, home)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VICTIM_KEY", SECRET)
    monkeypatch.setenv("TMPDIR", str(work))
    started, problems, printed = time.monotonic(), list[str](), ""
    with _WATCH.watching(tmp_path, [work, tmp_path / "sets", Path(os.environ["XDG_STATE_HOME"])]) as seen, _alarm():
        for command in _commands(folder, tmp_path / "sets" / "whole"):
            problem, output = _run(command)
            printed += output
            problems += [f"{' '.join(command[:2])}: {problem}"] if problem else []
        problem = _review(folder)
        problems += [f"review: {problem}"] if problem else []
    assert problems == [], "\n".join(problems)
    assert seen == []
    assert _contents(home) == before
    assert SECRET not in printed and not _holds(SECRET.encode(), work)
    assert "\x1b" not in printed and "\u202e" not in printed and "\u200b" not in printed
    assert time.monotonic() - started < _SECONDS


def _commands(folder: Path, whole: Path) -> list[list[str]]:
    spec = str(version_of(folder))
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


def _run(command: list[str]) -> tuple[str, str]:
    """What went wrong beyond an error of one line, and what was printed."""
    done = CliRunner().invoke(app, command)
    error = done.exception
    if error is None or isinstance(error, SystemExit):
        return "", done.output
    if isinstance(error, UserError):
        return ("" if "\n" not in str(error) else f"error of several lines {error!s:.200}"), done.output
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error!s:.200} at {last.filename}:{last.lineno}", done.output


def _review(folder: Path) -> str:
    """The same for the review page: opened, and all of its views and pictures fetched."""
    try:
        site = open_review_site(version_of(folder), "lin")
        site.prepare()
        client = TestClient(create_app(site.routes, DOOR, site.about["views"]), base_url=HOME)
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
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error!s:.200} at {last.filename}:{last.lineno}"
    return ""


def _make_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "target").mkdir(parents=True)
    (home / "private.jpg").write_bytes(make_jpeg((1, 2, 3), (16, 16)) + SECRET.encode())
    (home / "private.parquet").write_bytes(SECRET.encode())
    (home / "note.txt").write_text(SECRET)
    return home


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _holds(secret: bytes, folder: Path) -> bool:
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Interrupts a case that a pipe or a long text holds up."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError("took too long")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)

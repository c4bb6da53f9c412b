"""Parts on the workers of a cluster: their order, their errors, and what happens when a worker dies."""

import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from flows.prefect_runs.build_run import is_transient
from querytruth.backends import steps
from querytruth.backends.steps import (
    Advance,
    BuildRun,
    SilentReporter,
    active_run,
    cluster_hosts,
    map_parts,
    use_cluster,
)
from querytruth.errors import UserError


class CountingReporter(SilentReporter):
    def __init__(self) -> None:
        self.units = 0

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        def advance(count: int) -> None:
            self.units += count

        yield advance


def square(part: int, advance: Advance) -> tuple[int, int]:
    advance(part)
    return part * part, os.getpid()


def refuse(part: str, advance: Advance) -> None:
    try:
        raise ConnectionResetError("hung up")
    except OSError as error:
        raise UserError("read images", part, "cannot be read", "take it away") from error


def break_down(part: str, advance: Advance) -> None:
    raise ZeroDivisionError(part)


def die_once(died: Path, part: str, advance: Advance) -> str:
    if not died.exists():
        died.touch()
        os._exit(9)
    return part


def die(part: str, advance: Advance) -> None:
    os._exit(9)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    pytest.importorskip("distributed")
    with use_cluster("dask", 2) as started:
        assert started is not None
        yield started


def test_parts_are_done_by_other_processes_and_come_back_in_order(cluster: Executor) -> None:
    reporter = CountingReporter()
    with active_run(BuildRun(reporter, cluster=cluster)):
        results = map_parts("square", square, list(range(20)), 190, "numbers")
    assert [result for result, _ in results] == [n * n for n in range(20)]
    assert os.getpid() not in {process for _, process in results}
    assert reporter.units == sum(range(20))


def test_an_error_for_people_comes_back_with_the_fault_behind_it(cluster: Executor) -> None:
    with active_run(BuildRun(cluster=cluster)), pytest.raises(UserError) as refused:
        map_parts("read", refuse, ["a.jpg"], 1, "images")
    assert str(refused.value) == "a.jpg (read images): cannot be read. Next: take it away"
    assert is_transient(refused.value), "so that a flow tries again"
    with active_run(BuildRun(cluster=cluster)), pytest.raises(ZeroDivisionError, match=r"b\.jpg"):
        map_parts("read", break_down, ["b.jpg"], 1, "images")


@pytest.mark.thorough
def test_a_part_whose_worker_dies_is_done_again(cluster: Executor, tmp_path: Path) -> None:
    with active_run(BuildRun(cluster=cluster)):
        assert map_parts("read", partial(die_once, tmp_path / "died"), ["a", "b"], 2, "images") == ["a", "b"]
    assert (tmp_path / "died").exists()


@pytest.mark.thorough
def test_a_part_that_kills_every_worker_is_one_line(cluster: Executor) -> None:
    with active_run(BuildRun(cluster=cluster)), pytest.raises(UserError, match="lost the workers of a part") as lost:
        map_parts("read", die, ["a"], 1, "images")
    assert "\n" not in str(lost.value) and "dask" in str(lost.value)


def test_threads_are_no_cluster() -> None:
    with use_cluster("threads", 2) as cluster:
        assert cluster is None


@pytest.mark.parametrize("runner", ["dusk", "threads:tcp://head", ""])
def test_an_unknown_runner_is_refused(runner: str) -> None:
    with pytest.raises(UserError, match="unknown runner"), use_cluster(runner, 2):
        pass


def test_a_runner_near_another_names_that() -> None:
    with pytest.raises(UserError, match="did you mean 'dask'"), use_cluster("dusk", 2):
        pass


def test_a_missing_library_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"is not installed.*querytruth\[dask\]"), use_cluster("dask", 2):
        pass


def test_a_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(steps, "_START_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UserError, match="does not answer") as refused, use_cluster(f"dask:{address}", 2):
        pass
    assert address in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("runner", "host"),
    [("dask:tcp://head:8786", "head"), ("dask:tls://10.0.0.5:8786", "10.0.0.5"), ("dask:head", "head")],
)
def test_an_offline_build_may_talk_to_its_cluster(runner: str, host: str) -> None:
    assert cluster_hosts(runner)[3:] == (host,)
    assert cluster_hosts("dask")[3:] == ()

"""Work in a process of its own: whatever an item does there, the others get their results and nothing is left over.

The work is mostly `eval`: the items are the deeds.
"""

import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from PIL import Image

from querytruth.backends.images import worker_processes, worker_starts
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.worker_processes import finish_in_workers, map_in_workers
from querytruth.backends.images.worker_starts import WorkerFailure, WorkerLimits
from querytruth.errors import UserError

PID = "__import__('os').getpid()"
SLEEP = "__import__('time').sleep(100)"
SEGFAULT = "__import__('signal').raise_signal(11)"
QUICK = WorkerLimits(seconds=0.5)


@pytest.fixture(autouse=True)
def _no_worker_of_another_story() -> Iterator[None]:
    worker_processes.end_idle_workers()
    yield
    worker_processes.end_idle_workers()


def is_there(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has waited for does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def gone_within(seconds: float, *pids: int) -> bool:
    end = time.monotonic() + seconds
    while any(map(is_there, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def script(text: str, **options: object) -> subprocess.Popen[str]:
    text = (
        "import os, signal, sys, time\nfrom querytruth.backends.images.worker_processes import *\n"
        + textwrap.dedent(text)
    )
    root = str(Path(__file__).parents[3])
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
        **options,  # type: ignore[call-overload]
    )


def test_results_come_in_the_items_order_from_another_process() -> None:
    assert list(map_in_workers(str, range(1000))) == [str(n) for n in range(1000)]
    assert list(map_in_workers(eval, [PID])) != [os.getpid()]
    assert list(map_in_workers(eval, [])) == []
    assert list(map_in_workers(partial(int, base=16), ["ff", "10"])) == [255, 16]


@pytest.mark.parametrize(
    ("deed", "reason", "detail"),
    [
        (SEGFAULT, "worker_crashed", "SIGSEGV"),
        ("__import__('os')._exit(3)", "worker_crashed", "exit status 3"),
        ("__import__('sys').exit(4)", "worker_crashed", "exit status 4"),
        (SLEEP, "took_too_long", "more than 0.5 s"),
        ("__import__('re').match('(a+)+$', 'a' * 40 + 'b')", "took_too_long", "more than 0.5 s"),
        ("b'x' * (8 << 30)", "out_of_memory", "more than 1024 MiB"),
        ("[bytes(1 << 20) for _ in range(9999)]", "out_of_memory", "more than 1024 MiB"),
    ],
)
@pytest.mark.thorough
def test_a_deed_costs_the_one_item_that_did_it(deed: str, reason: str, detail: str) -> None:
    items = [*map(str, range(50)), deed, *map(str, range(51, 99))]
    results = list(map_in_workers(eval, items, QUICK))
    assert results.pop(50) == WorkerFailure(reason, detail)
    assert results == [n for n in range(99) if n != 50]


@pytest.mark.parametrize(
    "deed", [SEGFAULT, SLEEP, "[bytes(1 << 20) for _ in range(9999)]", "__import__('os')._exit(0)"]
)
@pytest.mark.thorough
def test_a_deed_among_those_that_are_finished_together_costs_the_one_item(deed: str) -> None:
    items = [*map(str, range(37)), deed, "1", deed, *map(str, range(40, 70))]
    results = list(finish_in_workers(eval, list, items, QUICK))
    assert [number for number, result in enumerate(results) if isinstance(result, WorkerFailure)] == [37, 39]
    assert results[:37] + results[40:] == [*range(37), *range(40, 70)] and results[38] == 1


def test_up_to_32_are_finished_at_once_and_the_slow_do_not_keep_the_others_waiting() -> None:
    found = list(finish_in_workers(eval, enumerate, map(str, range(50))))
    assert [value for _, value in found] == list(range(50))
    assert max(place for place, _ in found) == 31
    slow = ["__import__('time').sleep(0.3)"] * 4
    assert [place for place, _ in finish_in_workers(eval, enumerate, slow, QUICK)] == [0] * 4


@pytest.mark.thorough
def test_what_only_many_at_once_are_too_much_for_is_done_one_by_one() -> None:
    items = ["bytes(10 << 20)"] * 40
    results = finish_in_workers(eval, list, items, WorkerLimits(memory=64 << 20))
    assert [len(result) for result in results if isinstance(result, bytes)] == [10 << 20] * 40


def test_an_exception_among_many_is_raised_after_the_results_before_it() -> None:
    results = finish_in_workers(eval, list, ["1", "2", "1/0", "3"])
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(TypeError):
        list(finish_in_workers(eval, sum, ["1", "'a'"]))


def test_losses_in_a_row_are_told_apart() -> None:
    crashed, left = [WorkerFailure("worker_crashed", detail) for detail in ("SIGSEGV", "exit status 7")]
    results = list(map_in_workers(eval, [SEGFAULT, SEGFAULT, "1", "__import__('os')._exit(7)"]))
    assert results == [crashed, crashed, 1, left]


def test_messages_larger_than_a_pipe_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [bytes([n]) * 300_000 for n in range(100)]
    assert list(map_in_workers(bytes, items)) == items
    too_much = [SLEEP, *["1" + " " * 300_000] * 3]
    assert list(map_in_workers(eval, too_much, QUICK)) == [WorkerFailure("took_too_long", "more than 0.5 s"), 1, 1, 1]


def test_an_exception_is_a_defect_and_is_raised_with_where_it_came_from() -> None:
    results = map_in_workers(eval, ["1", "1/0", "2"])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError) as caught:
        next(results)
    assert "worker_main.py" in caught.value.__notes__[0]
    assert list(map_in_workers(eval, ["3"])) == [3]


def test_a_function_that_the_worker_cannot_import_is_told() -> None:
    with pytest.raises(UserError, match=r"does not start .*isolated_by_nobody"):
        list(map_in_workers(_of_this_process, [1]))


def _of_this_process(item: int) -> int:
    return item


_of_this_process.__module__ = "isolated_by_nobody"
sys.modules["isolated_by_nobody"] = sys.modules[__name__]


def test_a_worker_serves_the_next_caller() -> None:
    assert list(map_in_workers(eval, [PID])) == list(map_in_workers(eval, [PID]))


def test_a_caller_who_stops_early_leaves_no_answers_to_the_next() -> None:
    results = map_in_workers(eval, [PID, *["'old'"] * 20])
    pid = next(results)
    assert isinstance(pid, int)
    results.close()  # type: ignore[attr-defined]
    assert gone_within(2, pid)
    assert list(map_in_workers(eval, ["'new'"])) == ["new"]


def test_a_source_that_fails_leaves_no_answers_to_the_next() -> None:
    def items() -> Iterator[str]:
        yield from ["'old'"] * 40
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(map_in_workers(eval, items()))
    assert list(map_in_workers(eval, ["'new'"])) == ["new"]


@pytest.mark.thorough
def test_a_slow_caller_is_not_held_against_the_item() -> None:
    for result in map_in_workers(eval, ["1"] * 3, QUICK):
        time.sleep(0.7)
        assert result == 1


def test_a_worker_that_died_while_idle_is_replaced() -> None:
    (pid,) = map_in_workers(eval, [PID])
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert list(map_in_workers(eval, ["5"])) == [5]


@pytest.mark.thorough
def test_a_worker_retires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "_RETIRES_AFTER", 100)
    results = list(map_in_workers(eval, [PID] * 1000))
    assert len(results) == 1000
    assert 4 <= len(set(results)) <= 10
    assert not any(is_there(pid) for pid in set(results[:-1]) - {results[-1]} if isinstance(pid, int))


def test_a_worker_outlives_the_thread_that_started_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        pids = pool.submit(lambda: list(map_in_workers(eval, [PID]))).result()
    time.sleep(0.2)
    assert list(map_in_workers(eval, [PID])) == pids


def test_a_forked_process_does_not_talk_to_its_parents_worker() -> None:
    (pid,) = map_in_workers(eval, [PID])
    if (child := os.fork()) == 0:
        os._exit(0 if list(map_in_workers(eval, [PID])) != [pid] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert list(map_in_workers(eval, [PID])) == [pid]


def test_ctrl_c_in_the_terminal_is_left_to_the_parent() -> None:
    assert list(map_in_workers(eval, ["__import__('signal').raise_signal(2)", "2"])) == [None, 2]


@pytest.mark.parametrize("deed", [SLEEP, "__import__('re').match('(a+)+$', 'a' * 40 + 'b')"])
def test_workers_end_with_a_parent_that_was_killed_even_in_the_middle_of_an_item(deed: str) -> None:
    parent = script(f"""
        both = [map_in_workers(eval, [{PID!r}, {deed!r}]) for _ in range(2)]
        print(*[next(results) for results in both], flush=True)
        list(map_in_workers(eval, ["1"]))
        time.sleep(100)
    """)
    assert parent.stdout
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert all(map(is_there, pids))
    parent.kill()
    parent.wait()
    assert gone_within(2, *pids)


def test_idle_workers_end_with_the_interpreter() -> None:
    parent = script(f"print(*map_in_workers(eval, [{PID!r}]), flush=True)")
    out, _ = parent.communicate(timeout=30)
    assert parent.returncode == 0
    assert gone_within(2, int(out))


def test_a_worker_holds_nothing_of_its_siblings_and_dumps_no_core() -> None:
    sibling = map_in_workers(eval, [PID, PID])
    next(sibling)
    files, core = map_in_workers(
        eval,
        [
            "[__import__('os').readlink(f'/proc/self/fd/{n}') for n in range(999) "
            "if __import__('os').path.lexists(f'/proc/self/fd/{n}')]",
            "__import__('resource').getrlimit(4)",
        ],
    )
    assert isinstance(files, list)
    assert sorted(name.split(":")[0] for name in files) == ["/dev/null"] * 3 + ["pipe"] * 3 + ["socket"]
    assert core == (0, 0)


def test_the_parents_script_is_not_run_again(tmp_path: Path) -> None:
    parent = script(f"""
        with open({str(tmp_path / "runs")!r}, "a") as file: file.write("run ")
        print(*map_in_workers(abs, [-1, -2]))
    """)
    assert parent.communicate(timeout=30)[0] == "1 2\n"
    assert (tmp_path / "runs").read_text() == "run "


def test_what_the_work_prints_or_reads_does_not_disturb_the_answers() -> None:
    deeds = ["print('x' * 99)", "__import__('os').write(1, b'noise')", "__import__('sys').stdin.read()", "4"]
    assert list(map_in_workers(eval, deeds)) == [None, 5, "", 4]


def test_it_works_inside_a_pool_of_processes() -> None:
    module = "__import__('importlib').import_module('querytruth.backends.images.worker_processes')"
    inside = f"list({module}.map_in_workers(abs, [-7]))"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(eval, inside).result() == [7]


@pytest.fixture
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_starts, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(worker_starts, "_items_left", 0)


def break_starts(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(worker_starts, "_START", program)


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (
            "import decoder_that_is_missing",
            "exit status 1: ModuleNotFoundError: No module named 'decoder_that_is_missing'",
        ),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("raise MemoryError", "exit status 1: MemoryError"),
    ],
)
def test_where_no_worker_starts_one_line_names_the_cause(
    program: str, cause: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], quick_attempts: None
) -> None:
    break_starts(monkeypatch, program)
    with pytest.raises(UserError) as refused:
        list(map_in_workers(eval, ["1", "2", "3"]))
    assert f"does not start ({cause})" in str(refused.value) and "\n" not in str(refused.value)
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_cannot_be_made_is_no_start(monkeypatch: pytest.MonkeyPatch, quick_attempts: None) -> None:
    def no_process(*_given: object, **_options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(worker_starts.subprocess, "Popen", no_process)
    with pytest.raises(UserError, match=r"does not start .*Resource temporarily unavailable"):
        list(map_in_workers(eval, ["1"]))


def test_a_worker_that_dies_at_its_start_is_started_again_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick_attempts: None
) -> None:
    once = f"import os, pathlib; p = pathlib.Path({str(tmp_path / 'died')!r})\n"
    once += "if not p.exists(): p.touch(); os.kill(os.getpid(), 9)\n"
    break_starts(monkeypatch, once + worker_starts._START)
    assert list(map_in_workers(eval, ["1", "2"])) == [1, 2]


def test_a_later_start_that_fails_costs_one_item_alone(monkeypatch: pytest.MonkeyPatch, quick_attempts: None) -> None:
    whole = worker_starts._START
    items = ["1", SEGFAULT, "3", "4"]

    def fail_twice(count: list[int] = []) -> str:  # noqa: B006 - counts its calls
        count.append(0)
        return "raise SystemExit(7)" if 2 <= len(count) <= 3 else whole

    real = subprocess.Popen

    def start(command: list[str], **options: object) -> object:
        return real([*command[:4], fail_twice(), *command[5:]], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(worker_starts.subprocess, "Popen", start)
    results = list(map_in_workers(eval, items))
    assert results[0] == 1 and results[3] == 4
    assert results[1] == WorkerFailure("worker_crashed", "SIGSEGV")
    assert results[2] == WorkerFailure("worker_crashed", "exit status 7")


def test_where_workers_start_no_more_the_build_ends(monkeypatch: pytest.MonkeyPatch, quick_attempts: None) -> None:
    assert list(map_in_workers(eval, ["1"])) == [1]
    worker_processes.end_idle_workers()
    break_starts(monkeypatch, "raise SystemExit(7)")
    results = map_in_workers(eval, ["1"] * 100)
    monkeypatch.setattr(worker_starts, "_items_left", 2)
    assert [next(results), next(results)] == [WorkerFailure("worker_crashed", "exit status 7")] * 2
    with pytest.raises(UserError, match="does not start"):
        next(results)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_a_worker_asks_the_system_only_once_for_the_memory_that_each_group_of_items_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")  # as Dask sets it
    deed = "[bytearray(b'x') * (1 << 20) for _ in range(8)] and __import__('resource').getrusage(0).ru_minflt"
    first, *_, last = map_in_workers(eval, [deed] * 22)
    pages = 8 * (1 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert last - first < pages, "20 times as many if what an item frees goes back to the system"


def test_an_idle_worker_holds_no_file_of_its_last_item_open(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.new("RGB", (8, 8)).save(path)
    job = PixelsJob(str(path), 8, None)
    assert [pixels.shape for pixels in map_in_workers(run_pixels_job, [job, job])] == [(8, 8, 3)] * 2
    (worker,) = worker_starts._idle
    held = [str(link.readlink()) for link in Path(f"/proc/{worker._process.pid}/fd").iterdir()]
    assert held and not any(name.startswith(str(tmp_path)) for name in held)

"""A build that runs now is seen from its folder: the step, how far it is, its run in Prefect; after it, no more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flows.door import Door
from querytruth.backends.steps import BuildRun, active_run, current_run
from querytruth.review.folder_index import read_folder
from querytruth.sets import build_progress
from querytruth.sets.build_progress import PROGRESS_FILE, read_progress, write_progress


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_progress, "_EVERY", 0.0)


def caption(count: int, total: int) -> Iterator[None]:
    """A step of a build; it yields after each image."""
    with current_run().reporter.bar("caption images", total, "images") as advance:
        for _ in range(count):
            advance(1)
            yield


@pytest.mark.usefixtures("at_once")
def test_a_running_build_is_on_the_page_of_the_folder_and_gone_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "datasets" / "trips"
    with active_run(BuildRun(run_url="http://127.0.0.1:4200/runs/flow-run/1")), write_progress(folder):
        for _ in caption(3, 40):
            pass
        (one,) = read_folder(tmp_path).sets
        assert one.progress is not None and (one.progress.step, one.progress.done) == ("caption images", 3)
        page = Door(tmp_path, tmp_path / "datasets").render(None)
        assert "caption images: 3 / 40 images" in page and 'href="http://127.0.0.1:4200/runs/flow-run/1"' in page
    assert read_progress(folder) is None and read_folder(tmp_path).sets == []


@pytest.mark.usefixtures("at_once")
def test_a_build_that_was_killed_is_no_longer_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with active_run(BuildRun()), write_progress(tmp_path):
        list(caption(1, 2))
        left = (tmp_path / PROGRESS_FILE).read_bytes()
    stale = json.loads(left) | {"at": json.loads(left)["at"] - 301}
    (tmp_path / PROGRESS_FILE).write_text(json.dumps(stale))
    assert read_progress(tmp_path) is None
    (tmp_path / PROGRESS_FILE).write_bytes(left)
    assert read_progress(tmp_path) is not None
    (tmp_path / PROGRESS_FILE).write_text("[]")
    assert read_progress(tmp_path) is None


def test_steps_that_take_no_time_write_nothing_and_the_run_stays_as_it_was(tmp_path: Path) -> None:
    run = BuildRun(durations={"scan": 1.0})
    with active_run(run):
        with write_progress(tmp_path / "new"):
            list(caption(5, 5))
            assert current_run().durations is run.durations and not (tmp_path / "new").exists()
        assert current_run() == replace(run)

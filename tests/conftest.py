"""What several stories need: the real data's folder, and a small annotated world."""

import functools
import gc
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import vl_convert

from querytruth.backends.steps import BuildRun
from tests.azure_service import serve_azure
from tests.images import make_jpeg
from tests.object_service import ObjectService, object_environment, serve_objects

hypothesis.settings.register_profile("patient", deadline=None)  # how long an example takes is no test of ours
hypothesis.settings.load_profile("patient")

SHARED = Path(__file__).parents[2] / "shared" / "data"
MEMORY = Path("/dev/shm")  # where Linux has files in memory: thousands of fsyncs take no time there


class FailuresAtOnce:
    """Names each failure when it happens: a long run is not waited for to its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr)
            reporter.write_line(f"\nFAILED {report.nodeid}: {message[:300].splitlines()[0] if message else ''}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the line about each failure, but not in xdist's workers, which send theirs to the one process."""
    if "not thorough" in config.option.markexpr and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    gc.set_threshold(5_000, 10, 10)  # thousands of tests stay to the end: looking through them again took 5% of a run
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config))


def pytest_collection_finish() -> None:
    """What was collected stays to the end, and the garbage collector leaves it alone."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End the run with one line that says how many tests were skipped, and for the lack of what."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[re.sub(r"real data \S+ is", "the real test data are", reason.removeprefix("Skipped: "))] += 1
    if reasons:
        shown = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"{reasons.total()} tests skipped: {shown}")


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sets that tests publish are recorded in a folder of the tests, not in the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_worker_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Quick tests build of few images, so that a second worker process costs more than it saves; tests of several say
    how many."""
    with pytest.MonkeyPatch.context() as patch:
        if "not thorough" in request.config.option.markexpr:
            reporter, _, *others = BuildRun.__init__.__defaults__
            patch.setattr(BuildRun.__init__, "__defaults__", (reporter, 1, *others))
        yield


@pytest.fixture(scope="session", autouse=True)
def plots_drawn_once() -> Iterator[None]:
    """The SVG of a specification is always the same, and drawing it takes longer than most pages."""
    draw = vl_convert.vegalite_to_svg
    drawn = functools.cache(lambda spec: draw(json.loads(spec)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", lambda spec: drawn(json.dumps(spec)))
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny models are slower on several threads."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def object_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectService]:
    """An S3 service on loopback with an empty bucket; this process reaches it, and keeps its cache below tmp_path."""
    with serve_objects() as running:
        for name, value in object_environment(running, tmp_path).items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty container of Azure's storage on loopback; skips without the emulator."""
    with serve_azure(tmp_path.with_name(f"{tmp_path.name}-azurite"), monkeypatch) as url:
        yield url


@pytest.fixture(params=["file", "bucket", "azure"])
def reply_location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty reply store may be: a file, then folders of buckets, of Amazon's protocol and of Azure's."""
    if request.param == "file":
        return str(tmp_path / "replies.sqlite")
    if request.param == "azure":
        return f"{request.getfixturevalue('azure')}/replies"
    return f"{request.getfixturevalue('object_service').url}/replies"


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A folder or file of the real data: from the collection beside the checkout, else from what of it may be passed on
    and lies in tests/data. The test is skipped, saying so, where it is in neither."""

    def locate(name: str) -> Path:
        for root in (SHARED, Path(__file__).parent / "data"):
            if (root / name).exists():
                return root / name
        pytest.skip(f"real data {name} is not here: large, or not to be passed on (tests/data/README.md)")

    return locate


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has one: thousands of fsyncs take no time there."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def make_annotations(image_count: int = 60) -> dict[str, Any]:
    """Images 100 x 80: all hold a person, every second a dog (large on every fourth), every third a car;
    a bird is always small, a cat is on two images only."""
    image_records, annotations = [], []

    def box(image: int, category: int, width: int, height: int) -> None:
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": image,
                "category_id": category,
                "bbox": [5, 5, width, height],
                "iscrowd": 0,
            }
        )

    for n in range(image_count):
        image_records.append({"id": n, "file_name": f"holiday/{n:04}.jpg", "width": 100, "height": 80})
        box(n, 0, 50, 40)
        if n % 2 == 0:
            box(n, 1, 60 if n % 4 == 0 else 10, 40 if n % 4 == 0 else 10)
        if n % 3 == 0:
            box(n, 2, 40, 40)
        if n % 5 == 0:
            box(n, 3, 8, 8)
        if n < 2:
            box(n, 4, 50, 50)
    names = ["person", "dog", "car", "bird", "cat"]
    return {
        "images": image_records,
        "annotations": annotations,
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
    }


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., Path]:
    """Write the small world's annotation file (and images), and a definition for it; returns the definition."""

    def make(name: str = "pets", folder: Path = tmp_path, images: bool = False, **keys: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        data = make_annotations()
        (folder / "instances.json").write_text(json.dumps(data))
        if images:
            for n, image in enumerate(data["images"]):
                path = folder / "photos" / image["file_name"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(make_jpeg((4 * n, 255 - 4 * n, 90), (100, 80)))
            keys.setdefault("images", "photos")
        definition = {
            "name": name,
            "kind": "precision",
            "annotations": "instances.json",
            "out": str(folder / "sets"),
            "lose_at_most": None,
            **keys,
        }
        (folder / f"{name}.yaml").write_text(json.dumps(definition))
        return folder / f"{name}.yaml"

    return make

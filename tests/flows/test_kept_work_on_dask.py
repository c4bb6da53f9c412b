"""Builds on Dask workers that share nothing with the machine of the build but a bucket."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from tests.flows.isolated_workers import WorkerMachines, run_worker_machines
from tests.flows.prefect_test_server import ROOT
from tests.object_service import SECRET_KEY, ObjectService, find_asker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
WORKERS = ["worker-1", "worker-2"]
PHOTOS = 48


class Machine:
    """The machine of a build: its folder, and the definition in it."""

    def __init__(self, place: Path, service: ObjectService) -> None:
        self.place, self.service = place, service
        place.mkdir(exist_ok=True)
        keys = {"name": "album", "kind": "gallery", "images": f"s3://{service.bucket}/album", "out": "sets"}
        more = {"work": f"s3://{service.bucket}/work", "render": {"size": 64}, "lose_at_most": None}
        (place / "album.yaml").write_text(yaml.safe_dump({**keys, **more}))

    def start(self, address: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "querytruth", "build", "gallery", "album.yaml", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "AWS_ACCESS_KEY_ID": self.place.name}
        return subprocess.Popen(
            [*command, "--runner", f"dask:{address}"],
            cwd=self.place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What the command printed."""
    printed, log = process.communicate(timeout=280)
    assert process.returncode == 0 and "Traceback" not in log, log[-4000:]
    assert SECRET_KEY not in printed + log
    result: dict[str, Any] = json.loads(printed)
    return result


@pytest.fixture
def album(object_service: ObjectService) -> None:
    """Photos in the bucket, below album/, and a file that is none."""
    for number in range(PHOTOS):
        noise = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC)
        object_service.ask("PUT", f"album/{number:02}.jpg", encode(image))
    object_service.ask("PUT", "album/broken.jpg", b"no image")


def encode(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def calm(object_service: ObjectService, album: None, tmp_path: Path, digest_of: Callable[..., str]) -> str:
    """The digest of a build on this machine alone."""
    keys = {"name": "album", "images": f"s3://{object_service.bucket}/album", "out": str(tmp_path / "calm")}
    (tmp_path / "calm.yaml").write_text(yaml.safe_dump({**keys, "render": {"size": 64}}))
    return digest_of("gallery", tmp_path / "calm.yaml")


@pytest.fixture
def machines(tmp_path: Path, object_service: ObjectService) -> Iterator[WorkerMachines]:
    hidden = [tmp_path / "here", tmp_path / "there", tmp_path / "calm"]
    for folder in hidden:
        folder.mkdir(exist_ok=True)
    (tmp_path / "workers").mkdir()
    with run_worker_machines(tmp_path / "workers", object_service, hidden, WORKERS) as running:
        yield running


def forget_requests(service: ObjectService) -> None:
    with service.lock:
        service.asked.clear()
        service.askers.clear()


def requests_by(service: ObjectService, method: str, folder: str) -> dict[str, int]:
    """The number of requests of this method below a folder of the bucket, by who sent them."""
    found: dict[str, int] = {}
    for (verb, key), asker in zip(service.asked, service.askers, strict=True):
        if verb == method and key.startswith(f"{folder}/"):
            found[asker] = found.get(asker, 0) + 1
    return found


def test_workers_that_see_nothing_of_the_build_do_its_work(
    calm: str, machines: WorkerMachines, object_service: ObjectService, tmp_path: Path
) -> None:
    forget_requests(object_service)
    done = finish(Machine(tmp_path / "here", object_service).start(machines.address))
    assert done["content_digest"] == calm
    for folder in ("work/album/scan", "work/album/rendered"):
        assert requests_by(object_service, "PUT", folder).keys() == set(WORKERS)
    read = requests_by(object_service, "GET", "album")
    assert read.pop("here") == 1, "the page shows the broken one"
    assert read.keys() == set(WORKERS) and sum(read.values()) == 2 * PHOTOS + 1
    forget_requests(object_service)
    again = finish(Machine(tmp_path / "there", object_service).start(machines.address))
    assert again["content_digest"] == calm
    assert not requests_by(object_service, "PUT", "work")
    assert requests_by(object_service, "GET", "album") == {"there": 1}
    for name in WORKERS:
        assert not list((tmp_path / "workers" / name / "tmp").glob("querytruth-*/*"))
    logs = [machines.read_log(name) for name in machines.processes]
    assert not any(SECRET_KEY in log for log in logs)


@pytest.mark.parametrize(
    ("method", "folder", "at"),
    [
        ("GET", "album/", 5),  # in the middle of a part of the scan
        ("PUT", "work/album/scan/", 2),  # in the middle of an upload
        ("GET", "album/", PHOTOS + 12),  # while images are rendered
        ("PUT", "work/album/rendered/", 3),  # between a pack and its list
    ],
)
def test_a_worker_that_is_killed_costs_its_part_alone(
    calm: str, machines: WorkerMachines, object_service: ObjectService, tmp_path: Path,
    method: str, folder: str, at: int,
) -> None:  # fmt: skip
    victim, seen = machines.processes[WORKERS[0]], []

    def strike(service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if find_asker(environ) == WORKERS[0]:
            seen.append(environ["PATH_INFO"])
            if len(seen) == max(1, at // 2):
                victim.kill()
                victim.wait()
        return service.app(environ, start)

    object_service.fault_of = lambda verb, key, _number: (
        strike if verb == method and key.startswith(folder) and not key.endswith("/") else None
    )
    done = finish(Machine(tmp_path / "here", object_service).start(machines.address))
    assert victim.returncode == -signal.SIGKILL
    assert done["content_digest"] == calm


def test_a_build_that_is_killed_goes_on_in_another_folder(
    calm: str, machines: WorkerMachines, object_service: ObjectService, tmp_path: Path
) -> None:
    started = threading.Event()

    def note(service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        lists = [key for verb, key in service.asked if verb == "PUT" and key.endswith(".list")]
        if len(lists) >= 5:
            started.set()
        return service.app(environ, start)

    object_service.fault_of = lambda verb, key, _number: note if verb == "PUT" and key.endswith(".list") else None
    first = Machine(tmp_path / "here", object_service).start(machines.address)
    assert started.wait(200)
    first.kill()
    first.wait()
    assert not (tmp_path / "here" / "sets" / "album" / "v1").exists()
    object_service.fault_of = lambda _verb, _key, _number: None
    time.sleep(5)  # what the workers had begun ends
    forget_requests(object_service)
    done = finish(Machine(tmp_path / "there", object_service).start(machines.address))
    assert done["content_digest"] == calm
    assert not requests_by(object_service, "PUT", "work/album/scan")
    assert sum(requests_by(object_service, "GET", "album").values()) < PHOTOS - 5

"""What goes wrong between a machine and a bucket: busy services, cut connections, killed and racing publishers."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from querytruth.backends.files import bucket
from querytruth.backends.files.bucket_urls import BucketFolder, cache_folder
from querytruth.errors import UserError
from querytruth.sets.bucket_reading import fetch_version
from querytruth.sets.bucket_versions import StoredVersion, check_objects, publish_version
from querytruth.sets.set_files import StoredSet, verify_set
from tests.object_service import (
    Fault,
    ObjectService,
    busy,
    cut,
    cut_in_the_middle,
    forget_to_answer,
    ignore_condition,
    object_environment,
    pretend,
)
from tests.small_sets import files_of, publish_other_small_set, publish_small_set, small_tables

ROOT = Path(__file__).parents[2]
MANIFEST = "sets/small/v1/manifest.json"
FAULTS = {"busy": busy, "cut": cut, "cut in the middle": cut_in_the_middle}
PUBLISH = """
import sys
from pathlib import Path
from querytruth.sets.bucket_versions import publish_version
from querytruth.backends.files.bucket_urls import BucketFolder
publish_version(Path(sys.argv[1]), BucketFolder.parse(sys.argv[2]))
"""
FETCH = """
import sys
from querytruth.sets.bucket_reading import fetch_version
fetch_version(sys.argv[2] + "/small")
"""


def publish(stored: StoredSet, service: ObjectService) -> StoredVersion:
    return publish_version(stored.path, BucketFolder.parse(service.url))


def is_whole(service: ObjectService) -> bool:
    return check_objects(f"{service.url}/small/v1")[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_may_fail_once(fault: str, small: StoredSet, service: ObjectService) -> None:
    service.fault_of = lambda _method, _key, number: FAULTS[fault] if number == 1 else None
    assert publish(small, service).is_new
    service.asked.clear()
    assert files_of(fetch_version(f"{service.url}/small")) == files_of(small.path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_always_fails_is_an_error_within_a_limit(
    fault: str, small: StoredSet, service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(small, service)
    monkeypatch.setattr(bucket, "_ATTEMPTS", 2)
    service.asked.clear()
    service.fault_of = lambda _method, key, _number: FAULTS[fault] if "/objects/" in key else None
    start = time.monotonic()
    with pytest.raises(UserError, match="the service failed") as refused:
        fetch_version(f"{service.url}/small")
    assert "\n" not in str(refused.value) and time.monotonic() - start < 30
    assert max(service.asked.count(request) for request in service.asked) <= 4
    assert not list(cache_folder().rglob("manifest.json")) and not list(cache_folder().rglob("*.parquet"))
    service.fault_of = lambda _method, _key, _number: None
    assert files_of(fetch_version(f"{service.url}/small")) == files_of(small.path)


@pytest.mark.slow
def test_a_manifest_whose_answer_is_lost_is_ones_own(small: StoredSet, service: ObjectService) -> None:
    service.fault_of = lambda method, key, number: (
        forget_to_answer if (method, key, number) == ("PUT", MANIFEST, 1) else None
    )
    assert publish(small, service).is_new
    assert service.asked.count(("PUT", MANIFEST)) == 2
    assert is_whole(service)


@pytest.mark.slow
def test_a_service_that_ignores_conditions_is_refused(small: StoredSet, service: ObjectService) -> None:
    service.fault_of = lambda _method, _key, _number: ignore_condition
    with pytest.raises(UserError, match="ignores the condition If-None-Match"):
        publish(small, service)
    assert ("PUT", MANIFEST) not in service.asked


@pytest.mark.slow
def test_a_write_that_is_confirmed_and_lost_is_seen(small: StoredSet, service: ObjectService) -> None:
    service.fault_of = lambda method, key, _number: pretend if method == "PUT" and "/objects/9" in key else None
    with pytest.raises(UserError, match="was stored, but is missing; nothing was published"):
        publish(small, service)
    assert ("PUT", MANIFEST) not in service.asked


class MeetingPoint:
    """Lets the first requests for the manifest go on only when as many publishers have come to it."""

    def __init__(self, publishers: int) -> None:
        self.barrier = threading.Barrier(publishers)

    def __call__(self, method: str, key: str, number: int) -> Fault | None:
        return self.wait if (method, key) == ("PUT", MANIFEST) and number <= self.barrier.parties else None

    def wait(self, service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.barrier.wait(30)
        with service.lock:
            return service.app(environ, start)


@pytest.mark.slow
@pytest.mark.parametrize("is_same", [True, False])
def test_of_two_publishers_one_wins(is_same: bool, small: StoredSet, service: ObjectService, tmp_path: Path) -> None:
    twin = publish_small_set(tmp_path / "twin", small_tables(), render={"size": 9, "mode": "squash"})
    rival = twin if is_same else publish_other_small_set(tmp_path)
    service.fault_of = MeetingPoint(2)
    outcomes: dict[str, bool | str] = {}

    def run(stored: StoredSet) -> None:
        try:
            outcomes[str(stored.path)] = publish(stored, service).is_new
        except UserError as error:
            outcomes[str(stored.path)] = str(error)

    threads = [threading.Thread(target=run, args=[stored]) for stored in (small, rival)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 2 and list(outcomes.values()).count(True) == 1
    (loser,) = (outcome for outcome in outcomes.values() if outcome is not True)
    assert loser is False if is_same else "already exists with another content digest" in str(loser)
    winner = next(stored for stored in (small, rival) if outcomes[str(stored.path)] is True)
    assert is_whole(service)
    assert files_of(fetch_version(f"{service.url}/small/v1")) == files_of(winner.path)


def run_and_kill(program: str, stored: StoredSet, service: ObjectService, tmp_path: Path, at: int, verb: str) -> bool:
    """Run the program in a process of its own, killed when its request number `at` with this verb arrives; whether it
    was killed."""
    environment = {**os.environ, **object_environment(service, tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(stored.path), service.url]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path)
    seen = []

    def kill(method: str, _key: str, _number: int) -> None:
        if method == verb:
            seen.append(method)
            if len(seen) == at:
                process.send_signal(signal.SIGKILL)
                process.wait()

    service.fault_of = kill
    process.wait(120)
    service.fault_of = lambda _method, _key, _number: None
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 7, 13, 14])  # of 12 files the first and one among them, the condition, the manifest
def test_a_publish_may_be_killed_at_any_write(
    at: int, small: StoredSet, service: ObjectService, tmp_path: Path
) -> None:
    assert run_and_kill(PUBLISH, small, service, tmp_path, at, "PUT")
    time.sleep(0.5)  # the last request that it sent ends
    if MANIFEST in service.list_keys():  # it came through, though its sender was dead
        assert is_whole(service)
    else:
        with pytest.raises(UserError, match="has no published version"):
            fetch_version(f"{service.url}/small")
    publish(small, service)
    assert is_whole(service)
    assert files_of(fetch_version(f"{service.url}/small")) == files_of(small.path)


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, 6, 13])
def test_a_fetch_that_is_killed_is_repeated(at: int, small: StoredSet, service: ObjectService, tmp_path: Path) -> None:
    publish(small, service)
    assert run_and_kill(FETCH, small, service, tmp_path, at, "GET")
    path = fetch_version(f"{service.url}/small")
    assert files_of(path) == files_of(small.path)
    assert list(verify_set(path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["busy", "cut"])
def test_a_large_file_goes_in_parts_that_may_fail(fault: str, service: ObjectService, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(large := os.urandom(20 << 20))
    to = bucket.BucketObjects(BucketFolder.parse(service.url))
    service.fault_of = lambda method, _key, number: FAULTS[fault] if method == "PUT" and number == 2 else None
    to.put_file("large", tmp_path / "large")
    assert service.asked.count(("PUT", "sets/large")) == 4  # three parts, one of them twice
    service.fault_of = lambda _method, _key, number: cut_in_the_middle if number == 1 else None
    assert to.read(["large"], len(large))["large"].data == large
    with pytest.raises(UserError, match="is larger than the limit"):
        to.read(["large"], len(large) - 1)


@pytest.mark.thorough
def test_a_list_goes_over_pages_and_again_after_a_cut(service: ObjectService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    for name in ("a", "b 1", "ü", "deep/c", "d"):
        service.ask("PUT", f"sets/{quote(name)}", b"xyz")
    service.ask("PUT", "setsbeside", b"x")
    found = bucket.BucketObjects(BucketFolder.parse(service.url))
    service.fault_of = lambda _method, _key, number: cut_in_the_middle if number == 2 else None
    assert {name: size for name, (size, _) in found.list_objects().items()} == dict.fromkeys(
        ["a", "b 1", "ü", "deep/c", "d"], 3
    )
    service.asked.clear()
    assert found.list_below("none/") == [] and len(service.asked) == 1
    with pytest.raises(UserError, match="does not exist"):
        bucket.BucketObjects(BucketFolder.parse("s3://no-such-bucket")).list_below("x/")

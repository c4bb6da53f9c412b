"""Builds that keep their work in a bucket: a fresh machine goes on from it, and nothing that is damaged is believed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.definition_loader import load_definition
from flows.set_kinds import build_set, plan_set
from querytruth.backends.files import bucket
from querytruth.backends.files.durable_files import task_root
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import kept_work as kept_objects
from tests.flows.isolated_workers import WorkerMachines, run_worker_machines
from tests.flows.prefect_test_server import ROOT
from tests.images import draw_scene, encode_image, make_jpeg
from tests.object_service import SECRET_KEY, Fault, ObjectService, busy, pretend

PHOTOS = 12


class KeptWork:
    """An album here, a work folder in the bucket, and builds whose own folders lie apart."""

    def __init__(self, place: Path, service: ObjectService) -> None:
        self.place, self.service = place, service
        (place / "album").mkdir()
        for number in range(PHOTOS):
            draw_scene(number, (120, 90)).save(place / "album" / f"{number:02}.jpg")

    def keys(self, machine: str, work: bool = True) -> dict[str, Any]:
        keys = {"kind": "gallery", "name": "album", "images": str(self.place / "album"), "render": {"size": 48}}
        keys |= {"out": str(self.place / machine), "lose_at_most": None, "near_duplicates": {"distance": None}}
        return keys | ({"work": f"s3://{self.service.bucket}/work"} if work else {})

    def build(self, machine: str, work: bool = True) -> str:
        """The digest of a build on this machine."""
        with active_run(BuildRun()):
            built = build_set(load_definition(self.keys(machine, work), [], "gallery"))
        assert not list(task_root().iterdir())
        return str(built.manifest["content_digest"])

    def definition(self, machine: str) -> Path:
        path = self.place / f"{machine}.yaml"
        path.write_text(yaml.safe_dump(self.keys(machine)))
        return path

    def sent(self, folder: str) -> int:
        """The number of objects that were stored below a folder since the last call."""
        count = sum(verb == "PUT" and f"/{folder}/" in key for verb, key in self.service.asked)
        self.service.asked.clear()
        return count

    def objects(self, kind: str) -> list[str]:
        return [key for key in self.service.list_keys() if key.endswith(f".{kind}")]


@pytest.fixture
def kept(tmp_path: Path, object_service: ObjectService) -> KeptWork:
    return KeptWork(tmp_path, object_service)


def read_nothing(_work: Any, *arguments: Any, **_options: Any) -> list[Any]:
    """In place of map_in_workers(work, items) and of finish_in_workers(work, finish, items)."""
    assert [list(one) for one in arguments if isinstance(one, Iterable)] == [[]]
    return []


@pytest.mark.slow
def test_a_fresh_machine_scans_and_renders_nothing_anew(kept: KeptWork, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = kept.build("alone", work=False)
    assert kept.service.asked == []
    assert kept.build("here") == alone
    kept.sent("")
    monkeypatch.setattr("querytruth.backends.images.scan_parts.finish_in_workers", read_nothing)
    monkeypatch.setattr("builders.gallery.render_steps.worker_processes.map_in_workers", read_nothing)
    assert kept.build("there") == alone and kept.sent("album") == 0
    with active_run(BuildRun()):
        planned = plan_set(load_definition(kept.keys("plan"), [], "gallery"))
    assert planned["known_from_before"] == PHOTOS and not (kept.place / "plan").exists()
    manifest = (kept.place / "here" / "album" / "v1" / "manifest.json").read_text()
    assert "work" not in json.loads(manifest)["configuration"] and SECRET_KEY not in manifest
    assert not any(SECRET_KEY.encode() in kept.service.ask("GET", key) for key in kept.service.list_keys())


@pytest.mark.slow
def test_only_new_images_are_rendered(kept: KeptWork) -> None:
    kept.build("here")
    kept.sent("")
    (kept.place / "album" / "new.jpg").write_bytes(make_jpeg((9, 99, 9), (64, 64)))
    kept.build("there")
    assert kept.sent("rendered") == 2, "one pack, and its list"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "list"])
def test_a_write_that_is_confirmed_and_lost_is_seen(kind: str, kept: KeptWork) -> None:
    alone = kept.build("alone", work=False)
    kept.service.fault_of = lambda method, key, number: (
        pretend if method == "PUT" and key.endswith(f".{kind}") and number == 1 else None
    )
    assert kept.build("here") == alone
    kept.service.fault_of = lambda _method, _key, _number: None
    assert kept.build("there") == alone


@pytest.mark.slow
def test_a_service_that_keeps_nothing_is_an_error_of_one_line(kept: KeptWork) -> None:
    kept.service.fault_of = lambda method, _key, _number: pretend if method == "PUT" else None
    with pytest.raises(
        UserError, match=r"scan images.: returned different bytes than were stored for \d+ parts.*Next: "
    ):
        kept.build("here")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "harm"), [("parquet", "gone"), ("pack", "damaged"), ("pack", "cut"), ("list", "cut")])
def test_what_is_damaged_in_the_bucket_is_made_again(kind: str, harm: str, kept: KeptWork) -> None:
    alone = kept.build("here")
    for key in kept.objects(kind)[:3]:
        data = kept.service.ask("GET", key)
        if harm == "gone":
            kept.service.ask("DELETE", key)
        else:
            changed = data[:20] + bytes([data[20] ^ 1]) + data[21:] if harm == "damaged" else data[:-5]
            kept.service.ask("PUT", key, changed)
    kept.sent("")
    assert kept.build("there") == alone
    assert kept.sent("scan" if kind == "parquet" else "rendered") >= 1
    assert kept.build("elsewhere") == alone and kept.sent("album") == 0, "what was damaged is whole again"


def put_pack(kept: KeptWork, data: bytes, lines: str) -> None:
    """A pack, and a list that its name fits."""
    folder = kept.objects("pack")[0].rpartition("/")[0]
    pack, listed = hashlib.sha256(data).hexdigest(), hashlib.sha256(lines.encode()).hexdigest()
    kept.service.ask("PUT", f"{folder}/{pack}.pack", data)
    kept.service.ask("PUT", f"{folder}/{pack}/{listed}.list", lines.encode())


@pytest.mark.slow
def test_a_hostile_pack_writes_nothing_that_is_no_rendering(kept: KeptWork) -> None:
    alone = kept.build("here")
    path = kept.service.ask("GET", kept.objects("list")[0]).decode().split(" ")[0]
    honest = [key for key in kept.objects("list") if path in kept.service.ask("GET", key).decode()]
    for data in (b"no image", make_jpeg(size=(900, 900)), make_jpeg((1, 2, 3), (48, 48))[:50]):
        put_pack(kept, data, f"{path} {hashlib.sha256(data).hexdigest()} {len(data)}\n")
    put_pack(kept, b"x", f"images/../../../x.jpg {hashlib.sha256(b'x').hexdigest()} 1\n")
    put_pack(kept, b"y", f"/etc/y {hashlib.sha256(b'y').hexdigest()} 1\n")
    put_pack(kept, b"z", f"{path} {hashlib.sha256(b'z').hexdigest()} 999999999\n")
    put_pack(kept, b"w", "\x00" * 4000)
    for key in honest:
        kept.service.ask("DELETE", key)
    assert kept.build("there") == alone
    rendered = sorted((kept.place / "there" / "album" / ".rendered").rglob("*.jpg"))
    assert len(rendered) == PHOTOS
    assert not list(kept.place.rglob("x.jpg"))


@pytest.mark.slow
def test_what_is_superseded_is_removed_by_a_build_that_may(kept: KeptWork, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = kept.build("here")
    for path in (kept.place / "album").iterdir():
        path.touch()  # another row for each
    for key in kept.objects("list")[:1]:
        kept.service.ask("DELETE", key)
    before, packs = kept.objects("parquet"), kept.objects("pack")
    monkeypatch.setattr(bucket, "_ATTEMPTS", 1)
    monkeypatch.setattr(kept_objects, "_ABANDONED", -60)
    kept.service.fault_of = lambda method, _key, _number: busy if method == "POST" else None
    assert kept.build("there") == alone
    assert set(before) < set(kept.objects("parquet"))
    kept.service.fault_of = lambda _method, _key, _number: None
    for path in (kept.place / "album").iterdir():
        path.touch()
    assert kept.build("elsewhere") == alone
    assert len(kept.objects("parquet")) < 2 * len(before) and len(kept.objects("pack")) == len(packs)


@pytest.mark.slow
def test_two_builds_at_once_come_to_the_same_set(
    kept: KeptWork, start_build: Callable[..., subprocess.Popen[bytes]]
) -> None:
    alone = kept.build("alone", work=False)
    running = [start_build("gallery", kept.definition(machine)) for machine in ("here", "there")]
    assert [process.wait(120) for process in running] == [0, 0]
    for machine in ("here", "there"):
        manifest = json.loads((kept.place / machine / "album" / "v1" / "manifest.json").read_text())
        assert manifest["content_digest"] == alone


def kill_at(kept: KeptWork, process: "subprocess.Popen[bytes]", verb: str, kind: str, at: int) -> None:
    """Kill the process as soon as its request number `at` of this kind arrives."""
    seen = []

    def strike(service: ObjectService, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with service.lock:
            seen.append(environ["PATH_INFO"])
            is_due = len(seen) == at
        if is_due:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return service.app(environ, start)

    def fault_of(method: str, key: str, _number: int) -> Fault | None:
        return strike if method == verb and key.endswith(f".{kind}") else None

    kept.service.fault_of = fault_of
    process.wait(120)
    kept.service.fault_of = lambda _method, _key, _number: None


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "kind", "at"), [("PUT", "list", 2), ("GET", "parquet", 2)])
def test_a_build_that_is_killed_goes_on_on_another_machine(
    kept: KeptWork, start_build: Callable[..., subprocess.Popen[bytes]], verb: str, kind: str, at: int
) -> None:
    alone = kept.build("alone", work=False)
    process = start_build("gallery", kept.definition("here"))
    kill_at(kept, process, verb, kind, at)
    assert process.returncode == -signal.SIGKILL
    assert not (kept.place / "here" / "album" / "v1").exists()
    stored = kept.objects("parquet")
    assert kept.build("there") == alone
    assert set(stored) <= set(kept.objects("parquet"))


def test_work_is_a_folder_in_a_bucket() -> None:
    keys = ["name=a", "images=b"]
    assert load_definition(None, [*keys, "work=s3://benchmarks/work"], "gallery").work == "s3://benchmarks/work"
    assert load_definition(None, keys, "gallery").work is None
    for wrong in ("work=s3://me:secret@b/x", "work=/tmp/work", "work=https://b/x", "work=s3://b/../c"):
        with pytest.raises(UserError, match="key 'work'") as refused:
            load_definition(None, [*keys, wrong], "gallery")
        assert "secret" not in str(refused.value)
    with pytest.raises(UserError, match="a training does not use a bucket"):
        load_definition(None, ["name=a", "set=b", "work=s3://benchmarks/work"], "training")


def test_offline_a_build_does_not_reach_for_the_bucket(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(make_jpeg((9, 9, 9), (64, 64)))
    keys = {"kind": "gallery", "name": "a", "images": str(tmp_path), "out": str(tmp_path / "sets")}
    definition = load_definition({**keys, "work": "s3://benchmarks/work"}, [], "gallery")
    with active_run(BuildRun(offline=True)), pytest.raises(UserError, match="--offline forbids connections"):
        build_set(definition)


WORKERS = ["worker-1", "worker-2"]
BUCKET_PHOTOS = 48


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
    for number in range(BUCKET_PHOTOS):
        image = encode_image(draw_scene(number, (320, 240)), "JPEG")
        object_service.ask("PUT", f"album/{number:02}.jpg", image)
    object_service.ask("PUT", "album/broken.jpg", b"no image")


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


@pytest.mark.slow
@pytest.mark.timeout(600)
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
    assert read.keys() == set(WORKERS) and sum(read.values()) == 2 * BUCKET_PHOTOS + 1
    forget_requests(object_service)
    again = finish(Machine(tmp_path / "there", object_service).start(machines.address))
    assert again["content_digest"] == calm
    assert not requests_by(object_service, "PUT", "work")
    assert requests_by(object_service, "GET", "album") == {"there": 1}
    for name in WORKERS:
        assert not list((tmp_path / "workers" / name / "tmp").glob("querytruth-*/*"))
    logs = [machines.read_log(name) for name in machines.processes]
    assert not any(SECRET_KEY in log for log in logs)

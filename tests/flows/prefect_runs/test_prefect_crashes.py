"""Every way for a deployed build to die: the next run comes to the same set, asks nothing twice, publishes whole."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.records import stable_hash
from querytruth.sets import manifest as manifest_reading
from querytruth.sets import set_files
from tests.flows.prefect_test_server import POOL, PrefectTestServer, run_prefect_server
from tests.flows.stub_generator import make_word
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.postgres import postgres
from tests.worlds import caption_reply, draw_album

IMAGES = 12
SLOWLY = 0.5  # seconds that a caption takes


def answer(asked: ReceivedRequest) -> CannedResponse:
    time.sleep(SLOWLY)
    return caption_reply(f"街边有{make_word(stable_hash(asked.body.decode()))}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectTestServer]:
    with run_prefect_server(tmp_path_factory.mktemp("crashes")) as made:
        draw_album(made.place / "album", [f"{n:02}" for n in range(IMAGES)])
        made.start_server()
        made.prefect("work-pool", "create", POOL, "--type", "process")
        yield made
    assert not made.children(), "a process was left behind"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Loopback]:
    with loopback(answer) as server:
        yield server


def write_definition(place: Path, endpoint: Loopback, name: str, **more: str) -> None:
    """The file of a recall set whose captions the endpoint writes, one at a time."""
    options = {"base_url": f"{endpoint.url}/v1", "name": name, "concurrency": 1, "pause": 0.1}
    keys = {"name": name, "kind": "recall", "images": "album", "render": {"size": 64}} | more
    keys |= {"captions": {"model": "openai_compatible", "options": options}}
    keys |= {"ambiguity": {"text_embedder": "char_ngrams"}}
    (place / f"{name}.yaml").write_text(yaml.safe_dump(keys), "utf-8")


class Story:
    """One set of its own name, deployed; what the endpoint was asked for it, and what a calm build comes to."""

    def __init__(self, world: PrefectTestServer, endpoint: Loopback, name: str) -> None:
        self.world, self.endpoint, self.name = world, endpoint, name
        write_definition(world.place, endpoint, name)
        world.deploy("flows.recall_set.recall_set", "monthly", called=name, definition=f"{name}.yaml")

    def asked(self) -> list[bytes]:
        return [one.body for one in self.endpoint.asked if one.json["model"] == self.name]

    def start(self, calls: int) -> tuple[str, int]:
        """A run that has put so many questions more, and the process that it is in."""
        before = len(self.asked())
        run = self.world.start_run(f"recall-set/{self.name}")
        self.world.wait_for(lambda: len(self.asked()) >= before + calls, 120)
        return run, self.world.flow_processes()[-1]

    def finish(self) -> str:
        """The state of one more run."""
        run = self.world.start_run(f"recall-set/{self.name}")
        self.world.wait_until(run, "Published", "Unchanged", "Failed", "Crashed", seconds=300)
        return self.world.state(run)[0]

    def check(self, died: int) -> None:
        """One whole version, nothing asked again but what was in flight at a death, and the digest of a calm build."""
        versions = list((self.world.place / "datasets" / self.name).glob("v*"))
        assert [path.name for path in versions] == ["v1"] and not list(set_files.verify_set(versions[0]))
        assert len(set(self.asked())) == IMAGES and len(self.asked()) <= IMAGES + died
        calm = [f"out={self.world.place / 'calm'}", f"replies={versions[0].parent / 'replies.sqlite'}"]
        with active_run(BuildRun(offline=True)):
            built = build_set(load_definition(self.world.place / f"{self.name}.yaml", calm, "recall"))
        assert built.manifest["content_digest"] == manifest_reading.read_manifest(versions[0])["content_digest"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_flow_that_is_killed_goes_on_in_the_next_run(world: PrefectTestServer, endpoint: Loopback) -> None:
    story = Story(world, endpoint, "flow")
    worker = world.start_worker()
    for _ in range(2):
        run, process = story.start(calls=3)
        os.kill(process, signal.SIGKILL)
        world.wait_until(run, "Crashed", "Failed", seconds=120)
    assert story.finish() == "Published"
    assert story.finish() == "Unchanged"
    story.check(died=2)
    world.stop(worker)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_build_outlives_its_server_and_the_next_run_says_unchanged(
    world: PrefectTestServer, endpoint: Loopback
) -> None:
    story = Story(world, endpoint, "server")
    worker = world.start_worker()
    story.start(calls=3)
    world.kill_server()
    published = world.place / "datasets" / "server" / "v1" / "manifest.json"
    world.wait_for(lambda: published.exists() or not world.flow_processes(), 180)
    world.start_server()
    assert story.finish() in ("Published", "Unchanged")
    story.check(died=1)
    world.stop(worker)


@pytest.fixture
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture
def shared_database(tmp_path: Path, database: str) -> Iterator[PrefectTestServer]:
    with run_prefect_server(tmp_path) as made:
        of_prefect = database.replace("postgresql://", "postgresql+asyncpg://")
        made.environment["PGUSER"] = "tester"  # a definition names no user: it would stand in every manifest
        made.environment["PREFECT_API_DATABASE_CONNECTION_URL"] = of_prefect
        made.start_server()
        made.prefect("work-pool", "create", POOL, "--type", "process")
        yield made
    assert not made.children(), "a process was left behind"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_second_worker_goes_on_where_the_first_one_died(shared_database: PrefectTestServer, database: str) -> None:
    storage = shared_database.place / "storage"
    draw_album(shared_database.place / "album", [f"{n:02}" for n in range(IMAGES)])
    with loopback(answer) as endpoint:
        replies = database.replace("postgresql://tester@", "postgresql+psycopg://")
        write_definition(shared_database.place, endpoint, "shared", out=str(storage), replies=replies)
        for called in ("first", "second"):
            shared_database.deploy("flows.recall_set.recall_set", "monthly", called=called, definition="shared.yaml")
        first = shared_database.start_worker(shared_database.place / "home-1")
        shared_database.start_run("recall-set/first")
        shared_database.wait_for(lambda: len(endpoint.asked) >= 4, 120)
        first.kill()
        for process in shared_database.flow_processes():
            os.kill(process, signal.SIGKILL)
        known = len(endpoint.asked)
        shared_database.start_worker(shared_database.place / "home-2")
        run = shared_database.start_run("recall-set/second")
        told = shared_database.wait_until(run, "Published", "Failed", "Crashed", seconds=240)
        assert told.startswith(f"published shared/v1: {IMAGES} images")
        assert known >= 4 and len(endpoint.asked) <= IMAGES + 1, "only what was in flight is asked again"
    assert not list(set_files.verify_set(storage / "shared" / "v1"))
    assert not list(storage.rglob("replies.sqlite")), "replies lie in the database"

"""Two workers that share a folder and a database and nothing else: what one asked before it died, the other knows."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from querytruth.sets import set_files
from tests.flows.prefect_test_server import POOL, PrefectTestServer, run_prefect_server
from tests.flows.test_prefect_crashes import IMAGES, answer
from tests.loopback import loopback
from tests.postgres import postgres
from tests.worlds import draw_album

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture
def world(tmp_path: Path, database: str) -> Iterator[PrefectTestServer]:
    with run_prefect_server(tmp_path) as made:
        of_prefect = database.replace("postgresql://", "postgresql+asyncpg://")
        made.environment["PGUSER"] = "tester"  # a definition names no user: it would stand in every manifest
        made.environment["PREFECT_API_DATABASE_CONNECTION_URL"] = of_prefect
        made.start_server()
        made.prefect("work-pool", "create", POOL, "--type", "process")
        yield made
    assert not made.children(), "a process was left behind"


def test_the_second_worker_goes_on_where_the_first_one_died(world: PrefectTestServer, database: str) -> None:
    storage = world.place / "storage"
    draw_album(world.place / "album", [f"{n:02}" for n in range(IMAGES)])
    with loopback(answer) as endpoint:
        options = {"base_url": f"{endpoint.url}/v1", "name": "m", "concurrency": 1, "pause": 0.1}
        keys = {
            "name": "shared",
            "kind": "recall",
            "images": "album",
            "out": str(storage),
            "replies": database.replace("postgresql://tester@", "postgresql+psycopg://"),
            "render": {"size": 64},
            "captions": {"model": "openai_compatible", "options": options},
            "ambiguity": {"text_embedder": "char_ngrams"},
        }
        (world.place / "shared.yaml").write_text(yaml.safe_dump(keys), "utf-8")
        for called in ("first", "second"):
            world.deploy("flows.recall_set.recall_set", "monthly", called=called, definition="shared.yaml")
        first = world.start_worker(world.place / "home-1")
        world.start_run("recall-set/first")
        world.wait_for(lambda: len(endpoint.asked) >= 4, 120)
        first.kill()
        for process in world.flow_processes():
            os.kill(process, signal.SIGKILL)
        known = len(endpoint.asked)
        world.start_worker(world.place / "home-2")
        run = world.start_run("recall-set/second")
        told = world.wait_until(run, "Published", "Failed", "Crashed", seconds=240)
        assert told.startswith(f"published shared/v1: {IMAGES} images")
        assert known >= 4 and len(endpoint.asked) <= IMAGES + 1, "only what was in flight is asked again"
    assert not list(set_files.verify_set(storage / "shared" / "v1"))
    assert not list(storage.rglob("replies.sqlite")), "replies lie in the database"

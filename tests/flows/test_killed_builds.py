"""Ten kills of a build of every kind, and of the stages before one, spread over their whole course: each time
nothing is half published, and the next run comes to a calm one's digest and repeats but what was in flight."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.web.image_fetch_pool import DECODER_COUNT, FILES_PER_BATCH
from querytruth.records import stable_hash
from querytruth.sets import manifest as manifest_reading
from querytruth.sets import set_files
from tests.flows.image_web import FakeImageWeb, collect_with_decisions, make_definition
from tests.flows.killed_builds import kill_at_many_moments, open_build_processes
from tests.flows.stub_generator import (
    StubGenerator,
    define_stages,
    make_word,
    prompt_of,
    stage_files,
    stub_reply,
)
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.worlds import caption_reply, define_gallery, draw_album, save_photo

IMAGES, QUERIES = 24, 4
AT_ONCE = 2
UNDER_WAY = AT_ONCE + FILES_PER_BATCH * (1 + DECODER_COUNT)  # fetched now, waiting for a decoder, or with one
BUILD = """
import querytruth.backends.models.chat.openai_compatible, querytruth.backends.images.rendering
import querytruth.sets.set_publishing, sqlalchemy
from pathlib import Path
from flows import gallery_set, precision_set, recall_set
from flows.set_kinds import build_set
from flows.definition_loader import load_definition
from querytruth.backends.steps import BuildRun, active_run
def work(name):
    with active_run(BuildRun(workers=2)):
        build_set(load_definition(Path(name), []))
"""
COLLECTION = """
import querytruth.backends.models.embedders.char_ngrams, querytruth.backends.web.image_search.baidu
import querytruth.backends.images.rendering
import querytruth.sets.set_publishing
import pytest
from pathlib import Path
from flows import generated_set
from flows.set_kinds import build_set
from builders.generated.collect_stage import run_collect_stage
from flows.definition_loader import GeneratedDefinition
from querytruth.backends.steps import BuildRun, active_run
from tests.flows.image_web import allow_loopback
allow_loopback(pytest.MonkeyPatch())
def work(name):
    definition = GeneratedDefinition.model_validate_json(Path(name).read_text())
    with active_run(BuildRun()):
        run_collect_stage(definition, "web.yaml")
    with active_run(BuildRun()):
        build_set(definition)
"""
Make = Callable[..., Path]


def published(sets: Path) -> list[Path]:
    """The versions, each of them whole."""
    found = sorted(sets.glob("v*"))
    assert all(list(set_files.verify_set(version)) == [] for version in found)
    return found


def digest(sets: Path) -> str:
    """That of the one version."""
    (version,) = published(sets)
    return str(manifest_reading.read_manifest(version)["content_digest"])


@dataclass(frozen=True)
class KilledWorld:
    """`prepare` writes a definition by the name of a build, whose sets lie in the folder of that name; `expect_few`
    looks, after the build that went on, at what was asked twice."""

    prepare: Callable[[str], Path]
    sets: tuple[str, ...]
    expect_few: Callable[[], None] = lambda: None


@contextmanager
def make_gallery(place: Path, _make_world: Make) -> Iterator[KilledWorld]:
    for n in range(120):
        save_photo(place / "album" / f"{n:03}.jpg", n, day=n % 28 + 1, size=(640, 480))
    yield KilledWorld(lambda name: define_gallery(place / name, place / "album", out=str(place / name)), ("pile",))


@contextmanager
def make_precision(place: Path, make_world: Make) -> Iterator[KilledWorld]:
    options: dict[str, Any] = {"images": True, "render": {"size": 256, "mode": "squash"}}
    yield KilledWorld(lambda name: make_world(folder=place / name, out=str(place / name), **options), ("pets",))


@contextmanager
def make_recall(place: Path, _make_world: Make) -> Iterator[KilledWorld]:
    draw_album(place / "album", [f"{n:02}" for n in range(IMAGES)])

    def answer(asked: ReceivedRequest) -> CannedResponse:
        time.sleep(0.05)
        return caption_reply(f"街边有{make_word(stable_hash(asked.body.decode()))}。")  # else one may seem cut off

    def prepare(name: str) -> Path:
        server.asked.clear()
        options = {"base_url": f"{server.url}/v1", "name": "m", "concurrency": AT_ONCE, "pause": 0}
        keys = {"name": "album", "kind": "recall", "images": str(place / "album"), "render": {"size": 64}}
        keys |= {"sizes": [5], "captions": {"model": "openai_compatible", "options": options}}
        keys |= {"ambiguity": {"text_embedder": "char_ngrams"}, "out": str(place / name)}
        (place / f"{name}.yaml").write_text(json.dumps(keys), "utf-8")
        return place / f"{name}.yaml"

    def expect_few() -> None:
        bodies = [one.body for one in server.asked if one.body]  # a killed client may have sent none
        assert len(set(bodies)) == IMAGES and len(bodies) <= IMAGES + AT_ONCE

    with loopback(answer) as server:
        yield KilledWorld(prepare, ("album", "album-5"), expect_few)


@contextmanager
def make_generated(place: Path, _make_world: Make) -> Iterator[KilledWorld]:
    web = FakeImageWeb(["", "gone", "", "twin", "", "", "page", "", "told_long", ""])

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        time.sleep(0.02)
        return web(asked)

    def prepare(name: str) -> Path:
        server.asked.clear()
        collect_with_decisions(place / name, "web", QUERIES)
        wanted = make_definition(place / name, server.url, first=10, keep=5, limits={"concurrency": AT_ONCE})
        (place / f"{name}.json").write_text(wanted.model_dump_json())
        return place / f"{name}.json"

    def expect_few() -> None:
        asked = Counter(one.path for one in server.asked)
        again = [path for path, count in asked.items() if count > 1]
        assert max(asked.values()) <= 2 and len(again) <= UNDER_WAY
        assert sum(path.startswith("/acjson") for path in again) <= 1

    with loopback(answer) as server:
        yield KilledWorld(prepare, ("web",), expect_few)


WORLDS: dict[str, tuple[str, Callable[[Path, Make], AbstractContextManager[KilledWorld]]]] = {
    "gallery": (BUILD, make_gallery),
    "precision": (BUILD, make_precision),
    "recall": (BUILD, make_recall),
    "generated": (COLLECTION, make_generated),
}


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("kind", WORLDS)
def test_ten_kills_of_ten_lose_a_build_nothing(kind: str, make_world: Make, tmp_path: Path) -> None:
    work, make = WORLDS[kind]

    def check(kill: int, wanted: Path) -> None:
        place = tmp_path / names[wanted]
        moments[len(published(place / world.sets[0]))] += 1
        runs.time_whole_build(wanted)
        assert [digest(place / name) for name in world.sets] == calm, f"kill {kill}"
        world.expect_few()

    def prepare(name: str) -> Path:
        wanted = world.prepare(name)
        names[wanted] = name
        return wanted

    names: dict[Path, str] = {}
    moments: Counter[int] = Counter()  # versions published when the blow came
    with make(tmp_path, make_world) as world, open_build_processes(work) as runs:
        whole = min(runs.time_whole_build(prepare(name)) for name in ("calm", "timed"))
        calm = [digest(tmp_path / "calm" / name) for name in world.sets]
        kill_at_many_moments(runs, whole, prepare, check)
    print(dict(moments))


WORK = """
import json
from pathlib import Path
from builders.generated.definition import GeneratedDefinition
from builders.generated import object_rounds, topic_rounds
from builders.generated.stages import run_objects_stage, run_topics_stage
import querytruth.backends.models.chat.openai_compatible
def work(name):
    wanted = GeneratedDefinition.model_validate(json.loads(Path(name).read_text()))
    run_topics_stage(wanted, "tiny.yaml")
    run_objects_stage(wanted, "tiny.yaml")
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_kills_of_ten_are_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    stub, asked = StubGenerator(vocabulary=60, topics=6), []

    def answer(one: ReceivedRequest) -> CannedResponse:
        asked.append(prompt_of(one))
        return stub_reply(stub.reply(prompt_of(one)))

    def prepare(name: str) -> Path:
        asked.clear()
        path = tmp_path / f"{name}.json"
        path.write_text(define_stages(tmp_path / name, server.url).model_dump_json())
        return path

    def check(kill: int, wanted: Path) -> None:
        runs.time_whole_build(wanted)
        assert stage_files(wanted.with_suffix("")) == expected, f"kill {kill}"
        assert len(asked) - len(set(asked)) <= 8, "only what was under way is asked again"

    with loopback(answer) as server, open_build_processes(WORK) as runs:
        whole = min(runs.time_whole_build(prepare(name)) for name in ("calm", "timed"))
        expected = stage_files(tmp_path / "calm")
        kill_at_many_moments(runs, whole, prepare, check)

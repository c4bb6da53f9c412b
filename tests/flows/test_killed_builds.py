"""Fifty kills of a recall build and fifty of a generated one, collection and all, spread over their whole course: each
time nothing is half published, and the next run comes to a calm one's digest and repeats but what was in flight."""

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from querytruth.backends.web.image_fetch_pool import DECODER_COUNT, FILES_PER_BATCH
from querytruth.records import stable_hash
from querytruth.sets import manifest as manifest_reading
from querytruth.sets import set_files
from tests.flows.image_web import FakeImageWeb, collect_with_decisions, make_definition
from tests.flows.killed_builds import KILLS, kill_at_many_moments, open_build_processes
from tests.flows.stub_generator import (
    StubGenerator,
    define_stages,
    make_word,
    prompt_of,
    run_both_stages,
    stage_files,
    stub_reply,
)
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.worlds import caption_reply, draw_album

IMAGES, QUERIES = 24, 4
AT_ONCE = 2
UNDER_WAY = AT_ONCE + FILES_PER_BATCH * (1 + DECODER_COUNT)  # fetched now, waiting for a decoder, or with one
RECALL = """
import querytruth.backends.models.chat.openai_compatible, querytruth.backends.images.rendering
import querytruth.sets.set_publishing, sqlalchemy
from pathlib import Path
from flows import recall_set
from flows.set_kinds import build_set
from flows.definition_loader import load_definition
from querytruth.backends.steps import BuildRun, active_run
def work(name):
    with active_run(BuildRun()):
        build_set(load_definition(Path(name), [], "recall"))
"""
GENERATED = """
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


def published(sets: Path) -> list[Path]:
    """The versions, each of them whole."""
    found = sorted(sets.glob("v*"))
    assert all(list(set_files.verify_set(version)) == [] for version in found)
    return found


def digest(sets: Path) -> str:
    """That of the one version."""
    (version,) = published(sets)
    return str(manifest_reading.read_manifest(version)["content_digest"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_of_fifty_lose_a_recall_build_nothing(tmp_path: Path) -> None:
    draw_album(tmp_path / "album", [f"{n:02}" for n in range(IMAGES)])

    def answer(asked: ReceivedRequest) -> CannedResponse:
        time.sleep(0.05)
        return caption_reply(f"街边有{make_word(stable_hash(asked.body.decode()))}。")  # else one may seem cut off

    def prepared(name: str) -> Path:
        server.asked.clear()
        options = {"base_url": f"{server.url}/v1", "name": "m", "concurrency": AT_ONCE, "pause": 0}
        keys = {
            "name": "album",
            "kind": "recall",
            "images": str(tmp_path / "album"),
            "render": {"size": 64},
            "sizes": [5],
            "captions": {"model": "openai_compatible", "options": options},
            "ambiguity": {"text_embedder": "char_ngrams"},
            "out": str(tmp_path / name),
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(keys), "utf-8")
        return tmp_path / f"{name}.yaml"

    def check(kill: int, wanted: Path) -> None:
        sets = wanted.with_suffix("")
        moments[len(published(sets / "album")), len(server.asked) * 4 // IMAGES] += 1
        runs.time_whole_build(wanted)
        assert digest(sets / "album") == calm and digest(sets / "album-5") == smaller, f"kill {kill}"
        bodies = [one.body for one in server.asked if one.body]  # a killed client may have sent none
        assert len(set(bodies)) == IMAGES and len(bodies) <= IMAGES + AT_ONCE, f"kill {kill}"

    moments: Counter[tuple[int, int]] = Counter()  # versions published, quarters of the images asked about
    with loopback(answer) as server, open_build_processes(RECALL) as runs:
        whole = min(runs.time_whole_build(prepared(name)) for name in ("calm", "timed"))
        calm, smaller = digest(tmp_path / "calm" / "album"), digest(tmp_path / "calm" / "album-5")
        kill_at_many_moments(runs, whole, prepared, check)
    print(dict(moments))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_of_fifty_lose_a_generated_build_nothing(tmp_path: Path) -> None:
    web = FakeImageWeb(["", "gone", "", "twin", "", "", "page", "", "told_long", ""])

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        time.sleep(0.02)
        return web(asked)

    def prepared(name: str) -> Path:
        server.asked.clear()
        collect_with_decisions(tmp_path / name, "web", QUERIES)
        wanted = make_definition(tmp_path / name, server.url, first=10, keep=5, limits={"concurrency": AT_ONCE})
        (tmp_path / f"{name}.json").write_text(wanted.model_dump_json())
        return tmp_path / f"{name}.json"

    def check(kill: int, wanted: Path) -> None:
        sets = wanted.with_suffix("") / "web"
        moments[len(published(sets)), (sets / "generated" / "collect.json").exists(), len(server.asked) // 10] += 1
        runs.time_whole_build(wanted)
        assert digest(sets) == calm, f"kill {kill}"
        asked = Counter(one.path for one in server.asked)
        again = [path for path, count in asked.items() if count > 1]
        assert max(asked.values()) <= 2 and len(again) <= UNDER_WAY, f"kill {kill}"
        assert sum(path.startswith("/acjson") for path in again) <= 1, f"kill {kill}"
        twice.append(len(again))

    moments: Counter[tuple[int, bool, int]] = Counter()  # versions published, collected, tens of requests
    twice: list[int] = []
    with loopback(answer) as server, open_build_processes(GENERATED) as runs:
        whole = min(runs.time_whole_build(prepared(name)) for name in ("calm", "timed"))
        calm = digest(tmp_path / "calm" / "web")
        kill_at_many_moments(runs, whole, prepared, check)
    print(dict(moments), Counter(twice))


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
def test_fifty_kills_of_fifty_are_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    stub, asked, moment = StubGenerator(vocabulary=60, topics=6), [], threading.Event()
    wanted_calls = [0]

    def answer(one: ReceivedRequest) -> CannedResponse:
        asked.append(prompt_of(one))
        if len(asked) >= wanted_calls[0]:
            moment.set()
        return stub_reply(stub.reply(prompt_of(one)))

    with loopback(answer) as server, open_build_processes(WORK) as runs:

        def prepared(name: str) -> Path:
            path = tmp_path / f"{name}.json"
            path.write_text(define_stages(tmp_path / name, server.url).model_dump_json())
            return path

        run_both_stages(define_stages(tmp_path / "calm", server.url))
        expected, calls = stage_files(tmp_path / "calm"), len(asked)
        killed = late = 0
        while killed < KILLS:
            name = f"kill{killed}-{late}"
            rng, path = random.Random(killed + 1000 * late), prepared(name)
            asked.clear()
            moment.clear()
            wanted_calls[0] = min(1 + killed * calls // (KILLS - 5), calls)
            child = runs.start(path)
            assert moment.wait(60)
            time.sleep(rng.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            if runs.wait_for_exit() != signal.SIGKILL:
                late += 1  # it was done already
                assert late < 20
                continue
            runs.start(path)
            assert runs.wait_for_exit() == 0
            assert stage_files(tmp_path / name) == expected, f"kill {killed} at call {wanted_calls[0]}"
            assert len(asked) - len(set(asked)) <= 8, "only what was under way is asked again"
            killed += 1
    print(f"{killed} kills over {calls} calls, {late} runs ended before theirs")

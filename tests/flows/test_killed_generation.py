"""Fifty kills of the first two stages, at moments from the first question to the last file: each time the next run
comes to the same journals, pools and tables as one that nobody disturbed, and repeats no call whose reply was kept."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.flows.killed_builds import KILLS, open_build_processes
from tests.flows.stub_generator import StubGenerator
from tests.flows.test_topics_and_objects import both, definition, files, prompt_of, said
from tests.loopback import CannedResponse, ReceivedRequest, loopback

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
        return said(stub.reply(prompt_of(one)))

    with loopback(answer) as server, open_build_processes(WORK) as runs:

        def prepared(name: str) -> Path:
            path = tmp_path / f"{name}.json"
            path.write_text(definition(tmp_path / name, server.url).model_dump_json())
            return path

        both(definition(tmp_path / "calm", server.url))
        expected, calls = files(tmp_path / "calm"), len(asked)
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
            assert files(tmp_path / name) == expected, f"kill {killed} at call {wanted_calls[0]}"
            assert len(asked) - len(set(asked)) <= 8, "only what was under way is asked again"
            killed += 1
    print(f"{killed} kills over {calls} calls, {late} runs ended before theirs")

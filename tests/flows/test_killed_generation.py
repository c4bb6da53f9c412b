"""Fifty kills of the first two stages, at moments from the first question to the last file: each time the next run
comes to the same journals, pools and tables as one that nobody disturbed, and repeats no call whose reply was kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.stub_generator import Stub
from tests.flows.test_topics_and_objects import both, definition, files, prompt_of, said
from tests.loopback import Asked, Sent, loopback

KILLS = 50
# Forks a run for every definition that it is told of, so that fifty runs import their modules once.
NURSERY = """
import json, os, sys
from pathlib import Path
from flows.generation import object_rounds, topic_rounds
from flows.definitions.generated import GeneratedDefinition
from flows.topics_and_objects import objects_stage, topics_stage
import backends.chat.openai_compatible
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        wanted = GeneratedDefinition.model_validate(json.loads(Path(line.strip()).read_text()))
        topics_stage(wanted, "tiny.yaml")
        objects_stage(wanted, "tiny.yaml")
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Nursery:
    """Runs in processes of their own, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._line() == "ready"

    def start(self, wanted: Path) -> int:
        assert self._process.stdin is not None
        print(wanted, file=self._process.stdin, flush=True)
        return int(self._line())

    def ended(self) -> int:
        """How the run that was started ended: 0, or the signal."""
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def nursery() -> Iterator[Nursery]:
    words = [sys.executable, "-c", NURSERY]
    pipe = subprocess.PIPE
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=root, env=environment) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()


@pytest.mark.slow
def test_fifty_kills_of_fifty_are_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    stub, asked, moment = Stub(vocabulary=60, topics=6), [], threading.Event()
    wanted_calls = [0]

    def answer(one: Asked) -> Sent:
        asked.append(prompt_of(one))
        if len(asked) >= wanted_calls[0]:
            moment.set()
        return said(stub.reply(prompt_of(one)))

    with loopback(answer) as server, nursery() as runs:

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
            if runs.ended() != signal.SIGKILL:
                late += 1  # it was done already
                assert late < 20
                continue
            runs.start(path)
            assert runs.ended() == 0
            assert files(tmp_path / name) == expected, f"kill {killed} at call {wanted_calls[0]}"
            assert len(asked) - len(set(asked)) <= 8, "only what was under way is asked again"
            killed += 1
    print(f"{killed} kills over {calls} calls, {late} runs ended before theirs")

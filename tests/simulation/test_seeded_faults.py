"""Recall sets, and topics of generated sets, under seeded faults: built in the end as if nothing had happened.

A failure names its seed: `SEED=1234 pytest tests/simulation` tries that one alone.
"""

import hashlib
import json
import os
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import run_topics_stage
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.models import chat
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.images import draw_scene
from tests.simulation.faults import Faults, Killed, injected
from tests.simulation.faulty_model import FaultyModel

MOST_RUNS = 5  # the last one is calm
FAULTS_PER_BUILD = [(1, 0), (3, 0), (0, 3), (1, 1)]  # kills and others, if a build went on to its end
Build = Callable[[Path], str]  # into a folder; the digest of what was built


def build_recall_set(album: Path, out: Path) -> str:
    keys = [f"images={album}", "name=album", f"out={out}", "render.size=16", "ambiguity.text_embedder=char_ngrams"]
    definition = load_definition(
        None, [*keys, "captions.model=openai_compatible", "captions.prompt=[zh/caption]"], "recall"
    )
    with active_run(BuildRun(workers=1)):
        return str(build_set(definition).manifest["content_digest"])


def build_topics(out: Path) -> str:
    topics = {"model": "openai_compatible", "rounds": 2, "parallel_questions": 2}
    keys = {"kind": "generated", "name": "web", "out": out, "topics": topics, "objects": {"embedder": "char_ngrams"}}
    with active_run(BuildRun(workers=1)):
        run_topics_stage(GeneratedDefinition.model_validate(keys), "g.yaml")
    built = [out / "web" / "review" / "topics.csv", *sorted((out / "web" / "generated").glob("topics*.json*"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in built)).hexdigest()


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("album")
    for number in range(3):
        draw_scene(number, (64, 48)).save(folder / f"{number}.png")
    return folder


def check_versions(out: Path, known: dict[Path, bytes]) -> None:
    """Every version is whole, its counts add up, and no earlier one changed."""
    for manifest, data in known.items():
        assert manifest.read_bytes() == data, f"{manifest} changed"
    for path in sorted(out.glob("*/v*")):
        assert list(set_files.verify_set(path)) == []
        for stage in set_files.read_manifest(path)["funnel"]:
            left_out = sum(sum(stage[bucket].values()) for bucket in ("rejected", "quarantined", "pending"))
            assert stage["entered"] == stage["accepted"] + left_out
        known[path / "manifest.json"] = (path / "manifest.json").read_bytes()


def is_complete(manifest: bytes) -> bool:
    """Whether nothing is pending; what is, the next build asks for again."""
    return not any(stage["pending"] for stage in json.loads(manifest)["funnel"])


def live_through(seed: int, build: Build, out: Path, calm_digest: str, operation_count: int) -> Counter[str]:
    """Build under faults until one is complete, each in a process of its own; how they ended."""
    rng, model, ends = random.Random(seed), FaultyModel(), Counter[str]()
    known: dict[Path, bytes] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "load_chat_model", lambda *_name, **_options: model)
        for run in range(MOST_RUNS):
            kills, others = rng.choice(FAULTS_PER_BUILD) if run < MOST_RUNS - 1 else (0, 0)
            digest = ""
            model.faults = Faults(f"{seed} {run}", kills / operation_count, others / operation_count)
            try:
                with injected(model.faults):
                    digest = build(out)
            except Killed:
                ends["killed"] += 1
            except UserError as error:
                assert "\n" not in str(error) and "Next: " in str(error)
                ends["stopped"] += 1
            check_versions(out, known)
            assert model.asked_again == [], "a stored reply was asked for again"
            if digest == calm_digest:
                break
            if digest:
                assert not all(map(is_complete, known.values())), "another result, and nothing is pending"
                ends["incomplete"] += 1
    assert digest == calm_digest and sum(map(is_complete, known.values())) <= 1
    return ends + Counter(built=1)


def live_through_all(seeds: Iterable[int], build: Build, folder: Path) -> Counter[str]:
    calm = Faults("", 0, 0)
    with pytest.MonkeyPatch.context() as patch, injected(calm):
        patch.setattr(chat, "load_chat_model", lambda *_name, **_options: FaultyModel())
        calm_digest = build(folder / "calm")
    ends, failures = Counter[str](), []
    for seed in [int(os.environ["SEED"])] if "SEED" in os.environ else seeds:
        try:
            ends += live_through(seed, build, folder / str(seed), calm_digest, calm.operation_count)
        except Exception:
            failures.append(f"SEED={seed}\n{traceback.format_exc()}")
        shutil.rmtree(folder / str(seed), ignore_errors=True)
    assert not failures, f"{len(failures)} seeds failed:\n" + "\n".join(failures[:5])
    return ends


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_topics_under_faults_end_as_calm_ones(memory_folder: Path) -> None:
    ends = live_through_all(range(200), build_topics, memory_folder)
    assert "SEED" in os.environ or min(ends[end] for end in ("killed", "stopped", "built")) > 20


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_recall_sets_under_faults_end_as_calm_ones(album: Path, memory_folder: Path) -> None:
    ends = live_through_all(range(10), partial(build_recall_set, album), memory_folder)
    assert "SEED" in os.environ or min(ends[end] for end in ("killed", "stopped", "built")) > 1


@pytest.mark.slow
def test_a_version_with_a_pending_caption_is_followed_by_a_complete_one(album: Path, memory_folder: Path) -> None:
    ends = live_through_all([30078], partial(build_recall_set, album), memory_folder)
    assert "SEED" in os.environ or ends["incomplete"] == 1


def test_a_store_that_forgets_is_noticed(memory_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyStore, "save", lambda _store, _model, given: {key: answer for key, _, answer in given})
    with pytest.raises(AssertionError, match="a stored reply was asked for again"):
        live_through_all(range(5), build_topics, memory_folder)

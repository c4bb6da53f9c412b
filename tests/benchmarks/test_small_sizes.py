"""Every benchmark runs whole at a small size: figures are of no use there, but a script that crashes is found here.

Peers that the environment lacks are left out. Not here: `overlap.py`, which needs photos, `web_fetch.py`, which needs
peers, and `promises.py`, whose promises hold with many draws alone (`tests/evaluation/test_promises.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = {  # the arguments of a small run, by benchmark
    "album_facts": "--images 500",
    "ambiguity": "",
    "ambiguity_size": "--captions 2000",
    "annotations": "--images 300 --boxes 3000",
    "captioning": "--runs 1 --sizes small",
    "collecting": "--topics 2 --queries 4 --keep 2",
    "evaluation": "--gallery 500 --queries 50 --dimensions 16 --runs 1",
    "gallery": "--images 8 --runs 1",
    "gallery_at_scale": "--count 40",
    "kept_work": "--images 20 --runs 1",
    "metrics": "--queries 200 --results 20 --runs 1",
    "near_duplicates": "--count 3000 --distances 4 8",
    "near_duplicates images": "--images 500",
    "novelty": "--pools 500 --runs 1",
    "object_storage": "--images 20 --runs 1",
    "review_at_scale": "--queries 400 --images 20000 --judgments 20000 --seconds 1",
    "review_page": "--queries 300 --rejects 20000 --runs 1",
    "runners": "--images 8 --width 320 --side 160",
    "scan_records": "--count 2000 --keep 100",
    "screens": "",
    "search": "--gallery 500 --queries 50 --dimensions 16 --runs 1",
    "shared_replies": "--answers 20 --known 200 --runs 1",
    "training": "--steps 2",
}


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_runs_whole(name: str) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name.split()[0]}.py"), *SCRIPTS[name].split()]
    with tempfile.TemporaryDirectory(prefix="q") as folder:  # short: Chromium's socket has a path of 107 bytes
        here = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": folder}
        ran = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, timeout=1500)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-2000:]
    assert ran.stdout.strip()

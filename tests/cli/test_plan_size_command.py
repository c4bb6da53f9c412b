"""`querytruth plan-size` as a user types it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

Run = Callable[..., tuple[str, str]]


def test_the_size_from_a_discordance_and_from_a_pilot(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    (tmp_path / "truth.qrels").write_text("".join(f"q{n} 0 right{n} 1\n" for n in range(300)))
    for name in ("old", "new"):
        hits = rng.random(300) >= 0.1
        rows = [f"q{n} Q0 {'right' if hits[n] else name}{n} 1 1.0 x\n" for n in range(300)]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    planned = ["plan-size", "--qrels", "truth.qrels", "--difference", 0.02]
    out, _ = run(*planned, "--discordance", 0.2)
    assert "3,189 queries would let a gate with a margin of 0.02 pass an equal system with the same power" in out
    assert (
        "needs 3,924 queries (300 available)" in out and "3,924 judgments, about 6.5 hours (6.0 s each, assumed)" in out
    )
    plan = json.loads(run(*planned, "--pilot", "old.trec", "new.trec", "--json")[0])
    assert 2500 < plan["queries"] < 5000 and 1 < plan["judgments_per_query"] < 1.3
    assert "needs exactly one source" in run(*planned, code=1)[1]
    assert "is less than the difference" in run(*planned, "--discordance", 0.01, code=1)[1]
    assert "plan for hit@K" in run(*planned, "--discordance", 0.2, "--metric", "ndcg@10", code=1)[1]

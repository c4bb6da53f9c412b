"""A small set with a system's run, and a person who answers the sample of its audit by the set's own truth."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit.answers import load_audit, take_answers
from querytruth.audit.audit_files import audit_folder
from querytruth.audit.judge import build_judge_requests
from querytruth.audit.pool import pool_set
from querytruth.sets.decision_records import QueryDecision
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables

RELEVANT = {"dog": {"dog", "beach"}, "狗": {"beach", "dog"}, "cat": {"cat"}, "none": set[str]()}
TRUTH = {query_id_of(query): {image_id_of(name) for name in names} for query, names in RELEVANT.items()}
# All 16 pairs are judged: the set lacks one of the five relevant pairs, and none of its four is wrong.
ALL_ANSWERED = "small/v1: missing 20.0% (20.0% to 20.0%), wrong 0.0% (0.0% to 0.0%); 16 of 16 pairs answered"


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """The version, the run of a system that returns every image, and the folder of the audit."""

    path: Path
    run: Path

    @property
    def folder(self) -> Path:
        """Where the audit lies."""
        return audit_folder(self.path.parent, "audit")

    def answer(self, number: int, reviewer: str = "lin", *, wrong: int = 0) -> None:
        """Answer the first pairs of the sample, the first `wrong` of them falsely; answers that are there are kept."""
        audit, stored = load_audit(self.path, "audit")
        texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
        answers = []
        for place, row in enumerate(audit.sample.head(number).itertuples()):
            fits = (row.image_id in TRUTH[row.query_id]) != (place < wrong)
            about = {"reviewer": reviewer, "view": "audit", "source": audit.manifest["audit_id"]}
            at = f"2026-01-01T00:00:{place:02}+00:00"
            pair = (row.query_id, texts[row.query_id], "grade", row.image_id)
            answers.append(QueryDecision(*pair, relevance=int(fits), at=at, **about))
        take_answers(self.path, answers, [])


def make_audited_set(folder: Path) -> AuditedSet:
    """Publish the set below `folder`/sets; no audit is drawn yet."""
    render = {"size": 32, "mode": "longer_side"}
    stored = publish_small_set(folder, small_tables(), render=render, size=(32, 30))  # models take 28 and more
    run = folder / "tiny.trec"
    rows = [f"{query} Q0 {image_id_of(name)} 0 {-rank} x" for query in TRUTH for rank, name in enumerate(COLOURS)]
    run.write_text("\n".join(rows) + "\n")
    return AuditedSet(stored.path, run)


def fill(file: Path, truth: dict[str, set[str]], unsure: int = 0) -> None:
    """Answer every row as ECCV does, but the first `unsure` ones with a question mark."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        names, *rows = csv.reader(opened)
    for number, row in enumerate(rows):
        pair = dict(zip(names, row, strict=True))
        answer = str(int(pair["image_id"] in truth[pair["query_id"]]))
        row[names.index("decision")] = "？" if number < unsure else answer
    text = io.StringIO(newline="")
    csv.writer(text).writerows([names, *rows])
    file.write_bytes(text.getvalue().encode("utf-8-sig"))


def record(run: Path, *, wrong: int, name: str = "seer") -> Path:
    """The transcript of a judge that errs on the first pairs, and talks around its JSON."""
    pooled = pool_set(run.parent / "sets" / "small" / "v1", [run], 4)
    requests = build_judge_requests(pooled)
    assert len(requests) == 16
    lines: list[dict[str, Any]] = [{"model": {"name": name, "revision": "r1", "parameters": {}}}]
    pairs: pd.DataFrame = pooled.pool.pairs
    for number, (request, pair) in enumerate(zip(requests, pairs.itertuples(), strict=True)):
        fits = (pair.image_id in TRUTH[pair.query_id]) != (number < wrong)
        reply = f'Sure! {{"grade": {2 * fits}, "reason": "what it shows"}}'
        lines.append({"request": request.cache_key_fields(), "reply": reply, "finish_reason": "stop"})
    transcript = run.parent / f"{name}.jsonl"
    transcript.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return transcript

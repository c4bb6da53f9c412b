"""What an image search returned, decided by a judge that people's answers calibrate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.generated.definition import GeneratedDefinition
from builders.lint import lint_tables
from builders.publication import BuildResult
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.records import stable_hash
from querytruth.sets.set_files import StoredSet, read_set, verify_set
from tests.flows.image_web import FakeImageWeb, allow_loopback, collect_with_decisions, make_definition
from tests.flows.scripted_judge import ScriptedJudge, answer_pairs, digests_of, list_judged
from tests.loopback import loopback

QUERIES, KEEP = 20, 6


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GeneratedDefinition:
    """Twenty queries with six images each, of which the search is about three times in four right; all is fetched."""
    allow_loopback(monkeypatch)
    collect_with_decisions(tmp_path / "sets", "web", QUERIES)
    with loopback(FakeImageWeb([""] * KEEP)) as server:
        plain = make_definition(tmp_path / "sets", server.url, first=KEEP, keep=KEEP)
        with active_run(BuildRun()):
            build_set(plain)
    return plain


def fits(text: str, digest: str) -> bool:
    return stable_hash("truth", text, digest) % 4 > 0


def build(definition: GeneratedDefinition) -> tuple[BuildResult, StoredSet]:
    """A build that could not ask the web."""
    with active_run(BuildRun()):
        result = build_set(definition)
    return result, read_set(result.path)


def judge_with(definition: GeneratedDefinition, url: str) -> GeneratedDefinition:
    keys: dict[str, Any] = definition.model_dump() | {"judge": ScriptedJudge.keys(url)}
    return GeneratedDefinition.model_validate(keys)


def test_a_judge_takes_out_what_the_search_got_wrong_once_people_calibrate_it(found: GeneratedDefinition) -> None:
    with loopback(ScriptedJudge(fits)) as server:
        judged = judge_with(found, server.url)
        assert plan_set(judged)["judge_calls_at_most"] == QUERIES * KEEP
        first, unknown = build(judged)
        assert len(server.asked) == QUERIES * KEEP and not first.is_new, "a judge that nobody checked changes nothing"

        pairs = list_judged(unknown.tables, "web")
        texts, digests = texts_of(unknown), digests_of(unknown)
        answered = sorted(pairs, key=lambda pair: stable_hash("person", *pair))[:60]
        answer_pairs(unknown, answered, fits)
        done, sure = build(judged)
        assert len(server.asked) == QUERIES * KEEP, "no question is asked twice"
        assert not build(judged)[0].is_new
    notes, tables = done.manifest["notes"]["judge"], sure.tables
    assert notes["answers"] == 60 and notes["asked"] == QUERIES * KEEP == notes["merged"] + notes["waiting"]
    assert set(tables.qrels["judged_by"]) == {"human", "judge"}
    by_judge = list_judged(tables, "judge")
    before = np.mean([fits(texts[query], digests[image]) for query, image in pairs])
    after = np.mean([fits(texts[query], digests[image]) for query, image in by_judge])
    assert before < 0.85 < 0.95 < after, "the truth is what is right, no longer what was found"
    right = {pair for pair in pairs if fits(texts[pair[0]], digests[pair[1]])}
    kept = {*by_judge, *list_judged(tables, "human")}
    assert len(right & kept) > 0.85 * len(right)
    waiting = zip(tables.candidate_judgments["query_id"], tables.candidate_judgments["image_id"], strict=True)
    assert not kept & set(waiting) and (tables.candidate_judgments["score"] < 0.8).all()
    assert tables.candidate_judgments["evidence"].str.contains("result [1-6] of baidu", regex=True).all()
    assert not list(verify_set(done.path)) and not [one for one in lint_tables(tables) if one.severity == "error"]
    assert rebuild_tables(done.path).digest == done.manifest["content_digest"]
    assert "a judge or a person confirmed that it fits" in done.manifest["grades"]["1"]
    assert not any("nobody checked them" in one for one in done.manifest["known_limitations"])


def test_a_query_without_a_sure_image_is_quarantined_with_its_reason(found: GeneratedDefinition) -> None:
    plain = read_set(found.out / "web" / "v1")
    texts = texts_of(plain)
    unlucky = min(texts.values())

    def never(text: str, digest: str) -> bool:
        return fits(text, digest) and text != unlucky

    others = [pair for pair in list_judged(plain.tables, "web") if texts[pair[0]] != unlucky]
    answer_pairs(plain, others[:60], fits)
    with loopback(ScriptedJudge(never, hits=1.0, misses=0.0)) as server:
        done, sure = build(judge_with(found, server.url))
    (stage,) = [one for one in done.manifest["funnel"] if one["stage"] == "sure"]
    assert stage["quarantined"] == {"no_sure_image": 1} and unlucky not in set(sure.tables.queries["text"])
    assert unlucky not in set(sure.tables.candidate_judgments["query_id"].map(texts))


def texts_of(stored: StoredSet) -> dict[str, str]:
    return dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))

"""Search services as evaluated systems: asked once by texts or images, recorded, and mapped to what the set has."""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.id_patterns import find_pattern
from querytruth.backends.search_systems import ImageSearchSystem, SearchHit, SystemFile
from querytruth.backends.steps import step
from querytruth.errors import UserError, translate_read_errors
from querytruth.evaluation import system_answers
from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.file_checksums import map_system_ids
from querytruth.evaluation.ground_truth import find_representatives
from querytruth.evaluation.judged_sets import EvaluationView, JudgedSet, read_named_images
from querytruth.evaluation.open_set import find_reversed_scores
from querytruth.evaluation.published_names import NameMatch, match_names, state_matches
from querytruth.evaluation.result_types import SystemDescription
from querytruth.evaluation.system_answers import AskOptions, IndexCheck, QuerySearch, SystemAnswer, describe_failures
from querytruth.evaluation.systems import UNMAPPED, EvaluatedSystem, SystemRun
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.set_files import ImageLocation, StoredSet, locate_images

_STAGE = system_answers.ASK_STAGE
MAX_IMAGE_BYTES = 200 << 20  # of an image, as everywhere
_COUNTED = (
    "answers_out_of_order",
    "answers_with_fewer_results",
    "duplicate_results",
    "results_without_id",
    "results_without_score",
    "unmapped_results",
)
_ORDERED = {
    "answers_out_of_order": "answers are not sorted by score: the order of all answers is used as the ranking",
    "results_without_score": "results have no score: the order of all answers is used as the ranking",
}


def list_image_searches(
    system: ImageSearchSystem, stored: StoredSet, image_ids: Sequence[str], k: int
) -> list[QuerySearch]:
    """Return a search per image; its file is read when it is asked. Raises UserError for an image that is not at
    hand."""
    places = {place.image_id: place for place in locate_images(stored)}
    return [
        QuerySearch(image_id, f"image {place.sha256}", partial(_search, system, place, k))
        for image_id in image_ids
        for place in [_require_file(places.get(image_id), image_id)]
    ]


def map_text_ids(queries: pd.DataFrame) -> dict[str, str]:
    """Return the query id by the answer of a system: the query id, or a text that belongs to one query only."""
    ids, texts = queries["query_id"].astype(str).tolist(), queries["text"].tolist()
    shared = Counter(texts)
    return {text: name for name, text in zip(ids, texts, strict=True) if shared[text] == 1} | dict(
        zip(ids, ids, strict=True)
    )


def _require_file(place: ImageLocation | None, image_id: str) -> ImageLocation:
    if place is None or place.location is None or "://" in place.location or place.sha256 is None:
        raise UserError(_STAGE, image_id, "is not available as a file", "build the set with `render`, or give --images")
    return place


def _search(system: ImageSearchSystem, place: ImageLocation, k: int) -> list[SearchHit]:
    with translate_read_errors(_STAGE, place.image_id, "restore the file, and run querytruth verify on the set"):
        data = read_regular(Path(str(place.location)), MAX_IMAGE_BYTES)
    if hashlib.sha256(data).hexdigest() != place.sha256:
        raise UserError(_STAGE, place.image_id, "differs from the file of the set", "run querytruth verify on the set")
    return system.search_image(data, k)


def make_live_system(described: SystemFile, judged: JudgedSet, options: AskOptions) -> EvaluatedSystem:
    """Return the system of a file; it finds images by texts, or texts by images. Raises UserError for bare
    judgments."""
    if judged.stored is None:
        raise UserError("evaluate", described.name, "needs a set: a file of judgments has only ids", "give the set")
    if options.is_offline and options.is_refreshed:
        raise UserError("evaluate", described.name, "cannot be asked again offline", "choose --offline or --refresh")
    digest = hashlib.sha256(canonical_json(described.system.identity.as_record())).hexdigest()
    description: SystemDescription = {
        "kind": "system",
        "name": described.name,
        "type": described.type,
        "sha256": digest,
    }
    description["ids"] = described.system.options.ids
    return EvaluatedSystem(
        description, lambda view, k: _produce_run(described, view, k, options), is_of_this_version=True
    )


@step("ask search system")
def _produce_run(described: SystemFile, view: EvaluationView, k: int, options: AskOptions) -> SystemRun:
    stored, queries = view.judged_set.stored, view.judged_set.queries
    assert stored is not None and queries is not None
    system = described.system
    takes_images = isinstance(system, ImageSearchSystem) and system.takes_images
    if view.is_image_to_text != takes_images:
        what, direction = ("images", "image_to_text") if takes_images else ("texts", "text_to_image")
        raise UserError("evaluate", described.name, f"searches by {what}", f"choose the direction {direction}")
    if isinstance(system, ImageSearchSystem) and takes_images:
        asked = list_image_searches(system, stored, view.all_query_ids.to_pylist(), k)
        answers, check = _ask(described, stored, asked, k, options)
        return build_system_run([one.query_id for one in asked], answers, map_text_ids(queries), k, check)
    texts = queries[queries["query_id"].isin(view.all_query_ids.to_pylist())]
    return ask_texts(described, replace(stored, tables=replace(stored.tables, queries=texts)), k, options)


def ask_texts(described: SystemFile, stored: StoredSet, k: int, options: AskOptions) -> SystemRun:
    """Return the run of a service that is asked for the texts of all queries of the set, judged or not; its answers
    are recorded. Raises UserError where it answers none."""
    system, queries = described.system, stored.tables.queries
    asked = [
        QuerySearch(query, text, partial(system.search, text, k))
        for query, text in zip(queries["query_id"].tolist(), queries["text"].tolist(), strict=True)
    ]
    images = read_named_images(stored.path)
    ids = map_system_ids(images, system.options.ids, stored)
    answers, check = _ask(described, stored, asked, k, options)
    names = {hit.id for answer in answers for hit in answer.hits if hit.id}
    matched = match_other_ids(described, stored, images, ids, names)
    if names and not names & (ids.keys() | matched.ids.keys()):
        raise UserError(_STAGE, described.name, *_explain_ids(described, images, names))
    run = build_system_run([one.query_id for one in asked], answers, ids | matched.ids, k, check)
    stated, warnings = state_matches({"images": matched.by_column} if matched.by_column else {})
    return replace(run, counts=run.counts | stated, warnings=[*run.warnings, *warnings])


def match_other_ids(
    described: SystemFile, stored: StoredSet, images: pd.DataFrame, ids: Collection[str], names: Collection[str]
) -> NameMatch:
    """Return those of the answered `names` outside the `ids` that name images nevertheless: names of a file that states
    `image_id` are matched like those of a run. Raises UserError for a name of several images."""
    if described.system.options.ids != "image_id":
        return NameMatch()
    same = find_representatives(stored.tables.duplicates, images["image_id"]).to_dict()
    return match_names(sorted(names), ids, images, "image_id", same)


def _explain_ids(described: SystemFile, images: pd.DataFrame, names: Collection[str]) -> tuple[str, str]:
    """Return the reason and the next step where no answer maps to an image."""
    reason = f"returned no {described.system.options.ids} (such as {min(names)[:80]!r})"
    found = find_pattern(names, images)
    return reason, f'write ids: "{found[0]}"' if found else system_answers.TRY_ONE


def _ask(
    described: SystemFile, stored: StoredSet, asked: Sequence[QuerySearch], k: int, options: AskOptions
) -> tuple[list[SystemAnswer], IndexCheck]:
    with closing(system_answers.open_answer_store(stored.path.parent.parent)) as store:

        def read(keys: Sequence[str]) -> dict[str, bytes]:
            return {key: one.data for key, one in store.read(keys, system_answers.MAX_ANSWER_BYTES).items()}

        return system_answers.ask_and_record(described, asked, k, options, read, store.put)


def build_system_run(
    query_ids: Sequence[str], answers: Sequence[SystemAnswer], ids: dict[str, str], k: int, check: IndexCheck
) -> SystemRun:
    """Return the run of answers, its warnings and counts. The answers' order is the ranking: scores are only used
    where all of them are finite and never rise. Raises UserError where no query was answered."""
    failures = Counter(answer.failure for answer in answers if answer.failure)
    if failures and failures.total() == len(answers):
        reason = f"answered none of the {len(answers):,} queries ({describe_failures(answers)})"
        raise UserError(_STAGE, "search system", reason, system_answers.TRY_ONE)
    rows: list[tuple[str, str, float, float]] = []
    counts = Counter(dict.fromkeys(_COUNTED, 0))
    for query_id, answer in zip(query_ids, answers, strict=True):
        if not answer.failure:
            rows += _read_rows(query_id, answer, ids, counts)
            counts["answers_with_fewer_results"] += len(answer.hits) < min(k, len({*ids.values()}))
    is_scored = bool(rows) and not counts["results_without_score"] and not counts["answers_out_of_order"]
    table = pd.DataFrame(
        {
            "query_id": pd.Series([row[0] for row in rows], dtype="str"),
            "image_id": pd.Series([row[1] for row in rows], dtype="str"),
            "score": np.array([row[2 if is_scored else 3] for row in rows], dtype=np.float64),
        }
    )
    stated: dict[str, Any] = {"answers": len(answers) - failures.total(), "failures": dict(sorted(failures.items()))}
    stated |= {**{name: counts[name] for name in _COUNTED}, "order": "score" if is_scored else "rank"}
    stated["index_items"] = check.items
    latency = _measure_latency([answer.milliseconds for answer in answers if not answer.failure])
    measured = {"search_system": stated, "latency_ms": latency}
    return SystemRun(table, _warn(stated, check), measured, find_reversed_scores)


def _read_rows(
    query_id: str, answer: SystemAnswer, ids: dict[str, str], counts: Counter[str]
) -> list[tuple[str, str, float, float]]:
    """Return query, image, score, and the negative rank of each result. Of equal scores the later is a hair lower, so
    that the service's order counts. An id that maps to no image keeps its place under a name that no image has."""
    rows, seen, lowest = [], set[str](), math.inf
    scores = [hit.score for hit in answer.hits if hit.score is not None and math.isfinite(hit.score)]
    counts["answers_out_of_order"] += any(after > before for before, after in pairwise(scores))
    for rank, hit in enumerate(answer.hits, start=1):
        if not hit.id:
            counts["results_without_id"] += 1
            continue
        image_id = ids.get(hit.id, f"{UNMAPPED}{hit.id}")
        if image_id in seen:  # the same image, or a copy of it
            counts["duplicate_results"] += 1
            continue
        seen.add(image_id)
        is_finite = hit.score is not None and math.isfinite(hit.score)
        counts["results_without_score"] += not is_finite
        counts["unmapped_results"] += hit.id not in ids
        lowest = min(hit.score or 0.0, math.nextafter(lowest, -math.inf)) if is_finite else lowest
        rows.append((query_id, image_id, lowest, -float(rank)))
    return rows


def _measure_latency(milliseconds: list[float]) -> dict[str, float]:
    found = np.percentile(milliseconds, [50, 95, 99]) if milliseconds else [math.nan] * 3
    return {name: round(float(value), 3) for name, value in zip(("p50", "p95", "p99"), found, strict=True)}


def _warn(stated: dict[str, Any], check: IndexCheck) -> list[EvaluationWarning]:
    warnings = []
    if failures := stated["failures"]:
        total = sum(failures.values())
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in failures.items())
        detail = f"{total:,} of {total + stated['answers']:,} queries got no answer and count as 0: {reasons}"
        warnings.append(EvaluationWarning("failed_queries", "", detail))
    for name, consequence in _ORDERED.items():
        if stated[name]:
            warnings.append(EvaluationWarning(name, "", f"{stated[name]:,} {consequence}"))
    if check.before != check.after:
        detail = "the index, or its answers to the same query, changed during the evaluation"
        warnings.append(EvaluationWarning("index_changed", "", detail))
    return warnings

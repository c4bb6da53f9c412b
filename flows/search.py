"""One query by any system: its first results as the set judges them, or what a service's answers map to."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.backends import search_systems
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.id_patterns import ID_COLUMNS, find_pattern
from querytruth.backends.images.rendering import make_thumbnails
from querytruth.backends.search_systems.http import HttpSearch
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, suggest_choice, translate_read_errors
from querytruth.evaluation import encoded_sets, evaluation_result, live_systems, systems, vector_search
from querytruth.evaluation.file_checksums import map_system_ids
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, read_named_images
from querytruth.evaluation.published_names import translate_run
from querytruth.review.search_views import render_search
from querytruth.sets import set_files
from querytruth.sets.set_files import locate_set_images, read_set

_STAGE = "search"


def ask_once(described: search_systems.SystemFile, query: str, k: int) -> Sequence[search_systems.SearchHit]:
    """Return a service's answers to one query, a text or, for a search by images, the path of one; records nothing.
    Raises UserError where it gives none."""
    system = described.system
    try:
        if isinstance(system, search_systems.ImageSearchSystem) and system.takes_images:
            with translate_read_errors("try system", query, "give the file of an image"):
                image = read_regular(Path(query), live_systems.MAX_IMAGE_BYTES)
            return system.search_image(image, k)
        return system.search(query, k)
    except search_systems.SearchFailure as failed:
        reason = f"did not answer ({failed.reason}{': ' if failed.detail else ''}{failed.detail})"
        raise UserError("try system", described.name, reason, "compare the file with docs/systems.md") from None


def map_hits(
    hits: Sequence[search_systems.SearchHit], described: search_systems.SystemFile, set_name: str | None, out: Path
) -> list[dict[str, Any]]:
    """Return a row per hit: rank, id, score, image_id ("" where it maps to none) and a text about it. Of a search by
    images the hits map to queries, and image_id is empty."""
    rows: list[dict[str, Any]] = [
        {"rank": rank, "id": hit.id, "score": hit.score if _has_score(hit) else None, "image_id": ""}
        for rank, hit in enumerate(hits, start=1)
    ]
    if set_name is None:
        return [{**row, "maps_to": ""} for row in rows]
    path = set_files.find_set(set_name, out)
    if isinstance(described.system, search_systems.ImageSearchSystem) and described.system.takes_images:
        queries = set_files.read_set(path, ("queries",)).tables.queries
        texts = dict(zip(queries["query_id"].astype(str), queries["text"], strict=True))
        ids, column, unmapped = live_systems.map_text_ids(queries), "query_id", "no text of the set"
    else:
        images, stored = read_named_images(path), set_files.read_set(path, ("duplicates",))
        ids, texts = map_system_ids(images, described.system.options.ids, stored), _name_images(images)
        ids |= live_systems.match_other_ids(described, stored, images, ids, {hit.id for hit in hits if hit.id}).ids
        column, unmapped = "image_id", "no image of the set"
    mapped = [ids.get(hit.id, "") for hit in hits]
    return [
        {**row, column: one, "maps_to": texts[one] if one else unmapped} for row, one in zip(rows, mapped, strict=True)
    ]


def explain_hits(
    hits: Sequence[search_systems.SearchHit],
    described: search_systems.SystemFile,
    text: str,
    set_name: str | None,
    out: Path,
) -> list[str]:
    """Return the lines to write into the file, one for each field that the hits lack: an id or a score that the answer
    has elsewhere, and the form of ids that no image of the set has."""
    lines, system = list[str](), described.system
    if hits and isinstance(system, HttpSearch):
        with suppress(search_systems.SearchFailure):
            lines = system.explain_paths(
                text,
                has_id=any(hit.id for hit in hits),
                has_score=any(hit.score is None or _has_score(hit) for hit in hits),
            )
    if set_name is None or (isinstance(system, search_systems.ImageSearchSystem) and system.takes_images):
        return lines
    images, column = read_named_images(set_files.find_set(set_name, out)), system.options.ids
    names = {hit.id for hit in hits if hit.id}
    image_ids = map_system_ids(images, column, set_files.read_set(set_files.find_set(set_name, out), ()))
    if not (unmatched := names - image_ids.keys()):
        return lines
    pattern = find_pattern(unmatched, images)
    if pattern is not None:
        line = f'ids: "{pattern[0]}"' if "{" in pattern[0] else f"ids: {pattern[0]}"
        return [
            *lines,
            f"{pattern[1]:,} of the {len(unmatched):,} ids that do not match {column} have one form: write {line}",
        ]
    if len(unmatched) < len(names):
        return lines
    examples = ", ".join(
        f"{name} like {str(value)[:60]!r}"
        for name in ID_COLUMNS
        if name in images
        for value in images[name].dropna().head(1)
    )
    return [*lines, f"no id matches ids: {column}; the set has {examples}"]


def _has_score(hit: search_systems.SearchHit) -> bool:
    return hit.score is not None and math.isfinite(hit.score)


@dataclass(frozen=True, slots=True)
class QueryResults:
    """`hits`: a row per result with rank, id, image_id ("" where the set has none), score, and grade (None: not
    judged); `is_query`: whether the set has the query; `relevant_count`: how many relevant images it has of it;
    `missed`: the relevant images that are not among the results, with their grades."""

    text: str
    system: str
    hits: list[dict[str, Any]]
    is_query: bool
    relevant_count: int
    missed: list[dict[str, Any]]


def search_by_model(judged: JudgedSet, model: str, text: str, k: int) -> QueryResults:
    """Search the set's images with an embedder. Raises UserError where it is not there."""
    assert judged.stored is not None
    query = judged.stored.tables.queries.head(1).assign(query_id="typed", text=text)
    tables = replace(judged.stored.tables, queries=query)
    encoded = encoded_sets.encode_set(model, replace(judged, stored=replace(judged.stored, tables=tables)))
    is_encoded = encoded.images.is_known
    ids = [name for name, is_there in zip(encoded.images.ids.to_pylist(), is_encoded.tolist(), strict=True) if is_there]
    gallery = vector_search.build_vector_gallery(encoded.images.vectors[is_encoded], ids)
    nearest = vector_search.search_exact(encoded.texts.vectors, gallery, k, threads=current_run().workers)
    names = _name_images(judged.images)
    ranked = zip(nearest.places[0].tolist(), nearest.scores[0].tolist(), strict=True)
    hits = [(names[ids[place]], ids[place], float(score)) for place, score in ranked]
    return _judge(judged, text, model, hits)


def search_in_run(judged: JudgedSet, run: Path, text: str, k: int, ids: str) -> QueryResults:
    """Look the query up in a run. Raises UserError where the set or the run does not have it."""
    queries = _find_queries(judged, text)
    if not queries:
        assert judged.queries is not None
        next_step = f"{suggest_choice(text, judged.queries['text'].tolist())}; a new query needs --model or --system"
        raise UserError(_STAGE, text, "is not a query of the set, so a run cannot answer it", next_step)
    system = systems.load_run_system(run, judged)
    system = system if ids == "image_id" else systems.name_images(system, judged, ids)
    view = build_evaluation_view(judged, evaluation_result.TEXT_TO_IMAGE, [], [])
    table, _, _ = translate_run(system.produce_run(view, k).run, view)
    mine = table[table["query_id"].astype("str").isin(queries)]
    if mine.empty:
        raise UserError(_STAGE, run, f"has no results for {text!r}", "try a query that it answers")
    mine = mine[mine["query_id"] == mine["query_id"].iloc[0]]
    first = mine.sort_values(["score", "image_id"], ascending=[False, True]).head(k)
    images = set(judged.images["image_id"]) | set(judged.representatives.index) if judged.images is not None else set()
    names = _name_images(judged.images)
    hits = [
        (names.get(name, name), name if name in images else "", float(score))
        for name, score in zip(first["image_id"].astype("str"), first["score"], strict=True)
    ]
    return _judge(judged, text, str(system.description["name"]), hits)


def search_by_system(judged: JudgedSet, file: Path, text: str, k: int, images: pd.DataFrame) -> QueryResults:
    """Ask a search service; records nothing. `images`: all images of the set. Raises UserError where it gives no
    answer."""
    described = search_systems.load_system_file(file)
    assert judged.stored is not None
    image_ids = map_system_ids(images, described.system.options.ids, judged.stored)
    answers = ask_once(described, text, k)
    names = {hit.id for hit in answers if hit.id}
    image_ids |= live_systems.match_other_ids(described, judged.stored, images, image_ids, names).ids
    hits = [(hit.id, image_ids.get(hit.id, ""), hit.score) for hit in answers]
    return _judge(judged, text, described.name, hits)


def _find_queries(judged: JudgedSet, text: str) -> list[str]:
    """Return the ids of the set's queries of this text, whatever its capitals."""
    assert judged.queries is not None
    texts = judged.queries["text"].astype("str").str.strip().str.casefold()
    return [str(name) for name in judged.queries.loc[texts == text.strip().casefold(), "query_id"]]


def _name_images(images: pd.DataFrame | None) -> dict[str, str]:
    """Return file names by image id, the id itself where an image has none; rows of copies come after those of the
    images."""
    assert images is not None
    own = images.drop_duplicates("image_id")
    return {str(one): name or str(one) for one, name in zip(own["image_id"], own["file_name"].fillna(""), strict=True)}


def _judge(judged: JudgedSet, text: str, system: str, answers: Sequence[tuple[str, str, float | None]]) -> QueryResults:
    queries = _find_queries(judged, text)
    qrels = judged.qrels[judged.qrels["query_id"].astype("str").isin(queries)]
    best = qrels.groupby("image_id", observed=True)["relevance"].max()
    grades = {str(name): int(grade) for name, grade in best.items()}
    represented, names = judged.representatives.to_dict(), _name_images(judged.images)
    hits = []
    for rank, (name, image_id, score) in enumerate(answers, start=1):
        grade = grades.get(represented.get(image_id, image_id))
        hits.append({"rank": rank, "id": name, "image_id": image_id, "score": score, "grade": grade})
    shown_ids = {represented.get(hit["image_id"], hit["image_id"]) for hit in hits}
    relevant = {name: grade for name, grade in grades.items() if grade > 0}
    missed = [
        {"id": names.get(name, name), "image_id": name, "rank": None, "score": None, "grade": relevant[name]}
        for name in sorted(relevant, key=lambda name: (-relevant[name], name))
        if name not in shown_ids
    ]
    return QueryResults(text, system, hits, bool(queries), len(relevant), missed)


def write_search_page(results: QueryResults, judged: JudgedSet, page: Path, language: str) -> None:
    """Write the results with thumbnails, each marked as relevant, not relevant or not judged, and what is missed.
    Raises UserError where the page cannot be written."""
    assert judged.stored is not None
    missed = results.missed[: len(results.hits)]
    image_ids = sorted({str(row["image_id"]) for row in [*results.hits, *missed] if row["image_id"]})
    stored = read_set(judged.stored.path, ("images",))  # also the copies, which `judged` lacks
    thumbnails = make_thumbnails(locate_set_images(stored, image_ids)) if image_ids else {}
    html = render_search(
        results.text, results.system, results.hits, missed, thumbnails, language,
        relevant_count=results.relevant_count, is_query=results.is_query,
    )  # fmt: skip
    write_page(page, html, "or give another --page")

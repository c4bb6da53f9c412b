"""One query on a set by any system: its first results, judged by the set where that has the query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.images.thumbnails import make_thumbnails
from backends.search_systems import load_system_file
from backends.sets.image_locations import locate_set_images
from backends.sets.set_files import read_set
from builders.errors import UserError, suggest_choice
from evaluation.evaluation_result import TEXT_TO_IMAGE
from evaluation.exact_search import build_vector_gallery, search_exact
from flows.scoring.encoded_sets import encode_set
from flows.scoring.image_names import map_ids
from flows.scoring.judged_sets import JudgedSet, build_evaluation_view
from flows.scoring.system_trial import ask_once
from flows.scoring.systems import load_run_system, name_images
from flows.steps import current_run
from review.system_trial_page import SEARCH_TEXTS, render_search

_STAGE = "search"


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


def check_page_language(language: str) -> None:
    """Raises UserError for a language that the page has no texts in."""
    if language not in SEARCH_TEXTS:
        raise UserError(_STAGE, language, "is no language of the page", suggest_choice(language, list(SEARCH_TEXTS)))


def search_by_model(judged: JudgedSet, model: str, text: str, k: int) -> QueryResults:
    """Searches the set's images with an embedder. Raises UserError where it is not there."""
    assert judged.stored is not None
    query = judged.stored.tables.queries.head(1).assign(query_id="typed", text=text)
    tables = replace(judged.stored.tables, queries=query)
    encoded = encode_set(model, replace(judged, stored=replace(judged.stored, tables=tables)))
    known = encoded.images.is_known
    ids = [name for name, is_there in zip(encoded.images.ids.to_pylist(), known.tolist(), strict=True) if is_there]
    gallery = build_vector_gallery(encoded.images.vectors[known], ids)
    found = search_exact(encoded.texts.vectors, gallery, k, threads=current_run().workers)
    names = _name_images(judged)
    nearest = zip(found.places[0].tolist(), found.scores[0].tolist(), strict=True)
    hits = [(names[ids[place]], ids[place], float(score)) for place, score in nearest]
    return _judge(judged, text, model, hits)


def search_in_run(judged: JudgedSet, run: Path, text: str, k: int, ids: str) -> QueryResults:
    """Looks the query up in a run. Raises UserError where the set or the run does not have it."""
    queries = _find_queries(judged, text)
    if not queries:
        assert judged.queries is not None
        next_step = f"{suggest_choice(text, judged.queries['text'].tolist())}; a new one needs --model or --system"
        raise UserError(_STAGE, text, "is no query of the set, so that a run cannot answer it", next_step)
    system = load_run_system(run, judged)
    system = system if ids == "image_id" else name_images(system, judged, ids)
    table = system.produce_run(build_evaluation_view(judged, TEXT_TO_IMAGE, [], []), k).run
    mine = table[table["query_id"].astype("str").isin(queries)]
    if mine.empty:
        raise UserError(_STAGE, run, f"has no results of {text!r}", "try a query that it answers")
    mine = mine[mine["query_id"] == mine["query_id"].iloc[0]]
    first = mine.sort_values(["score", "image_id"], ascending=[False, True]).head(k)
    images = set(judged.images["image_id"]) | set(judged.representatives.index) if judged.images is not None else set()
    hits = [
        (name, name if name in images else "", float(score))
        for name, score in zip(first["image_id"].astype("str"), first["score"], strict=True)
    ]
    return _judge(judged, text, str(system.description["name"]), hits)


def search_by_system(judged: JudgedSet, file: Path, text: str, k: int, images: pd.DataFrame) -> QueryResults:
    """Asks a search service; records nothing. `images`: all images of the set. Raises UserError where it gives no
    answer."""
    described = load_system_file(file)
    known = map_ids(images, described.system.options.ids)
    hits = [(hit.id, known.get(hit.id, ""), hit.score) for hit in ask_once(described, text, k)]
    return _judge(judged, text, described.name, hits)


def _find_queries(judged: JudgedSet, text: str) -> list[str]:
    """The ids of the set's queries of this text, whatever its capitals."""
    assert judged.queries is not None
    texts = judged.queries["text"].astype("str").str.strip().str.casefold()
    return [str(name) for name in judged.queries.loc[texts == text.strip().casefold(), "query_id"]]


def _name_images(judged: JudgedSet) -> dict[str, str]:
    """File names by image id, the id itself where an image has none."""
    assert judged.images is not None
    names = judged.images["file_name"].astype("object").where(judged.images["file_name"].notna(), None)
    return {str(one): str(name or one) for one, name in zip(judged.images["image_id"], names, strict=True)}


def _judge(judged: JudgedSet, text: str, system: str, found: Sequence[tuple[str, str, float | None]]) -> QueryResults:
    queries = _find_queries(judged, text)
    qrels = judged.qrels[judged.qrels["query_id"].astype("str").isin(queries)]
    best = qrels.groupby("image_id", observed=True)["relevance"].max()
    grades = {str(name): int(grade) for name, grade in best.items()}
    represented, names = judged.representatives.to_dict(), _name_images(judged)
    hits = []
    for rank, (name, image_id, score) in enumerate(found, start=1):
        grade = grades.get(represented.get(image_id, image_id))
        hits.append({"rank": rank, "id": name, "image_id": image_id, "score": score, "grade": grade})
    shown = {represented.get(hit["image_id"], hit["image_id"]) for hit in hits}
    relevant = {name: grade for name, grade in grades.items() if grade > 0}
    missed = [
        {"id": names.get(name, name), "image_id": name, "rank": None, "score": None, "grade": relevant[name]}
        for name in sorted(relevant, key=lambda name: (-relevant[name], name))
        if name not in shown
    ]
    return QueryResults(text, system, hits, bool(queries), len(relevant), missed)


def write_search_page(results: QueryResults, judged: JudgedSet, page: Path, language: str) -> None:
    """Writes the results with thumbnails, each marked as relevant, not relevant or not judged, and what is missed.
    Raises UserError where the page cannot be written."""
    assert judged.stored is not None
    missed = results.missed[: len(results.hits)]
    image_ids = sorted({str(row["image_id"]) for row in [*results.hits, *missed] if row["image_id"]})
    stored = read_set(judged.stored.path, ("images",))  # also the copies, which `judged` lacks
    thumbnails = make_thumbnails(locate_set_images(stored, image_ids)) if image_ids else {}
    with translate_write_errors("write page", page, "or give another --page"):
        page.parent.mkdir(parents=True, exist_ok=True)
        html = render_search(
            results.text, results.system, results.hits, missed, thumbnails, language,
            relevant_count=results.relevant_count, is_query=results.is_query,
        )  # fmt: skip
        write_atomically(page, html.encode())

"""The measurement of what a set would notice, where a search is blind and what nobody asks; stored, with a page."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.audit import blind_spots, mutation_score
from querytruth.audit.mutation_score import AnsweredQueries, DamageGate
from querytruth.audit.pool import JsonRecord
from querytruth.audit.requests import NoticeRequest
from querytruth.audit.shortcuts import PAGE_TEXTS, find_shortcuts, translate_kind
from querytruth.backends.files.durable_files import write_atomically, write_page
from querytruth.backends.images.image_quality import QualityScores, compute_quality_scores
from querytruth.backends.images.rendering import PixelsJob
from querytruth.backends.models.nearest_neighbours import choose_cell_centres
from querytruth.backends.search_systems import load_system_file
from querytruth.backends.steps import current_run, step
from querytruth.errors import translate_write_errors
from querytruth.evaluation import encoded_sets, judged_sets, live_systems, query_changes, statistics, steps, systems
from querytruth.evaluation.judged_sets import EvaluationView, JudgedSet
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.result_types import BOUNDING_BASELINES
from querytruth.evaluation.system_answers import AskOptions
from querytruth.records import stable_hash
from querytruth.review.page_parts import embed_jpeg, render_template
from querytruth.review.vega_lite import draw_intervals
from querytruth.sets import published_files
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.image_vectors import DecodedImages
from querytruth.sets.set_files import StoredSet, find_set, locate_set_images
from querytruth.sets.set_thumbnails import make_set_thumbnails

PAGE_FILE = "notice.html"
_STRIP = 12  # images shown of each kind
_LOOKED_AT, _SIDE = 1000, 160  # images at most, and pixels of their longer side
_ROWS = 20  # parts without a query, shown


def _load_system(
    request: NoticeRequest, judged: JudgedSet, image_change: str = ""
) -> tuple[systems.EvaluatedSystem, encoded_sets.EncodedSet | None]:
    """Return the system, and its vectors where it has some."""
    if request.vectors is not None or request.model is not None:
        if request.vectors is not None:
            encoded = encoded_sets.read_encoded_set(request.vectors, judged)
        else:
            encoded = encoded_sets.encode_set(str(request.model), judged, image_change)
        return systems.make_vector_system(encoded), encoded
    if request.system is not None:
        return live_systems.make_live_system(load_system_file(request.system), judged, AskOptions()), None
    run = request.run or _find_best_result(judged, request.metric)
    return (systems.make_baseline("oracle") if run is None else systems.load_run_system(run, judged)), None


def _find_best_result(judged: JudgedSet, metric: str) -> Path | None:
    """Return the folder of the set's stored result with the highest figure; None without one."""
    assert judged.stored is not None
    path = judged.stored.path
    means = {
        name: float(table[metric].mean())
        for name, (result, table) in steps.load_stored_results(path).items()
        if result["system"]["name"] not in BOUNDING_BASELINES and metric in table and "part" not in result["set"]
    }
    folder = path.parent / published_files.RESULTS_FOLDER / path.name
    return folder / max(means, key=lambda name: means[name]) if means else None


@step("notice")
def notice_set(request: NoticeRequest) -> tuple[JsonRecord, Path]:
    """Return what is measured, as JSON values, and the page; both are written. Raise UserError."""
    metric, judged = parse_metric(request.metric), judged_sets.load_judged_set(find_set(request.of, request.out))
    stored = judged.stored
    assert stored is not None
    view = judged_sets.build_evaluation_view(judged, "text_to_image", [str(metric)], ())
    system, encoded = _load_system(request, judged)
    scored = steps.score_system(view, system)
    unasked = frozenset(view.query_ids.to_pylist()).difference(scored.result.per_query.index)
    view = judged_sets.exclude_queries(view, unasked)
    answers = mutation_score.read_answers(rank_run(scored.run, view.spec.truth))
    index = pd.Index(view.query_ids.to_pylist())
    clusters = statistics.align_clusters(view.spec.clusters, index)
    gate = DamageGate(metric, request.margin, clusters, request.size, request.draws)
    images = stored.tables.images.set_index("image_id").loc[answers.ranked.truth.image_ids.to_pylist()].reset_index()
    queries = stored.tables.queries.set_index("query_id").loc[index].reset_index()
    damages = mutation_score.list_damages(images, queries, metric)
    kinds = [mutation_score.measure_kind(answers, one, gate) for one in damages]
    clustered, typing = None, pd.DataFrame()
    if encoded is not None:
        kinds += _measure_vectors(view, encoded, answers, gate)
        clustered = _cluster_images(encoded, images)
    if request.system is not None or request.model is not None:
        shorter = query_changes.change_queries(judged, query_changes.LAST_WORD)[0]
        run = steps.score_system(replace(view, judged_set=shorter), _load_system(request, shorter)[0]).run
        other = rank_run(run, view.spec.truth)
        kinds.append(mutation_score.measure_whole(query_changes.LAST_WORD, other, answers, gate))
        typing = query_changes.measure_changes(
            judged,
            lambda *changed: _load_system(request, *changed)[0],
            scored,
            str(metric),
            encodes_images=request.model is not None,
        )
    spots = blind_spots.find_blind_spots(answers, _measure_appearance(stored, images))
    first = answers.place[(answers.ranked.rank == 1) & (answers.place >= 0)]
    parts, uncovered = blind_spots.find_uncovered(images, spots.asked, clustered, first)
    ids = images["image_id"].to_numpy()
    summary = {
        "schema_version": 1,
        "set": judged.description,
        "system": system.description,
        **{name: getattr(request, name) for name in ("metric", "margin", "size", "draws")},
        "figure": float(answers.score(metric).mean()),
        "queries": answers.queries,
        **mutation_score.summarize_kinds(kinds),
        "damages": kinds,
        "never": {str(cut): share for cut, share in spots.never.items()},
        "gini": spots.gini,
        "hubs": {str(ids[row]): int(spots.counts[row]) for row in spots.hubs},
        "asked": int(spots.asked.sum()),
        "unfound": ids[spots.unfound].tolist(),
        "blind_kinds": spots.kinds.to_dict("records"),
        "uncovered": ids[uncovered].tolist(),
        "uncovered_share": float(uncovered.mean()),
        "uncovered_parts": parts.to_dict("records"),
        "typing": typing.to_dict("records"),
        "shortcuts": find_shortcuts(stored),
    }
    summary["line"] = summary_line(summary, "en")  # for the card
    folder = request.to or published_files.notice_folder(stored.path)
    with translate_write_errors("write notice", folder, "or give another folder with --to"):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / published_files.NOTICE_FILE, canonical_json(summary))
    write_page(folder / PAGE_FILE, render_notice_page(stored, summary, request.page_language), "or give --to")
    return summary, folder / PAGE_FILE


def _measure_vectors(
    view: EvaluationView, encoded: encoded_sets.EncodedSet, answers: AnsweredQueries, gate: DamageGate
) -> Iterator[JsonRecord]:
    texts, images = encoded.texts, encoded.images
    for kind, text_vectors, image_vectors in mutation_score.damage_vectors(texts.vectors, images.vectors):
        sides = replace(texts, vectors=text_vectors), replace(images, vectors=image_vectors)
        damaged = systems.make_vector_system(replace(encoded, texts=sides[0], images=sides[1]))
        run = steps.score_system(view, damaged).run
        yield mutation_score.measure_whole(kind, rank_run(run, view.spec.truth), answers, gate)
    rows = pd.Index(images.ids.to_pylist()).get_indexer(answers.ranked.truth.image_ids.to_pylist())
    # In half precision the largest coordinates become infinite first, and an image with such a score is never found.
    largest = np.abs(images.vectors).max(axis=1)[rows].astype(np.float64)
    lost = partial(mutation_score.draw_highest, order=largest)
    overflow = mutation_score.lose_images("coordinates too large for float16", lost, is_drawn=False)
    yield mutation_score.measure_kind(answers, overflow, gate)


def _measure_appearance(stored: StoredSet, images: pd.DataFrame) -> pd.DataFrame:
    """Return the images with the quality scores of those in a draw, NaN for the others and for unreadable ones."""
    drawn = sorted(images["image_id"], key=lambda one: stable_hash("appearance", one))[:_LOOKED_AT]
    located = locate_set_images(stored, drawn)
    jobs = [PixelsJob(place, _SIDE, None) for place in located.values()]
    with current_run().reporter.bar("judge images", len(jobs), "images") as advance:
        decoded = DecodedImages(jobs, advance)
        scores = [compute_quality_scores(np.asarray(one.convert("L"))[None])[0] for one in decoded]
    ids = [name for row, name in enumerate(located) if row not in decoded.failures]
    measured = pd.DataFrame(scores, ids, QualityScores._fields, dtype=np.float64)
    return images.join(measured, on="image_id") if scores else images


def _cluster_images(encoded: encoded_sets.EncodedSet, images: pd.DataFrame) -> pd.Series:
    rows = pd.Index(encoded.images.ids.to_pylist()).get_indexer(images["image_id"])
    hashes = [stable_hash("cluster", name) for name in images["image_id"]]
    centres = choose_cell_centres(hashes)[: int(len(rows) ** 0.5)]  # √n parts of about √n images
    return blind_spots.name_clusters(encoded.images.vectors[rows], centres)


def summary_line(found: Mapping[str, object], language: str) -> str:
    """Return what the set would notice, in one line."""
    return str(PAGE_TEXTS[language]["line"].format(**found))


def describe_reason(kind: JsonRecord, margin: float, language: str) -> str:
    """Return why a kind of damage is not caught, and what would help; "" for one that is."""
    name = kind["reason"] + ("_alone" if kind["reason"] == "too_few" and kind["further"] is None else "")
    return str(PAGE_TEXTS[language][name].format(margin=margin, **kind)) if name else ""


def describe_sizes(kind: JsonRecord, language: str) -> str:
    """Return the smallest size that is stopped, with its interval."""
    words = PAGE_TEXTS[language]
    if kind["size"] == mutation_score.WHOLE:
        return str(words["none" if kind["reason"] else "whole"])
    ends = [f"{kind[name]:.0%}" if kind[name] is not None else words["none"] for name in ("smallest", "low", "high")]
    return ends[0] if len({*ends}) == 1 else f"{ends[0]} [{ends[1]}, {ends[2]}]"


def list_blind_kinds(found: JsonRecord) -> list[JsonRecord]:
    """Return the kinds of images that are blinder than the others, beyond chance."""
    return [one for one in found["blind_kinds"] if one["p"] < blind_spots.LEVEL and one["difference"] > 0]


def render_notice_page(stored: StoredSet, found: JsonRecord, language: str) -> str:
    """Return the page of the summary that `notice_set` returns."""
    hubs = dict(list(found["hubs"].items())[:_STRIP])
    order = partial(sorted, key=lambda one: stable_hash("strip", one))
    drawn = {name: order(found[name])[:_STRIP] for name in ("unfound", "uncovered")}
    jpegs = make_set_thumbnails(stored, [*hubs, *drawn["unfound"], *drawn["uncovered"]])

    def name_rows(rows: list[JsonRecord], key: str = "kind") -> list[JsonRecord]:
        return [{**one, "name": translate_kind(one[key], language)} for one in rows]

    damages = [
        {**one, "sizes": describe_sizes(one, language), "why": describe_reason(one, found["margin"], language)}
        for one in found["damages"]
    ]
    seen = [{**one, "value": one["ndcg"], "chance": one["random"]} for one in name_rows(found["shortcuts"], "system")]
    return render_template(
        "notice_page.html",
        t=PAGE_TEXTS[language],
        language=language,
        name=f"{found['set']['name']}/v{found['set']['version']}",
        line=summary_line(found, language),
        found=found,
        damages=name_rows(damages),
        kinds=name_rows(list_blind_kinds(found)),
        parts=name_rows(found["uncovered_parts"][:_ROWS], "by"),
        typing=name_rows(found["typing"]),
        shortcuts=seen,
        plot=draw_intervals(seen, PAGE_TEXTS[language]["seen_ndcg"]) if seen else "",
        hubs=hubs,
        drawn=drawn,
        names=stored.tables.images.set_index("image_id")["file_name"].fillna("").to_dict(),
        data={name: embed_jpeg(jpeg) for name, jpeg in jpegs.items()},
        depth=blind_spots.DEPTH,
    )

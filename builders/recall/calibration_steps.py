"""Fits the calibrations of a recall set to what its reviewers said of captions and other images."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from builders.recall import caption_index, confusable_scores
from builders.recall.calibration import (
    SHIPPED_CALIBRATIONS,
    Calibration,
    add_image_features,
    choose_features,
    estimate_covered,
    find_calibration,
    find_covered,
    find_difference,
    fit_calibration,
    has_several_captions,
    measure_cut,
    measure_reliability,
    new_calibration,
    read_calibrations,
    write_calibrations,
)
from builders.recall.definition import RecallDefinition
from builders.recall.pair_features import PairFeatures, centre_vectors
from builders.recall.steps import load_shown_images
from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.backends.models.embedders import TextEmbedder, load_image_text_embedder, load_text_embedder
from querytruth.backends.steps import step
from querytruth.definitions import describe_definition_error
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.image_vectors import ImageToEmbed, ImageVectors, embed_images, embed_texts

MIN_OF_EACH_KIND = 10  # pairs that fit, and pairs that do not
_FOLDS = 5
_STAGE = "calibrate"


@dataclass(frozen=True, slots=True)
class CalibratedLanguage:
    """A fitted calibration. `pairs`: judged pairs, `fit`: those that fit; `starts_from`: whether a shipped one was the
    start; `before`, `after`: the mean squared error of the start and, on held-out queries, of the fit."""

    calibration: Calibration
    pairs: int
    fit: int
    starts_from: bool
    before: float | None
    after: float


@dataclass(frozen=True, slots=True)
class _JudgedPairs:
    answers: caption_index.AnswerIndex
    query: RowIndices
    answer: RowIndices
    fits: FloatArray


@dataclass(frozen=True, slots=True)
class _Embedders:
    """Those that the set's definition names. `images`: the set's images, by id."""

    text: TextEmbedder | None
    image_vectors: ImageVectors | None
    images: list[str]
    folder: Path


@step("calibrate")
def calibrate_set(path: Path, to: Path | None = None) -> tuple[Path, list[CalibratedLanguage]]:
    """Fits a calibration per language to the judgments that people made of other images, writes them to `to` (default:
    calibration.json beside the set's versions), and returns the file and the fits. Raises UserError for another kind of
    set, for a set from elsewhere, whose definition may name any model, and where too few pairs are judged."""
    stored = set_files.read_set(path)
    manifest = stored.manifest
    if manifest["kind"] != "recall" or not stored.own_definition:
        raise UserError(_STAGE, path, "is not a recall set that was built here", "name one: querytruth calibrate SET")
    try:
        definition = RecallDefinition.model_validate(stored.own_definition)
    except ValidationError as error:
        raise describe_definition_error(RecallDefinition, error, str(path / "manifest.json")) from None
    embedder = _load_embedders(definition, stored.tables.images, path)
    shipped, _ = read_calibrations(SHIPPED_CALIBRATIONS)
    fitted = []
    for language, queries in stored.tables.queries.groupby("language", observed=True):
        pairs = _judged_pairs(stored.tables, queries)
        if min(int(pairs.fits.sum()), int((1 - pairs.fits).sum())) >= MIN_OF_EACH_KIND:
            fitted.append(_fit(str(language), pairs, embedder, shipped, definition, manifest))
    if not fitted:
        reason = f"has no language with {MIN_OF_EACH_KIND} pairs that people say fit and {MIN_OF_EACH_KIND} that do not"
        next_step = f"judge its candidates (querytruth review {manifest['name']}), then querytruth apply"
        raise UserError(_STAGE, manifest["name"], reason, next_step)
    file = to or path.parent / "calibration.json"
    write_calibrations(file, [one.calibration for one in fitted])
    return file, fitted


def _load_embedders(definition: RecallDefinition, images: pd.DataFrame, path: Path) -> _Embedders:
    rules = definition.ambiguity
    text = None if rules.text_embedder is None else load_text_embedder(rules.text_embedder)
    if rules.image_embedder is None:
        return _Embedders(text, None, [], path.parent)
    shown = load_shown_images(images, path)
    sources = [ImageToEmbed(one.image_id, str(one.path), one.sha256) for one in shown]
    vectors = embed_images(load_image_text_embedder(rules.image_embedder), sources, path.parent)
    return _Embedders(text, vectors, [one.image_id for one in shown], path.parent)


def _measure_images(pairs: _JudgedPairs, embedders: _Embedders) -> tuple[dict[str, FloatArray], tuple[str, ...]]:
    """Returns how alike the images of the pairs are, and the names of the embedder; nothing without one."""
    seen = embedders.image_vectors
    if seen is None:
        return {}, ()
    rows = pd.Index(embedders.images).get_indexer(pairs.answers.image_ids)
    queries = embed_texts(seen.embedder, pairs.answers.texts.tolist(), embedders.folder / ".vectors")
    vectors = confusable_scores.QueryImageVectors(queries=queries, images=seen.vectors[rows])
    features = confusable_scores.CandidateCosines(pairs.answers, vectors, pairs.query, pairs.answer).image_features()
    return features, (seen.embedder.name, seen.embedder.revision)


def _judged_pairs(tables: Tables, queries: pd.DataFrame) -> _JudgedPairs:
    """Returns the pairs of a query and an image other than its own that people judged. Only the image that a caption
    was written of counts as captioned by it."""
    written = queries[queries["source_image_id"].notna()]
    own = written[["query_id", "source_image_id"]].rename(columns={"source_image_id": "image_id"})
    answers = caption_index.build_answer_index(written, own.assign(relevance=1), tables.images, tables.duplicates)
    judged = tables.qrels[(tables.qrels["judged_by"] == "human").to_numpy()]
    query = pd.Index(answers.query_ids).get_indexer(judged["query_id"].astype("str"))
    image = pd.Index(answers.image_ids).get_indexer(judged["image_id"].astype("str"))
    known = (query >= 0) & (image >= 0)
    query, answer = query[known], answers.answer[image[known]]
    fits = (judged["relevance"].to_numpy()[known] > 0).astype(np.float64)
    has_captions = np.isin(answer, answers.caption_answer_pairs()[1])
    is_other = ~np.isin(answers.pair_keys(query, answer), answers.judged_keys) & has_captions
    return _JudgedPairs(answers, query[is_other], answer[is_other], fits[is_other])


def _fit(
    language: str,
    pairs: _JudgedPairs,
    embedders: _Embedders,
    shipped: tuple[Calibration, ...],
    definition: RecallDefinition,
    manifest: dict[str, Any],
) -> CalibratedLanguage:
    several, embedder = has_several_captions(pairs.answers), embedders.text
    names = () if embedder is None else (embedder.name, embedder.revision)
    vectors = None if embedder is None else centre_vectors(embedder.encode_texts(pairs.answers.texts.tolist()))
    encode_words = None if embedder is None or embedder.compares_spelling else embedder.encode_texts
    pair_features = PairFeatures(pairs.answers, vectors, encode_words)
    background, features = pair_features.measure_background(), pair_features.measure(pairs.query, pairs.answer)
    prior = find_calibration(shipped, language, names, several_captions=several)
    if prior is not None and (background is None or find_difference(prior, background)):
        prior = None  # fitted to captions of another nature
    start = prior or new_calibration(language, names, features, several_captions=several)
    assert start.features == choose_features(has_vectors=embedder is not None, several_captions=several)
    of_images, image_embedder = _measure_images(pairs, embedders)
    if of_images:
        features |= of_images
        start = add_image_features(start, of_images, image_embedder)
    fit = partial(fit_calibration, keep_near=prior is not None)
    held_out = np.zeros(len(pairs.fits))
    fold = np.random.default_rng(0).permutation(len(pairs.answers.query_ids))[pairs.query] % _FOLDS
    for one in range(_FOLDS):
        chosen = fold == one
        fitted = fit(start, _rows(features, ~chosen), pairs.fits[~chosen])
        held_out[chosen] = fitted.probabilities(_rows(features, chosen))
    covered = pairs.fits[find_covered(pairs.answers, pairs.query, pairs.answer)]
    before = None if prior is None else _squared_error(prior.probabilities(features), pairs.fits)
    calibration = replace(
        fit(start, features, pairs.fits),
        covered=estimate_covered(covered, prior.covered if prior else None),
        background=background or {},
        fitted_on={
            "source": f"the reviewers of {manifest['name']}/v{manifest['version']}",
            "licence": manifest["licence"] or "that of the set",
            "pairs": len(pairs.fits),
            "fit": int(pairs.fits.sum()),
            "date": datetime.now(UTC).date().isoformat(),
            "script": "querytruth calibrate",
        },
        held_out={
            "cuts": [measure_cut(held_out, pairs.fits, definition.ambiguity.at_least)],
            "reliability": measure_reliability(held_out, pairs.fits),
        },
    )
    return CalibratedLanguage(
        calibration, len(pairs.fits), int(pairs.fits.sum()), prior is not None, before,
        _squared_error(held_out, pairs.fits),
    )  # fmt: skip


def _rows(features: dict[str, FloatArray], chosen: BoolArray) -> dict[str, FloatArray]:
    return {name: column[chosen] for name, column in features.items()}


def _squared_error(probabilities: FloatArray, fits: FloatArray) -> float:
    return round(float(((probabilities - fits) ** 2).mean()), 4)

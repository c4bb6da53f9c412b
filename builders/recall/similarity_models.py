"""The embedders that compare captions and images, and their calibrations, checked before a build asks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from builders.recall.calibration import SHIPPED_CALIBRATIONS, Calibration, CalibrationChoice, read_calibrations
from builders.recall.captions import choose_caption_prompts, load_caption_model, load_description_model
from builders.recall.confusable_images import ConfusableImages
from builders.recall.confusable_scores import ConfusableRules, QueryImageVectors
from builders.recall.definition import RecallDefinition
from querytruth.array_types import Vectors
from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatImage
from querytruth.backends.models.embedders import (
    TextEmbedder,
    load_image_text_embedder,
    load_text_embedder,
    must_download,
)
from querytruth.backends.steps import current_run, step
from querytruth.sets.image_vectors import (
    CosineBackground,
    ImageToEmbed,
    ImageVectors,
    choose_cosine_cut,
    choose_image_cut,
    embed_images,
    embed_texts,
    measure_cosine_background,
)
from querytruth.sets.manifest import Input, Model, Provenance, Threshold, describe_threshold

_SAMPLE_TEXTS = {"zh": "一只狗", "en": "a dog"}  # of the captions' languages
USUAL_IMAGE_COSINE = 0.9


def describe_calibrations(queries: pd.DataFrame, confusables: ConfusableImages) -> list[dict[str, Any]]:
    """Returns per language: whether it is calibrated or why not; what was fitted to; the measures on held-out pairs;
    the number of pairs found, and how many of them are expected to be wrong."""
    found_ids = confusables.table["query_id"]
    language = dict(zip(queries["query_id"], queries["language"], strict=True))
    counts = found_ids.map(language).value_counts()
    at_least = confusables.min_score
    return [_describe(one, int(counts.get(one.language, 0)), at_least) for one in confusables.calibrations]


def _describe(choice: CalibrationChoice, found: int, at_least: float) -> dict[str, Any]:
    calibration = choice.calibration
    if calibration is None:
        return {"language": choice.language, "is_calibrated": False, "reason": choice.reason, "found": found}
    # The measures of the next lower cut are no better than those of this one.
    cuts = [cut for cut in calibration.held_out.get("cuts", ()) if cut["at_least"] <= at_least]
    cut = max(cuts, key=lambda one: one["at_least"], default=None)
    tenths = [one for one in calibration.held_out.get("reliability", ()) if one["pairs"] >= 20]
    return {
        "language": choice.language,
        "is_calibrated": True,
        "embedder": calibration.embedders[0] if calibration.embedders else None,
        "image_embedder": calibration.image_embedder[0] if calibration.image_embedder else None,
        "several_captions": calibration.several_captions,
        "fitted_on": calibration.fitted_on,
        "reliability": calibration.held_out.get("reliability", []),
        "greatest_error": max((round(abs(one["expected"] - one["observed"]), 4) for one in tenths), default=0.0),
        "cut": cut,
        "found": found,
        "expected_wrong": _expected_wrong(cut, found),
    }


def _expected_wrong(cut: dict[str, Any] | None, found: int) -> dict[str, float] | None:
    if cut is None or cut["precision"] is None:
        return None
    precision = cut["precision"]
    count, low, high = (found * (1 - precision[name]) for name in ("share", "high", "low"))
    return {"count": round(count, 1), "low": round(low, 1), "high": round(high, 1)}


@step("check models")
def check_recall_models(definition: RecallDefinition, *, is_plan: bool = False) -> list[str]:
    """Loads the embedders and looks for the keys of chat models. Returns the names of embedders that are not on this
    machine: a plan does not download them, a build does. Raises UserError for a missing key or library, a model that
    cannot be loaded, and a text embedder that does not know the language of the captions."""
    run, rules = current_run(), definition.ambiguity
    definition = choose_caption_prompts(definition)
    if not run.offline:
        chat.check_access(load_caption_model(definition))
        if definition.descriptions is not None:
            chat.check_access(load_description_model(definition))
    names = [name for name in (rules.text_embedder, rules.image_embedder) if name is not None]
    names += (
        [str(rules.judge.options.get("name"))] if rules.judge is not None and rules.judge.model == "embedder" else []
    )
    to_download = [name for name in names if is_plan and not run.offline and must_download(name)]
    if rules.text_embedder is not None and rules.text_embedder not in to_download:
        languages = definition.captions.languages
        load_text_embedder(rules.text_embedder).check_language([_SAMPLE_TEXTS[language] for language in languages])
    if rules.image_embedder is not None and rules.image_embedder not in to_download:
        load_image_text_embedder(rules.image_embedder)
    is_here = rules.judge is None or rules.judge.options.get("name") not in to_download
    if not run.offline and is_here and rules.judge is not None:
        chat.check_access(chat.load_chat_model(rules.judge.model, **rules.judge.options))
    return to_download


@dataclass(slots=True)
class SimilarityModels:
    """The embedders that compare captions and images. Each is loaded once, and each text is encoded once."""

    definition: RecallDefinition
    text_embedder: TextEmbedder | None = None
    text_threshold: float = 0.9
    text_background: CosineBackground | None = None
    image_vectors: ImageVectors | None = None
    image_thresholds: list[Threshold] = field(default_factory=list)
    calibrations: tuple[Calibration, ...] = ()
    calibration_files: list[Input] = field(default_factory=list)
    _vectors_by_text: dict[str, dict[str, Vectors]] = field(default_factory=dict)

    def encode_queries(self, queries: pd.DataFrame) -> QueryImageVectors:
        """Returns the vectors of queries and images."""
        captions = (
            self._encoded("text", self.text_embedder, queries["text"]) if self.text_embedder is not None else None
        )
        encode_words = (
            None if self.text_embedder is None or self.text_embedder.compares_spelling else self._encode_words
        )
        if self.image_vectors is None:
            return QueryImageVectors(captions, encode_words=encode_words)
        query_image_vectors = self._encoded("image", self.image_vectors.embedder, queries["text"])
        return QueryImageVectors(captions, query_image_vectors, self.image_vectors.vectors, encode_words)

    def choose_text_threshold(self, texts: Sequence[str]) -> None:
        """Takes the definition's cut of similar captions, or the embedder's own where that lies over the background of
        the texts. Raises UserError for a cut among random pairs."""
        embedder, given = self.text_embedder, self.definition.ambiguity.captions
        assert embedder is not None
        self.text_background = measure_cosine_background(self._encoded("text", embedder, texts))
        usual, background = embedder.near_duplicate_cosine, self.text_background
        self.text_threshold = choose_cosine_cut(
            "load embedders", "ambiguity.captions", given, usual, background, embedder.name
        )

    def rules(self) -> ConfusableRules:
        """Returns the rules by which confusable images are found."""
        wanted, embedder = self.definition.ambiguity, self.text_embedder
        by_image = None if self.image_vectors is None else self.image_vectors.embedder
        return ConfusableRules(
            wanted.rivals,
            self.text_threshold,
            self.image_thresholds[0]["value"] if self.image_thresholds else USUAL_IMAGE_COSINE,
            wanted.margin,
            wanted.at_least,
            wanted.candidates.at_least,
            wanted.candidates.nearest,
            self.calibrations,
            () if embedder is None else (embedder.name, embedder.revision),
            () if by_image is None else (by_image.name, by_image.revision),
            current_run().workers,
        )

    def _encode_words(self, words: Sequence[str]) -> Vectors:
        return self._encoded("text", self.text_embedder, words)

    def _encoded(self, kind: str, embedder: Any, texts: Sequence[str] | pd.Series) -> Vectors:
        known = self._vectors_by_text.setdefault(kind, {})
        if new := sorted(set(texts) - known.keys()):
            known.update(zip(new, self._encode_new(embedder, new), strict=True))
        rows: Vectors = np.array([known[text] for text in texts], dtype=np.float32)
        return rows.reshape(len(texts), embedder.dimensions)

    def _encode_new(self, embedder: Any, texts: list[str]) -> Vectors:
        if getattr(embedder, "compares_spelling", False):  # in whole numbers: the same on every processor
            spelling: Vectors = embedder.encode_texts(texts)
            return spelling
        return embed_texts(embedder, texts, self.definition.out.absolute() / ".vectors")

    def provenance(self) -> Provenance:
        """Returns the embedders, and the thresholds from which a caption counts as ambiguous."""
        rules, provenance = self.definition.ambiguity, Provenance(inputs=list(self.calibration_files))
        provenance.thresholds.append(describe_threshold("ambiguity.at_least", "at least", rules.at_least))
        candidates = rules.candidates
        provenance.thresholds.append(
            describe_threshold("ambiguity.candidates.at_least", "at least", candidates.at_least)
        )
        provenance.thresholds.append(describe_threshold("ambiguity.candidates.nearest", "at most", candidates.nearest))
        if self.text_embedder is not None:
            provenance.models.append(
                Model(
                    role="caption rivals",
                    name=self.text_embedder.name,
                    revision=self.text_embedder.revision,
                    parameters={},
                )
            )
            provenance.thresholds.append(describe_threshold("ambiguity.captions", "at least", self.text_threshold))
            if self.text_background is not None:
                provenance.thresholds.extend(self.text_background.as_thresholds("ambiguity.captions"))
        if self.image_vectors is not None:
            embedder = self.image_vectors.embedder
            provenance.models.append(
                Model(role="image rivals", name=embedder.name, revision=embedder.revision, parameters={})
            )
            provenance.thresholds.extend(self.image_thresholds)
            provenance.thresholds.append(describe_threshold("ambiguity.margin", "at most", rules.margin))
        return provenance


@step("load embedders")
def load_similarity_models(
    definition: RecallDefinition, queries: pd.DataFrame, images: Sequence[ChatImage]
) -> SimilarityModels:
    """Loads the embedders that the definition names, and encodes the images. Raises UserError for a text embedder that
    does not cover the language of the captions."""
    rules = definition.ambiguity
    models = SimilarityModels(definition)
    models.calibrations, digest = read_calibrations(SHIPPED_CALIBRATIONS)
    used = {"calibrations": len(models.calibrations)}
    models.calibration_files.append(Input(file=SHIPPED_CALIBRATIONS.name, sha256=digest, counts=used))
    if rules.text_embedder is not None:
        models.text_embedder = load_text_embedder(rules.text_embedder)
        models.text_embedder.check_language(queries["text"])
        models.choose_text_threshold(sorted(set(queries["text"])))
    if rules.image_embedder is not None:
        embedder = load_image_text_embedder(rules.image_embedder)
        sources = [ImageToEmbed(image.image_id, str(image.path), image.sha256) for image in images]
        models.image_vectors = embed_images(embedder, sources, definition.out / definition.name)
        known = models.image_vectors.vectors[models.image_vectors.is_known]
        models.image_thresholds = choose_image_cut(
            "ambiguity.images", rules.images, USUAL_IMAGE_COSINE, embedder, known
        )
    return models

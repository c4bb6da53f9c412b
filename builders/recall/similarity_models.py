"""The embedders that compare captions and images, checked before a build asks, and the fitted lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from builders.recall.captions import choose_caption_prompts, load_caption_model, load_description_model
from builders.recall.confusable_images import ConfusableImages, ConfusableRules
from builders.recall.definition import RecallDefinition
from builders.recall.fit_probability import LINES_FILE, FittedLine, read_lines
from querytruth.array_types import Vectors
from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatImage
from querytruth.backends.models.embedders import (
    Embedder,
    TextEmbedder,
    load_image_text_embedder,
    load_text_embedder,
    must_download,
)
from querytruth.backends.steps import current_run, step
from querytruth.sets.image_vectors import ImageToEmbed, embed_images, embed_texts
from querytruth.sets.manifest import Input, Model, Provenance, describe_threshold

_SAMPLE_TEXTS = {"zh": "一只狗", "en": "a dog"}  # of the captions' languages


def describe_lines(queries: pd.DataFrame, confusables: ConfusableImages) -> list[dict[str, Any]]:
    """Return per language: whether there is a fitted line or why not, what it was fitted to, its reliability on other
    pairs, and the number of pairs found."""
    language = confusables.table["query_id"].map(dict(zip(queries["query_id"], queries["language"], strict=True)))
    counts = language.value_counts().to_dict()
    return [_describe(name, line, int(counts.get(name, 0))) for name, line in confusables.lines.items()]


def _describe(language: str, line: FittedLine | str, found: int) -> dict[str, Any]:
    if isinstance(line, str):
        return {"language": language, "is_calibrated": False, "reason": line, "found": found}
    errors = [abs(one["expected"] - one["observed"]) for one in line.reliability if one["pairs"] >= 20]
    return {
        "language": language,
        "is_calibrated": True,
        "embedder": line.embedder,
        "fitted_on": line.fitted_on,
        "reliability": line.reliability,
        "greatest_error": round(max(errors, default=0.0), 4),
        "found": found,
    }


@step("check models")
def check_recall_models(definition: RecallDefinition, *, is_plan: bool = False) -> list[str]:
    """Load the embedders and looks for the keys of chat models. Return the names of embedders that are not on this
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
    if rules.text_embedder not in to_download:
        languages = definition.captions.languages
        load_text_embedder(rules.text_embedder).check_language([_SAMPLE_TEXTS[language] for language in languages])
    if rules.image_embedder is not None and rules.image_embedder not in to_download:
        load_image_text_embedder(rules.image_embedder)
    is_here = rules.judge is None or rules.judge.options.get("name") not in to_download
    if not run.offline and is_here and rules.judge is not None:
        chat.check_access(chat.load_chat_model(rules.judge.model, **rules.judge.options))
    return to_download


@dataclass(frozen=True, slots=True)
class SimilarityModels:
    """The embedders of captions and of images, the vectors of the images, and the fitted lines."""

    definition: RecallDefinition
    text_embedder: TextEmbedder
    image_embedder: Embedder | None
    image_vectors: Vectors | None
    lines: list[FittedLine]
    lines_sha256: str

    def encode_queries(self, queries: pd.DataFrame) -> Vectors:
        """Return the vectors of queries; those of a model are stored below the folder of sets."""
        if self.text_embedder.compares_spelling:  # in whole numbers: the same on every processor
            return self.text_embedder.encode_texts(queries["text"].tolist())
        return embed_texts(self.text_embedder, queries["text"].tolist(), self.definition.out.absolute() / ".vectors")

    def choose_rules(self) -> ConfusableRules:
        """Return the rules by which confusable images are found."""
        wanted = self.definition.ambiguity
        return ConfusableRules(
            wanted.rivals,
            wanted.at_least,
            wanted.candidates.at_least,
            wanted.candidates.nearest,
            tuple(self.lines),
            self.text_embedder.compares_spelling,
            current_run().workers,
        )

    def provenance(self) -> Provenance:
        """Return the embedders, the fitted lines, and the thresholds from which a caption counts as ambiguous."""
        rules = self.definition.ambiguity
        embedders: list[tuple[str, Embedder]] = [("caption rivals", self.text_embedder)]
        if self.image_embedder is not None:
            embedders.append(("image rivals", self.image_embedder))
        return Provenance(
            inputs=[Input(file=LINES_FILE.name, sha256=self.lines_sha256, counts={"lines": len(self.lines)})],
            models=[Model(role=role, name=one.name, revision=one.revision, parameters={}) for role, one in embedders],
            thresholds=[
                describe_threshold("ambiguity.at_least", "at least", rules.at_least),
                describe_threshold("ambiguity.candidates.at_least", "at least", rules.candidates.at_least),
                describe_threshold("ambiguity.candidates.nearest", "at most", rules.candidates.nearest),
            ],
        )


@step("load embedders")
def load_similarity_models(
    definition: RecallDefinition, queries: pd.DataFrame, images: Sequence[ChatImage]
) -> SimilarityModels:
    """Load the embedders that the definition names, and encodes the images. Raises UserError for a text embedder that
    does not cover the language of the captions."""
    rules, of_images, vectors = definition.ambiguity, None, None
    embedder = load_text_embedder(rules.text_embedder)
    embedder.check_language(queries["text"])
    if rules.image_embedder is not None:
        sources = [ImageToEmbed(image.image_id, str(image.path), image.sha256) for image in images]
        of_images = load_image_text_embedder(rules.image_embedder)
        vectors, _ = embed_images(of_images, sources, definition.out / definition.name)
    return SimilarityModels(definition, embedder, of_images, vectors, *read_lines())

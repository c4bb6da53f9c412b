"""The recall set: pictures in, a caption of each as a query, one right picture a caption.

gallery ─► captions ─► clean ─► rivals ─► settled by policy ─► set v<N>, and smaller ones within it
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import prompts
from builders.benchmark_set import Tables
from builders.records import SUSPICIONS
from flows.captions.captioning import (
    caption_pictures,
    clean_captions,
    cleaning_rules,
    describe_pictures,
    load_prompt,
    open_talk,
)
from flows.captions.recall_gallery import gallery_of, path_of, shown_pictures
from flows.captions.rival_queries import Around, load_looks, settle_rivals
from flows.definitions import RecallDefinition
from flows.entry import flow_in, main
from flows.publish import Built
from flows.steps import step
from flows.told import told_rescues

GRADES = {
    "1": "the caption was written of this picture, or fits it, too",
    "0": "a person looked, and it does not fit",
}
UNSEEN = "A caption may fit a picture whose rivalry nobody saw: what remains is unjudged, and counts as wrong."
HABITS = "A model's captions have its habits of speech, which people who search do not share."


def recall_tables(definition: RecallDefinition) -> Built:
    """All but publishing: queries, each with its picture, and the ledger of what was no caption or fits too many."""
    gallery = gallery_of(definition)
    ledger, images = gallery.ledger, gallery.tables.images
    pictures = shown_pictures(images, gallery.rendered)
    talk = open_talk(definition)
    captioned = caption_pictures(pictures, definition, talk, told_rescues(definition.out / definition.name), ledger)
    captions: dict[str, Any] = {"asked": ledger.stages[-1].entered}
    queries, qrels = as_tables(clean_captions(captioned, ledger, captions), definition)
    descriptions = describe_pictures(pictures, definition, talk)
    places = [str(path_of(place, gallery.rendered)) for place in images["path"]]
    looks = load_looks(definition, queries, images, places)
    around = Around(images, gallery.tables.duplicates, descriptions, looks)
    shown = {picture.image_id: picture for picture in pictures}
    settled, ambiguity = settle_rivals(queries, qrels, around, shown, talk, captioned.wanted)
    ledger.close("ambiguity", "caption", len(queries), len(settled.queries), settled.away)
    suspicions = settled.marked[SUSPICIONS.names].astype({"score": np.float32})
    twins = gallery.tables.duplicates
    return replace(
        gallery,
        tables=Tables(settled.queries, images, settled.qrels, duplicates=twins, suspicions=suspicions),
        grades=GRADES,
        inputs=gallery.inputs + talk.inputs(),
        models=gallery.models + talk.described() + looks.models(),
        prompts=[{"name": p.name, "sha256": p.sha256} for p in prompts_of(definition)],
        thresholds=gallery.thresholds + thresholds(definition, looks.near),
        notes={**gallery.notes, "captions": captions, "ambiguity": ambiguity},
        faults=[UNSEEN] if written(definition) else [UNSEEN, HABITS],
        calls=talk.costs(),
        told=gallery.told + captioned.wanted.told(set(settled.queries["query_id"])),
    )


def written(definition: RecallDefinition) -> bool:
    """Whether people or another tool wrote the captions, not a model that was asked."""
    return definition.captions.model in ("captions_file", "human")


@step("write queries")
def as_tables(captions: pd.DataFrame, definition: RecallDefinition) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Queries and judgments: each caption with the picture that it was written of, and why a person wrote it."""
    captions = captions.sort_values("query_id", ignore_index=True)
    queries = captions[["query_id", "text", "language", "style"]].assign(
        level=np.int8(1), labels=None, topic=None, source_image_id=captions["image_id"]
    )
    judge = np.where(captions["note"].isna(), "caption" if written(definition) else "model", "human")
    qrels = captions[["query_id", "image_id"]].assign(relevance=np.int8(1), judged_by=judge, evidence=captions["note"])
    names = ["query_id", "image_id", "judged_by", "evidence"]
    return queries, qrels.astype(dict.fromkeys(names, "category"))


def prompts_of(definition: RecallDefinition) -> list[prompts.Prompt]:
    """Every text that the models are asked with, and the cleaning rules."""
    names = list(definition.captions.prompt)
    for language in definition.captions.languages:
        names += [f"{language}/description"] if definition.descriptions is not None else []
        names += [f"{language}/recaption"] if definition.ambiguity.policy == "recaption" else []
    return [load_prompt(name) for name in names] + cleaning_rules()[1]


def thresholds(definition: RecallDefinition, near: float) -> list[dict[str, Any]]:
    """Every cut of the ambiguity check, and whether the value itself still passes."""
    rules = definition.ambiguity
    cuts = [("ambiguity.at_least", rules.at_least)]
    cuts += [("ambiguity.captions", rules.captions or near)] if rules.text_embedder else []
    cuts += [("ambiguity.pictures", rules.pictures)] if rules.image_embedder else []
    return [{"name": name, "passes": "at least", "value": value, "inclusive": True} for name, value in cuts]


if not TYPE_CHECKING:  # to a type checker every name would be in here
    __getattr__ = flow_in("recall_set")

if __name__ == "__main__":
    main("recall_set")

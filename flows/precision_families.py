"""The steps of a precision set with families of queries: attributes of boxes, boxes by label, questions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from backends.annotations import label_lists
from backends.annotations.attribute_values import read_attributes
from builders.errors import UserError
from builders.ledger import Ledger, Rejection, rejection_table
from builders.precision.annotated_gallery import AnnotatedGallery, AnnotationFile
from builders.precision.attribute_choice import choose_attributes
from builders.precision.box_attributes import BoxAttributes, join_attributes
from builders.precision.families import box_evidence, family_queries
from builders.precision.judgments import QueryWording
from builders.precision.label_lists import LabelLists, join_label_lists
from flows.definitions import PrecisionDefinition
from flows.precision_labels import LabelVocabulary, match_labels
from flows.steps import step


@step("read attributes")
def read_box_attributes(
    definition: PrecisionDefinition, files: Sequence[AnnotationFile], gallery: AnnotatedGallery, ledger: Ledger
) -> BoxAttributes:
    """The attributes of the boxes of the gallery that are asked for, and a stage for the others. Raises UserError where
    there is none."""
    assert gallery.places is not None
    choice = choose_attributes(**definition.attributes.model_dump())
    by_digest = {one.sha256: one for one in (read_attributes(path, choice) for path in definition.annotations)}
    _require_unchanged(files, by_digest)
    attributes = join_attributes(files, by_digest, gallery.places)
    left_out = sum((Counter(one.left_out) for one in by_digest.values()), Counter[tuple[str, str]]())
    rejected = [
        Rejection(name, "rejected", reason, measure="boxes", value=count)
        for (name, reason), count in sorted(left_out.items())
    ]
    asked = len(attributes.names)
    ledger.record_stage("attributes", "attribute", asked + len(rejected), asked, rejection_table(rejected))
    if not attributes.names:
        reason = "no annotation has attributes (a list of names, or an object of names with true, false or a text)"
        if rejected:
            reason = f"only bookkeeping, numbers and excluded attributes: {', '.join(one.item for one in rejected[:5])}"
        next_step = "take attribute out of families, name some in attributes, or give annotations with attributes"
        raise UserError("read attributes", ", ".join(file.name for file in files), reason, next_step)
    return attributes


def _require_unchanged(files: Sequence[AnnotationFile], by_digest: Mapping[str, Any]) -> None:
    for file in files:
        if file.sha256 not in by_digest:
            raise UserError("read annotations", file.name, "has changed while it was read", "start the build again")


def check_label_lists(paths: Sequence[Path], exhaustive: bool | str) -> None:
    """Raises UserError where the images of a file list their labels and the definition denies it, or the reverse."""
    for path in paths:
        if exhaustive == "by_image":
            label_lists.require_label_lists(path)
        else:
            label_lists.refuse_label_lists(path)


@step("read lists of labels")
def read_lists(
    paths: Sequence[Path], files: Sequence[AnnotationFile], labels: LabelVocabulary, gallery: AnnotatedGallery
) -> LabelLists:
    """Which labels are annotated whole in which images."""
    by_digest = {one.sha256: one for one in map(label_lists.read_label_lists, paths)}
    _require_unchanged(files, by_digest)
    return join_label_lists(files, by_digest, match_labels(files, labels), gallery.image_rows, len(gallery.images))


def list_boxes_by_label(
    gallery: AnnotatedGallery, labels: LabelVocabulary, seeds: pd.DataFrame, lists: LabelLists | None
) -> box_evidence.BoxWorld:
    """The boxes by label, of which the searchable ones are asked for."""
    assert gallery.places is not None
    singles = seeds.loc[(seeds["level"] == 1) & ~seeds["parent"], "concepts"]
    codes = sorted(concepts[0] for concepts in singles)
    tree, image_count = labels.tree, len(gallery.images)
    return box_evidence.BoxWorld(
        gallery.places, labels.compatibility, tree.concepts, len(tree.labels), image_count, codes, None, lists
    )


@step("find questions of families")
def find_questions(
    boxes: box_evidence.BoxWorld, wording: QueryWording, ledger: Ledger, definition: PrecisionDefinition
) -> list[box_evidence.FamilyQuestion]:
    """The questions of the families that the boxes answer."""
    rules = box_evidence.FamilyRules(
        **definition.family_rules.model_dump(),
        seed=definition.seed,
        all_attributes=definition.exhaustive_attributes,
    )
    return family_queries.find_family_questions(definition.families, boxes, wording, rules, ledger)

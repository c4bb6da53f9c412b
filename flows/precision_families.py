"""The steps of a precision set with families of queries: attributes of boxes, boxes by label, questions."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from backends.annotations.attribute_values import read_attributes
from builders.errors import UserError
from builders.ledger import Ledger
from builders.precision.annotated_gallery import AnnotatedGallery, AnnotationFile
from builders.precision.box_attributes import BoxAttributes, join_attributes
from builders.precision.families import box_evidence, family_queries
from builders.precision.judgments import QueryWording
from flows.definitions import PrecisionDefinition
from flows.precision_labels import LabelVocabulary
from flows.steps import step


@step("read attributes")
def read_box_attributes(
    paths: Sequence[Path], files: Sequence[AnnotationFile], gallery: AnnotatedGallery
) -> BoxAttributes:
    """The attributes of the boxes of the gallery. Raises UserError where no file has any."""
    assert gallery.places is not None
    by_digest = {one.sha256: one for one in map(read_attributes, paths)}
    for file in files:
        if file.sha256 not in by_digest:
            raise UserError("read attributes", file.name, "has changed while it was read", "start the build again")
    attributes = join_attributes(files, by_digest, gallery.places)
    if not attributes.names:
        reason = "have no attributes (a list of names, or an object of names with true, false or a text)"
        next_step = "take attribute out of families, or give annotations with attributes"
        raise UserError("read attributes", ", ".join(file.name for file in files), reason, next_step)
    return attributes


def list_boxes_by_label(
    gallery: AnnotatedGallery, labels: LabelVocabulary, seeds: pd.DataFrame, attributes: BoxAttributes | None
) -> box_evidence.BoxWorld:
    """The boxes by label, of which the searchable ones are asked for."""
    assert gallery.places is not None
    singles = seeds.loc[(seeds["level"] == 1) & ~seeds["parent"], "concepts"]
    codes = sorted(concepts[0] for concepts in singles)
    tree, image_count = labels.tree, len(gallery.images)
    return box_evidence.BoxWorld(
        gallery.places, labels.compatibility, tree.concepts, len(tree.labels), image_count, codes, attributes
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

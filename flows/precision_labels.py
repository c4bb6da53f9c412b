"""The labels of a precision set: their names, their tree, and which label accepts the images of which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from backends.annotations import label_tables
from builders.errors import UserError
from builders.manifest_records import InputRecord
from builders.precision import annotated_gallery, compatibility, tag_tree
from flows.definitions import PrecisionDefinition
from flows.steps import step


@dataclass(frozen=True, slots=True)
class LabelVocabulary:
    """The concepts, what each accepts, the languages that queries are written in, and the files they come from."""

    tree: tag_tree.TagTree
    compatibility: compatibility.LabelCompatibility
    derived_pairs: list[tuple[str, str]]
    languages: list[str]
    former_names: dict[str, set[str]]
    inputs: list[InputRecord]


@step("read labels")
def read_labels(definition: PrecisionDefinition, files: list[annotated_gallery.AnnotationFile]) -> LabelVocabulary:
    """The labels, their tree, and which label accepts the images of which. Raises UserError for a damaged table."""
    inputs: list[InputRecord] = []
    former_names: dict[str, set[str]] = {}
    if definition.labels in ("from_annotations", "from_supercategories"):
        categories = pd.concat([file.categories for file in files], ignore_index=True)
        tree = tag_tree.build_tree_from_categories(categories, definition.labels == "from_supercategories")
        languages = [tag_tree.detect_name_language(tree)]
        for language in definition.languages or languages:
            check_names_in_language(tree, language)
    else:
        folder = label_tables.find_table_folder(definition.labels)
        label_rows, source = label_tables.read_label_csv(folder / "labels.csv")
        inputs, tree_rows = [source], None
        if (folder / "tree.csv").is_file():
            tree_rows, source = label_tables.read_label_csv(folder / "tree.csv")
            inputs.append(source)
        tree, languages = tag_tree.build_tag_tree(label_rows, tree_rows, folder.name), ["zh", "en"]
        former_names = label_tables.read_former_names(folder)
    rows = None
    if definition.compatible is not None:
        rows, source = label_tables.read_label_csv(label_tables.find_compatibility_file(definition.compatible))
        inputs.append(source)
    closed = compatibility.build_compatibility(tree, rows, definition.compatible or "tree")
    derived_pairs = compatibility.list_derived_pairs(tree, rows, closed)
    return LabelVocabulary(tree, closed, derived_pairs, list(definition.languages or languages), former_names, inputs)


def match_labels(
    files: Sequence[annotated_gallery.AnnotationFile], labels: LabelVocabulary
) -> list[annotated_gallery.Ints]:
    """Per file the label of each category. Raises UserError where the table lacks one."""
    tree, former_names = labels.tree, labels.former_names
    matched = [tag_tree.match_categories(file.categories, tree, file.name, former_names) for file in files]
    return [np.array(of_file, dtype=np.int64) for of_file in matched]


def check_names_in_language(tree: tag_tree.TagTree, language: str) -> None:
    """Raises UserError where a name from the annotations is in another language than the queries."""
    others = tag_tree.list_names_of_other_languages(tree, language)
    if not others:
        return
    named = {"zh": "Chinese", "en": "English"}[language]
    reason = f"is no {named} name, like {len(others):,} of the {len(tree.concepts):,} names in the annotations"
    if shipped := label_tables.find_fitting_table(label.key for label in tree.labels):
        next_step = f"set labels: {shipped}, which has {named} names for all of them"
    else:
        next_step = (
            f"write the {named} names into the column {language} of a labels.csv and give its folder as `labels` "
            "(docs/precision.md, Your own label table)"
        )
    if len(others) == len(tree.concepts):
        next_step += f", or set languages: [{'en' if language == 'zh' else 'zh'}]"
    raise UserError("read labels", others[0], reason, next_step)

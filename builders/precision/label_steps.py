"""The steps of a precision set that read its labels: names, tree, attributes, detections, thresholds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from builders.precision import (
    annotation_files,
    annotation_records,
    compatibility,
    detections,
    judgments,
    label_files,
    tag_files,
    tag_tree,
)
from builders.precision.annotated_gallery import ASPECT_RATIO_TOLERANCE, AnnotatedGallery, AnnotationFile, Ints
from builders.precision.attributes import BoxAttributes, choose_attributes, join_attributes
from builders.precision.box_forms import fit_boxes
from builders.precision.boxes import StoredFrames, turn_boxes
from builders.precision.definition import PrecisionDefinition, TagOptions
from builders.precision.families import box_evidence, family_queries
from builders.precision.label_index import LabelLists, join_label_lists
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.sets.ledger import Ledger, Rejection, rejection_table
from querytruth.sets.manifest import Input, Threshold, describe_threshold


@dataclass(frozen=True, slots=True)
class LabelVocabulary:
    """The concepts, what each accepts, the languages that queries are written in, and the files they come from."""

    tree: tag_tree.TagTree
    compatibility: compatibility.LabelCompatibility
    derived_pairs: list[tuple[str, str]]
    languages: list[str]
    former_names: dict[str, set[str]]
    inputs: list[Input]


@step("read labels")
def read_labels(definition: PrecisionDefinition, files: list[AnnotationFile]) -> LabelVocabulary:
    """Return the labels, their tree, and which label accepts which label's images. Raises UserError for a damaged
    table."""
    inputs: list[Input] = []
    former_names: dict[str, set[str]] = {}
    if definition.labels in ("from_annotations", "from_supercategories"):
        categories = pd.concat([file.categories for file in files], ignore_index=True)
        words, shipped = label_files.read_known_words(), label_files.find_fitting_table(categories["name"])
        tree = tag_tree.build_tree_from_categories(categories, definition.labels == "from_supercategories", words)
        _check_names(tree, ", ".join(file.name for file in files))
        if shipped is not None:
            current_run().reporter.log(f"labels: {shipped} has Chinese and English names and plurals for all of these")
        languages = [tag_tree.detect_name_language(tree)]
        for language in definition.languages or languages:
            check_names_in_language(tree, language)
    else:
        folder = label_files.find_table_folder(definition.labels)
        label_rows, source = label_files.read_label_csv(folder / "labels.csv")
        inputs, tree_rows = [source], None
        if (folder / "tree.csv").is_file():
            tree_rows, source = label_files.read_label_csv(folder / "tree.csv")
            inputs.append(source)
        tree, languages = tag_tree.build_tag_tree(label_rows, tree_rows, folder.name), ["zh", "en"]
        former_names = label_files.read_former_names(folder)
    rows = None
    if definition.compatible is not None:
        rows, source = label_files.read_label_csv(label_files.find_compatibility_file(definition.compatible))
        inputs.append(source)
    closed = compatibility.build_compatibility(tree, rows, definition.compatible or "tree")
    derived_pairs = compatibility.list_derived_pairs(tree, rows, closed)
    return LabelVocabulary(tree, closed, derived_pairs, list(definition.languages or languages), former_names, inputs)


def _check_names(tree: tag_tree.TagTree, files: str) -> None:
    codes = [label.key for label in tree.labels if not tag_tree.has_name(label)]
    if 2 * len(codes) > len(tree.labels):
        reason = f"{len(codes):,} of {len(tree.labels):,} labels are codes, not names, like {codes[0]!r}"
        next_step = "write their names into a labels.csv and give its folder as `labels` (docs/precision.md)"
        raise UserError("read labels", files, reason, next_step)


def match_labels(files: Sequence[AnnotationFile], labels: LabelVocabulary) -> list[Ints]:
    """Return per file the label of each category. Raises UserError where the table lacks one."""
    tree, former_names = labels.tree, labels.former_names
    matched = [tag_tree.match_categories(file.categories, tree, file.name, former_names) for file in files]
    return [np.array(of_file, dtype=np.int64) for of_file in matched]


def check_names_in_language(tree: tag_tree.TagTree, language: str) -> None:
    """Raise UserError where a name from the annotations is in another language than the queries."""
    others = tag_tree.list_names_of_other_languages(tree, language)
    if not others:
        return
    named = {"zh": "Chinese", "en": "English"}[language]
    reason = f"is not a {named} name, like {len(others):,} of the {len(tree.concepts):,} names in the annotations"
    if shipped := label_files.find_fitting_table(label.key for label in tree.labels):
        next_step = f"set labels: {shipped}, which has {named} names for all of them"
    else:
        next_step = (
            f"write the {named} names into the column {language} of a labels.csv and give its folder as `labels` "
            "(docs/precision.md, Your own label table)"
        )
    if len(others) == len(tree.concepts):
        next_step += f", or set languages: [{'en' if language == 'zh' else 'zh'}]"
    raise UserError("read labels", others[0], reason, next_step)


@step("read attributes")
def read_box_attributes(
    definition: PrecisionDefinition, files: Sequence[AnnotationFile], gallery: AnnotatedGallery, ledger: Ledger
) -> BoxAttributes:
    """Return the requested attributes of the boxes of the gallery, and a stage for the others. Raises UserError if
    there are none."""
    assert gallery.places is not None
    choice = choose_attributes(**definition.attributes.model_dump())
    by_digest = {
        one.sha256: one for one in (annotation_records.read_attributes(path, choice) for path in definition.annotations)
    }
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
        next_step = "remove attribute from families, name some in attributes, or give annotations with attributes"
        raise UserError("read attributes", ", ".join(file.name for file in files), reason, next_step)
    return attributes


def _require_unchanged(files: Sequence[AnnotationFile], by_digest: Mapping[str, Any]) -> None:
    for file in files:
        if file.sha256 not in by_digest:
            raise UserError("read annotations", file.name, "changed while it was being read", "start the build again")


@step("read lists of labels")
def read_lists(
    paths: Sequence[Path], files: Sequence[AnnotationFile], labels: LabelVocabulary, gallery: AnnotatedGallery
) -> LabelLists:
    """Return which labels are fully annotated in which images."""
    by_digest = {one.sha256: one for one in map(label_files.read_label_lists, paths)}
    _require_unchanged(files, by_digest)
    return join_label_lists(files, by_digest, match_labels(files, labels), gallery.image_rows, len(gallery.images))


def list_boxes_by_label(
    gallery: AnnotatedGallery, labels: LabelVocabulary, seeds: pd.DataFrame, lists: LabelLists | None
) -> box_evidence.BoxWorld:
    """Return the boxes by label; queries ask for the searchable labels."""
    assert gallery.places is not None
    singles = seeds.loc[(seeds["level"] == 1) & ~seeds["parent"], "concepts"]
    codes = sorted(concepts[0] for concepts in singles)
    tree, image_count = labels.tree, len(gallery.images)
    return box_evidence.BoxWorld(
        gallery.places, labels.compatibility, tree.concepts, len(tree.labels), image_count, codes, None, lists
    )


@step("find questions of families")
def find_questions(
    boxes: box_evidence.BoxWorld, wording: judgments.QueryWording, ledger: Ledger, definition: PrecisionDefinition
) -> list[box_evidence.FamilyQuestion]:
    """Return the questions of the families that the boxes answer."""
    rules = box_evidence.FamilyRules(
        **definition.family_rules.model_dump(),
        seed=definition.seed,
        all_attributes=definition.exhaustive_attributes,
    )
    return family_queries.find_family_questions(definition.families, boxes, wording, rules, ledger)


@step("read detections")
def read_detections(paths: list[Path]) -> list[detections.DetectionFile]:
    """Return a detector's results, by name and digest. Raises UserError for a file that cannot be read."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with current_run().reporter.bar("read detections", total, "bytes") as advance:
        files = [annotation_files.read_results(path, advance) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


def fit_results(
    results: list[detections.DetectionFile],
    file: AnnotationFile,
    rows: Ints,
    frames: StoredFrames | None,
    at_least: float,
) -> list[detections.DetectionFile]:
    """Return the results with the annotations' image ids, as boxes of upright images. Raises UserError for a file that
    is about other images or labels. `rows`: the listed image of each image record of `file`."""
    out = []
    for one in results:
        named = detections.name_images_by_id(one, file)
        if named is not one:
            log = current_run().reporter.log
            log(f"{one.name}: none of its image_ids occurs in {file.name}; they are read as file names")
        fitted, form = fit_boxes("read detections", named.name, named.boxes, file.images)
        current_run().reporter.log(f"{named.name}: boxes read as {form or 'xywh'}")
        boxes = turn_boxes(fitted, file.images["id"].to_numpy(), rows, frames)
        out.append(replace(named, boxes=boxes))
        detections.check_detections(out[-1], file, at_least)
    return out


@step("join detections")
def join_detections(
    files: list[AnnotationFile],
    results: list[detections.DetectionFile],
    gallery: AnnotatedGallery,
    labels: LabelVocabulary,
    ledger: Ledger,
    at_least: float,
) -> tuple[AnnotatedGallery, detections.Detections]:
    """Return the detections that the annotations lack, and the gallery with their labels as doubtful."""
    (file,) = files
    (codes,) = match_labels(files, labels)
    found = detections.accept_detections(results, file, codes, gallery, at_least, ledger)
    if gallery.places is not None:
        gallery = replace(gallery, places=detections.doubt_places(gallery.places, found))
    return gallery, found


def propose_tags(
    files: list[AnnotationFile],
    wanted: TagOptions | None,
    gallery: AnnotatedGallery,
    labels: LabelVocabulary,
    ledger: Ledger,
) -> tuple[AnnotatedGallery, detections.Detections]:
    """Return the tags of a file that are too unsure to count, as detections."""
    assert wanted is not None and wanted.propose_from is not None, "the definition proposes tags"
    unsure = tag_files.read_unsure_tags(files[0], wanted.propose_from, wanted.at_least)
    return join_detections(files, [unsure], gallery, labels, ledger, wanted.propose_from)


def list_precision_thresholds(definition: PrecisionDefinition) -> list[Threshold]:
    """Return all thresholds of the build, for the manifest."""
    thresholds = [
        describe_threshold("searchable.area_ratio", "over", definition.searchable.area_ratio),
        describe_threshold("searchable.min_images", "at least", definition.searchable.min_images),
        describe_threshold("mixes.min_images", "at least", definition.mixes.min_images),
    ]
    cap = definition.mixes.cap
    caps = {f"mixes.cap.{level}": most for level, most in enumerate(cap, 2)} if isinstance(cap, list) else {}
    if isinstance(cap, int):
        caps["mixes.cap"] = cap
    thresholds += [describe_threshold(name, "at most", most) for name, most in caps.items()]
    if definition.families:
        upper = ("cap", "small")
        for name, cut in definition.family_rules.model_dump(exclude_none=True).items():
            bound: Literal["at most", "at least"] = "at most" if name in upper else "at least"
            thresholds.append(describe_threshold(f"family_rules.{name}", bound, cut))
    if definition.detections is not None:
        thresholds.append(describe_threshold("detections.at_least", "at least", definition.detections.at_least))
    if definition.tags is not None:
        thresholds.append(describe_threshold("tags.at_least", "at least", definition.tags.at_least))
    if definition.images is not None:
        thresholds.append(describe_threshold("images.aspect_ratio_deviation", "under", ASPECT_RATIO_TOLERANCE))
    return thresholds

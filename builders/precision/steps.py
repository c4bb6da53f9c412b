"""Reads labels and boxes, mines mixes and judges images: what the flow of precision sets calls."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

import prompts
from builders.gallery.image_scan import find_listed_images, list_other_images, scan_found_images
from builders.precision import (
    annotated_gallery,
    annotation_files,
    detections,
    judgments,
    label_files,
    label_index,
    label_steps,
    mixes,
    tag_tree,
)
from builders.precision.boxes import StoredFrames, find_stored_frames, turn_files
from builders.precision.definition import FactOptions, PrecisionDefinition, TagOptions
from builders.precision.fact_files import find_unknown, join_facts
from builders.precision.families import box_evidence, family_queries
from builders.precision.label_index import LabelLists
from builders.precision.phrasing_steps import JudgedTables
from builders.precision.tag_files import is_tag_file, list_tagged_images
from querytruth.backends.images.source_names import encode_item
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.records import empty_frame
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Input


@dataclass(frozen=True, slots=True)
class MinedSeeds:
    """The gallery, the index of its labels, the seeds and the questions of families that become queries. `scanned` is
    None without images, `boxes` without families."""

    inputs: list[Input]
    labels: label_steps.LabelVocabulary
    gallery: annotated_gallery.AnnotatedGallery
    scanned: pd.DataFrame | None
    index: label_index.LabelIndex
    seeds: pd.DataFrame
    boxes: box_evidence.BoxWorld | None
    questions: list[box_evidence.FamilyQuestion]
    found: detections.Detections | None = None
    lists: LabelLists | None = None
    facts: pd.DataFrame | None = None


def get_wording(labels: label_steps.LabelVocabulary, definition: PrecisionDefinition) -> judgments.QueryWording:
    """Return the languages and styles of the queries."""
    templates = {language: prompts.load_template(f"{language}/sentence") for language in labels.languages}
    return judgments.QueryWording(labels.languages, definition.styles, templates)


def list_queries(mined: MinedSeeds, wording: judgments.QueryWording) -> pd.DataFrame:
    """Return the queries that are written without a model, with their texts."""
    tree, seeds = mined.labels.tree, mined.seeds
    rows = [
        query
        for concepts, level in zip(seeds["concepts"], seeds["level"], strict=True)
        for language in wording.languages
        for query in judgments.list_seed_queries(concepts, level, tree, language, wording)
    ]
    for question in mined.questions:
        assert mined.boxes is not None
        rows += family_queries.list_question_queries(question, mined.boxes, wording)
    return pd.DataFrame(rows, columns=["query_id", "text", "language", "style", "level", "labels", "family"])


def no_images_error(definition: PrecisionDefinition, ledger: Ledger) -> UserError:
    stage = next(stage for stage in ledger.stages if stage.stage == "images")
    rows = ledger.rows()
    rows = rows[rows["stage"] == "images"]
    reasons = rows["reason"].astype("str").value_counts().sort_index().to_dict()
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in reasons.items())
    place = definition.images or ", ".join(path.name for path in definition.annotations)
    items = rows["item"].drop_duplicates()[:3]
    examples = f": {', '.join(str(item)[:80] for item in items)}" if len(items) else ""
    reason = f"contains none of the {stage.entered:,} annotated images ({counts or 'none listed'}){examples}"
    next_step = "set images to the folder of these images" if definition.images else "give other annotations"
    if reasons.keys() & {"found_in_several_folders", "named_by_several"}:
        next_step = "add the folder to file_name (train/x.jpg), or name each annotation file after its image folder"
    return UserError("read images", place, reason, next_step)


@step("read annotations")
def read_annotations(
    paths: list[Path], tags: TagOptions | None, facts: FactOptions | None = None
) -> list[annotated_gallery.AnnotationFile]:
    """Return all annotation files, by name and digest: their order in the definition makes no difference. Raises
    UserError for one that cannot be read."""
    total, least_tag_score = sum(path.stat().st_size for path in paths if path.is_file()), tags.at_least if tags else 0
    with current_run().reporter.bar("read annotations", total, "bytes") as advance:
        files = [annotation_files.read_annotations(path, advance, least_tag_score, facts) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


def add_folder_images(
    definition: PrecisionDefinition, files: list[annotated_gallery.AnnotationFile]
) -> list[annotated_gallery.AnnotationFile]:
    """Return the files. If all are files of tags, the first also lists the folder's images without a counted tag: a
    search over the folder returns them, too."""
    if definition.images is None or not all(is_tag_file(Path(file.path)) for file in files):
        return files
    names = [file.images["file_name"].tolist() for file in files]
    found = find_listed_images(definition.images, names, [Path(file.path) for file in files])
    others = list_other_images(definition.images, [one for of_file in found for one in of_file], definition.out)
    first, *rest = files
    images = pd.concat([first.images, list_tagged_images(others)], ignore_index=True)
    return [replace(first, images=images, images_entered=first.images_entered + len(others)), *rest]


def read_images(
    definition: PrecisionDefinition, files: list[annotated_gallery.AnnotationFile]
) -> tuple[annotated_gallery.ListedImages, pd.DataFrame, StoredFrames | None]:
    """Return the images of all files, the scan of each, and which of them are annotated in their stored pixels."""
    assert definition.images is not None
    root = definition.images
    names = [file.images["file_name"].tolist() for file in files]
    found = find_listed_images(root, names, [Path(file.path) for file in files])
    texts = [[one if isinstance(one, str) else os.path.relpath(one, root) for one in of_file] for of_file in found]
    listed = annotated_gallery.list_images(files, [[encode_item(os.fsencode(one)) for one in of] for of in texts])
    of_row = {row: one for rows, of in zip(listed.rows, found, strict=True) for row, one in zip(rows, of, strict=True)}
    read = scan_found_images(root, [of_row[row] for row in range(len(of_row))], definition.out / definition.name)
    frames = find_stored_frames(files, listed, read)
    exchanged = None if frames is None else frames.is_exchanged
    return listed, annotated_gallery.check_scanned_images(listed, read, exchanged), frames


@step("join gallery")
def join_gallery(
    files: list[annotated_gallery.AnnotationFile],
    listed: annotated_gallery.ListedImages,
    scanned: pd.DataFrame | None,
    labels: label_steps.LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> annotated_gallery.AnnotatedGallery:
    """Return the accepted images with ids, and the accepted boxes with their image and label."""
    codes = label_steps.match_labels(files, labels)
    return annotated_gallery.join_annotations(
        files,
        listed,
        scanned,
        codes,
        ledger,
        left_out=frozenset(kind for kind, is_kept in definition.boxes if not is_kept),
        with_places=bool(definition.families),
        with_sides=definition.images is not None,
    )


@step("find queries")
def find_seeds(
    gallery: annotated_gallery.AnnotatedGallery,
    labels: label_steps.LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> tuple[label_index.LabelIndex, pd.DataFrame]:
    """Return the index of labels, and the seeds: searchable labels, parents and mixes."""
    tree, rules, wanted = labels.tree, definition.searchable, definition.mixes
    index = label_index.build_label_index(gallery, len(tree.labels), labels.compatibility, rules.area_ratio)
    searchable, parents = mixes.find_searchable_concepts(
        index, tree, ledger, min_images=rules.min_images, support_rule=rules.count, with_parents=definition.parents
    )
    mix_rules = mixes.MixRules(
        wanted.levels, wanted.mode, wanted.draws, wanted.caps, wanted.min_images, definition.seed
    )
    mixed = mixes.find_mixes(searchable, index, tree, labels.compatibility, mix_rules, ledger)
    return index, mixes.build_seed_table(searchable, parents, mixed, index)


def find_candidates(mined: MinedSeeds) -> detections.CandidateFinder | None:
    """Return a finder of the candidates that detections propose; None without detections."""
    tree, compatible, ids = mined.labels.tree, mined.labels.compatibility, mined.gallery.images["image_id"].to_numpy()
    return None if mined.found is None else detections.CandidateFinder(mined.index, mined.found, tree, compatible, ids)


def count_proposed(mined: MinedSeeds) -> int:
    """Return the number of pairs of labels and an image that detections propose."""
    finder = find_candidates(mined)
    return 0 if finder is None else sum(len(finder.find(concepts)) for concepts in mined.seeds["concepts"])


@step("judge")
def judge_seeds(mined: MinedSeeds, definition: PrecisionDefinition, wording: judgments.QueryWording) -> JudgedTables:
    """Return the queries, qrels and candidate_judgments tables."""
    tree, compatible = mined.labels.tree, mined.labels.compatibility
    ids = mined.gallery.images["image_id"].to_numpy(dtype=object)
    graded, near_misses = definition.grades == "graded", definition.mixes.near_misses
    judge = judgments.SeedJudge(mined.index, tree, compatible, ids, graded, near_misses, definition.seed)
    candidates = empty_frame("candidate_judgments")
    if (finder := find_candidates(mined)) is not None:
        judge.possible = finder.detected.present
        candidates = detections.build_candidate_table(list(mined.seeds["concepts"]), finder, wording)
    if mined.facts is not None:
        unknown = find_unknown(mined.facts, tree.concepts)
        judge.possible = unknown if judge.possible is None else judge.possible | unknown
    if mined.lists is not None:
        unverified = mined.lists.find_possible(compatible, len(tree.labels))
        judge.possible = unverified if judge.possible is None else judge.possible | unverified
    others: list[judgments.JudgedQuery] = []
    if mined.boxes is not None:
        seeds = mined.seeds["concepts"]
        others = family_queries.judge_family_questions(mined.questions, mined.boxes, judge, wording, seeds)
    return JudgedTables(*judgments.build_queries_and_qrels(mined.seeds, judge, wording, others), candidates)


def mine_seeds(definition: PrecisionDefinition, ledger: Ledger) -> MinedSeeds:
    """Return the seeds of the queries, from the annotations: the steps that a plan and a build share."""
    if definition.needs_all_objects or definition.exhaustive == "by_image":
        for path in definition.annotations:
            label_files.check_label_lists(path, definition.exhaustive)
    files = add_folder_images(definition, read_annotations(definition.annotations, definition.tags, definition.facts))
    labels = label_steps.read_labels(definition, files)
    tag_tree.record_other_spellings([str(name) for file in files for name in file.categories["name"]], ledger)
    scanned, frames = None, None
    if definition.images is None:
        listed = annotated_gallery.list_images(files)
    else:
        listed, scanned, frames = read_images(definition, files)
        files = turn_files(files, listed, frames)
    gallery = join_gallery(files, listed, scanned, labels, ledger, definition)
    if not len(gallery.images):
        raise no_images_error(definition, ledger)
    found = None
    if definition.detections is not None:
        results = label_steps.read_detections(definition.detections.results)
        results = label_steps.fit_results(results, files[0], listed.rows[0], frames, definition.detections.at_least)
        gallery, found = label_steps.join_detections(
            files, results, gallery, labels, ledger, definition.detections.at_least
        )
    if definition.proposes_tags:
        gallery, found = label_steps.propose_tags(files, definition.tags, gallery, labels, ledger)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    inputs = [file.input_record() for file in files] + labels.inputs
    if definition.detections is not None:
        inputs += [one.input_record() for one in results]
    lists = None
    if definition.exhaustive == "by_image":
        lists = label_steps.read_lists(definition.annotations, files, labels, gallery)
    facts = join_facts(files, gallery.image_rows, len(gallery.images))
    boxes, questions = None, list[box_evidence.FamilyQuestion]()
    if definition.families:
        boxes = label_steps.list_boxes_by_label(gallery, labels, seeds, lists)
        if "attribute" in definition.families:
            boxes.attributes = label_steps.read_box_attributes(definition, files, gallery, ledger)
        boxes.facts = facts
        questions = label_steps.find_questions(boxes, get_wording(labels, definition), ledger, definition)
    return MinedSeeds(inputs, labels, gallery, scanned, index, seeds, boxes, questions, found, lists, facts)

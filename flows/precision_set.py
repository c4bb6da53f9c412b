"""The precision set: annotations in, a published set out.

annotations ─► gallery ─► searchable labels ─► mixes ─► judged queries ─► people's decisions ─► set v<N>
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import prompts
from backends.annotations import coco_annotations
from backends.sources.source_names import encode_item
from builders.benchmark_set import Tables
from builders.decisions.outcome import DecisionOutcome
from builders.errors import UserError
from builders.ledger import Ledger
from builders.manifest_records import InputRecord, PromptRecord, Provenance
from builders.precision import (
    annotated_gallery,
    box_table,
    detections,
    judgments,
    label_index,
    mixes,
    stored_pixels,
    tag_tree,
)
from builders.precision.families import box_evidence, family_queries
from builders.precision.label_lists import LabelLists
from builders.records import empty_frame
from flows.definitions import PrecisionDefinition
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.images.duplicate_groups import mark_duplicates
from flows.images.image_scan import find_listed_images, scan_found_images
from flows.images.rendering import render_every_image
from flows.precision_detections import fit_results, join_detections, read_detections
from flows.precision_families import (
    check_label_lists,
    find_questions,
    list_boxes_by_label,
    read_box_attributes,
    read_lists,
)
from flows.precision_labels import LabelVocabulary, match_labels, read_labels
from flows.precision_phrasings import PHRASING_LIMITATION, JudgedTables, add_phrasings, forecast_phrasings
from flows.precision_thresholds import list_precision_thresholds
from flows.prefect_runs.build_parameters import PrecisionBuild
from flows.set_kind import SetKind
from flows.set_publication import BuiltTables
from flows.steps import current_run, step

PRECISION_LIMITATIONS = [
    "Truth is what the annotations say: an object that nobody annotated makes a right answer count as wrong.",
    "Queries of frequent labels have very many relevant pictures: recall at a small k says little about them.",
]


@dataclass(frozen=True, slots=True)
class MinedSeeds:
    """The gallery, the index of its labels, the seeds and the questions of families that become queries. `scanned` is
    None without images, `boxes` without families."""

    inputs: list[InputRecord]
    labels: LabelVocabulary
    gallery: annotated_gallery.AnnotatedGallery
    scanned: pd.DataFrame | None
    index: label_index.LabelIndex
    seeds: pd.DataFrame
    boxes: box_evidence.BoxWorld | None
    questions: list[box_evidence.FamilyQuestion]
    found: detections.Detections | None = None
    lists: LabelLists | None = None


def build_precision_tables(definition: PrecisionDefinition) -> BuiltTables:
    """The set before it is published: tables, ledger and provenance."""
    ledger = Ledger()
    mined = mine_seeds(definition, ledger)
    labels, seeds, images = mined.labels, mined.seeds, mined.gallery.images
    wording = get_wording(labels, definition)
    judged = judge_seeds(mined, definition, wording)
    duplicates, decision_outcome, rendered_folder = empty_frame("duplicates"), DecisionOutcome(), None
    boxes = box_table.build_box_table(mined.gallery, labels.tree.concepts, labels.compatibility, mined.found)
    found_by, model_calls = Provenance(), dict[str, Any]()
    if definition.has_phrasings:
        judged, found_by, model_calls = add_phrasings(judged, labels, definition, ledger)
    if mined.scanned is not None:
        folder = definition.out / definition.name
        images, groups, compared = mark_duplicates(images, mined.scanned, definition.near_duplicates, folder)
        found_by += compared
        duplicates, decision_outcome = groups.table, groups.decision_outcome
        if definition.render:
            images, rendered_folder = render_every_image(images, list(images["sha256"]), definition.render, folder)
    sentences = wording.sentences.values() if "sentence" in definition.texts else []
    tables = Tables(
        judged.queries, images, judged.qrels, duplicates=duplicates, boxes=boxes, candidate_judgments=judged.candidates
    )
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=family_queries.describe_grades(definition.grades, definition.families),
        provenance=Provenance(
            inputs=mined.inputs,
            prompts=[PromptRecord(sentence.name, sentence.sha256) for sentence in sentences],
            thresholds=list_precision_thresholds(definition),
        )
        + found_by,
        notes={
            "parents": [labels.tree.concepts[mix[0]].key for mix in seeds.loc[seeds["parent"], "concepts"]],
            "accepted_pairs_declared": labels.compatibility.declared_pairs,
            "accepted_pairs_closed": labels.compatibility.closed_pairs,
        },
        known_limitations=PRECISION_LIMITATIONS + ([PHRASING_LIMITATION] if definition.has_phrasings else []),
        rendered_folder=rendered_folder,
        model_calls=model_calls,
        decision_outcome=decision_outcome,
    )


def mine_seeds(definition: PrecisionDefinition, ledger: Ledger) -> MinedSeeds:
    """The seeds of the queries, from the annotations: the steps that a plan and a build share."""
    if definition.needs_all_objects or definition.exhaustive == "by_image":
        check_label_lists(definition.annotations, definition.exhaustive)
    files = read_annotations(definition.annotations)
    labels = read_labels(definition, files)
    tag_tree.record_other_spellings([str(name) for file in files for name in file.categories["name"]], ledger)
    scanned, frames = None, None
    if definition.images is None:
        listed = annotated_gallery.list_images(files)
    else:
        listed, scanned, frames = read_images(definition, files)
        files = stored_pixels.turn_files(files, listed, frames)
    gallery = join_gallery(files, listed, scanned, labels, ledger, definition)
    if not len(gallery.images):
        raise _no_images_error(definition, ledger)
    found = None
    if definition.detections is not None:
        results = read_detections(definition.detections.results)
        results = fit_results(results, files[0], listed.rows[0], frames, definition.detections.at_least)
        gallery, found = join_detections(files, results, gallery, labels, ledger, definition.detections.at_least)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    inputs = [file.input_record() for file in files] + labels.inputs
    if found is not None:
        inputs += [one.input_record() for one in results]
    lists = None
    if definition.exhaustive == "by_image":
        lists = read_lists(definition.annotations, files, labels, gallery)
    boxes, questions = None, list[box_evidence.FamilyQuestion]()
    if definition.families:
        boxes = list_boxes_by_label(gallery, labels, seeds, lists)
        if "attribute" in definition.families:
            boxes.attributes = read_box_attributes(definition, files, gallery, ledger)
        questions = find_questions(boxes, get_wording(labels, definition), ledger, definition)
    return MinedSeeds(inputs, labels, gallery, scanned, index, seeds, boxes, questions, found, lists)


def get_wording(labels: LabelVocabulary, definition: PrecisionDefinition) -> judgments.QueryWording:
    """The languages and styles of the queries."""
    templates = {language: prompts.load_template(f"{language}/sentence") for language in labels.languages}
    return judgments.QueryWording(labels.languages, definition.styles, templates)


def list_queries(mined: MinedSeeds, wording: judgments.QueryWording) -> pd.DataFrame:
    """The queries that are written without a model, with their texts."""
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


def _no_images_error(definition: PrecisionDefinition, ledger: Ledger) -> UserError:
    stage = next(stage for stage in ledger.stages if stage.stage == "images")
    reasons = Counter[str](stage.rejected) + Counter(stage.quarantined) + Counter(stage.pending)
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(reasons.items()))
    place = definition.images or ", ".join(path.name for path in definition.annotations)
    rows = ledger.rows()
    items = rows.loc[rows["stage"] == "images", "item"].drop_duplicates()[:3]
    examples = f": {', '.join(str(item)[:80] for item in items)}" if len(items) else ""
    reason = f"has none of the {stage.entered:,} annotated pictures ({counts or 'none is listed'}){examples}"
    next_step = "give the folder of these pictures as images" if definition.images else "give other annotations"
    if reasons.keys() & {"found_in_several_folders", "named_by_several"}:
        next_step = (
            "write the folder into file_name (train/x.jpg), or name each annotation file after its folder of pictures"
        )
    return UserError("read images", place, reason, next_step)


@step("read annotations")
def read_annotations(paths: list[Path]) -> list[annotated_gallery.AnnotationFile]:
    """All annotation files, by name and digest: their order in the definition makes no difference. Raises UserError
    for one that cannot be read."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with current_run().reporter.bar("read annotations", total, "bytes") as advance:
        files = [coco_annotations.read_annotations(path, advance) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


def read_images(
    definition: PrecisionDefinition, files: list[annotated_gallery.AnnotationFile]
) -> tuple[annotated_gallery.ListedImages, pd.DataFrame, stored_pixels.StoredFrames | None]:
    """The images of all files, the scan of each, and which of them are annotated in their stored pixels."""
    assert definition.images is not None
    root = definition.images
    names = [file.images["file_name"].tolist() for file in files]
    found = find_listed_images(root, names, [Path(file.path) for file in files])
    texts = [[one if isinstance(one, str) else os.path.relpath(one, root) for one in of_file] for of_file in found]
    listed = annotated_gallery.list_images(files, [[encode_item(os.fsencode(one)) for one in of] for of in texts])
    of_row = {row: one for rows, of in zip(listed.rows, found, strict=True) for row, one in zip(rows, of, strict=True)}
    read = scan_found_images(root, [of_row[row] for row in range(len(of_row))], definition.out / definition.name)
    frames = stored_pixels.find_stored_frames(files, listed, read)
    exchanged = None if frames is None else frames.is_exchanged
    return listed, annotated_gallery.check_scanned_images(listed, read, exchanged), frames


@step("join gallery")
def join_gallery(
    files: list[annotated_gallery.AnnotationFile],
    listed: annotated_gallery.ListedImages,
    scanned: pd.DataFrame | None,
    labels: LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> annotated_gallery.AnnotatedGallery:
    """The accepted images with ids, and the accepted boxes with their image and label."""
    codes = match_labels(files, labels)
    return annotated_gallery.join_annotations(
        files,
        listed,
        scanned,
        codes,
        ledger,
        keep_crowd=definition.boxes.crowd,
        keep_fake=definition.boxes.fake,
        with_places=bool(definition.families),
        with_sides=definition.images is not None,
    )


@step("find queries")
def find_seeds(
    gallery: annotated_gallery.AnnotatedGallery,
    labels: LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> tuple[label_index.LabelIndex, pd.DataFrame]:
    """The index of labels, and the seeds: searchable labels, parents and mixes."""
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


@step("judge")
def judge_seeds(mined: MinedSeeds, definition: PrecisionDefinition, wording: judgments.QueryWording) -> JudgedTables:
    """The queries, qrels and candidate_judgments tables."""
    tree, compatible = mined.labels.tree, mined.labels.compatibility
    ids = mined.gallery.images["image_id"].to_numpy(dtype=object)
    graded, near_misses = definition.grades == "graded", definition.mixes.near_misses
    judge = judgments.SeedJudge(mined.index, tree, compatible, ids, graded, near_misses, definition.seed)
    candidates = empty_frame("candidate_judgments")
    if mined.found is not None:
        finder = detections.CandidateFinder(mined.index, mined.found, tree, compatible, ids)
        judge.possible = finder.detected.present
        candidates = detections.build_candidate_table(list(mined.seeds["concepts"]), finder, wording)
    if mined.lists is not None:
        unverified = mined.lists.find_possible(compatible, len(tree.labels))
        judge.possible = unverified if judge.possible is None else judge.possible | unverified
    others: list[judgments.JudgedQuery] = []
    if mined.boxes is not None:
        seeds = mined.seeds["concepts"]
        others = family_queries.judge_family_questions(mined.questions, mined.boxes, judge, wording, seeds)
    return JudgedTables(*judgments.build_queries_and_qrels(mined.seeds, judge, wording, others), candidates)


def plan_precision(definition: PrecisionDefinition) -> dict[str, Any]:
    """The funnel of a build and the size of the set; nothing is rendered, judged or written."""
    ledger = Ledger()
    mined = mine_seeds(definition, ledger)
    labels, seeds = mined.labels, mined.seeds
    queries = list_queries(mined, get_wording(labels, definition))
    phrased = forecast_phrasings(queries, labels, definition) if definition.has_phrasings else {"model_calls": 0}
    # Each judgment is there for each text of its question.
    texts = len(labels.languages) * (
        len(definition.styles) + (definition.phrasings.count if definition.phrasings else 0)
    )
    near_misses = definition.mixes.near_misses * int((seeds["level"] > 1).sum())
    judgment_count = int(seeds["support"].sum()) + near_misses
    judgment_count += sum(
        len(one.relevant) + min(len(one.wrong), definition.mixes.near_misses) for one in mined.questions
    )
    judgment_count *= texts
    pixels = (definition.render.size**2 if definition.render and definition.images else 0) * len(mined.gallery.images)
    levels = seeds.loc[~seeds["parent"], "level"].value_counts().sort_index()
    return {
        "funnel": ledger.funnel(),
        "levels": {str(level): int(count) for level, count in levels.items()},
        "parents": int(seeds["parent"].sum()),
        "seeds": len(seeds),
        "queries": len(queries),
        "judgments_at_most": judgment_count,
        **phrased,
        "bytes_about": int(8 * judgment_count + 0.2 * pixels),
        "derived_pairs": [f"{one} accepts {other}" for one, other in labels.derived_pairs],
    }


PRECISION_SET = SetKind(
    name="precision",
    summary="Make queries of detection labels and judge every picture by its boxes, and publish a precision set.",
    build_tables=build_precision_tables,
    plan=plan_precision,
    parameters=PrecisionBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(PRECISION_SET)

if __name__ == "__main__":
    run_flow_script(PRECISION_SET)

"""The precision set: annotations in, a published set out.

annotations ─► gallery ─► searchable labels ─► mixes ─► judged queries ─► people's decisions ─► set v<N>
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import prompts
from backends.annotations import coco_annotations, label_tables
from builders.benchmark_set import Tables
from builders.decisions.outcome import DecisionOutcome
from builders.errors import UserError
from builders.ledger import Ledger
from builders.manifest_records import InputRecord, ModelRecord, PromptRecord, Provenance, ThresholdRecord
from builders.precision import annotated_gallery, compatibility, judgments, label_index, mixes, tag_tree
from builders.records import empty_frame
from flows.definitions import PrecisionDefinition
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.images.duplicate_groups import list_duplicate_thresholds, mark_duplicates
from flows.images.image_scan import scan_listed_images
from flows.images.rendering import render_every_image
from flows.prefect_runs.build_parameters import PrecisionBuild
from flows.set_kind import SetKind
from flows.set_publication import BuiltTables
from flows.steps import current_run, step

PRECISION_LIMITATIONS = [
    "Truth is what the annotations say: an object that nobody annotated makes a right answer count as wrong.",
    "Queries of frequent labels have very many relevant pictures: recall at a small k says little about them.",
]


@dataclass(frozen=True, slots=True)
class LabelVocabulary:
    """The concepts, what each accepts, the languages that queries are written in, and the files they come from."""

    tree: tag_tree.TagTree
    compatibility: compatibility.LabelCompatibility
    derived_pairs: list[tuple[str, str]]
    languages: list[str]
    former_names: dict[str, set[str]]
    inputs: list[InputRecord]


@dataclass(frozen=True, slots=True)
class MinedSeeds:
    """The gallery, the index of its labels, and the seeds that become queries. `scanned` is None without images."""

    inputs: list[InputRecord]
    labels: LabelVocabulary
    gallery: annotated_gallery.AnnotatedGallery
    scanned: pd.DataFrame | None
    index: label_index.LabelIndex
    seeds: pd.DataFrame


def build_precision_tables(definition: PrecisionDefinition) -> BuiltTables:
    """The set before it is published: tables, ledger and provenance."""
    ledger = Ledger()
    mined = mine_seeds(definition, ledger)
    labels, seeds, images = mined.labels, mined.seeds, mined.gallery.images
    templates = {language: prompts.load_template(f"{language}/sentence") for language in labels.languages}
    wording = judgments.QueryWording(labels.languages, list(definition.texts), templates)
    queries, qrels = judge_seeds(mined, definition, wording)
    duplicates, decision_outcome, rendered_folder = empty_frame("duplicates"), DecisionOutcome(), None
    models: list[ModelRecord] = []
    if mined.scanned is not None:
        folder = definition.out / definition.name
        images, groups, models = mark_duplicates(images, mined.scanned, definition.near_duplicates, folder)
        duplicates, decision_outcome = groups.table, groups.decision_outcome
        if definition.render:
            images, rendered_folder = render_every_image(images, list(images["sha256"]), definition.render, folder)
    sentences = templates.values() if "sentence" in definition.texts else []
    return BuiltTables(
        tables=Tables(queries, images, qrels, duplicates=duplicates),
        ledger=ledger,
        grades=judgments.PRECISION_SET_GRADES[definition.grades],
        provenance=Provenance(
            inputs=mined.inputs,
            models=models,
            prompts=[PromptRecord(sentence.name, sentence.sha256) for sentence in sentences],
            thresholds=list_precision_thresholds(definition),
        ),
        notes={
            "parents": [labels.tree.concepts[mix[0]].key for mix in seeds.loc[seeds["parent"], "concepts"]],
            "accepted_pairs_declared": labels.compatibility.declared_pairs,
            "accepted_pairs_closed": labels.compatibility.closed_pairs,
        },
        known_limitations=PRECISION_LIMITATIONS,
        rendered_folder=rendered_folder,
        decision_outcome=decision_outcome,
    )


def mine_seeds(definition: PrecisionDefinition, ledger: Ledger) -> MinedSeeds:
    """The seeds of the queries, from the annotations: the steps that a plan and a build share."""
    files = read_annotations(definition.annotations)
    labels = read_labels(definition, files)
    tag_tree.record_other_spellings([str(name) for file in files for name in file.categories["name"]], ledger)
    listed = annotated_gallery.list_images(files)
    scanned = None
    if definition.images is not None:
        read = scan_listed_images(definition.images, listed.images["file_name"], definition.out / definition.name)
        scanned = annotated_gallery.check_scanned_images(listed, read)
    gallery = join_gallery(files, listed, scanned, labels, ledger, definition)
    if not len(gallery.images):
        raise _no_images_error(definition, ledger)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    inputs = [file.input_record() for file in files] + labels.inputs
    return MinedSeeds(inputs, labels, gallery, scanned, index, seeds)


def _no_images_error(definition: PrecisionDefinition, ledger: Ledger) -> UserError:
    stage = next(stage for stage in ledger.stages if stage.stage == "images")
    reasons = Counter[str](stage.rejected) + Counter(stage.quarantined) + Counter(stage.pending)
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(reasons.items()))
    place = definition.images or ", ".join(path.name for path in definition.annotations)
    reason = f"has none of the {stage.entered:,} annotated pictures ({counts or 'none is listed'})"
    next_step = "give the folder of these pictures as images" if definition.images else "give other annotations"
    return UserError("read images", place, reason, next_step)


@step("read annotations")
def read_annotations(paths: list[Path]) -> list[annotated_gallery.AnnotationFile]:
    """All annotation files, by name and digest: their order in the definition makes no difference. Raises UserError
    for one that cannot be read."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with current_run().reporter.bar("read annotations", total, "bytes") as advance:
        files = [coco_annotations.read_annotations(path, advance) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


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
    tree, former_names = labels.tree, labels.former_names
    matched = [tag_tree.match_categories(file.categories, tree, file.name, former_names) for file in files]
    codes = [np.array(of_file, dtype=np.int64) for of_file in matched]
    return annotated_gallery.join_annotations(
        files, listed, scanned, codes, ledger, keep_crowd=definition.boxes.crowd, keep_fake=definition.boxes.fake
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
def judge_seeds(
    mined: MinedSeeds, definition: PrecisionDefinition, wording: judgments.QueryWording
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queries and qrels tables."""
    tree, compatible = mined.labels.tree, mined.labels.compatibility
    ids = mined.gallery.images["image_id"].to_numpy(dtype=object)
    graded, near_misses = definition.grades == "graded", definition.mixes.near_misses
    judge = judgments.SeedJudge(mined.index, tree, compatible, ids, graded, near_misses, definition.seed)
    return judgments.build_queries_and_qrels(mined.seeds, judge, wording)


def list_precision_thresholds(definition: PrecisionDefinition) -> list[ThresholdRecord]:
    """All thresholds of the build, for the manifest."""
    thresholds = [
        ThresholdRecord("searchable.area_ratio", "over", definition.searchable.area_ratio),
        ThresholdRecord("searchable.min_images", "at least", definition.searchable.min_images),
        ThresholdRecord("mixes.min_images", "at least", definition.mixes.min_images),
    ]
    cap = definition.mixes.cap
    caps = {f"mixes.cap.{level}": most for level, most in enumerate(cap, 2)} if isinstance(cap, list) else {}
    if isinstance(cap, int):
        caps["mixes.cap"] = cap
    thresholds += [ThresholdRecord(name, "at most", most) for name, most in caps.items()]
    if definition.images is not None:
        tolerance = annotated_gallery.ASPECT_RATIO_TOLERANCE
        thresholds.append(ThresholdRecord("images.aspect_ratio_deviation", "under", tolerance))
        thresholds += list_duplicate_thresholds(definition.near_duplicates)
    return thresholds


def plan_precision(definition: PrecisionDefinition) -> dict[str, Any]:
    """The funnel of a build and the size of the set; nothing is rendered, judged or written."""
    ledger = Ledger()
    mined = mine_seeds(definition, ledger)
    labels, seeds = mined.labels, mined.seeds
    wordings = len(labels.languages) * len(definition.texts)
    near_misses = definition.mixes.near_misses * int((seeds["level"] > 1).sum())
    judgment_count = (int(seeds["support"].sum()) + near_misses) * wordings
    pixels = (definition.render.size**2 if definition.render and definition.images else 0) * len(mined.gallery.images)
    levels = seeds.loc[~seeds["parent"], "level"].value_counts().sort_index()
    return {
        "funnel": ledger.funnel(),
        "levels": {str(level): int(count) for level, count in levels.items()},
        "parents": int(seeds["parent"].sum()),
        "seeds": len(seeds),
        "queries": len(seeds) * wordings,
        "judgments_at_most": judgment_count,
        "model_calls": 0,
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

"""The precision set: annotations in, a published set out.

annotations ─► gallery ─► searchable labels ─► mixes ─► judged queries ─► people's decisions ─► set v<N>
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

import prompts
from backends.annotations import coco_annotations, label_tables
from backends.sources.image_folder import ImageFolder
from backends.sources.image_sources import open_source
from backends.sources.source_names import encode_item
from builders.benchmark_set import Tables
from builders.decisions.outcome import DecisionOutcome
from builders.errors import UserError
from builders.gallery.near_duplicates import DuplicateGroups
from builders.ledger import Ledger
from builders.precision import annotated_gallery, compatibility, judgments, label_index, mixes, tag_tree
from builders.records import SCANNED_IMAGES_SCHEMA, empty_frame
from flows.definitions import PrecisionDefinition
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.images.duplicate_groups import group_duplicates
from flows.images.image_scan import scan_images
from flows.images.rendering import render_images
from flows.prefect_runs.build_parameters import PrecisionBuild
from flows.set_kind import SetKind
from flows.set_publication import BuiltTables
from flows.steps import current_run, step


@dataclass(frozen=True, slots=True)
class LabelVocabulary:
    """The concepts, what each accepts, which language they are named in, and the files they came from."""

    tree: tag_tree.TagTree
    compatibility: compatibility.LabelCompatibility
    derived_pairs: list[tuple[str, str]]
    languages: list[str]
    former_names: dict[str, set[str]]
    inputs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class MinedSeeds:
    """The gallery, its index of labels, and the seeds that will become queries; the boxes are done with."""

    inputs: list[dict[str, Any]]
    labels: LabelVocabulary
    gallery: annotated_gallery.AnnotatedGallery
    images: pd.DataFrame | None
    index: label_index.LabelIndex
    seeds: pd.DataFrame


def build_precision_tables(definition: PrecisionDefinition) -> BuiltTables:
    """All but publishing: tables, ledger, and what the manifest says of their origin."""
    ledger = Ledger()
    mined_seeds = mine_seeds(definition, ledger)
    queries, qrels = judge_seeds(mined_seeds, definition)
    labels, seeds = mined_seeds.labels, mined_seeds.seeds
    sentences = [prompts.load_template(f"{language}/sentence") for language in resolve_languages(definition, labels)]
    images, duplicates, decision_outcome, rendered = (
        mined_seeds.gallery.images,
        empty_frame("duplicates"),
        DecisionOutcome(),
        None,
    )
    models: list[dict[str, Any]] = []
    if mined_seeds.images is not None:
        groups, models = mark_annotated_duplicates(images, mined_seeds.images, definition)
        images, duplicates, decision_outcome = (
            images.assign(duplicate_group=groups.group),
            groups.table,
            groups.decision_outcome,
        )
        if definition.render:
            images, rendered = render_all_images(images, definition)
    return BuiltTables(
        tables=Tables(queries, images, qrels, duplicates=duplicates),
        ledger=ledger,
        grades=judgments.PRECISION_SET_GRADES[definition.grades],
        inputs=mined_seeds.inputs,
        models=models,
        prompts=[{"name": p.name, "sha256": p.sha256} for p in sentences if "sentence" in definition.texts],
        thresholds=list_precision_thresholds(definition),
        notes={
            "parents": [labels.tree.concepts[mix[0]].key for mix in seeds.loc[seeds["parent"], "concepts"]],
            "accepted_pairs_declared": labels.compatibility.declared_pairs,
            "accepted_pairs_closed": labels.compatibility.closed_pairs,
        },
        known_limitations=PRECISION_LIMITATIONS,
        rendered_folder=rendered,
        decision_outcome=decision_outcome,
    )


PRECISION_LIMITATIONS = [
    "Truth is what the annotations say: an object that nobody annotated makes a right answer count as wrong.",
    "Queries of frequent labels have very many relevant pictures: recall at a small k says little about them.",
]


def mine_seeds(definition: PrecisionDefinition, ledger: Ledger) -> MinedSeeds:
    """From annotations to what will be asked: the part that a plan and a build share."""
    files = read_annotations(definition.annotations)
    labels = read_labels(definition, files)
    listed = annotated_gallery.list_images(files)
    scanned_images = read_images(definition, listed) if definition.images else None
    gallery = join_gallery(files, listed, scanned_images, labels, ledger, definition)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    return MinedSeeds(
        [_input_record(file) for file in files] + labels.inputs, labels, gallery, scanned_images, index, seeds
    )


def _input_record(file: annotated_gallery.AnnotationFile) -> dict[str, Any]:
    counts = {"images": file.images_entered, "annotations": file.boxes_entered, "categories": len(file.categories)}
    return {"file": file.name, "sha256": file.sha256, "counts": counts}


@step("read annotations")
def read_annotations(paths: list[Path]) -> list[annotated_gallery.AnnotationFile]:
    """All files, in the order of their names' digests, so that the order in the definition does not matter."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with current_run().reporter.bar("read annotations", total, "bytes") as advance:
        files = [coco_annotations.read_annotations(path, advance) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


@step("read labels")
def read_labels(definition: PrecisionDefinition, files: list[annotated_gallery.AnnotationFile]) -> LabelVocabulary:
    """The label table and tree, and the closed relation of what accepts what."""
    inputs: list[dict[str, Any]] = []
    former: dict[str, set[str]] = {}
    if definition.labels in ("from_annotations", "from_supercategories"):
        categories = pd.concat([file.categories for file in files], ignore_index=True)
        tree = tag_tree.build_tree_from_categories(categories, definition.labels == "from_supercategories")
        languages = ["zh"] if any(ord(c) > 0x2E80 for label in tree.labels for c in label.key) else ["en"]
    else:
        folder = label_tables.find_table_folder(definition.labels)
        table, source = label_tables.read_label_csv(folder / "labels.csv")
        above, tree_source = (
            label_tables.read_label_csv(folder / "tree.csv") if (folder / "tree.csv").is_file() else (None, None)
        )
        inputs += [entry for entry in (source, tree_source) if entry]
        tree, languages = tag_tree.build_tag_tree(table, above, folder.name), ["zh", "en"]
        former = label_tables.read_former_names(folder)
    rows = None
    if definition.compatible is not None:
        rows, source = label_tables.read_label_csv(label_tables.find_compatibility_file(definition.compatible))
        inputs.append(source)
    closed = compatibility.build_compatibility(tree, rows, definition.compatible or "tree")
    return LabelVocabulary(tree, closed, compatibility.list_derived_pairs(tree, rows), languages, former, inputs)


def read_images(definition: PrecisionDefinition, listed: annotated_gallery.ListedImages) -> pd.DataFrame:
    """Prove every listed picture whole. One that is absent is rejected, one that is no good is quarantined."""
    root = Path(definition.images or "")
    if not root.is_dir():
        raise UserError("scan pictures", root, "is no folder", "mend `images` in the definition, or leave it out")
    folder = ImageFolder(root)
    file_results = [folder.find(name) for name in listed.images["file_name"]]
    items = [encode_item(os.fsencode(f.relative_to(root))) if isinstance(f, Path) else None for f in file_results]
    distinct = pa.array(sorted({item for item in items if item is not None}), pa.string())
    scanned = scan_images(open_source(str(root)), distinct, definition.out / definition.name).to_frame(
        SCANNED_IMAGES_SCHEMA.names
    )
    table = scanned.set_index("item").reindex(pd.Index(items)).reset_index(drop=True)
    missing = pd.Series([None if isinstance(f, Path) else f for f in file_results], dtype="str")
    reason = table["reason"].fillna(missing).fillna("")
    # Boxes are in the frame that the annotations give: a file of another shape would put them elsewhere.
    annotated_ratio = (listed.images["width"] / listed.images["height"].where(listed.images["height"] > 0)).to_numpy()
    actual_ratio = (table["width"] / table["height"].where(table["height"] > 0)).to_numpy()
    other = (reason == "") & ~(np.abs(annotated_ratio / actual_ratio - 1) < 0.02) & ~np.isnan(annotated_ratio)
    reason = reason.mask(other, "other_shape_than_annotated")
    bucket = reason.map(
        lambda reason_code: "" if not reason_code else "rejected" if reason_code == "picture_missing" else "quarantined"
    )
    sizes = {side: listed.images[side].where(listed.images[side] > 0, table[side]) for side in ("width", "height")}
    paths = pd.Series([str(f) if isinstance(f, Path) else None for f in file_results], dtype="object")
    return table.assign(path=paths, reason=reason, bucket=bucket, **sizes)


_SIMILARITY_COLUMNS = ["pixels", "phash", "outline", "turned"]


def mark_annotated_duplicates(
    images: pd.DataFrame, scanned_images: pd.DataFrame, definition: PrecisionDefinition
) -> tuple[DuplicateGroups, list[dict[str, Any]]]:
    """All pictures stay, for all are annotated; those that are alike bear their group."""
    scan_results = scanned_images.drop_duplicates("sha256").set_index("sha256")
    similarity_features = scan_results.reindex(images["sha256"])[_SIMILARITY_COLUMNS].reset_index(drop=True)
    frame = pd.concat(
        [images.rename(columns={"file_name": "item"}).reset_index(drop=True), similarity_features], axis=1
    )
    place = dict(zip(frame["item"], images["path"], strict=True))
    folder = definition.out / definition.name
    rules = definition.near_duplicates
    return group_duplicates(frame, rules, lambda items: [place[item] for item in items], folder)


def render_all_images(images: pd.DataFrame, definition: PrecisionDefinition) -> tuple[pd.DataFrame, Path]:
    """Every picture, for every one is judged: one that cannot be rendered stops the build."""
    assert definition.render
    rendered, failed_images, store = render_images(
        images, list(images["path"]), definition.render, definition.out / definition.name
    )
    if len(failed_images):
        first = failed_images.iloc[0]
        reason = f"{first['reason']} ({first['detail']}), one of {len(failed_images)}"
        raise UserError("render pictures", first["item"], reason, "mend or remove the file, then run again")
    return rendered, store


@step("join gallery")
def join_gallery(
    files: list[annotated_gallery.AnnotationFile],
    listed: annotated_gallery.ListedImages,
    scanned_images: pd.DataFrame | None,
    labels: LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> annotated_gallery.AnnotatedGallery:
    """Pictures with ids, boxes with pictures and labels."""
    codes = [
        np.array(tag_tree.match_categories(f.categories, labels.tree, f.name, labels.former_names), dtype=np.int64)
        for f in files
    ]
    return annotated_gallery.join_annotations(
        files, listed, scanned_images, codes, ledger, keep_crowd=definition.boxes.crowd, keep_fake=definition.boxes.fake
    )


@step("find queries")
def find_seeds(
    gallery: annotated_gallery.AnnotatedGallery,
    labels: LabelVocabulary,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> tuple[label_index.LabelIndex, pd.DataFrame]:
    """Searchable labels, parents and mixes: what will be asked."""
    rules = definition.searchable
    index = label_index.build_label_index(gallery, len(labels.tree.labels), labels.compatibility, rules.area_ratio)
    searchable_labels, parents = mixes.find_searchable_concepts(
        index,
        labels.tree,
        ledger,
        min_images=rules.min_images,
        support_rule=rules.count,
        with_parents=definition.parents,
    )
    mix_settings = definition.mixes
    mix_rules = mixes.MixRules(
        mix_settings.levels,
        mix_settings.mode,
        mix_settings.draws,
        mix_settings.cap,
        mix_settings.min_images,
        definition.seed,
    )
    mixed = mixes.find_mixes(searchable_labels, index, labels.tree, labels.compatibility, mix_rules, ledger)
    return index, mixes.build_seed_table(searchable_labels, parents, mixed, index)


@step("judge")
def judge_seeds(mined: MinedSeeds, definition: PrecisionDefinition) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queries' texts and their ground truth."""
    labels, ids = mined.labels, mined.gallery.images["image_id"].to_numpy(dtype=object)
    graded, zeros = definition.grades == "graded", definition.mixes.near_misses
    judge = judgments.SeedJudge(mined.index, labels.tree, labels.compatibility, ids, graded, zeros, definition.seed)
    languages = resolve_languages(definition, labels)
    sentences = {language: prompts.load_template(f"{language}/sentence") for language in languages}
    wording = judgments.QueryWording(languages, list(definition.texts), sentences)
    return judgments.build_queries_and_qrels(mined.seeds, judge, wording)


def resolve_languages(definition: PrecisionDefinition, labels: LabelVocabulary) -> list[str]:
    """The definition's languages, or those that the labels are named in."""
    return list(definition.languages or labels.languages)


def list_precision_thresholds(definition: PrecisionDefinition) -> list[dict[str, Any]]:
    """Every cut of the build, and whether the value itself still passes."""
    rules = definition.searchable
    return [
        {"name": "searchable.area_ratio", "passes": "over", "value": rules.area_ratio, "inclusive": False},
        {"name": "searchable.min_images", "passes": "at least", "value": rules.min_images, "inclusive": True},
        {
            "name": "mixes.min_images",
            "passes": "at least",
            "value": definition.mixes.min_images,
            "inclusive": True,
        },
    ]


def plan_precision(definition: PrecisionDefinition) -> dict[str, Any]:
    """The funnel of a build and what the set would hold; nothing is rendered, judged or written."""
    ledger = Ledger()
    mined_seeds = mine_seeds(definition, ledger)
    labels, gallery, seeds = mined_seeds.labels, mined_seeds.gallery, mined_seeds.seeds
    wordings = len(resolve_languages(definition, labels)) * len(definition.texts)
    zeros = definition.mixes.near_misses * int((seeds["level"] > 1).sum())
    pixels = (definition.render.size**2 if definition.render and definition.images else 0) * len(gallery.images)
    return {
        "funnel": ledger.funnel(),
        "levels": {str(k): int(v) for k, v in seeds.loc[~seeds["parent"], "level"].value_counts().sort_index().items()},
        "parents": int(seeds["parent"].sum()),
        "seeds": len(seeds),
        "queries": len(seeds) * wordings,
        "judgments_at_most": (int(seeds["support"].sum()) + zeros) * wordings,
        "model_calls": 0,
        "bytes_about": int(8 * (int(seeds["support"].sum()) + zeros) * wordings + 0.2 * pixels),
        "derived_pairs": [f"{one} accepts {other}" for one, other in labels.derived_pairs],
    }


PRECISION_SET = SetKind(
    name="precision",
    summary="Make queries of detection labels and judge every picture by its boxes, and publish a precision set.",
    build_tables=build_precision_tables,
    plan=plan_precision,
    parameters=PrecisionBuild,
)

if not TYPE_CHECKING:  # to a type checker every name would be in here
    __getattr__ = make_flow_getattr(PRECISION_SET)

if __name__ == "__main__":
    run_flow_script(PRECISION_SET)

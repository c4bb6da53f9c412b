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
from backends.annotations import annotation_files, label_tables
from backends.sources.picture_sources import PictureFolder, open_source
from backends.sources.source_names import item_of
from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.gallery.near_duplicates import Duplicates
from builders.ledger import Ledger
from builders.precision import annotated, compatibility, judgments, label_index, mixes, tag_tree
from builders.records import SCANNED, empty
from builders.told import Told
from flows.definitions import PrecisionDefinition
from flows.entry import flow_in, main
from flows.pictures.duplicate_groups import group_duplicates
from flows.pictures.picture_scan import scan_pictures
from flows.pictures.rendering import render_pictures
from flows.publish import Built
from flows.steps import current, step


@dataclass(frozen=True, slots=True)
class Labels:
    """The concepts, what each accepts, which language they are named in, and the files they came from."""

    tree: tag_tree.TagTree
    closed: compatibility.Compatibility
    derived: list[tuple[str, str]]
    languages: list[str]
    former: dict[str, set[str]]
    inputs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Mined:
    """The gallery, its index of labels, and the seeds that will become queries; the boxes are done with."""

    inputs: list[dict[str, Any]]
    labels: Labels
    gallery: annotated.Gallery
    pictures: pd.DataFrame | None
    index: label_index.LabelIndex
    seeds: pd.DataFrame


def precision_tables(definition: PrecisionDefinition) -> Built:
    """All but publishing: tables, ledger, and what the manifest says of their origin."""
    ledger = Ledger()
    mined = mine(definition, ledger)
    queries, qrels = judge_seeds(mined, definition)
    labels, seeds = mined.labels, mined.seeds
    sentences = [prompts.load(f"{language}/sentence") for language in languages_of(definition, labels)]
    images, duplicates, told, rendered = mined.gallery.images, empty("duplicates"), Told(), None
    models: list[dict[str, Any]] = []
    if mined.pictures is not None:
        groups, models = mark_duplicates(images, mined.pictures, definition)
        images, duplicates, told = images.assign(duplicate_group=groups.group), groups.table, groups.told
        if definition.render:
            images, rendered = render_all(images, definition)
    return Built(
        tables=Tables(queries, images, qrels, duplicates=duplicates),
        ledger=ledger,
        grades=judgments.GRADES[definition.grades],
        inputs=mined.inputs,
        models=models,
        prompts=[{"name": p.name, "sha256": p.sha256} for p in sentences if "sentence" in definition.texts],
        thresholds=thresholds(definition),
        notes={
            "parents": [labels.tree.concepts[mix[0]].key for mix in seeds.loc[seeds["parent"], "concepts"]],
            "accepted_pairs_declared": labels.closed.declared,
            "accepted_pairs_closed": labels.closed.closed,
        },
        faults=FAULTS,
        rendered=rendered,
        told=told,
    )


FAULTS = [
    "Truth is what the annotations say: an object that nobody annotated makes a right answer count as wrong.",
    "Queries of frequent labels have very many relevant pictures: recall at a small k says little about them.",
]


def mine(definition: PrecisionDefinition, ledger: Ledger) -> Mined:
    """From annotations to what will be asked: the part that a plan and a build share."""
    files = read_annotations(definition.annotations)
    labels = read_labels(definition, files)
    listed = annotated.list_images(files)
    found = read_pictures(definition, listed) if definition.images else None
    gallery = join_gallery(files, listed, found, labels, ledger, definition)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    return Mined([_input(file) for file in files] + labels.inputs, labels, gallery, found, index, seeds)


def _input(file: annotated.Annotations) -> dict[str, Any]:
    counts = {"images": file.images_entered, "annotations": file.boxes_entered, "categories": len(file.categories)}
    return {"file": file.name, "sha256": file.sha256, "counts": counts}


@step("read annotations")
def read_annotations(paths: list[Path]) -> list[annotated.Annotations]:
    """All files, in the order of their names' digests, so that the order in the definition does not matter."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with current().reporter.bar("read annotations", total, "bytes") as advance:
        files = [annotation_files.read_annotations(path, advance) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


@step("read labels")
def read_labels(definition: PrecisionDefinition, files: list[annotated.Annotations]) -> Labels:
    """The label table and tree, and the closed relation of what accepts what."""
    inputs: list[dict[str, Any]] = []
    former: dict[str, set[str]] = {}
    if definition.labels in ("from_annotations", "from_supercategories"):
        categories = pd.concat([file.categories for file in files], ignore_index=True)
        tree = tag_tree.tree_of_categories(categories, definition.labels == "from_supercategories")
        languages = ["zh"] if any(ord(c) > 0x2E80 for label in tree.labels for c in label.key) else ["en"]
    else:
        folder = label_tables.table_folder(definition.labels)
        table, source = label_tables.read_table(folder / "labels.csv")
        above, tree_source = (
            label_tables.read_table(folder / "tree.csv") if (folder / "tree.csv").is_file() else (None, None)
        )
        inputs += [entry for entry in (source, tree_source) if entry]
        tree, languages = tag_tree.read_tree(table, above, folder.name), ["zh", "en"]
        former = label_tables.former_names(folder)
    rows = None
    if definition.compatible is not None:
        rows, source = label_tables.read_table(label_tables.map_file(definition.compatible))
        inputs.append(source)
    closed = compatibility.close(tree, rows, definition.compatible or "tree")
    return Labels(tree, closed, compatibility.derived_pairs(tree, rows), languages, former, inputs)


def read_pictures(definition: PrecisionDefinition, listed: annotated.Listed) -> pd.DataFrame:
    """Prove every listed picture whole. One that is absent is rejected, one that is no good is quarantined."""
    root = Path(definition.images or "")
    if not root.is_dir():
        raise UserError("scan pictures", root, "is no folder", "mend `images` in the definition, or leave it out")
    folder = PictureFolder(root)
    found = [folder.find(name) for name in listed.images["file_name"]]
    items = [item_of(os.fsencode(f.relative_to(root))) if isinstance(f, Path) else None for f in found]
    distinct = pa.array(sorted({item for item in items if item is not None}), pa.string())
    scanned = scan_pictures(open_source(str(root)), distinct, definition.out / definition.name).frame(SCANNED.names)
    table = scanned.set_index("item").reindex(pd.Index(items)).reset_index(drop=True)
    missing = pd.Series([None if isinstance(f, Path) else f for f in found], dtype="str")
    reason = table["reason"].fillna(missing).fillna("")
    # Boxes are in the frame that the annotations give: a file of another shape would put them elsewhere.
    given = (listed.images["width"] / listed.images["height"].where(listed.images["height"] > 0)).to_numpy()
    shape = (table["width"] / table["height"].where(table["height"] > 0)).to_numpy()
    other = (reason == "") & ~(np.abs(given / shape - 1) < 0.02) & ~np.isnan(given)
    reason = reason.mask(other, "other_shape_than_annotated")
    bucket = reason.map(lambda word: "" if not word else "rejected" if word == "picture_missing" else "quarantined")
    sizes = {side: listed.images[side].where(listed.images[side] > 0, table[side]) for side in ("width", "height")}
    paths = pd.Series([str(f) if isinstance(f, Path) else None for f in found], dtype="object")
    return table.assign(path=paths, reason=reason, bucket=bucket, **sizes)


_LOOKS = ["pixels", "phash", "outline", "turned"]


def mark_duplicates(
    images: pd.DataFrame, read: pd.DataFrame, definition: PrecisionDefinition
) -> tuple[Duplicates, list[dict[str, Any]]]:
    """All pictures stay, for all are annotated; those that are alike bear their group."""
    told = read.drop_duplicates("sha256").set_index("sha256")
    looks = told.reindex(images["sha256"])[_LOOKS].reset_index(drop=True)
    frame = pd.concat([images.rename(columns={"file_name": "item"}).reset_index(drop=True), looks], axis=1)
    place = dict(zip(frame["item"], images["path"], strict=True))
    folder = definition.out / definition.name
    rules = definition.near_duplicates
    return group_duplicates(frame, rules, lambda items: [place[item] for item in items], folder)


def render_all(images: pd.DataFrame, definition: PrecisionDefinition) -> tuple[pd.DataFrame, Path]:
    """Every picture, for every one is judged: one that cannot be rendered stops the build."""
    assert definition.render
    rendered, lost, store = render_pictures(
        images, list(images["path"]), definition.render, definition.out / definition.name
    )
    if len(lost):
        first = lost.iloc[0]
        reason = f"{first['reason']} ({first['detail']}), one of {len(lost)}"
        raise UserError("render pictures", first["item"], reason, "mend or remove the file, then run again")
    return rendered, store


@step("join gallery")
def join_gallery(
    files: list[annotated.Annotations],
    listed: annotated.Listed,
    found: pd.DataFrame | None,
    labels: Labels,
    ledger: Ledger,
    definition: PrecisionDefinition,
) -> annotated.Gallery:
    """Pictures with ids, boxes with pictures and labels."""
    codes = [
        np.array(tag_tree.match_categories(f.categories, labels.tree, f.name, labels.former), dtype=np.int64)
        for f in files
    ]
    return annotated.join(files, listed, found, codes, ledger, crowd=definition.boxes.crowd, fake=definition.boxes.fake)


@step("find queries")
def find_seeds(
    gallery: annotated.Gallery, labels: Labels, ledger: Ledger, definition: PrecisionDefinition
) -> tuple[label_index.LabelIndex, pd.DataFrame]:
    """Searchable labels, parents and mixes: what will be asked."""
    rules = definition.searchable
    index = label_index.build_index(gallery, len(labels.tree.labels), labels.closed, rules.area_ratio)
    found, parents = mixes.searchable(
        index,
        labels.tree,
        ledger,
        min_images=rules.min_images,
        reading=rules.count,
        parents=definition.parents,
    )
    wanted = definition.mixes
    how = mixes.MixRules(wanted.levels, wanted.mode, wanted.draws, wanted.cap, wanted.min_images, definition.seed)
    mixed = mixes.find_mixes(found, index, labels.tree, labels.closed, how, ledger)
    return index, mixes.seed_table(found, parents, mixed, index)


@step("judge")
def judge_seeds(mined: Mined, definition: PrecisionDefinition) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queries' texts and their ground truth."""
    labels, ids = mined.labels, mined.gallery.images["image_id"].to_numpy(dtype=object)
    graded, zeros = definition.grades == "graded", definition.mixes.near_misses
    judge = judgments.Judge(mined.index, labels.tree, labels.closed, ids, graded, zeros, definition.seed)
    languages = languages_of(definition, labels)
    sentences = {language: prompts.load(f"{language}/sentence") for language in languages}
    wording = judgments.Wording(languages, list(definition.texts), sentences)
    return judgments.word_and_judge(mined.seeds, judge, wording)


def languages_of(definition: PrecisionDefinition, labels: Labels) -> list[str]:
    """The definition's languages, or those that the labels are named in."""
    return list(definition.languages or labels.languages)


def thresholds(definition: PrecisionDefinition) -> list[dict[str, Any]]:
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
    mined = mine(definition, ledger)
    labels, gallery, seeds = mined.labels, mined.gallery, mined.seeds
    wordings = len(languages_of(definition, labels)) * len(definition.texts)
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
        "derived_pairs": [f"{one} accepts {other}" for one, other in labels.derived],
    }


if not TYPE_CHECKING:  # to a type checker every name would be in here
    __getattr__ = flow_in("precision_set")

if __name__ == "__main__":
    main("precision_set")

"""A dual encoder trained on the images and queries of a set, and evaluated on the part that it never saw.

set ─► train, validation, test (by image and duplicate group) ─► pixels, tokens ─► epochs ─► checkpoint ─► figures
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.publication import UNREAD_KEYS, cut_from_set, publish_built
from querytruth.backends.files.durable_files import open_journal, write_atomically
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models.hub_models import choose_device
from querytruth.backends.steps import current_run
from querytruth.definitions import SetDefinition
from querytruth.dual_encoder import retrieval_scores
from querytruth.dual_encoder.checkpoints import delete_state, write_checkpoint
from querytruth.dual_encoder.definition import ENLARGEMENT, TrainingDefinition
from querytruth.dual_encoder.training import TrainingJob, create_initial_model, run_training
from querytruth.dual_encoder.training_data import (
    SplitSet,
    build_training_pairs,
    load_split_set,
    read_pixels,
    select_relevant_pairs,
    shuffle_batches,
)
from querytruth.dual_encoder.training_report import render_curves_svg, render_training_report
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.ledger import Ledger, rejection_rows

HISTORY_FILE, SPLIT_FILE, FIGURES_FILE, REPORT_FILE, CURVES_FILE = (
    "training_history.json", "split.csv", "figures.json", "report.md", "curves.svg"
)  # fmt: skip
History = list[dict[str, Any]]  # by epoch its losses and validation scores


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished training: the model's folder, the set of the held-out images, the epochs, and by direction and metric
    the figures on that set with their intervals; `chance`: by metric what a random order gets. `is_new` is False where
    it was finished before."""

    folder: Path
    test_set: Path
    history: History
    figures: dict[str, dict[str, list[float]]]
    chance: dict[str, float]
    is_new: bool


def train_dual_encoder(definition: TrainingDefinition) -> TrainingResult:
    """Train the model and publish the held-out set, or continue, or return the finished result of the same training.
    Raises UserError where the folder holds another model."""
    parts = load_split_set(definition)
    folder = definition.out / definition.name
    key = compute_training_key(definition, parts)
    folder.mkdir(parents=True, exist_ok=True)
    with open_journal(folder / ".running"):  # a lock
        if (finished := _load_finished_training(folder, key)) is not None:
            return finished
        device = choose_device(definition.device, "train", "use --set device=cpu")
        test_set = publish_test_part(definition, parts)
        history = _train_and_save(definition, parts, folder, key, device)
        return _write_results(definition, parts, folder, key, test_set, history)


def plan_training(definition: TrainingDefinition) -> dict[str, Any]:
    """Return what a training would do: the sizes of the parts, pairs of query and image, and optimizer steps. Reads
    only the set's tables; no image is decoded, and nothing is written."""
    parts = load_split_set(definition)
    pairs = len(select_relevant_pairs("train", parts.part_of_query, parts.part_of_image, parts.stored.tables.qrels))
    steps = len(shuffle_batches(pairs, definition.steps.batch, definition.seed, 1)) if pairs else 0
    side = int(definition.size * ENLARGEMENT)
    return {
        **parts.summarize(),
        "pairs": pairs,
        "steps_an_epoch": steps,
        "epochs_at_most": definition.steps.epochs,
        "bytes_about": 3 * side * side * len(parts.stored.tables.images),
        "device": str(choose_device(definition.device, "train", "use --set device=cpu")),
    }


_NOT_TRAINED_BY = UNREAD_KEYS | {"tables", "set", "title", "licence", "name"}


def compute_training_key(definition: TrainingDefinition, parts: SplitSet) -> str:
    """Return the digest of what determines the weights: the definition without paths and titles, and the set's
    content."""
    key_fields = definition.model_dump(mode="json", exclude=_NOT_TRAINED_BY)
    key_fields["steps"].pop("keep_every")
    return hashlib.sha256(
        canonical_json({"definition": key_fields, "set": parts.summarize()["content_digest"]})
    ).hexdigest()


def _train_and_save(definition: TrainingDefinition, parts: SplitSet, folder: Path, key: str, device: object) -> History:
    train_part = parts.part_tables("train")
    model = create_initial_model(definition, train_part.queries["text"].tolist())
    pixels = read_pixels(parts.stored, model.description["side"])
    pairs = build_training_pairs(parts, "train", pixels, model.tokenizer, definition)
    write_atomically(folder / SPLIT_FILE, parts.part_of_image.sort_index().to_csv(lineterminator="\n").encode())
    validation = parts.part_tables("validation")
    history = run_training(TrainingJob(definition, model, pixels, pairs, validation, folder, key, device))
    best = max(history, key=lambda one: (one["validation"]["mean"]["hit@1"], -one["epoch"]))
    summary, best_epoch = parts.summarize(), best["epoch"]
    origin = {"set": parts.name, "content_digest": summary["content_digest"], "epoch": best_epoch, "key": key}
    write_checkpoint(folder, model.description | {"trained": origin}, model.tokenizer)
    write_atomically(folder / HISTORY_FILE, canonical_json({"epochs": history, "best": best_epoch, **summary}))
    return history


def publish_test_part(definition: TrainingDefinition, parts: SplitSet) -> Path:
    """Publish the held-out images with their queries as a set beside the one that they are from."""
    manifest, tables = parts.stored.manifest, parts.part_tables("test")
    ledger = Ledger()
    whole = parts.stored.tables
    for kind, column, table, part_table in (
        ("image", "image_id", whole.images, tables.images),
        ("query", "query_id", whole.queries, tables.queries),
    ):
        outside = table.loc[~table[column].isin(part_table[column]), column].tolist()
        rejections = rejection_rows(outside, "rejected", "outside_of_test_part", item_id=outside)
        ledger.record_stage(f"{kind} split", kind, len(table), len(part_table), rejections)
    held_out = definition.split.lists["test"].name if definition.split.lists else definition.split.test
    held_out_record = {"of": parts.name, "seed": definition.seed, "test": held_out}
    built = cut_from_set(parts.stored, tables, ledger, {"held_out": held_out_record})
    test_definition = SetDefinition(
        kind=manifest["kind"],
        name=f"{definition.name[:59]}-test",
        title=f"{manifest['title']}, held out from {definition.name}",
        licence=definition.licence or manifest["licence"],
        seed=definition.seed,
        out=parts.stored.path.parent.parent,
        lose_at_most=definition.lose_at_most,
        page_language=definition.page_language,
    )
    return publish_built(test_definition, built).path


def _write_results(
    definition: TrainingDefinition, parts: SplitSet, folder: Path, key: str, test_set: Path, history: History
) -> TrainingResult:
    scores = retrieval_scores.score_model(folder, test_set)
    figures = retrieval_scores.scores_with_intervals(scores, parts.part_tables("test").queries)
    means, chance = retrieval_scores.mean_scores(scores), retrieval_scores.chance_scores(test_set)
    place = str(test_set.absolute())
    stored_figures = {"key": key, "test_set": place, "figures": figures, "means": means, "chance": chance}
    report = render_training_report(definition, history, figures, chance, parts.summarize())
    write_atomically(folder / CURVES_FILE, render_curves_svg(history).encode())
    write_atomically(folder / REPORT_FILE, report.encode())
    write_atomically(folder / FIGURES_FILE, canonical_json(stored_figures))
    delete_state(folder)
    current_run().reporter.log(f"model in {folder}, images that it never saw in {test_set}")
    return TrainingResult(folder, test_set, history, figures, chance, is_new=True)


def _load_finished_training(folder: Path, key: str) -> TrainingResult | None:
    """Return the result of a finished training with the same key; None where it is not finished. Raises UserError where
    the folder holds another model."""
    if not (folder / FIGURES_FILE).exists():
        return None
    stored_figures = parse_json((folder / FIGURES_FILE).read_bytes())
    if stored_figures["key"] != key:
        reason = "already holds a model of another training (its definition or set differs)"
        raise UserError("train", folder, reason, "give this training another name, or remove the folder")
    history = parse_json((folder / HISTORY_FILE).read_bytes())["epochs"]
    test_set, chance = Path(stored_figures["test_set"]), stored_figures["chance"]
    return TrainingResult(folder, test_set, history, stored_figures["figures"], chance, is_new=False)

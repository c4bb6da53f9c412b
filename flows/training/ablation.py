"""Measures what each part of a training is worth: trains again without that part, and without all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.statistics import estimate_interval
from flows.definitions import TrainingDefinition
from flows.definitions.training import RECURRENT_ARCHITECTURES
from flows.dual_encoder_training import TrainingResult, train_dual_encoder
from flows.steps import current_run
from flows.training.retrieval_scores import score_model, score_per_image
from flows.training.training_data import load_split_set
from flows.training.training_report import format_interval

_METRIC = "hit@1"
_SMALLER = {"microsoft/resnet-101": "microsoft/resnet-50", "microsoft/resnet-152": "microsoft/resnet-101"}


@dataclass(frozen=True, slots=True)
class AblationResult:
    """One training of the table: the mean R@1 of both directions on the test set, and its difference from the full
    training, each with the ends of its 95% interval; that of the difference is over images that both have."""

    title: str
    trained: TrainingResult
    mean: list[float]
    difference: list[float]


def list_ablation_variants(definition: TrainingDefinition) -> dict[str, dict[str, Any]]:
    """Returns by title the changes that leave one part out; a part that the definition does not use has no row."""
    changes_by_title: dict[str, dict[str, Any]] = {}
    if smaller := _SMALLER.get(definition.images.name or ""):
        changes_by_title[f"{smaller.partition('/')[2]} for pictures"] = {"images": {"name": smaller}}
    plain = "mean" if definition.texts.architecture in RECURRENT_ARCHITECTURES else "cls"
    if definition.heads.pooling != plain:
        changes_by_title[f"{plain} pooling"] = {"heads": {"pooling": plain}}
    if definition.loss.hard_negatives:
        changes_by_title["no hard negatives"] = {"loss": {"hard_negatives": False}}
    if definition.loss.smoothing:
        changes_by_title["no label smoothing"] = {"loss": {"smoothing": 0.0}}
    if definition.steps.stages and (definition.images.name or definition.texts.name):
        changes_by_title["no stages of unfreezing"] = {"steps": {"stages": []}}
    if definition.augmentation is not None:
        changes_by_title["no augmentation"] = {"augmentation": None}
    return changes_by_title


def apply_changes(definition: TrainingDefinition, name: str, changes: dict[str, Any]) -> TrainingDefinition:
    """Returns the definition under another name with other keys in its parts."""
    values = definition.model_dump()
    for part, keys in changes.items():
        values[part] = {**values[part], **keys} if isinstance(keys, dict) else keys
    return TrainingDefinition.model_validate({**values, "name": name})


def run_ablation(definition: TrainingDefinition) -> list[AblationResult]:
    """Trains the full definition, each variant, and the one without all parts; finished trainings are reused."""
    current_run().reporter.log(f"training {definition.name}, the whole")
    whole = train_dual_encoder(definition)
    queries = load_split_set(definition).part_tables("test").queries
    best = score_per_image(score_model(whole.folder, whole.test_set), _METRIC, queries)
    rows = [AblationResult("all of it", whole, whole.figures["mean"][_METRIC], [0.0, 0.0, 0.0])]
    all_changes: dict[str, Any] = {}
    changes_by_title = list_ablation_variants(definition)
    for changes in changes_by_title.values():
        all_changes |= {part: {**all_changes.get(part, {}), **keys} if isinstance(keys, dict) else keys
                  for part, keys in changes.items()}  # fmt: skip
    for title, changes in {**changes_by_title, "none of these": all_changes}.items():
        current_run().reporter.log(f"training {definition.name}, {title}")
        name = f"{definition.name[:40]}-{title.replace(' ', '-')}"
        variant = train_dual_encoder(apply_changes(definition, name, changes), whole.test_set)
        figures = score_per_image(score_model(variant.folder, variant.test_set), _METRIC, queries)
        per_image_difference, largest = best - figures, float(max(best.max(), figures.max()))
        interval = estimate_interval(per_image_difference.to_numpy(), ends=(-largest, largest))
        difference = [float(per_image_difference.mean()), float(interval.low[0]), float(interval.high[0])]
        rows.append(AblationResult(title, variant, variant.figures["mean"][_METRIC], difference))
    return rows


def format_ablation_table(rows: Sequence[AblationResult]) -> list[str]:
    """Formats the report's table 2 in reverse, in Markdown: from the full training, one part less at a time."""
    whole = rows[0].mean[0]
    lines = ["| | Mean R@1 | less than all of it | relative |", "|---|---|---|---|"]
    for row in rows:
        share = f"{row.mean[0] / whole - 1:+.1%}" if whole and row is not rows[0] else "-"
        lost = format_interval(row.difference) if row is not rows[0] else "-"
        lines.append(f"| {row.title} | {format_interval(row.mean)} | {lost} | {share} |")
    return lines

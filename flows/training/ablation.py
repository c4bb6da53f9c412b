"""What each part of a training is worth: it is trained again without that part, and without all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.statistics import bootstrap
from flows.definitions import TrainingDefinition
from flows.definitions.training import RECURRENT
from flows.dual_encoder_training import Trained, train
from flows.steps import current
from flows.training.data import read_parts
from flows.training.figures import figures_of_model, per_picture
from flows.training.report import with_interval

_METRIC = "hit@1"
_SMALLER = {"microsoft/resnet-101": "microsoft/resnet-50", "microsoft/resnet-152": "microsoft/resnet-101"}


@dataclass(frozen=True, slots=True)
class Ablated:
    """One training of the table: the mean of both directions' R@1 on the test set, and how much less than the whole
    it is, each with the ends of its 95% interval; the latter drawn by pictures that both were asked about."""

    title: str
    trained: Trained
    mean: list[float]
    loss: list[float]


def variants(definition: TrainingDefinition) -> dict[str, dict[str, Any]]:
    """By title what is changed to leave one thing out; what the definition does without has no row."""
    found: dict[str, dict[str, Any]] = {}
    if smaller := _SMALLER.get(definition.pictures.name or ""):
        found[f"{smaller.partition('/')[2]} for pictures"] = {"pictures": {"name": smaller}}
    plain = "mean" if definition.texts.architecture in RECURRENT else "cls"
    if definition.heads.pooling != plain:
        found[f"{plain} pooling"] = {"heads": {"pooling": plain}}
    if definition.loss.hard_negatives:
        found["no hard negatives"] = {"loss": {"hard_negatives": False}}
    if definition.loss.smoothing:
        found["no label smoothing"] = {"loss": {"smoothing": 0.0}}
    if definition.steps.stages and (definition.pictures.name or definition.texts.name):
        found["no stages of unfreezing"] = {"steps": {"stages": []}}
    if definition.augmentation is not None:
        found["no augmentation"] = {"augmentation": None}
    return found


def changed(definition: TrainingDefinition, name: str, changes: dict[str, Any]) -> TrainingDefinition:
    """The definition under another name with other keys in its parts."""
    told = definition.model_dump()
    for part, keys in changes.items():
        told[part] = {**told[part], **keys} if isinstance(keys, dict) else keys
    return TrainingDefinition.model_validate({**told, "name": name})


def ablate(definition: TrainingDefinition) -> list[Ablated]:
    """The whole, each thing left out, and all of them left out; what was trained before is not trained again."""
    current().reporter.say(f"training {definition.name}, the whole")
    whole = train(definition)
    queries = read_parts(definition).tables("test").queries
    best = per_picture(figures_of_model(whole.folder, whole.test_set), _METRIC, queries)
    rows = [Ablated("all of it", whole, whole.figures["mean"][_METRIC], [0.0, 0.0, 0.0])]
    every: dict[str, Any] = {}
    found = variants(definition)
    for changes in found.values():
        every |= {part: {**every.get(part, {}), **keys} if isinstance(keys, dict) else keys
                  for part, keys in changes.items()}  # fmt: skip
    for title, changes in {**found, "none of these": every}.items():
        current().reporter.say(f"training {definition.name}, {title}")
        name = f"{definition.name[:40]}-{title.replace(' ', '-')}"
        one = train(changed(definition, name, changes), whole.test_set)
        less = best - per_picture(figures_of_model(one.folder, one.test_set), _METRIC, queries)
        interval = bootstrap(less.to_numpy())
        lost = [float(less.mean()), float(interval.low[0]), float(interval.high[0])]
        rows.append(Ablated(title, one, one.figures["mean"][_METRIC], lost))
    return rows


def table_of_ablation(rows: Sequence[Ablated]) -> list[str]:
    """The report's table 2 the other way round, in Markdown: from the whole, one thing less at a time."""
    whole = rows[0].mean[0]
    lines = ["| | Mean R@1 | less than all of it | relative |", "|---|---|---|---|"]
    for row in rows:
        share = f"{row.mean[0] / whole - 1:+.1%}" if whole and row is not rows[0] else "-"
        lost = with_interval(row.loss) if row is not rows[0] else "-"
        lines.append(f"| {row.title} | {with_interval(row.mean)} | {lost} | {share} |")
    return lines

"""A dual encoder from a set: what a model reaches that is trained on the pictures themselves.

set ─► train, validation, test (by picture and duplicate group) ─► pixels, tokens ─► epochs ─► checkpoint ─► figures
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.durable_files import write_atomically
from backends.journals.line_journal import opened
from backends.models import training_checkpoints as checkpoints
from builders.benchmark_set import canonical_json
from builders.errors import UserError
from builders.ledger import Ledger, turned_away
from flows.definitions import SetDefinition, TrainingDefinition
from flows.publish import Built, publish_built
from flows.steps import current
from flows.training.data import Parts, pairs_of, read_parts, read_pixels
from flows.training.figures import figures_of_model, means, with_intervals
from flows.training.model import fresh_model
from flows.training.report import curves, report
from flows.training.run import Task, device_of, run_training

HISTORY, SPLIT, FIGURES, REPORT, CURVES = (
    "training_history.json", "split.csv", "figures.json", "report.md", "curves.svg"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trained:
    """A training that ended: the model's folder, the set of the pictures that it never saw, the epochs, and by
    direction and metric the figures on that set with their intervals. `is_new` false: it had ended before."""

    folder: Path
    test_set: Path
    history: list[dict[str, Any]]
    figures: dict[str, dict[str, list[float]]]
    is_new: bool


def train(definition: TrainingDefinition, test_set: Path | None = None) -> Trained:
    """Train, or go on, or answer with what is there already. `test_set`: the one that a training on the same split
    published, so that it is not published once more under another name."""
    parts = read_parts(definition)
    folder = definition.out / definition.name
    key = key_of(definition, parts)
    folder.mkdir(parents=True, exist_ok=True)
    with opened(folder / ".running"):  # for one process alone
        if (ended := _ended(folder, key)) is not None:
            return ended
        test_set = test_set or publish_test_part(definition, parts)
        history = _trained(definition, parts, folder, key)
        return _finished(definition, parts, folder, key, test_set, history)


def key_of(definition: TrainingDefinition, parts: Parts) -> str:
    """What decides the weights: the definition without places and titles, and the set's content."""
    told = definition.model_dump(mode="json", exclude={"out", "set", "title", "licence", "lose_at_most", "name"})
    told["steps"].pop("keep_every")
    return hashlib.sha256(canonical_json({"definition": told, "set": parts.record()["content_digest"]})).hexdigest()


def _trained(definition: TrainingDefinition, parts: Parts, folder: Path, key: str) -> list[dict[str, Any]]:
    train_part = parts.tables("train")
    fresh = fresh_model(definition, train_part.queries["text"].tolist())
    pixels = read_pixels(parts.stored, fresh.description["side"])
    pairs = pairs_of(parts, "train", pixels, fresh.tokenizer, definition)
    write_atomically(folder / SPLIT, parts.part_of.sort_index().to_csv(lineterminator="\n").encode())
    validation = parts.tables("validation")
    device = device_of(definition)
    history = run_training(Task(definition, fresh, pixels, pairs, validation, folder, key, device))
    best = max(history, key=lambda one: (one["validation"]["mean"]["hit@1"], -one["epoch"]))
    trained = {
        "set": parts.name,
        "content_digest": parts.record()["content_digest"],
        "epoch": best["epoch"],
        "key": key,
    }
    checkpoints.write_checkpoint(folder, fresh.description | {"trained": trained}, fresh.tokenizer)
    write_atomically(folder / HISTORY, canonical_json({"epochs": history, "best": best["epoch"], **parts.record()}))
    return history


def publish_test_part(definition: TrainingDefinition, parts: Parts) -> Path:
    """The pictures that are kept back, with their queries, as a set beside the one they are from: any system can be
    evaluated on it."""
    manifest, tables = parts.stored.manifest, parts.tables("test")
    ledger = Ledger()
    whole = parts.stored.tables
    for kind, column, table, kept in (
        ("picture", "image_id", whole.images, tables.images),
        ("query", "query_id", whole.queries, tables.queries),
    ):
        outside = table.loc[~table[column].isin(kept[column]), column].tolist()
        away = turned_away(outside, "rejected", "outside_of_test_part")
        ledger.close(f"{kind} split", kind, len(table), len(kept), away)
    inside = bool(tables.images["path"].fillna("").str.startswith("images/").all())
    counts = {"pictures": len(whole.images), "queries": len(whole.queries)}
    told = {"of": parts.name, "seed": definition.seed, "test": definition.split.test}
    built = Built(
        tables=tables,
        ledger=ledger,
        grades=manifest["grades"],
        inputs=[{"file": parts.name, "sha256": manifest["content_digest"], "counts": counts}],
        prompts=manifest["prompts"],
        models=manifest["models"],
        thresholds=manifest["thresholds"],
        notes={"held_out": told, "render": manifest["notes"].get("render")},
        faults=manifest["faults"],
        rendered=parts.stored.path if inside else None,
    )
    named = SetDefinition(
        kind=manifest["kind"],
        name=f"{definition.name[:59]}-test",
        title=f"{manifest['title']}, kept back from {definition.name}",
        licence=definition.licence or manifest["licence"],
        seed=definition.seed,
        out=parts.stored.path.parent.parent,
        lose_at_most=definition.lose_at_most,
    )
    return publish_built(named, built).path


def _finished(
    definition: TrainingDefinition, parts: Parts, folder: Path, key: str, test_set: Path, history: list[dict[str, Any]]
) -> Trained:
    scores = figures_of_model(folder, test_set)
    figures = with_intervals(scores, parts.tables("test").queries)
    told = {"key": key, "test_set": str(test_set.absolute()), "figures": figures, "means": means(scores)}
    trained = Trained(folder, test_set, history, figures, is_new=True)
    write_atomically(folder / CURVES, curves(history).encode())
    write_atomically(folder / REPORT, report(definition, history, figures, parts.record()).encode())
    write_atomically(folder / FIGURES, canonical_json(told))
    checkpoints.forget_state(folder)
    current().reporter.say(f"model in {folder}, the pictures that it never saw in {test_set}")
    return trained


def _ended(folder: Path, key: str) -> Trained | None:
    """What a training with the same key left."""
    if not (folder / FIGURES).exists():
        return None
    told = json.loads((folder / FIGURES).read_bytes())
    if told["key"] != key:
        reason = "holds a model of another training (its definition or set differs)"
        raise UserError("train", folder, reason, "give this one another name, or remove the folder")
    history = json.loads((folder / HISTORY).read_bytes())["epochs"]
    return Trained(folder, Path(told["test_set"]), history, told["figures"], is_new=False)

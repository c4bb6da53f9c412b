"""The steps of a training, from wherever it stopped to its end."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.models import training_checkpoints as checkpoints
from baselines.dual_encoder.split import epoch_order
from builders.benchmark_set import Tables
from builders.errors import UserError
from flows.definitions import TrainingDefinition
from flows.steps import Advance, current, step
from flows.training.data import Pairs, Pixels
from flows.training.figures import both_ways, means
from flows.training.model import Fresh

CHOSEN_BY = "hit@1"  # of the mean of both directions, on the validation part
_MOVE = 1e-9


@dataclass(slots=True)
class Progress:
    """How far a training is: the epoch under way and its next batch, sums over its batches (loss, accuracies, pairs,
    seconds), and an entry per epoch that ended. `best` is the best one's number, 0 for none."""

    epoch: int = 1
    batch: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: int = 0

    def figure(self, epoch: int) -> float:
        """What an epoch is chosen by; below all others for none."""
        return float(self.history[epoch - 1]["validation"]["mean"][CHOSEN_BY]) if epoch else -1.0


@dataclass(frozen=True, slots=True)
class Task:
    """A training's parts: `key` tells it from any other in the same folder."""

    definition: TrainingDefinition
    fresh: Fresh
    pixels: Pixels
    pairs: Pairs
    validation: Tables
    folder: Path
    key: str
    device: Any


@step("train")
def run_training(task: Task) -> list[dict[str, Any]]:
    """Train to the end, or until it gets no better; the best epoch's weights are kept in the folder. A training that
    was stopped goes on from its last state, and comes to the same."""
    import torch

    from baselines.dual_encoder.steps import optimizer_of

    torch.set_num_threads(max(1, current().workers))
    rules = task.definition.steps
    model = task.fresh.model.to(task.device)
    optimizer = optimizer_of(model, rules.rate, rules.decay)
    scaler = torch.amp.GradScaler(task.device.type, enabled=task.device.type == "cuda")
    moving = {"model": model, "optimizer": optimizer, "scaler": scaler}
    done = _restored(task, moving)
    batches = len(epoch_order(len(task.pairs.query), rules.batch, task.definition.seed, 1))
    total = rules.epochs * batches * min(rules.batch, len(task.pairs.query))
    with current().reporter.bar("train", total, "pairs") as advance:
        advance(((done.epoch - 1) * batches + done.batch) * min(rules.batch, len(task.pairs.query)))
        try:
            while done.epoch <= rules.epochs and not _is_over(done, rules.patience):
                _epoch(task, moving, done, advance)
        except torch.OutOfMemoryError:
            raise UserError("train", task.device, "has not enough memory", "give a smaller steps.batch") from None
    return done.history


def _is_over(done: Progress, patience: int | None) -> bool:
    return patience is not None and bool(done.history) and len(done.history) - done.best >= patience


def _epoch(task: Task, moving: dict[str, Any], done: Progress, advance: Advance) -> None:
    from baselines.dual_encoder.unfreezing import enter, stage_of

    rules, fresh, epoch = task.definition.steps, task.fresh, done.epoch
    stage = stage_of(epoch, rules.stages)
    enter(fresh.model, stage, pictures=fresh.pictures_trained, texts=fresh.texts_trained)
    order = epoch_order(len(task.pairs.query), rules.batch, task.definition.seed, epoch)
    kept = time.monotonic()
    for number in range(done.batch, len(order)):
        started = time.monotonic()
        found = _step(task, moving, epoch, number, len(order), stage.rate, order[number])
        if not math.isfinite(found.loss):
            reason = f"has the loss {found.loss} in batch {number + 1}"
            raise UserError("train", f"epoch {epoch}", reason, "remove the folder and give a lower steps.rate")
        size = len(order[number])
        added = (found.loss * size, found.texts * size, found.pictures * size, size, time.monotonic() - started)
        done.sums = [held + more for held, more in zip(done.sums, added, strict=True)]
        done.batch = number + 1
        advance(size)
        if time.monotonic() - kept >= rules.keep_every and done.batch < len(order):
            _keep(task, moving, done)
            kept = time.monotonic()
    _end_epoch(task, moving, done, stage)


def _step(task: Task, moving: dict[str, Any], epoch: int, number: int, batches: int, share: float, chosen: Any) -> Any:
    from baselines.dual_encoder.loss import hard_weight
    from baselines.dual_encoder.schedule import share_of_rate
    from baselines.dual_encoder.steps import step as take_step
    from baselines.dual_encoder.steps import step_seed

    rules = task.definition.steps
    at = (epoch - 1) * batches + number
    rate = rules.rate * share * share_of_rate(at, round(rules.warm_up * batches), rules.epochs * batches)
    seed = step_seed(task.definition.seed, epoch, number)
    batch = batch_of(task.pairs, task.pixels, chosen)
    weight = hard_weight(epoch)
    return take_step(**moving, batch=batch, rules=step_rules(task.definition), rate=rate, weight=weight, seed=seed)


def step_rules(definition: TrainingDefinition) -> Any:
    """What the definition says of a step."""
    from baselines.dual_encoder.augmentation import Augmentation
    from baselines.dual_encoder.loss import LossRules
    from baselines.dual_encoder.steps import StepRules

    told = definition.augmentation
    augmentation = None if told is None else Augmentation(**told.model_dump(exclude={"keep_what_is_said"}))
    return StepRules(definition.size, LossRules(**definition.loss.model_dump()), augmentation, definition.steps.clip)


def batch_of(pairs: Pairs, pixels: Pixels, chosen: NDArray[np.int64]) -> Any:
    """The chosen pairs, their texts cut to the longest."""
    import torch

    from baselines.dual_encoder.steps import Batch

    query = pairs.query[chosen]
    longest = int(pairs.mask[query].sum(axis=1).max())
    return Batch(
        pixels=torch.from_numpy(pixels.rows[pairs.picture[chosen]]),
        ids=torch.from_numpy(pairs.ids[query, :longest]),
        mask=torch.from_numpy(pairs.mask[query, :longest]),
        right=torch.from_numpy(pairs.right_among(chosen)),
        keep_sides=torch.from_numpy(pairs.keep_sides[query]),
        keep_colours=torch.from_numpy(pairs.keep_colours[query]),
    )


def _end_epoch(task: Task, moving: dict[str, Any], done: Progress, stage: Any) -> None:
    loss, texts, pictures, pairs, seconds = done.sums
    found = validate(task)
    done.history.append(
        {
            "epoch": done.epoch,
            "stage": sum(start <= done.epoch for start in task.definition.steps.stages),
            "rate": moving["optimizer"].param_groups[0]["lr"],
            "loss": loss / pairs,
            "accuracy": {"text_to_image": texts / pairs, "image_to_text": pictures / pairs},
            "seconds": round(seconds, 3),
            "pairs": int(pairs),
            "validation": found,
        }
    )
    if done.figure(done.epoch) > done.figure(done.best) + _MOVE:
        checkpoints.keep_weights(task.folder, moving["model"])
        done.best = done.epoch
    current().reporter.say(_line(done, task.definition.steps.epochs))
    done.epoch, done.batch, done.sums = done.epoch + 1, 0, [0.0] * 5
    _keep(task, moving, done)


def _line(done: Progress, epochs: int) -> str:
    one = done.history[-1]
    mean = one["validation"]["mean"]
    best = " (best)" if done.best == done.epoch else ""
    rate, left = one["pairs"] / max(one["seconds"], 1e-9), (epochs - done.epoch) * one["seconds"] / 60
    shown = f"loss {one['loss']:.3f}, R@1 {mean['hit@1']:.3f}, R@10 {mean['hit@10']:.3f}{best}"
    return f"epoch {done.epoch}/{epochs}: {shown}, {rate:.0f} pairs/s, {left:.0f} min left"


def validate(task: Task) -> dict[str, dict[str, float]]:
    """The figures on the validation part, by direction."""
    from backends.embedders.dual_encoder import DualEncoderEmbedder

    fresh, tables = task.fresh, task.validation
    batch = task.definition.steps.batch
    fresh.model.eval()
    embedder = DualEncoderEmbedder(fresh.model, fresh.tokenizer, fresh.description, "training", "", batch)
    place = {name: number for number, name in enumerate(task.pixels.ids) if task.pixels.known[number]}
    ids = [name for name in tables.images["image_id"] if name in place]
    rows = [place[name] for name in ids]
    parts = [embedder.encode_prepared(task.pixels.rows[rows[at : at + batch]]) for at in range(0, len(rows), batch)]
    texts = embedder.encode_texts(tables.queries["text"])
    query_ids = tables.queries["query_id"].tolist()
    qrels = tables.qrels[tables.qrels["image_id"].isin(ids)]
    return means(both_ways(texts, query_ids, np.concatenate(parts), ids, qrels, None))


def _keep(task: Task, moving: dict[str, Any], done: Progress) -> None:
    state = {name: part.state_dict() for name, part in moving.items()}
    progress = {name: getattr(done, name) for name in Progress.__slots__}
    checkpoints.keep_state(task.folder, state | {"progress": progress, "key": task.key})


def _restored(task: Task, moving: dict[str, Any]) -> Progress:
    state = checkpoints.read_state(task.folder)
    if state is None:
        return Progress()
    if state["key"] != task.key:
        reason = "holds the state of another training (its definition or set differs)"
        raise UserError("resume", task.folder, reason, "give this one another name, or remove the folder")
    for name, part in moving.items():
        part.load_state_dict(state[name])
    done = Progress(**state["progress"])
    current().reporter.say(f"going on from epoch {done.epoch}, batch {done.batch}")
    return done


def device_of(definition: TrainingDefinition) -> Any:
    """Where the definition wants it to run, or a GPU where there is one."""
    import torch

    wanted = definition.device or ("cuda" if torch.cuda.is_available() else "cpu")
    with suppress(RuntimeError, AssertionError):  # the latter where torch was built without CUDA
        device = torch.device(wanted)
        torch.empty(0, device=device)
        return device
    raise UserError("train", wanted, "is no device that can be used here", "say --set device=cpu")

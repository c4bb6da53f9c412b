"""Runs a training from a definition's new model, or from its last saved state, to its end."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querytruth.backends import environment
from querytruth.backends.steps import Advance, current_run, step
from querytruth.dual_encoder import checkpoints
from querytruth.dual_encoder.definition import ENLARGEMENT, RECURRENT_ARCHITECTURES, TrainingDefinition
from querytruth.dual_encoder.retrieval_scores import mean_scores, score_both_directions
from querytruth.dual_encoder.training_data import PixelTable, TrainingPairs, build_vocabulary, shuffle_batches
from querytruth.errors import UserError, first_line
from querytruth.sets.benchmark_set import Tables

_STAGE = "make model"
_MOST_UNKNOWN = 0.2  # of the tokens: a tokenizer of another language reads all texts as the same
SELECTION_METRIC = "hit@1"  # of the mean of both directions, on the validation part
_MIN_IMPROVEMENT = 1e-9


@dataclass(frozen=True, slots=True)
class InitialModel:
    """An untrained model (or one with pretrained towers), its tokenizer, its description for a checkpoint, and which
    towers are pretrained."""

    model: Any
    tokenizer: Any
    description: dict[str, Any]
    is_image_tower_pretrained: bool
    is_text_tower_pretrained: bool


@step("make model")
def create_initial_model(definition: TrainingDefinition, texts: list[str]) -> InitialModel:
    """Create the model with random weights by the seed and those of pretrained towers; a new text tower gets a
    vocabulary of the texts."""
    import torch

    from querytruth.dual_encoder.model import build_dual_encoder

    torch.manual_seed(definition.seed)
    images = _image_tower(definition)
    tokenizer = _tokenizer(definition, texts)
    text_tower, text_description = _text_tower(definition, tokenizer)
    heads = definition.heads.model_dump()
    description = {
        "name": definition.name,
        "pictures": checkpoints.describe_tower(images),
        "texts": text_description,
        "heads": heads,
        "size": definition.size,
        "side": int(definition.size * ENLARGEMENT),
        "max_length": definition.max_length,
    }
    with _one_line(definition):
        model = build_dual_encoder(images, text_tower, heads)
        _try_images(model, definition.size)
    return InitialModel(
        model, tokenizer, description, definition.images.name is not None, definition.texts.name is not None
    )


@contextmanager
def _one_line(definition: TrainingDefinition) -> Iterator[None]:
    """Raise UserError for a model of transformers that cannot be an image tower."""
    name = definition.images.name or definition.images.architecture
    try:
        yield
    except Exception as error:  # of hundreds of models, each has its own
        if environment.is_certain_environment_fault(error):  # which fails with every tower
            raise environment.make_environment_fault(_STAGE, name, error) from None
        reason = f"cannot be used as the image tower: {first_line(error)}"
        raise UserError(_STAGE, name, reason, "name an image model such as resnet, efficientnet or vit") from None


def _try_images(model: Any, size: int) -> None:
    """Encode two images, as the training will. Raises any exception of the tower."""
    import torch

    model.eval()
    with torch.no_grad():
        model.encode_images(torch.zeros(2, 3, size, size))
    model.train()
    if len(model.pictures.layers()) < 2:
        raise ValueError("it has no layers to unfreeze")


def _image_tower(definition: TrainingDefinition) -> Any:
    tower = definition.images
    if tower.name is None:
        return checkpoints.create_tower(str(tower.architecture), tower.options, image_size=definition.size)
    model = checkpoints.load_pretrained_tower(tower.name)
    size = getattr(model.config, "image_size", definition.size)
    if size != definition.size:
        raise UserError(_STAGE, tower.name, f"needs images of {size} pixels", f"give --set size={size}")
    return model


def _tokenizer(definition: TrainingDefinition, texts: list[str]) -> Any:
    if definition.texts.name is None:
        return checkpoints.create_tokenizer(build_vocabulary(texts))
    tokenizer = checkpoints.load_pretrained_tokenizer(definition.texts.name)
    share = _unknown(tokenizer, texts)
    if share > _MOST_UNKNOWN:
        reason = f"does not know {share:.0%} of the tokens of these texts"
        raise UserError(_STAGE, definition.texts.name, reason, "name a model for their language, or choose `languages`")
    return tokenizer


def _unknown(tokenizer: Any, texts: list[str]) -> float:
    if tokenizer.unk_token_id is None:
        return 0.0
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    counts = np.array([(row.count(tokenizer.unk_token_id), len(row)) for row in rows]).sum(axis=0)
    return float(counts[0] / max(counts[1], 1))


def _text_tower(definition: TrainingDefinition, tokenizer: Any) -> tuple[Any, dict[str, Any]]:
    """Return the tower, or the parameters of a recurrent one, and its description for the checkpoint."""
    tower = definition.texts
    if tower.architecture in RECURRENT_ARCHITECTURES:
        if wrong := sorted(set(tower.options) - {"embedding", "hidden", "depth"}):
            raise UserError(_STAGE, f"texts.options.{wrong[0]}", "is unknown", "choose from embedding, hidden, depth")
        description = {"kind": tower.architecture, "vocabulary": len(tokenizer), **tower.options}
        return description, description
    if tower.name is not None:
        model = checkpoints.load_pretrained_tower(tower.name)
        limit = int(getattr(model.config, "max_position_embeddings", definition.max_length))
        if definition.max_length > limit:
            raise UserError(_STAGE, tower.name, f"accepts at most {limit} tokens", f"give --set max_length={limit}")
    else:
        sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": definition.max_length, "pad_token_id": 0}
        model = checkpoints.create_tower(str(tower.architecture), tower.options, **sizes)
    return model, checkpoints.describe_tower(model)


@dataclass(slots=True)
class TrainingProgress:
    """The state of a training: the current epoch and its next batch, sums over its batches (loss, accuracies, pairs,
    seconds), and an entry per finished epoch. `best` is the number of the best one, 0 for none."""

    epoch: int = 1
    batch: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: int = 0

    def selection_score(self, epoch: int) -> float:
        """Return the score that selects an epoch; -1 for epoch 0."""
        return float(self.history[epoch - 1]["validation"]["mean"][SELECTION_METRIC]) if epoch else -1.0


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """The parts of a training: `key` distinguishes it from any other in the same folder."""

    definition: TrainingDefinition
    initial_model: InitialModel
    pixels: PixelTable
    pairs: TrainingPairs
    validation: Tables
    folder: Path
    key: str
    device: Any


@step("train")
def run_training(job: TrainingJob) -> list[dict[str, Any]]:
    """Train until the last epoch or until the score stops improving; the best epoch's weights are stored in the
    folder. A training that was stopped resumes from its last state, with the same result."""
    import torch

    from querytruth.dual_encoder.loss import create_optimizer

    torch.set_num_threads(max(1, current_run().workers))
    rules = job.definition.steps
    with environment.translate_environment_faults("train", job.definition.name, torch):
        model = job.initial_model.model.to(job.device)
        optimizer = create_optimizer(model, rules.rate, rules.decay)
        scaler = torch.amp.GradScaler(job.device.type, enabled=job.device.type == "cuda")
    trainables = {"model": model, "optimizer": optimizer, "scaler": scaler}
    progress = _load_progress(job, trainables)
    batches = len(shuffle_batches(len(job.pairs.query), rules.batch, job.definition.seed, 1))
    total = rules.epochs * batches * min(rules.batch, len(job.pairs.query))
    with current_run().reporter.bar("train", total, "pairs") as advance:
        advance(((progress.epoch - 1) * batches + progress.batch) * min(rules.batch, len(job.pairs.query)))
        try:
            while progress.epoch <= rules.epochs and not _is_over(progress, rules.patience):
                with environment.translate_environment_faults("train", job.definition.name, torch):
                    _epoch(job, trainables, progress, advance)
        except torch.OutOfMemoryError:
            raise UserError("train", job.device, "ran out of memory", "lower steps.batch") from None
    return progress.history


def _is_over(progress: TrainingProgress, patience: int | None) -> bool:
    return patience is not None and bool(progress.history) and len(progress.history) - progress.best >= patience


def _epoch(job: TrainingJob, trainables: dict[str, Any], progress: TrainingProgress, advance: Advance) -> None:
    from querytruth.dual_encoder.loss import learning_rate_factor
    from querytruth.dual_encoder.model import apply_unfreezing_stage, find_unfreezing_stage

    rules, fresh, epoch = job.definition.steps, job.initial_model, progress.epoch
    stage = find_unfreezing_stage(epoch, rules.stages)
    apply_unfreezing_stage(
        fresh.model, stage, images=fresh.is_image_tower_pretrained, texts=fresh.is_text_tower_pretrained
    )
    order = shuffle_batches(len(job.pairs.query), rules.batch, job.definition.seed, epoch)
    saved_at = time.monotonic()
    for number in range(progress.batch, len(order)):
        started = time.monotonic()
        at = (epoch - 1) * len(order) + number
        factor = learning_rate_factor(at, round(rules.warm_up * len(order)), rules.epochs * len(order))
        means = _step(job, trainables, epoch, number, rules.rate * stage.rate_factor * factor, order[number])
        if not math.isfinite(means[0]):
            reason = f"has the loss {means[0]} in batch {number + 1}"
            raise UserError("train", f"epoch {epoch}", reason, "remove the folder and lower steps.rate")
        size = len(order[number])
        added = [*(mean * size for mean in means), size, time.monotonic() - started]
        progress.sums = [total + more for total, more in zip(progress.sums, added, strict=True)]
        progress.batch = number + 1
        advance(size)
        if time.monotonic() - saved_at >= rules.keep_every and progress.batch < len(order):
            _save_state(job, trainables, progress)
            saved_at = time.monotonic()
    _end_epoch(job, trainables, progress, stage)


def _step(job: TrainingJob, trainables: dict[str, Any], epoch: int, number: int, rate: float, chosen: Any) -> Any:
    from querytruth.dual_encoder.loss import derive_step_seed, hard_negative_weight, train_step

    seed = derive_step_seed(job.definition.seed, epoch, number)
    batch, weight = make_batch(job.pairs, job.pixels, chosen), hard_negative_weight(epoch)
    return train_step(**trainables, batch=batch, definition=job.definition, rate=rate, weight=weight, seed=seed)


def make_batch(pairs: TrainingPairs, pixels: PixelTable, chosen: NDArray[np.int64]) -> Any:
    """Return the chosen pairs as a batch, their texts cut to the longest."""
    import torch

    from querytruth.dual_encoder.loss import TrainingBatch

    query = pairs.query[chosen]
    longest = int(pairs.mask[query].sum(axis=1).max())
    return TrainingBatch(
        pixels=torch.from_numpy(pixels.rows[pairs.image[chosen]]),
        token_ids=torch.from_numpy(pairs.token_ids[query, :longest]),
        mask=torch.from_numpy(pairs.mask[query, :longest]),
        is_relevant=torch.from_numpy(pairs.relevance_matrix(chosen)),
        keep_orientation=torch.from_numpy(pairs.keep_orientation[query]),
        keep_colours=torch.from_numpy(pairs.keep_colours[query]),
    )


def _end_epoch(job: TrainingJob, trainables: dict[str, Any], progress: TrainingProgress, stage: object) -> None:
    loss, texts, images, pairs, seconds = progress.sums
    validation_scores = score_validation_part(job)
    progress.history.append(
        {
            "epoch": progress.epoch,
            "stage": sum(start <= progress.epoch for start in job.definition.steps.stages),
            "rate": trainables["optimizer"].param_groups[0]["lr"],
            "loss": loss / pairs,
            "accuracy": {"text_to_image": texts / pairs, "image_to_text": images / pairs},
            "seconds": round(seconds, 3),
            "pairs": int(pairs),
            "validation": validation_scores,
        }
    )
    if progress.selection_score(progress.epoch) > progress.selection_score(progress.best) + _MIN_IMPROVEMENT:
        checkpoints.save_best_weights(job.folder, trainables["model"])
        progress.best = progress.epoch
    current_run().reporter.log(_line(progress, job.definition.steps.epochs))
    progress.epoch, progress.batch, progress.sums = progress.epoch + 1, 0, [0.0] * 5
    _save_state(job, trainables, progress)


def _line(progress: TrainingProgress, epochs: int) -> str:
    epoch_record = progress.history[-1]
    mean = epoch_record["validation"]["mean"]
    best = " (best)" if progress.best == progress.epoch else ""
    seconds = epoch_record["seconds"]
    rate, left = epoch_record["pairs"] / max(seconds, 1e-9), (epochs - progress.epoch) * seconds / 60
    shown = f"loss {epoch_record['loss']:.3f}, R@1 {mean['hit@1']:.3f}, R@10 {mean['hit@10']:.3f}{best}"
    return f"epoch {progress.epoch}/{epochs}: {shown}, {rate:.0f} pairs/s, {left:.0f} min left"


def score_validation_part(job: TrainingJob) -> dict[str, dict[str, float]]:
    """Return the scores on the validation part, by direction."""
    from querytruth.dual_encoder.embedder import DualEncoderEmbedder

    fresh, tables = job.initial_model, job.validation
    batch = job.definition.steps.batch
    fresh.model.eval()
    embedder = DualEncoderEmbedder(fresh.model, fresh.tokenizer, fresh.description, "training", "", batch)
    row_of_image = {name: number for number, name in enumerate(job.pixels.ids) if job.pixels.is_known[number]}
    ids = [name for name in tables.images["image_id"] if name in row_of_image]
    rows = [row_of_image[name] for name in ids]
    parts = [embedder.encode_pixels(job.pixels.rows[rows[at : at + batch]]) for at in range(0, len(rows), batch)]
    texts = embedder.encode_texts(tables.queries["text"])
    query_ids = tables.queries["query_id"].tolist()
    qrels = tables.qrels[tables.qrels["image_id"].isin(ids)]
    return mean_scores(score_both_directions(texts, query_ids, np.concatenate(parts), ids, qrels, None))


def _save_state(job: TrainingJob, trainables: dict[str, Any], progress: TrainingProgress) -> None:
    state = {name: part.state_dict() for name, part in trainables.items()}
    progress_fields = {name: getattr(progress, name) for name in TrainingProgress.__slots__}
    checkpoints.save_state(job.folder, state | {"progress": progress_fields, "key": job.key})


def _load_progress(job: TrainingJob, trainables: dict[str, Any]) -> TrainingProgress:
    state = checkpoints.read_state(job.folder)
    if state is None:
        return TrainingProgress()
    if state["key"] != job.key:
        reason = "holds the state of another training (its definition or set differs)"
        raise UserError("resume", job.folder, reason, "give this training another name, or remove the folder")
    for name, part in trainables.items():
        part.load_state_dict(state[name])
    progress = TrainingProgress(**state["progress"])
    current_run().reporter.log(f"continuing from epoch {progress.epoch}, batch {progress.batch}")
    return progress

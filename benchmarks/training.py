"""Seconds an epoch of the dual encoder, and whether its loader is the brake: python -m benchmarks.training

The size is the report's: 6,000 images with 5 captions each, batches of 64, 224 pixels, ResNet-101 and BERT of their
full size with random weights; it took 93 s an epoch on an RTX 3080. A few steps are timed and the epoch is reckoned
from them, since every step is as large as the other. On a processor the towers are small ones unless --full is given.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from querytruth.backends.models.vector_store import open_pixels, write_pixels
from querytruth.dual_encoder.checkpoints import create_tower
from querytruth.dual_encoder.definition import ENLARGEMENT, TrainingDefinition
from querytruth.dual_encoder.loss import create_optimizer, train_step
from querytruth.dual_encoder.model import (
    FULLY_TRAINABLE,
    DualEncoder,
    apply_unfreezing_stage,
    build_dual_encoder,
    find_unfreezing_stage,
)
from querytruth.dual_encoder.training import make_batch
from querytruth.dual_encoder.training_data import PixelTable, TrainingPairs, shuffle_batches

IMAGES, CAPTIONS, BATCH, LENGTH, WORDS = 6000, 5, 64, 40, 11
REPORTED_SECONDS = 93.4
_STARTS = [1, 4, 7, 11]
_SMALL: dict[str, Any] = {"embedding_size": 32, "hidden_sizes": [32, 64, 128, 256], "depths": [1, 1, 1, 1]}
_SMALL_TEXTS = {"kind": "gru", "vocabulary": 3000, "embedding": 128, "hidden": 128}
_FULL = {"depths": [3, 4, 23, 3], "hidden_sizes": [256, 512, 1024, 2048], "embedding_size": 64}


def main() -> None:
    """Time the loader alone, then steps with the first stage's layers frozen and with all of them training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="ResNet-101 and BERT, also without a GPU")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_full = given.full or device.type == "cuda"
    stages = {1: "first stage (bottom frozen)", 11: "last stage (all training)"} if is_full else {11: "all training"}
    size = 224 if is_full else 96
    with TemporaryDirectory() as folder:
        pixels, pairs = _pixels(Path(folder), int(224 * ENLARGEMENT)), _pairs()
        loaded = _loader(pixels, pairs)
        print(f"loader alone, 224 pixels: {loaded:,.0f} pairs/s, {len(pairs.query) / loaded:.1f} s an epoch")
        if not is_full:
            pixels = _pixels(Path(folder) / "small", int(size * ENLARGEMENT))
        rates = [_steps(given.steps, stage, device, is_full, size, pixels, pairs) for stage in stages]
    towers = "ResNet-101 and BERT" if is_full else "small towers (ResNet of 4 blocks, GRU)"
    print(f"{towers}, {size} pixels, batches of {BATCH}, on {_named(device)}:")
    for title, rate in zip(stages.values(), rates, strict=True):
        print(f"  {title}: {rate:,.0f} pairs/s, {len(pairs.query) / rate:,.1f} s an epoch")
    print(f"  the report: {REPORTED_SECONDS} s an epoch (ResNet-101 and BERT on an RTX 3080)")
    print(f"the loader is {loaded / max(rates):.1f} times as fast as the fastest training")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def _pixels(folder: Path, side: int) -> PixelTable:
    """Noise: the same bytes to move as photographs."""

    def fill(rows: Any) -> Any:
        rng = np.random.default_rng(0)
        for start in range(0, IMAGES, 500):
            rows[start : start + 500] = rng.integers(0, 256, rows[start : start + 500].shape, dtype=np.uint8)
        return np.ones(IMAGES, dtype=bool)

    write_pixels(folder, "noise", (IMAGES, side, side, 3), fill)
    pixels = open_pixels(folder, "noise")
    assert pixels is not None
    return PixelTable([str(number) for number in range(IMAGES)], *pixels)


def _pairs() -> TrainingPairs:
    """Captions of about eleven words, as Flickr8k's are."""
    rng = np.random.default_rng(1)
    count = IMAGES * CAPTIONS
    lengths = np.clip(rng.normal(WORDS + 2, 3, count).astype(int), 4, LENGTH)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int64)
    query, image = np.arange(count), np.repeat(np.arange(IMAGES), CAPTIONS)
    return TrainingPairs(
        query=query,
        image=image,
        token_ids=rng.integers(5, 3000, (count, LENGTH)) * mask,
        mask=mask,
        relevant_keys=query * IMAGES + image,
        images=IMAGES,
        keep_orientation=np.zeros(count, dtype=bool),
        keep_colours=rng.random(count) < 0.4,
    )


def _loader(pixels: PixelTable, pairs: TrainingPairs) -> float:
    """Pairs a second: batches as a step gets them."""
    batches = shuffle_batches(len(pairs.query), BATCH, 0, 1)
    for chosen in batches[:10]:
        make_batch(pairs, pixels, chosen)
    started = time.perf_counter()
    for chosen in batches:
        make_batch(pairs, pixels, chosen)
    return len(batches) * BATCH / (time.perf_counter() - started)


def _steps(
    count: int, epoch: int, device: Any, is_full: bool, size: int, pixels: PixelTable, pairs: TrainingPairs
) -> float:
    """Pairs a second, with batches made as they are in training."""
    torch.manual_seed(0)
    model = _model(is_full).to(device)
    apply_unfreezing_stage(
        model, find_unfreezing_stage(epoch, _STARTS) if is_full else FULLY_TRAINABLE, images=is_full, texts=is_full
    )
    optimizer = create_optimizer(model, 3e-5, 0.01)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    definition = TrainingDefinition(name="steps", set="none", size=size)
    order = shuffle_batches(len(pairs.query), BATCH, 0, epoch)

    def run_step(number: int) -> None:
        batch = make_batch(pairs, pixels, order[number % len(order)])
        train_step(model, optimizer, scaler, batch, definition, rate=3e-5, weight=0.5, seed=number)

    return BATCH / _seconds_of_one(run_step, count)


def _seconds_of_one(go: Callable[[int], None], count: int) -> float:
    """The median of so many, after three to warm up; a step ends with its loss on the processor."""
    taken = []
    for number in range(count + 3):
        started = time.perf_counter()
        go(number)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken[3:]))


def _model(is_full: bool) -> DualEncoder:
    if is_full:
        return build_dual_encoder(create_tower("resnet", _FULL), create_tower("bert", {}), {})
    small = create_tower("resnet", _SMALL | {"layer_type": "basic"})
    return build_dual_encoder(small, _SMALL_TEXTS, {"width": 256, "hidden": 256, "dimensions": 128})


def _named(device: Any) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} processor threads"


if __name__ == "__main__":
    main()

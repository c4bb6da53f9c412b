"""The learning rate over the steps of a training."""

import math

MIN_FACTOR = 0.05


def learning_rate_factor(step: int, warm_up: int, total: int) -> float:
    """What part of the highest learning rate step `step` (from 0) of `total` has: a straight rise over the first
    `warm_up` steps, then a cosine that ends at 5%.

    The report's own formula, max(0.05, (1 + cos) / 2), is lower after the rise and flat over the last seventh; its
    first step has a rate of 0.
    """
    if step < warm_up:
        return (step + 1) / warm_up
    progress = (step - warm_up) / max(total - 1 - warm_up, 1)
    return MIN_FACTOR + (1 - MIN_FACTOR) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2

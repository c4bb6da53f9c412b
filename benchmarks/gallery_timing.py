"""How one way of scanning or rendering is measured, in its own process; the standard library alone, so that the peers'
environment can import it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Figures = dict[str, float]
Work = Callable[[Path], Any]  # what is done with one image


def images_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jpg"))


def peak_mb(process: int | str = "self") -> float:
    """What the process held at most; of itself getrusage would count what its parent held when it was forked, too."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def measure_call(work: Callable[[], int]) -> Figures:
    """Of work that returns how many images it did."""
    wall, processor = time.perf_counter(), processor_seconds()
    images = work()
    seconds = {"seconds": time.perf_counter() - wall, "processor": processor_seconds() - processor}
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"images": images, **seconds, "peak": max(peak_mb(), children)}


def process_each(work: Work, files: list[Path]) -> int:
    """All files, again and again until they have taken a second and a half."""
    start, done = time.process_time(), 0
    while time.process_time() < start + 1.5:
        for path in files:
            work(path)
        done += len(files)
    return done


def measure_each(work: Work, files: list[Path], keep: Path | None) -> Figures:
    """One after the other, after a few to warm up on; with `keep`, what it renders is written there afterwards."""
    for path in files[:3]:
        work(path)
    figures = measure_call(lambda: process_each(work, files))
    for path in files if keep else ():
        (keep / path.name).write_bytes(work(path))
    return figures

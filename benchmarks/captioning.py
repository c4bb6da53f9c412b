"""How many images a second the chat model `qwen_vl` captions, beside transformers' `generate` on the same model.

    python benchmarks/captioning.py [--runs 3] [--sizes small full] [--models Qwen2.5-VL Qwen3-VL]

The task is the article's: images of 512 x 512, its question, five beams, 46 to 48 new tokens; it needed 2.2 s an
image. The models are Qwen2.5-VL and Qwen3-VL of random weights, made here (captioning_models.py). `small`: on the
processor, in float32; each way on one thread, in seconds of that processor. `full`: the sizes of Qwen2.5-VL-7B and
Qwen3-VL-8B in bfloat16 on a GPU, in seconds by the clock; takes 18 GB of disk below TMPDIR and, where there is no CUDA,
is not measured, which the script says.

Each way runs in a process of its own, in turn, so often as --runs says. Loading and a first image are not counted;
decoding and preparing the images are, and all ways are given the same tensors for an image. Memory is the process's
peak or, on a GPU, the most that torch had allocated there. `same texts` is the share of captions that are letter by
letter those of one-by-one generation; in bfloat16 rounding hangs on the batch, and texts with it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from captioning_models import FULL, save_random_model
from gallery_timing import peak_mb
from PIL import Image
from rich.console import Console
from rich.table import Table

from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatImage, ChatRequest, Message, Reply
from querytruth.backends.models.chat.qwen_vl import load_processor
from querytruth.backends.models.local_generation import LocalGenerationOptions, load_weights

QUESTION = "用40字描述图片的主要内容用于检索"
ARTICLE = {"num_beams": 5, "max_new_tokens": 48, "min_new_tokens": 46, "do_sample": False}
DEVICE = {"small": ("cpu", "float32"), "full": ("cuda", "bfloat16")}
BATCH = {"small": 8, "full": 64}  # what the backend begins with
IMAGES = {"small": (8, 16), "full": (8, 192)}  # one by one, in batches
TARGET = {"small": "target 2 x", "full": "target 20 x and under 0.1 s an image"}
SIZE_TITLES = {"small": "{}, small", "full": "{} of full size"}
METHODS = {
    "one_by_one": "transformers, one by one",
    "in_batches": "transformers, batches of {}",
    "ours_one_by_one": "ours, one by one",
    "ours": "ours, batches of {}",
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Caption = Callable[[list[Path]], list[str]]
Figures = dict[str, Any]


# ---- what is measured: each way in a process of its own


def load_transformers(folder: Path, device: str, batch: int) -> Caption:
    """What one would write without this project, batches included."""
    model = load_weights(
        str(folder), "files:", LocalGenerationOptions(name=str(folder), device=device), "AutoModelForImageTextToText"
    )
    inputs = load_processor(str(folder), "files:", model.config, None, None)

    def caption(files: list[Path]) -> list[str]:
        texts: list[str] = []
        for start in range(0, len(files), batch):
            shown = [[{"type": "image", "image": Image.open(f).convert("RGB")}] for f in files[start : start + batch]]
            conversations = [
                [{"role": "user", "content": [*part, {"type": "text", "text": QUESTION}]}] for part in shown
            ]
            tensors = inputs(conversations).to(model.device)
            tensors["pixel_values"] = tensors["pixel_values"].to(model.dtype)
            with torch.inference_mode():
                tokens = model.generate(**tensors, **ARTICLE)
            new = tokens[:, tensors["input_ids"].shape[1] :]
            texts += inputs.tokenizer.batch_decode(new, skip_special_tokens=True)
        return texts

    return caption


def load_qwen_vl(folder: Path, device: str, batch: int) -> Caption:
    model = chat.load_chat_model("qwen_vl", name=str(folder), device=device, batch_size=batch)

    def caption(files: list[Path]) -> list[str]:
        shown = [ChatImage(file, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
        answers = model.reply([ChatRequest((Message("user", QUESTION, (image,)),)) for image in shown])
        return [answer.text if isinstance(answer, Reply) else sys.exit(str(answer)) for answer in answers]

    return caption


def measure(way: str, size: str, folder: Path, images: Path) -> Figures:
    device, batch = DEVICE[size][0], BATCH[size] if way in ("in_batches", "ours") else 1
    files = sorted(images.iterdir())[: IMAGES[size][batch > 1]]
    caption = (load_qwen_vl if way.startswith("ours") else load_transformers)(folder, device, batch)
    caption(files[:1])
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    texts = caption(files)
    seconds = clock() - start
    peak = peak_mb() if device == "cpu" else torch.cuda.max_memory_allocated() / 2**20
    return {"seconds": seconds / len(files), "peak": peak, "texts": texts}


def seconds_to_read(size: int, device: str) -> float:
    """How long a device takes to read so many bytes of its memory; copying reads and writes them."""
    part = torch.ones(min(size, 2**32), dtype=torch.uint8, device=device)
    took = []
    for _ in range(5):
        start = time.perf_counter()
        part[:1] = part.clone()[:1].item()  # waits for the copy
        took.append(time.perf_counter() - start)
    return min(took) / 2 / len(part) * size


# ---- the comparison


def run_subprocess(*what: str, size: str) -> Figures:
    """This script in a process of its own."""
    environment = os.environ | (ONE_THREAD if size == "small" else {})
    done = subprocess.run([sys.executable, __file__, "--sizes", size, *what], stdout=subprocess.PIPE, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(what)} failed")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure_all(kind: str, size: str, images: Path, runs: int, console: Console) -> dict[str, Figures]:
    """All ways in turn, so often; the median of each figure."""
    costs: dict[str, list[Figures]] = {way: [] for way in METHODS}
    with tempfile.TemporaryDirectory() as folder:
        made = run_subprocess("--make", kind, "--folder", folder, size=size)
        for number in range(runs):
            for way, runs_of_method in costs.items():
                runs_of_method.append(
                    run_subprocess("--way", way, "--folder", folder, "--drawn", str(images), size=size)
                )
                progress_line = (
                    f"{number + 1}/{runs} {kind} {size} {way}: {runs_of_method[-1]['seconds']:.3f} s an image"
                )
                console.print(progress_line, style="dim", highlight=False)
    figures = {
        way: {key: median(one[key] for one in found) for key in ("seconds", "peak")} | {"texts": found[0]["texts"]}
        for way, found in costs.items()
    }
    return figures | {"limit": made}


def comparison_table(kind: str, size: str, costs: dict[str, Figures], runs: int) -> Table:
    unit = "seconds of a processor" if size == "small" else "seconds on the GPU"
    model = f"{SIZE_TITLES[size].format(kind)}, {costs['limit']['weights']:,} weights"
    title = f"{model}: {unit}, median of {runs}; {TARGET[size]}"
    table = Table(title=title)
    for column in ("way", "s an image", "images/s", "x one by one", "peak MB", "same texts"):
        table.add_column(column, justify="left" if column == "way" else "right")
    plain = costs["one_by_one"]
    for way, description in METHODS.items():
        cost = costs[way]
        rate = f"{cost['seconds']:.3f}", f"{1 / cost['seconds']:.2f}", f"{plain['seconds'] / cost['seconds']:.1f}"
        pairs = list(zip(cost["texts"], plain["texts"], strict=False))
        same = f"{sum(one == other for one, other in pairs) / len(pairs):.0%}"
        table.add_row(description.format(BATCH[size]), *rate, f"{cost['peak']:,.0f}", same)
    if floor := costs["limit"].get("reading"):
        floor *= ARTICLE["max_new_tokens"] / BATCH[size]
        table.add_row(f"limit: reading the weights, batches of {BATCH[size]}", f"{floor:.4f}", f"{1 / floor:.0f}")
    return table


def draw_images(folder: Path, count: int) -> None:
    """Soft patches of colour, 512 x 512, no two alike."""
    for number in range(count):
        patches = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image = Image.fromarray(patches).resize((512, 512), Image.Resampling.BICUBIC)
        image.save(folder / f"{number:04}.jpg", quality=90)


def ensure_model(kind: str, size: str, folder: Path) -> Figures:
    """Write the model; how many weights it has and, on a GPU, how long that takes to read them once."""
    device, dtype = DEVICE[size]
    weights = save_random_model(kind, size, device, dtype, folder)
    return {"weights": weights} | ({"reading": seconds_to_read(2 * weights, device)} if size == "full" else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of which the median is given")
    parser.add_argument("--sizes", nargs="+", choices=BATCH, default=list(BATCH), help="of the models")
    parser.add_argument("--models", nargs="+", choices=FULL, default=list(FULL))
    parser.add_argument("--way", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--make", choices=FULL, help=argparse.SUPPRESS)
    for hidden in ("--folder", "--drawn"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make or given.way:
        [size] = given.sizes
        what = (
            ensure_model(given.make, size, given.folder)
            if given.make
            else measure(given.way, size, given.folder, given.drawn)
        )
        print(json.dumps(what))
        return
    compare(given.sizes, given.models, given.runs, Console(width=110))


def compare(sizes: list[str], kinds: list[str], runs: int, console: Console) -> None:
    if "full" in sizes and not torch.cuda.is_available():
        console.print("No CUDA here: Qwen2.5-VL-7B and Qwen3-VL-8B were NOT measured at their full size.")
        sizes = [size for size in sizes if size != "full"]
    with tempfile.TemporaryDirectory() as images:
        draw_images(Path(images), max(max(IMAGES[size]) for size in sizes) if sizes else 0)
        for size in sizes:
            for kind in kinds:
                costs = measure_all(kind, size, Path(images), runs, console)
                console.print(comparison_table(kind, size, costs, runs))


if __name__ == "__main__":
    main()

"""What reading an Objects365-size annotation file, counting it and building a whole set from it cost.

    python benchmarks/annotations.py [--images 193588 --boxes 2826303] [--runs 3] [--keep FILE]

Writes a file in Objects365's form (the official 365 names, frequencies after Zipf, always the same), then measures
ours and its peers, each in a process of its own: wall seconds from start to exit, and peak memory. All must come to
the same numbers, or the script fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

# A peer's process loads what the peer needs: what ours needs is loaded by ours.
if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

AREA_RATIO = 0.1  # of the image's area: from here on a box is prominent
PANDAS_SAMPLE_EVERY = 100  # pandas answers every so many-th query only: all of them would take a minute
COMPILED = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}  # as installed peers are
SIZES = {"images": 193_588, "boxes": 2_826_303}  # Objects365-2020


def statistics(images: Any, prominent: Any, shares: Any) -> list[list[float]]:
    """Per label, in the file's order: images, images on which it is prominent, mean share of the image."""
    return [[int(a), int(b), round(float(c), 9)] for a, b, c in zip(images, prominent, shares, strict=True)]


# ---- what is measured: each of these runs in a process of its own and returns something that can be compared


def gallery_and_index(path: Path) -> tuple[Any, Any]:
    """The product's own way from a file to the bits of its labels."""
    import numpy as np

    from builders.precision import annotated_gallery, compatibility, label_index, tag_tree
    from builders.precision.annotation_files import read_annotations
    from querytruth.sets.ledger import Ledger

    file = read_annotations(path)
    count = len(file.categories)
    names = [str(n) for n in range(count)]
    tree = tag_tree.TagTree(tuple(tag_tree.LabelConcept(name, "", name, name) for name in names))
    listed = annotated_gallery.list_images([file])
    gallery = annotated_gallery.join_annotations([file], listed, None, [np.arange(count)], Ledger())
    return gallery, label_index.build_label_index(
        gallery, count, compatibility.build_compatibility(tree, None), AREA_RATIO
    )


def parse_ours(path: Path) -> Any:
    import numpy as np

    gallery, index = gallery_and_index(path)
    count = len(index.declared)
    boxes = np.maximum(np.bincount(gallery.box_label, minlength=count), 1)
    shares = np.bincount(gallery.box_label, gallery.box_share, count) / boxes
    images, prominent = (np.bitwise_count(bits).sum(axis=1) for bits in (index.declared, index.declared_prominent))
    return statistics(images, prominent, shares)


def parse_pycocotools(path: Path) -> Any:
    from pycocotools.coco import COCO

    coco = COCO(str(path))
    keys = coco.getCatIds()
    boxes, total = dict.fromkeys(keys, 0), dict.fromkeys(keys, 0.0)
    prominent: dict[int, set[int]] = {key: set() for key in keys}
    for box in coco.anns.values():
        image, key = coco.imgs[box["image_id"]], box["category_id"]
        share = box["bbox"][2] * box["bbox"][3] / (image["width"] * image["height"])
        boxes[key] += 1
        total[key] += share
        if share > AREA_RATIO:
            prominent[key].add(box["image_id"])
    images = [len(coco.getImgIds(catIds=[key])) for key in keys]
    return statistics(images, [len(prominent[key]) for key in keys], [total[key] / max(boxes[key], 1) for key in keys])


def load_hotcoco(path: Path) -> Any:
    """Loads and counts by label what its statistics hold, in Rust. They have no shares: to ask for the boxes one by
    one, as Python objects, would take several times as long."""
    from hotcoco import COCO

    return int(COCO(str(path)).stats()["annotation_count"])


def load_vernier(path: Path) -> Any:
    """Loads, which is all that it offers: no statistics."""
    from vernier.instance import CocoDataset

    return int(CocoDataset.from_json(path.read_bytes()).num_annotations)


def parse_pandas(path: Path) -> Any:
    import pandas as pd

    with path.open(encoding="utf-8") as file:
        whole = json.load(file)
    boxes, sizes = pd.json_normalize(whole["annotations"]), pd.json_normalize(whole["images"])
    keys = [category["id"] for category in whole["categories"]]
    boxes = boxes.merge(sizes[["id", "width", "height"]], left_on="image_id", right_on="id")
    sides = pd.DataFrame(boxes["bbox"].tolist(), columns=["x", "y", "w", "h"])
    boxes["share"] = sides["w"] * sides["h"] / (boxes["width"] * boxes["height"])
    by_label = boxes.groupby("category_id")
    large = boxes[boxes["share"] > AREA_RATIO].groupby("category_id")["image_id"].nunique()
    columns = (by_label["image_id"].nunique(), large, by_label["share"].mean())
    return statistics(*(column.reindex(keys, fill_value=0) for column in columns))


def load_pycocotools(path: Path) -> Any:
    from pycocotools.coco import COCO

    return len(COCO(str(path)).anns)


def definition_of(path: Path, out: str) -> Any:
    from builders.precision.definition import PrecisionDefinition

    return PrecisionDefinition.model_validate(
        {"name": "benchmark", "kind": "precision", "annotations": str(path), "out": out}
        | {"labels": "objects365", "compatible": "objects365", "mixes": {"mode": "sampled"}}
    )


def build_ours(path: Path) -> Any:
    from flows.set_kinds import build_set

    with tempfile.TemporaryDirectory() as out:
        return build_set(definition_of(path, out)).manifest["counts"]["judgments"]


def pairs(path: Path) -> Any:
    """Seconds for the number of images that hold both labels, for all pairs of labels."""
    gallery, index = gallery_and_index(path)
    sets = [set(gallery.box_image[gallery.box_label == label].tolist()) for label in range(len(index.declared))]
    all_pairs = list(combinations(range(len(sets)), 2))
    ours, counts = timed(lambda: [index.count_support(pair) for pair in all_pairs])
    by_sets, expected = timed(lambda: [len(sets[a] & sets[b]) for a, b in all_pairs])
    assert counts == expected, "the ways disagree on co-occurrence"
    return {"ours": ours, "sets": by_sets}


def truth(path: Path) -> Any:
    """Seconds a query for the images that answer it, accepted labels included: the queries of the build below."""
    import numpy as np
    import pandas as pd

    from builders.precision import annotated_gallery, label_index, label_steps
    from builders.precision.steps import find_seeds, join_gallery, read_annotations
    from querytruth.sets.ledger import Ledger

    definition, ledger = definition_of(path, "unused"), Ledger()
    files = read_annotations([path], definition.tags)
    labels, listed = label_steps.read_labels(definition, files), annotated_gallery.list_images(files)
    gallery = join_gallery(files, listed, None, labels, ledger, definition)
    index, seeds = find_seeds(gallery, labels, ledger, definition)
    seed_concepts = list(seeds["concepts"])
    compatibility, count = labels.compatibility, len(labels.tree.labels)
    accepted = [compatibility.accepted_labels(code, count) for code in range(len(labels.tree.concepts))]
    frame = pd.DataFrame({"image": gallery.box_image, "label": gallery.box_label})
    sets = [set(gallery.box_image[gallery.box_label == label].tolist()) for label in range(count)]
    joined = [set().union(*(sets[label] for label in one)) for one in accepted]

    def masks(concepts: tuple[int, ...]) -> set[int]:
        held = [frame["image"][frame["label"].isin(accepted[code])].unique() for code in concepts]
        return set(held[0][np.logical_and.reduce([np.isin(held[0], other) for other in held])].tolist())

    def plain(concepts: tuple[int, ...]) -> set[int]:
        return set.intersection(*(set().union(*(sets[label] for label in accepted[code])) for code in concepts))

    def packed(concepts: tuple[int, ...]) -> np.ndarray:
        return label_index.bit_positions(label_index.images_with_all(index.present, concepts))

    ours, image_rows = timed(lambda: [packed(concepts) for concepts in seed_concepts])
    by_sets, expected = timed(lambda: [plain(concepts) for concepts in seed_concepts])
    by_joined, _ = timed(lambda: [set.intersection(*(joined[code] for code in concepts)) for concepts in seed_concepts])
    by_masks, masked = timed(lambda: [masks(concepts) for concepts in seed_concepts[::PANDAS_SAMPLE_EVERY]])
    assert [set(images.tolist()) for images in image_rows] == expected, "the ways disagree on truth"
    assert expected[::PANDAS_SAMPLE_EVERY] == masked, "the ways disagree on truth"
    took = {"ours": ours, "sets": by_sets, "sets joined before": by_joined}
    return {way: seconds / len(seed_concepts) for way, seconds in took.items()} | {"pandas": by_masks / len(masked)}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


_WAYS = (
    parse_ours,
    parse_pycocotools,
    parse_pandas,
    load_pycocotools,
    load_hotcoco,
    load_vernier,
    build_ours,
    pairs,
    truth,
)
MEASURES = {way.__name__: way for way in _WAYS}


# ---- the comparison


@dataclass(frozen=True, slots=True)
class AnnotationCost:
    """Of one process: wall and processor seconds, peak memory in GB, and what it returned."""

    seconds: float
    processor: float
    memory: float
    result: Any


def measure(name: str, path: Path) -> AnnotationCost:
    """Run one measure in a process of its own, from its start to its exit."""
    with tempfile.TemporaryFile() as out:
        command, start = (sys.executable, __file__, "--measure", name, "--keep", path), time.perf_counter()
        process = subprocess.Popen(command, stdout=out, env=COMPILED)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        if status:
            sys.exit(f"{name} failed")
        # A peer may print as it goes: the result is the last line.
        result = json.loads(out.read().splitlines()[-1])
    return AnnotationCost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, result)


def median_cost(costs: list[AnnotationCost]) -> AnnotationCost:
    """The median of each figure; of a result that is no table of seconds, the first."""
    result = costs[0].result
    if isinstance(result, dict):
        result = {way: median(cost.result[way] for cost in costs) for way in result}
    seconds, processor = median(c.seconds for c in costs), median(c.processor for c in costs)
    return AnnotationCost(seconds, processor, median(c.memory for c in costs), result)


def measure_all(path: Path, runs: int, console: Console) -> dict[str, AnnotationCost]:
    """All measures in turn, so often: what else the machine does then falls on all of them."""
    names = list(MEASURES)
    for peer in ("pycocotools", "hotcoco", "vernier"):
        if find_spec(peer) is None:
            console.print(f"{peer} is not installed (pip install -e '.[bench]'): measured without it", markup=False)
            names = [name for name in names if peer not in name]
    costs: dict[str, list[AnnotationCost]] = {name: [] for name in names}
    for run in range(runs):
        for name in names:
            cost = measure(name, path)
            costs[name].append(cost)
            figures = f"{cost.seconds:.1f} s, {cost.processor:.1f} s of a processor, {cost.memory:.2f} GB"
            console.print(f"{run + 1}/{runs} {name}: {figures}", style="dim")
    parsed = {json.dumps(c.result) for name in names if name.startswith("parse") for c in costs[name]}
    if len(parsed) != 1:
        sys.exit("the ways of parsing come to different numbers")
    return {name: median_cost(runs_of_name) for name, runs_of_name in costs.items()}


def report(costs: dict[str, AnnotationCost], title: str, full_size: bool) -> Table:
    """Ours and the peers side by side; `ratio` is how many times as much the peer needs. The targets are for
    files of Objects365's size: on small ones the start of the process is most of it."""
    from rich.table import Table

    table = Table(title=title)
    for column in ("work", "ours", "peer", "", "ratio", "target"):
        table.add_column(column, justify="right" if column in ("ours", "", "ratio") else "left")

    def row(work: str, ours: float, peer: str, theirs: float, unit: str, target: float = 0) -> None:
        ratio = theirs / ours
        target_text = f"{target:.3g} x" if target else ""
        if target_text and full_size:
            target_text += ", reached" if ratio >= target else ", MISSED"
        figures = (f"{figure:{',.0f' if figure >= 100 else '.3g'}} {unit}" for figure in (ours, theirs))
        table.add_row(work, next(figures), peer, next(figures), f"{ratio:.1f} x", target_text)

    ours, build = costs["parse_ours"], costs["build_ours"]
    for name, faster, smaller in (("pycocotools", 4, 2.5), ("pandas", 0, 0)):
        if peer := costs.get(f"parse_{name}"):
            row("parse + statistics", ours.seconds, name, peer.seconds, "s", faster)
            row("  peak memory", ours.memory, name, peer.memory, "GB", smaller)
    for name in ("hotcoco", "vernier"):
        if peer := costs.get(f"load_{name}"):
            row("parse + statistics, processor", ours.processor, f"{name}, loads", peer.processor, "s", 1)
            row("  peak memory", ours.memory, name, peer.memory, "GB", 1 / 0.35)
    for title, scale, unit in (("pairs", 1e3, "ms"), ("truth", 1e6, "us")):
        took = {way: seconds * scale for way, seconds in costs[title].result.items()}
        work = "co-occurrence" if title == "pairs" else "truth of a query"
        for way in list(took)[1:]:
            row(work, took["ours"], way, took[way], unit, 10 if way == "sets" else 0)
    if load := costs.get("load_pycocotools"):
        row("whole build, published", build.seconds, "pycocotools' load", load.seconds, "s", 1 / 0.6)
        row("  peak memory", build.memory, "pycocotools' load", load.memory, "GB")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--runs", type=int, default=1, help="of which the median is given")
    parser.add_argument("--keep", type=Path, help="where the file is kept; one that is there is used as it is")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(MEASURES[given.measure](given.keep)))
        return
    from objects365_like import write_file
    from rich.console import Console

    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "annotations.json"
        if not path.exists():
            console.print(f"writing {given.images:,} images and {given.boxes:,} boxes", style="dim")
            write_file(path, given.images, given.boxes)
        size = path.stat().st_size / 1e6
        title = f"{size:.0f} MB of annotations, median of {given.runs}"
        console.print(report(measure_all(path, given.runs, console), title, full_size=size > 500))


if __name__ == "__main__":
    main()

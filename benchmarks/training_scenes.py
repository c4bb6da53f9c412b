"""What small encoders learn from drawn scenes on a processor: python -m benchmarks.training_scenes FOLDER

Draws the scenes, makes a recall set of their captions, trains datasets/sample-album/training.yaml on it, and compares
the model, on the pictures that it never saw, with chance and with the words of the pictures' labels. Whatever is in the
folder already is used again. 2,300 scenes leave about 2,000 to learn from (near-duplicates go), and take minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import pandas as pd

from backends.sets import set_files
from baselines.simple_baselines import build_lexical_run
from evaluation.chance import expected_by_chance
from evaluation.exact_search import build_vector_gallery, search_exact
from evaluation.ground_truth import index_qrels
from evaluation.identifiers import build_run
from evaluation.metric_names import parse_metric
from evaluation.metric_scores import score_run
from evaluation.ranking import rank_run
from flows.definitions import load_definition
from flows.dual_encoder_training import TrainingResult, train_dual_encoder
from flows.sample_album_files import SAMPLE_DEFINITIONS_FOLDER, draw_sample_album
from flows.scoring.encoded_sets import encode_set
from flows.scoring.judged_sets import load_judged_set
from flows.set_kinds import build_set
from flows.steps import BuildRun, active_run
from flows.training.training_report import format_interval, format_scores_table
from querytruth.terminal import TerminalReporter

METRIC = "hit@10"
_WORD = re.compile(r"[a-z0-9]+|[^\W_]")


def main() -> None:
    """Do all of it and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=2300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", dest="keys", action="append", default=[], help="a key of the training's definition")
    given = parser.parse_args()
    started = time.monotonic()
    with active_run(BuildRun(TerminalReporter(), given.threads)):
        if not (given.folder / "album" / "annotations.json").exists():
            draw_sample_album(given.folder / "album", given.scenes)
        scenes = _scenes(given.folder)
        places = [f"set={scenes}", f"out={given.folder / 'models'}"]
        trained = train_dual_encoder(
            load_definition(SAMPLE_DEFINITIONS_FOLDER / "training.yaml", [*places, *given.keys], "training")
        )
        rows = _compare_with_baselines(trained, _labels(given.folder / "album" / "annotations.json"))
    print("\n".join([*format_scores_table(trained.figures, trained.chance), "", *rows]))
    print(f"\n{len(trained.history)} epochs, {sum(one['seconds'] for one in trained.history):.0f} s of training, "
          f"{time.monotonic() - started:.0f} s in all")  # fmt: skip


def _scenes(folder: Path) -> Path:
    captions = {"model": "captions_file", "options": {"path": str(folder / "album" / "captions.csv")}}
    keys = {
        "name": "scenes",
        "title": "Drawn scenes",
        "images": folder / "album" / "pictures",
        "out": folder / "datasets",
        "render": '{"size": 256, "mode": "squash"}',
        "captions": json.dumps(captions | {"prompt": ["zh/caption", "en/caption"]}),
        "ambiguity": '{"policy": "merge", "text_embedder": null}',
    }
    overrides = [f"{key}={value}" for key, value in keys.items()]
    return build_set(load_definition(None, overrides, "recall")).path


def _labels(annotations: Path) -> pd.DataFrame:
    """Per picture's file name its labels, English words."""
    coco: dict[str, Any] = json.loads(annotations.read_bytes())
    names = {one["id"]: one["name"] for one in coco["categories"]}
    files = {one["id"]: one["file_name"] for one in coco["images"]}
    rows = [(files[box["image_id"]], names[box["category_id"]]) for box in coco["annotations"]]
    return pd.DataFrame(rows, columns=["file_name", "text"]).drop_duplicates()


def _compare_with_baselines(trained: TrainingResult, labels: pd.DataFrame) -> list[str]:
    """Rows of a Markdown table: the model, the words of the labels, and chance, on captions that share no word with any
    label, and on those that do."""
    tables = set_files.read_set(trained.test_set).tables
    texts = labels.merge(tables.images[["image_id", "file_name"]], on="file_name")[["image_id", "text"]]
    known = {token for text in texts["text"] for token in _words(text)}
    foreign = tables.queries["text"].map(lambda text: not known & set(_words(text)))
    model = _run_of_model(trained)
    lines = [f"| captions ({METRIC}) | captions | dual encoder | words of labels | chance |", "|---|---|---|---|---|"]
    for title, queries in (
        ("share no word with the labels", tables.queries[foreign]),
        ("share words with the labels", tables.queries[~foreign]),
    ):
        qrels = tables.qrels[tables.qrels["query_id"].isin(queries["query_id"])]
        truth = index_qrels(qrels, tables.images["image_id"])
        chance = expected_by_chance(parse_metric(METRIC), truth, len(tables.images)).mean()
        cells = [_figure(run, truth) for run in (model, build_lexical_run(queries, texts, 200))]
        lines.append(f"| {title} | {len(queries)} | {cells[0]} | {cells[1]} | {chance:.3f} |")
    return lines


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _run_of_model(trained: TrainingResult) -> pd.DataFrame:
    encoded = encode_set(str(trained.folder), load_judged_set(trained.test_set))
    gallery = build_vector_gallery(encoded.images.vectors, encoded.images.ids.to_pylist())
    ranking = search_exact(encoded.texts.vectors, gallery, 200, threads=1)
    return build_run(encoded.texts.ids, encoded.images.ids, ranking.places, ranking.scores)


def _figure(run: pd.DataFrame, truth: Any) -> str:
    inside = run[run["query_id"].isin(truth.query_ids.to_pylist())]
    scores = score_run(rank_run(inside, truth), [METRIC])
    return format_interval([scores.means()[METRIC], float(scores.interval.low[0]), float(scores.interval.high[0])])


if __name__ == "__main__":
    main()

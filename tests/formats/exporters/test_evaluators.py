"""Whole sets read by other evaluators: their figures are ours."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.definition_loader import parse_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.evaluation.baselines import build_random_run
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import score_run
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.run_files import read_run
from querytruth.formats import exporters
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets import set_files
from querytruth.sets.set_files import StoredSet
from tests.tiny_dual_encoders import save_dual_encoder


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> StoredSet:
    """A precision set of eighty drawn scenes with grades, judged zeros, many right images a query, and queries in two
    languages."""
    folder = tmp_path_factory.mktemp("real")
    write_sample_album(folder / "album", 80)
    definition = {
        "name": "real",
        "annotations": str(folder / "album" / "annotations.json"),
        "images": str(folder / "album" / "images"),
        "out": str(folder / "sets"),
        "searchable": {"min_images": 3},
        "mixes": {"mode": "exhaustive", "near_misses": 5, "min_images": 3},
        "render": {"size": 64, "mode": "fit"},
    }
    with active_run(BuildRun()):
        return set_files.read_set(build_set(parse_definition(definition, "precision", "real")).path)


def figures(stored: StoredSet, run: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Ours, a row per query."""
    truth = index_qrels(stored.tables.qrels, stored.tables.images["image_id"])
    return score_run(rank_run(run, truth), names).per_query[names]


def system(stored: StoredSet) -> pd.DataFrame:
    """A random system's run, with the scores of single precision that files hold."""
    return build_random_run(list(stored.tables.queries["query_id"]), list(stored.tables.images["image_id"]), 40, seed=3)


def as_trec(run: pd.DataFrame, path: Path) -> Path:
    lines = (f"{row.query_id} Q0 {row.image_id} 0 {row.score!r} random\n" for row in run.itertuples(index=False))
    path.write_text("".join(lines), "utf-8")
    return path


@pytest.mark.thorough
def test_trec_evaluators_find_our_figures_query_by_query(real: StoredSet, tmp_path: Path) -> None:
    import ir_measures
    import pytrec_eval

    exporters.export_set("trec", real, tmp_path / "out")
    path = as_trec(system(real), tmp_path / "random.run")
    ours = figures(real, read_run(path), ["ndcg@10(gain=linear)", "ap", "rr", "p@10", "r@10", "hit@10", "p@r"])
    assert len(ours) > 5

    with (tmp_path / "out" / "qrels.txt").open() as qrels, path.open() as run:
        judged, found = pytrec_eval.parse_qrel(qrels), pytrec_eval.parse_run(run)
    theirs = ["ndcg_cut_10", "map", "recip_rank", "P_10", "recall_10", "success_10", "Rprec"]
    values = pytrec_eval.RelevanceEvaluator(judged, {name.replace("_10", ".10") for name in theirs}).evaluate(found)
    for query_id, row in ours.iterrows():
        assert [values[query_id][name] for name in theirs] == pytest.approx(row.tolist(), abs=1e-9), query_id

    measures = [ir_measures.parse_measure(name) for name in ("nDCG@10", "AP", "RR", "P@10", "R@10", "Success@10")]
    read = list(ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt")))
    means = ir_measures.calc_aggregate(measures, read, ir_measures.read_trec_run(str(path)))
    relevant = {entry.query_id for entry in read if entry.relevance > 0}
    assert relevant == set(ours.index), "otherwise the means are over different queries"
    assert [means[measure] for measure in measures] == pytest.approx(ours.mean().tolist()[:6], abs=1e-9)


@pytest.mark.thorough
def test_beir_reads_the_folder_and_finds_our_figures(real: StoredSet, tmp_path: Path) -> None:
    pytest.importorskip("beir", reason="beir is not installed")
    from beir.datasets.data_loader import GenericDataLoader
    from beir.retrieval.evaluation import EvaluateRetrieval

    exporters.export_set("beir", real, tmp_path / "out")
    corpus, queries, qrels = GenericDataLoader(str(tmp_path / "out")).load("test")
    assert set(corpus) == set(real.tables.images["image_id"])
    assert queries == dict(zip(real.tables.queries["query_id"], real.tables.queries["text"], strict=True))
    run = system(real)
    found: dict[str, dict[str, float]] = {}
    for row in run.itertuples(index=False):
        found.setdefault(str(row.query_id), {})[str(row.image_id)] = row.score
    ndcg, average, recall, precision = EvaluateRetrieval.evaluate(qrels, found, [10])
    ours = figures(real, run, ["ndcg@10(gain=linear)", "ap@10", "r@10", "p@10"]).mean()
    theirs = [ndcg["NDCG@10"], average["MAP@10"], recall["Recall@10"], precision["P@10"]]
    assert theirs == pytest.approx(ours.tolist(), abs=5.1e-6), "beir rounds to five places"


@pytest.mark.slow
def test_mteb_evaluates_a_model_to_our_figures(
    real: StoredSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task file, the loader and the metrics are theirs, the model a tiny CLIP of the real class."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "out"))
    exporters.export_set("mteb", real, tmp_path / "out")
    sys.modules.pop("task", None)
    task = importlib.import_module("task").Task()
    answered = mteb.evaluate(
        _mteb_model(str(save_dual_encoder("clip", tmp_path / "clip"))),
        [task],
        cache=None,
        prediction_folder=tmp_path / "found",
    )
    (theirs,) = answered.task_results[0].scores["test"]

    (file,) = (tmp_path / "found").glob("*.json")
    found = json.loads(file.read_text("utf-8"))["default"]["test"]
    rows = [(query, image, value) for query, images in found.items() for image, value in images.items()]
    run = pd.DataFrame(rows, columns=["query_id", "image_id", "score"])
    names = ["ndcg@10(gain=linear)", "ap@10", "r@10", "p@10", "hit@10", "rr@10"]
    ours = figures(real, run, names).mean().tolist()
    reported = [theirs[f"{name}_at_10"] for name in ("ndcg", "map", "recall", "precision", "hit_rate")]
    assert reported == pytest.approx(ours[:5], abs=5.1e-6), "mteb rounds these to five places"
    assert theirs["mrr_at_10"] == pytest.approx(ours[5], abs=1e-9)


def _mteb_model(folder: str) -> Any:
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder

    from querytruth.backends.models.embedders import clip

    class Encoder(AbsEncoder):  # type: ignore[misc]
        mteb_model_meta = ModelMeta.create_empty({"name": "tiny/clip", "modalities": ["text", "image"]})

        def __init__(self) -> None:
            self.model = clip.load(clip.ClipOptions(name=folder))

        def encode(self, inputs: Any, **_: Any) -> Any:
            rows = []
            for batch in inputs:
                texts = batch.get("text")
                images = [] if texts else [image.convert("RGB") for image in batch["image"]]
                rows.append(self.model.encode_texts(texts) if texts else self.model.encode_images(images))
            return np.concatenate(rows)

    return Encoder()

"""Runs an evaluator on worlds of judgments and runs, in its own environment: `python other_evaluators.py TOOL`.

Reads a JSON list of [qrels, run, names of figures] from the standard input, and prints a list of figures by name.
Nothing of this project is imported: the interpreter is that of the environment in which the tool is installed.
"""

import json
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


def ask_trec_eval(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    import pytrec_eval

    wanted = {re.sub(r"_(\d+)$", r".\1", name) for name in names}
    by_query = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    mean = pytrec_eval.compute_aggregated_measure
    return {name: float(mean(name, [of[name] for of in by_query.values()])) for name in names}


def ask_ir_measures(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    import ir_measures

    measures = {name: ir_measures.parse_measure(name) for name in names}
    figures = ir_measures.calc_aggregate(list(measures.values()), qrels, run)
    return {name: float(figures[measure]) for name, measure in measures.items()}


def ask_mteb(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    from mteb._evaluators import retrieval_metrics
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, make_score_dict

    retrieval_metrics.evaluate_abstention = lambda *_: {}  # nAUC: nearly all of the time, and no part of these figures
    cuts = sorted({1} | {int(name.rpartition("_")[2]) for name in names})
    found = calculate_retrieval_scores(run, qrels, cuts)
    scores = make_score_dict(
        ndcg=found.ndcg,
        _map=found.map,
        recall=found.recall,
        precision=found.precision,
        mrr=found.mrr,
        naucs={},
        naucs_mrr={},
        hit_rate=found.hit_rate,
        task_scores={},
    )
    return {name: float(scores[name]) for name in names}


def ask_ranx(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    import ranx

    of_all = ranx.Run({query: of for query, of in run.items() if of})
    found = ranx.evaluate(ranx.Qrels(qrels), of_all, names, make_comparable=True)
    return {name: float(found[name] if len(names) > 1 else found) for name in names}


def ask_torchmetrics(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    import torch
    from torchmetrics import retrieval

    queries = sorted(run)
    rows = [
        (n, score, qrels.get(query, {}).get(image, 0))
        for n, query in enumerate(queries)
        for image, score in run[query].items()
    ]
    indexes, scores, grades = (torch.tensor(column) for column in zip(*rows, strict=True))
    figures = {}
    for name in names:
        called, cut = re.fullmatch(r"(\w+)\((?:top_k=(\d+))?\)", name).groups()  # type: ignore[union-attr]
        metric = getattr(retrieval, called)(**({"top_k": int(cut)} if cut else {}))
        target = grades if called == "RetrievalNormalizedDCG" else (grades > 0).long()
        metric.update(scores.float(), target, indexes=indexes)
        figures[name] = float(metric.compute().item())
    return figures


def ask_clip_benchmark(qrels: Qrels, run: Run, names: list[str]) -> dict[str, float]:
    """Its own recall_at_k on a matrix; its evaluate encodes images and texts before, and then does the same."""
    import torch
    from clip_benchmark.metrics.zeroshot_retrieval import batchify, recall_at_k

    queries = sorted(qrels.keys() | run.keys())
    images = sorted({image for of in (*run.values(), *qrels.values()) for image in of})
    scores = torch.full((len(queries), len(images)), -torch.inf)
    positive = torch.zeros_like(scores, dtype=torch.bool)
    for row, query in enumerate(queries):
        for image, score in run.get(query, {}).items():
            scores[row, images.index(image)] = score
        for image, grade in qrels.get(query, {}).items():
            positive[row, images.index(image)] = grade > 0
    figures = {}
    for name in names:
        k = int(name.rpartition("@")[2])
        figures[name] = (batchify(recall_at_k, scores, positive, 4, "cpu", k=k) > 0).float().mean().item()
    return figures


def ask_chinese_clip(qrels: Qrels, run: Run, names: list[str], script: str = "") -> dict[str, float]:
    """The script cn_clip/eval/evaluation.py, on the two files that it takes; it wants whole numbers as ids."""
    if not script:
        from importlib.util import find_spec

        found = find_spec("cn_clip.eval.evaluation")
        assert found is not None and found.origin is not None
        script = found.origin
    queries = {query: n for n, query in enumerate(sorted(qrels.keys() | run.keys()))}
    images = {
        image: n for n, image in enumerate(sorted({one for of in (*run.values(), *qrels.values()) for one in of}))
    }
    with tempfile.TemporaryDirectory() as folder:
        gold, predicted, out = (Path(folder) / name for name in ("gold.jsonl", "predicted.jsonl", "out.json"))
        lines, answers = [], []
        for query, number in queries.items():
            relevant = [images[image] for image, grade in qrels.get(query, {}).items() if grade > 0]
            lines.append(json.dumps({"text_id": number, "image_ids": relevant}))
            best = sorted(run.get(query, {}).items(), key=lambda one: (one[1], one[0]), reverse=True)[:10]
            answers.append(json.dumps({"text_id": number, "image_ids": [images[image] for image, _ in best]}))
        gold.write_text("\n".join(lines))
        predicted.write_text("\n".join(answers))
        with mock.patch.object(sys, "argv", [script, str(gold), str(predicted), str(out)]):
            runpy.run_path(script, run_name="__main__")
        result = json.loads(out.read_text())
    assert result["success"], result
    return {name: result["scoreJson"][name] for name in names}


ASKED: dict[str, Any] = {
    "trec_eval": ask_trec_eval,
    "ir_measures": ask_ir_measures,
    "mteb": ask_mteb,
    "ranx": ask_ranx,
    "torchmetrics": ask_torchmetrics,
    "clip_benchmark": ask_clip_benchmark,
    "chinese_clip": ask_chinese_clip,
}

if __name__ == "__main__":
    print(json.dumps([ASKED[sys.argv[1]](*world) for world in json.load(sys.stdin)]))

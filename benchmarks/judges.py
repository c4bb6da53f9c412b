"""Judges on real photos, captions and people: does sight help, and what does a certified truth cost beside its peers?

    python benchmarks/judges.py sight EMBEDDER.yaml COCO [--names LABELS.csv]  # captions and instances of COCO, photos
    python benchmarks/judges.py truth EMBEDDER.yaml CAPTIONS     # Flickr8k's experts: recall of the truth by judgments
    python benchmarks/judges.py peers EMBEDDER.yaml CAPTIONS [--eccv FOLDER]   # PPI: pip install ppi-python
    python benchmarks/judges.py order FILE       # LLMJudge (query_id, item_id, human, a column for each judge)

EMBEDDER: any embedder of images and texts, or the YAML file of one; for truth and peers also the folder of a model of
sentence-transformers. Sight: the cosine of query and photo. Text: the cosine of the query and the nearest caption of
the photo, never itself. Both: a logistic regression of the two. Each is fitted to four fifths of the queries and
measured on the fifth. Intervals: 95%, of 1,000 bootstrap draws of queries. The order by rank is that of the letters
that a caption shares with the captions of a photo. ppi-python installs a package `tests`, which hides the one here:
delete that folder.

Order: each of the eight judges helps to choose what people judge, and the seven others are systems that order the
documents of a query by their grades. As many relevant pairs as a system has among its first ten, so good it is.
"""

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import kendalltau

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from querytruth.array_types import BoolArray, FloatArray, RowIndices  # noqa: E402
from querytruth.audit.certificate import CountBound, RelevanceModel  # noqa: E402
from querytruth.audit.judge_reliability import fit_curve, rank_area  # noqa: E402
from querytruth.audit.next_cards import AnsweredPool, PooledPairs  # noqa: E402
from querytruth.backends.models.embedders import load_image_text_embedder, load_text_embedder  # noqa: E402
from tests.audit.eccv_story import add_rank, read_eccv_pairs  # noqa: E402
from tests.audit.expert_pairs import read_expert_pairs  # noqa: E402

try:
    import ppi_py
except ImportError:
    ppi_py = None
PRECISION, RECALL, GREY = 0.9, 0.9, (128, 128, 128)
SEEDS, MISSES, STARTS = 20, 50, (200, 500)
MOST_CERTIFIED = 10_000  # pairs
ORDER_JUDGMENTS = (200, 400, 800, 1600)  # at random


def read_coco(folder: Path) -> tuple[dict[int, Path], dict[int, list[str]], dict[int, set[int]]]:
    """Photos, their captions, and the categories of their boxes."""
    files: dict[int, Path] = {}
    captions: dict[int, list[str]] = defaultdict(list)
    labels: dict[int, set[int]] = defaultdict(set)
    for part in ("train2017", "val2017"):
        given, boxes = (json.loads((folder / f"annotations/{kind}_{part}.json").read_text()) for kind in
                        ("captions", "instances"))  # fmt: skip
        files |= {image["id"]: folder / part / image["file_name"] for image in given["images"]}
        for one in given["annotations"]:
            captions[one["image_id"]].append(one["caption"].strip())
        for one in boxes["annotations"]:
            labels[one["image_id"]].add(one["category_id"])
    return files, captions, labels


def measure_sight(embedder: str, coco: Path, names: Path | None) -> None:
    """Print what sight adds to captions, where queries are captions, and where they are names of objects."""
    model, (files, captions, labels) = load_image_text_embedder(embedder), read_coco(coco)
    photos = sorted(files)
    shown = model.encode_images(Image.open(files[photo]).convert("RGB") for photo in photos)
    grey = model.encode_images([Image.new("RGB", (320, 240), GREY)])
    owner = np.array([place for place, photo in enumerate(photos) for _ in captions[photo]])
    said = model.encode_texts([text for photo in photos for text in captions[photo]])
    near = said @ said.T
    np.fill_diagonal(near, -1)  # a caption is not compared with itself
    print("queries | judge | pairs, relevant | AUROC | recall at precision .90")
    truth = owner[:, None] == np.arange(len(photos))

    def nearest(cosines: FloatArray) -> FloatArray:
        return np.stack([cosines[:, owner == photo].max(axis=1) for photo in range(len(photos))], axis=1)

    unseen = np.ones((1, len(photos)))
    report("captions, en", nearest(near), said @ shown.T, said @ grey.T * unseen, truth)
    if names is None:
        return
    rows = list(csv.DictReader(names.open(encoding="utf-8")))
    kept = [row for row in rows if any(int(row["id"]) in labels[photo] for photo in photos)]
    has = np.array([[int(row["id"]) in labels[photo] for photo in photos] for row in kept])
    for language in ("en", "zh"):
        asked = model.encode_texts([row[language] for row in kept])
        report(f"objects, {language}", nearest(asked @ said.T), asked @ shown.T, asked @ grey.T * unseen, has)


def report(title: str, text: FloatArray, sight: FloatArray, blank: FloatArray, truth: BoolArray) -> None:
    queries = np.repeat(np.arange(len(truth)), truth.shape[1])
    found = {}
    for name, columns in {"text": [text], "sight": [sight], "grey image": [blank], "both": [text, sight]}.items():
        chances = cross_fit(np.stack([one.ravel() for one in columns], axis=1), truth.ravel(), queries)
        found[name] = chances
        low, high = bootstrap(chances, truth.ravel(), queries)
        recall = recall_at(chances, truth.ravel())
        area = rank_area(chances, truth.ravel().astype(float))
        print(
            f"{title} | {name} | {truth.size:,}, {truth.sum():,} | {area:.3f} | {recall:.3f} ({low:.3f} to {high:.3f})"
        )
    if truth.size <= MOST_CERTIFIED:
        certify_with(title, found, truth.ravel(), queries)
    low, high = bootstrap(found["both"], truth.ravel(), queries, found["text"])
    more = recall_at(found["both"], truth.ravel()) - recall_at(found["text"], truth.ravel())
    print(f"{title}: sight adds {more:+.3f} ({low:+.3f} to {high:+.3f})")


def certify_with(title: str, found: dict[str, FloatArray], truth: BoolArray, queries: RowIndices) -> None:
    """Print the share of the pairs that people judge until .90 is certified, with each judge and with none."""
    pairs = pd.DataFrame({"query_id": [f"q{one}" for one in queries], "best_rank": 0})
    pairs["image_id"] = [f"i{one}" for one in pairs.groupby("query_id").cumcount()]
    for name in ("none", "text", "sight", "both"):
        scored = pairs.assign(score=found.get(name, 0.0))
        pools = (make_pool(scored, seed, with_judge=name != "none") for seed in range(5))
        shares = [len(ask_cards(pool, truth, len(pairs), RECALL)) / len(pairs) for pool in pools]
        print(f"{title} | {name} | certified after {np.mean(shares):.2f}, at most {max(shares):.2f} of the pairs")


def cross_fit(columns: FloatArray, truth: BoolArray, queries: RowIndices) -> FloatArray:
    """By pair its probability, from the pairs of other queries."""
    rows = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-9)
    folds = np.random.default_rng(0).permutation(int(queries.max()) + 1)[queries] % 5
    found = np.empty(len(rows))
    for fold in range(5):
        own = folds == fold
        model = RelevanceModel(rows, [-2.5, *[1.0] * rows.shape[1]], np.zeros(len(rows), dtype=np.int64))
        found[own] = model.fit(np.flatnonzero(~own), truth[~own])[own]
    return found


def recall_at(chances: FloatArray, truth: BoolArray) -> float:
    """The largest recall at a precision of .90, over all cuts."""
    order = np.argsort(-chances, kind="stable")
    hits = np.cumsum(truth[order])
    precise = np.flatnonzero(hits / np.arange(1, len(hits) + 1) >= PRECISION)
    return float(hits[precise[-1]] / truth.sum()) if len(precise) else 0.0


def bootstrap(chances: FloatArray, truth: BoolArray, queries: RowIndices, less: FloatArray | None = None) -> FloatArray:
    """95% of the recall over draws of queries, or of its difference to that of other probabilities."""
    rng, count = np.random.default_rng(0), int(queries.max()) + 1
    size = len(queries) // count
    values = []
    for _ in range(1000):
        rows = (rng.integers(0, count, count)[:, None] * size + np.arange(size)).ravel()
        before = 0.0 if less is None else recall_at(less[rows], truth[rows])
        values.append(recall_at(chances[rows], truth[rows]) - before)
    return np.quantile(values, [0.025, 0.975])


def load_sentences(embedder: str) -> Callable[[list[str]], FloatArray]:
    """What encodes sentences: an embedder of images and texts, or a folder of sentence-transformers."""
    load = load_text_embedder if Path(embedder).is_dir() else load_image_text_embedder
    return load(embedder).encode_texts


def read_experts(folder: Path, encode: Callable[[list[str]], FloatArray]) -> pd.DataFrame:
    """Flickr8k: pairs of a caption and another photo; whether the experts' median is 3 or 4; the rank of the photo
    among those of the caption by letters; the cosine of the nearest caption."""
    texts, captions, pairs = read_expert_pairs(folder)
    used = sorted(
        {*pairs["query_id"].map(texts), *(text for photo in set(pairs["image_id"]) for text in captions[photo])}
    )
    vectors = dict(zip(used, encode(used), strict=True))
    pairs["score"] = [
        max(float(vectors[texts[caption]] @ vectors[text]) for text in captions[photo])
        for caption, photo in zip(pairs["query_id"], pairs["image_id"], strict=True)
    ]
    return add_rank(pairs)


def make_pool(pairs: pd.DataFrame, seed: int, *, with_judge: bool = True) -> PooledPairs:
    table = pairs[["query_id", "image_id", "best_rank"]].assign(relevance=-1, judge=-1)
    table = table.assign(score=pairs["score"]) if with_judge else table
    return PooledPairs(
        table, np.ones(len(table)), table[["query_id", "image_id"]].iloc[:0], 0, table["query_id"].nunique(), seed
    )


def list_orders(pairs: pd.DataFrame, relevant: BoolArray, seed: int, most: int) -> Iterator[tuple[str, RowIndices]]:
    """The first pairs that are asked, by way."""
    rng = np.random.default_rng(seed)
    yield "the next card", ask_cards(make_pool(pairs, seed), relevant, most)
    yield "by rank", np.lexsort((rng.random(len(pairs)), pairs["best_rank"]))[:most]
    yield "by the judge's score", np.argsort(-pairs["score"].to_numpy(), kind="stable")[:most]
    yield "at random", rng.permutation(len(pairs))[:most]


def ask_cards(pool: PooledPairs, relevant: BoolArray, most: int, goal: float = 1.0) -> RowIndices:
    """The pairs that are asked until the goal is certified, at most so many."""
    return answer_cards(pool, relevant, most, goal).rows


def answer_cards(pool: PooledPairs, relevant: BoolArray, most: int, goal: float = 1.0) -> AnsweredPool:
    """The pool with the answers to these."""
    rows = kinds = np.zeros(0, dtype=np.int64)
    forecasts = np.zeros(0)
    while len(rows) < most:
        planned = AnsweredPool(pool, rows, kinds, forecasts, relevant[rows].astype(float)).plan_round(goal)
        if not len(planned.rows):
            break
        rows, kinds = np.concatenate([rows, planned.rows]), np.concatenate([kinds, planned.kinds])
        forecasts = np.concatenate([forecasts, planned.forecasts])
    rows, kinds, forecasts = rows[:most], kinds[:most], forecasts[:most]
    return AnsweredPool(pool, rows, kinds, forecasts, relevant[rows].astype(float))


def measure_truth(embedder: str, captions: Path) -> None:
    """Print how much of the experts' truth is known after so many judgments, at an expected precision of .90."""
    pairs = read_experts(captions, load_sentences(embedder))
    relevant, scores = pairs["relevant"].to_numpy(), pairs["score"].to_numpy()
    area = rank_area(scores, relevant.astype(float))
    print(f"{len(pairs):,} pairs, {relevant.sum()} relevant, AUROC {area:.3f} by sentences, "
          f"{rank_area(pairs['letters'].to_numpy(), relevant.astype(float)):.3f} by letters")  # fmt: skip
    print(f"calibration error after 200 answers {measure_calibration(scores, relevant):.3f}")
    print(
        "judgments | order | found by people | recall at precision .90 | recall, precision where the judge expects .90"
    )
    results = defaultdict(list)
    for seed in range(5):
        for name, order in list_orders(pairs, relevant, seed, 1000):
            for count in (200, 1000):
                results[count, name].append(complete_truth(order[:count], relevant, scores))
    for (count, name), found in sorted(results.items()):
        people, best, recall, precision = np.mean(found, axis=0)
        print(f"{count:,} | {name} | {people:.3f} | {best:.3f} | {recall:.3f}, {precision:.3f}")


def measure_calibration(scores: FloatArray, relevant: BoolArray, known: int = 200) -> float:
    """The calibration error, by tenths of all other pairs, after so many drawn answers; the mean of all seeds."""
    errors = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(scores))
        drawn, rest = order[:known], order[known:]
        chances = fit_curve(scores[drawn], relevant[drawn].astype(float), scores[rest])
        parts = np.array_split(np.argsort(chances, kind="stable"), 10)
        errors.append(
            sum(len(one) * abs(chances[one].mean() - relevant[rest][one].mean()) for one in parts) / len(rest)
        )
    return float(np.mean(errors))


def complete_truth(known: RowIndices, relevant: BoolArray, scores: FloatArray) -> tuple[float, float, float, float]:
    """What people found; recall with the judge's best pairs while .90 of all are right; recall and precision with the
    pairs that the calibrated judge adds while it expects that of itself."""
    left = np.setdiff1d(np.arange(len(scores)), known)
    chances = fit_curve(scores[known], relevant[known].astype(float), scores[left])
    order, people, total = np.argsort(-chances, kind="stable"), int(relevant[known].sum()), relevant.sum()
    sizes = people + np.arange(len(left) + 1)
    hits, expected = (
        people + np.concatenate([[0.0], np.cumsum(found[order])]) for found in (relevant[left].astype(float), chances)
    )
    best, cut = (int(np.flatnonzero(some >= PRECISION * sizes)[-1]) for some in (hits, expected))
    return people / total, hits[best] / total, hits[cut] / total, hits[cut] / max(int(sizes[cut]), 1)


def measure_order(file: Path) -> None:
    """Print how well the order of seven systems and the number of relevant pairs are known after so many judgments,
    chosen with a judge's scores or at random."""
    table = pd.read_csv(file)
    judges = [name for name in table.columns if name not in ("query_id", "item_id", "human")]
    relevant = table["human"].to_numpy() >= 2
    results = defaultdict(list)
    for judge in judges:
        known = table[judge].notna()
        error = measure_calibration(table.loc[known, judge].to_numpy(float), relevant[known])
        print(f"{judge}: calibration error after 200 answers {error:.3f}")
        pairs, tops = make_systems(table, [name for name in judges if name != judge])
        pairs["score"] = table[judge].astype(float)
        scores = pairs["score"].fillna(pairs["score"].median()).to_numpy()
        truth = [relevant[top].sum() for top in tops]
        for seed in range(5):
            for count in ORDER_JUDGMENTS:
                pool = make_pool(pairs, seed)
                chosen = answer_cards(pool, relevant, count // 2)
                drawn = np.random.default_rng(seed).permutation(len(pairs))[:count]
                estimates = (chosen.certify(RECALL)["relevant_estimate"], relevant[drawn].mean() * len(pairs))
                for name, rows, estimate in zip(("chosen", "random"), (chosen.rows, drawn), estimates, strict=True):
                    known = fit_curve(scores[rows], relevant[rows].astype(float), scores)
                    known[rows] = relevant[rows]
                    tau = kendalltau([known[top].sum() for top in tops], truth).statistic
                    known[np.setdiff1d(np.arange(len(pairs)), rows)] = 0
                    alone = kendalltau([known[top].sum() for top in tops], truth).statistic
                    results[count, name].append((alone, tau, abs(estimate / relevant.sum() - 1)))
    print("judgments at random, half of them chosen | order of systems, tau: by answers | and the judge's calibrated "
          "probabilities | error of the number of relevant pairs")  # fmt: skip
    for (count, name), found in sorted(results.items()):
        alone, tau, error = np.mean(found, axis=0)
        print(f"{count if name == 'random' else count // 2:,} {name} | {alone:.2f} | {tau:.2f} | {error:.3f}")


def make_systems(table: pd.DataFrame, systems: list[str]) -> tuple[pd.DataFrame, list[RowIndices]]:
    """The pool with the best rank of each pair, and the pairs that each system has among its first ten."""
    pairs = table[["query_id", "item_id"]].rename(columns={"item_id": "image_id"})
    luck = np.random.default_rng(0).random((len(systems), len(table)))  # among equal grades
    ranks = [(table[name] + more).groupby(table["query_id"]).rank(ascending=False, method="first") for name, more in
             zip(systems, luck, strict=True)]  # fmt: skip
    pairs["best_rank"] = np.min(ranks, axis=0).astype(int)
    return pairs, [np.flatnonzero(rank <= 10) for rank in ranks]


def measure_peers(title: str, pairs: pd.DataFrame) -> None:
    """Print what it costs to state that .90 of the relevant pairs are found, and how often that is true."""
    relevant = pairs["relevant"].to_numpy()
    print(f"{title}: {len(pairs):,} pairs, {relevant.sum()} relevant, AUROC of the judge "
          f"{rank_area(pairs['score'].to_numpy(), relevant.astype(float)):.3f}, {SEEDS} seeds")  # fmt: skip
    print("way | judged, mean and most | found, mean and least | seeds with .90 found")
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for seed in range(SEEDS):
        for name, asked in stop_by_way(pairs, relevant, seed):
            results[name].append((len(asked) / len(pairs), relevant[asked].sum() / relevant.sum()))
    for name, found in results.items():
        cost, recall = np.array(found).T
        print(f"{name} | {cost.mean():.2f}, {cost.max():.2f} | {recall.mean():.3f}, {recall.min():.3f} | "
              f"{int((recall >= RECALL).sum())} of {len(found)}")  # fmt: skip


def stop_by_way(pairs: pd.DataFrame, relevant: BoolArray, seed: int) -> Iterator[tuple[str, RowIndices]]:
    """By way the pairs that were judged when it says that .90 are found."""
    for name, with_judge in (("certificate, with the judge", True), ("certificate, by rank", False)):
        yield name, ask_cards(make_pool(pairs, seed, with_judge=with_judge), relevant, len(pairs), RECALL)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pairs))
    bound = CountBound(len(pairs), 0.05)
    for row in order:
        bound.add_drawn(bool(relevant[row]), (bound.found + 0.5) / (bound.asked + 10))
        if bound.found >= RECALL * bound.at_most:
            break
    yield "certificate, at random", order[: bound.asked]
    by_rank = np.lexsort((rng.random(len(pairs)), pairs["best_rank"]))
    by_score = np.argsort(-pairs["score"].to_numpy(), kind="stable")
    for name, order in (
        ("by the judge's score", by_score),
        ("by rank", by_rank),
        ("at random", rng.permutation(len(pairs))),
    ):
        yield f"{MISSES} misses, {name}", order[: stop_after_misses(relevant[order])]
    if ppi_py is not None:
        for start in STARTS:
            yield (
                f"PPI++ of {start} drawn, then by the judge's score",
                stop_by_ppi(pairs, relevant, rng, start, by_score),
            )


def stop_after_misses(relevant: BoolArray) -> int:
    run = 0
    for place, one in enumerate(relevant.tolist(), 1):
        run = 0 if one else run + 1
        if run == MISSES:
            return place
    return len(relevant)


def stop_by_ppi(
    pairs: pd.DataFrame, relevant: BoolArray, rng: np.random.Generator, start: int, order: RowIndices
) -> RowIndices:
    """The drawn pairs, and those of the order until .90 of PPI's upper bound (95%) of all relevant pairs are found."""
    drawn = rng.permutation(len(pairs))[:start]
    share = pairs["score"].rank(pct=True).to_numpy() ** 4  # a guess on the scale of probabilities
    rest = np.setdiff1d(np.arange(len(pairs)), drawn)
    _, high = ppi_py.ppi_mean_ci(relevant[drawn].astype(float), share[drawn], share[rest], alpha=0.1)
    most = float(np.atleast_1d(high)[0]) * len(pairs)
    asked = np.concatenate([drawn, order[~np.isin(order, drawn)]])
    enough = np.flatnonzero(np.cumsum(relevant[asked])[start - 1 :] >= RECALL * most)
    return asked[: start + int(enough[0])] if len(enough) else asked


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["sight", "truth", "peers", "order"])
    parser.add_argument("embedder", help="for order, the file")
    parser.add_argument("data", type=Path, nargs="?", default=Path())
    parser.add_argument("--names", type=Path)
    parser.add_argument("--eccv", type=Path)
    given = parser.parse_args()
    if given.part == "sight":
        measure_sight(given.embedder, given.data, given.names)
    elif given.part == "order":
        measure_order(Path(given.embedder))
    elif given.part == "truth":
        measure_truth(given.embedder, given.data)
    else:
        encode = load_sentences(given.embedder)
        measure_peers("Flickr8k's experts", read_experts(given.data, encode))
        if given.eccv is not None:
            measure_peers("ECCV Caption", read_eccv_pairs(given.eccv, given.data, encode))

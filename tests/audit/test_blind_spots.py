"""Planted orphans, hubs and uncovered parts are found, as by plain loops; nothing is found where nothing is planted."""

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.blind_spots import find_blind_spots, find_uncovered, measure_gini, name_clusters
from querytruth.audit.mutation_score import AnsweredQueries, read_answers
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import rank_run


def make_gallery(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "image_id": [f"i{row:05}" for row in range(count)],
            "file_name": [f"{folder}/{row}.jpg" for row, folder in enumerate(rng.choice(list("abc"), count))],
            "width": rng.choice([640, 480], count),
            "height": 500,
            "taken_at": [f"2024-{month:02}-01T10:00:00" for month in rng.integers(1, 9, count)],
            "latitude": rng.choice([48.2, np.nan], count),
            "longitude": 16.4,
            "duplicate_group": None,
        }
    )


def make_answers(images: pd.DataFrame, results: pd.DataFrame, pairs: pd.DataFrame) -> AnsweredQueries:
    """`results` by query and rank (query, row of the image); `pairs` those that are relevant."""
    names = images["image_id"].to_numpy()
    run = pd.DataFrame({"query_id": results["query"], "image_id": names[results["row"]], "score": -results["rank"]})
    qrels = pd.DataFrame({"query_id": pairs["query"], "image_id": names[pairs["row"]], "relevance": 1})
    queries = sorted({*pairs["query"], *results["query"]})
    return read_answers(rank_run(run, index_qrels(qrels, names.tolist(), queries)))


def draw_answers(images: pd.DataFrame, seed: int, hidden: np.ndarray | None = None) -> AnsweredQueries:
    """120 queries, each right for two images; results are these, often, among random ones; none is hidden."""
    rng, rows, pairs = np.random.default_rng(seed), [], []
    for query in range(120):
        right = rng.choice(len(images), 2, replace=False)
        others = rng.choice(len(images), 15, replace=False)
        listed = dict.fromkeys([*(one for one in right if rng.random() < 0.7), *others])
        kept = [one for one in listed if hidden is None or not hidden[one]]
        rows += [(f"q{query:03}", one, rank) for rank, one in enumerate(kept)]
        pairs += [(f"q{query:03}", one) for one in right]
    return make_answers(
        images, pd.DataFrame(rows, columns=["query", "row", "rank"]), pd.DataFrame(pairs, columns=["query", "row"])
    )


def oracle(answers: AnsweredQueries) -> tuple[list[int], dict[int, float], set[int]]:
    """By plain loops: of how many queries the first ten have each image, the shares never found, and what is asked for
    and not found."""
    lists, ranked, truth = defaultdict(list), answers.ranked, answers.ranked.truth
    for query, place in zip(ranked.query, answers.place, strict=True):
        lists[int(query)].append(int(place))
    counts = Counter(place for found in lists.values() for place in found[:10])
    never = {}
    for cut in (1, 2, 5, 10):
        returned = {place for found in lists.values() for place in found[:cut]}
        never[cut] = 1 - len(returned) / answers.images
    right = defaultdict(set)
    for key in truth.pair_keys:
        right[int(key) % answers.images].add(int(key) // answers.images)
    unfound = {image for image, queries in right.items() if not any(image in lists[query][:10] for query in queries)}
    return [counts[row] for row in range(answers.images)], never, unfound


@pytest.mark.parametrize("seed", range(5))
def test_figures_equal_plain_loops(seed: int) -> None:
    answers = draw_answers(make_gallery(300, seed), seed)
    found, (counts, never, unfound) = find_blind_spots(answers, make_gallery(300, seed)), oracle(answers)
    assert found.counts.tolist() == counts and set(np.flatnonzero(found.unfound).tolist()) == unfound
    assert {cut: found.never[cut] for cut in never} == pytest.approx(never)
    limit = np.mean(counts) + 2 * np.std(counts)
    assert set(found.hubs.tolist()) == {row for row, count in enumerate(counts) if count > limit}
    differences = sum(abs(one - other) for one, other in product(counts, counts))
    assert measure_gini(np.array(counts)) == pytest.approx(differences / (2 * len(counts) * sum(counts)))


def test_an_index_without_the_newest_month_is_found_by_its_month() -> None:
    images = make_gallery(300)
    answers = draw_answers(images, 1, (images["taken_at"].str[:7] == "2024-08").to_numpy())
    found = find_blind_spots(answers, images)
    certain = found.kinds[(found.kinds["p"] < 0.05) & (found.kinds["difference"] > 0)]
    assert set(certain["kind"]) == {"month: 2024-08", "newest tenth"} and set(certain["of"]) == {"never", "unfound"}
    first = certain[certain["of"] == "unfound"].iloc[0]
    assert first["share"] == 1.0 and first["low"] > 0.3


@pytest.mark.thorough
def test_no_kind_is_named_where_none_differs() -> None:
    alarms = 0
    for seed in range(100):
        images = make_gallery(300, seed)
        kinds = find_blind_spots(draw_answers(images, seed), images).kinds
        alarms += int((kinds.loc[kinds["of"] == "unfound", "p"] < 0.05).any())
    assert alarms <= 9  # 5 expected; more than 9 in 100 have a probability of .03


def test_a_month_that_no_query_asks_about_is_uncovered_and_a_rare_one_is_not() -> None:
    images = make_gallery(400)
    month, asked = images["taken_at"].str[:7], np.random.default_rng(0).random(400) < 0.4
    asked[(month == "2024-03").to_numpy()] = False
    images.loc[[0, 1], "taken_at"] = "1999-01-01"
    asked[[0, 1]] = False
    parts, uncovered = find_uncovered(images, asked)
    assert parts[["by", "part"]].to_numpy().tolist() == [["month", "2024-03"]]
    assert uncovered.sum() == parts["images"][0] == (images["taken_at"].str[:7] == "2024-03").sum()
    assert parts["expected"][0] == pytest.approx(parts["share"][0] * asked.sum())


def test_a_cluster_of_vectors_without_a_relevant_image_is_uncovered() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(4, 16, dtype=np.float32)
    code = rng.integers(0, 4, 400)
    vectors = (centres[code] + rng.normal(0, 0.05, (400, 16))).astype(np.float32)
    rows = np.array([np.flatnonzero(code == one)[0] for one in range(4)])
    clusters = name_clusters(vectors, rows)
    assert (clusters.to_numpy() == (code + 1).astype(str)).all()
    parts, _ = find_uncovered(make_gallery(400), code != 2, clusters)
    assert parts[["by", "part"]].to_numpy().tolist() == [["cluster", "3"]]


def test_dark_images_that_are_never_found_are_named_and_unseen_images_are_no_others() -> None:
    images = make_gallery(800)
    seen = np.arange(800) < 400  # only these were looked at, of which a quarter is dark
    dark = seen & (np.arange(800) % 4 == 0)
    shades = {"brightness": np.where(dark, 0.1, 0.6), "contrast": 0.3, "sharpness": 0.6, "flatness": 0.1}
    images = images.assign(**{name: np.where(seen, value, np.nan) for name, value in shades.items()})
    kinds = find_blind_spots(draw_answers(images, 3, hidden=dark), images).kinds
    found = kinds[(kinds["kind"] == "dark (lowest quarter of brightness)") & (kinds["of"] == "never")].iloc[0]
    assert (found["images"], found["share"]) == (100, 1.0) and found["p"] < 0.05
    assert found["others"] < 0.9  # of the 300 others that were looked at
    assert "pages and screens" not in set(kinds["kind"])


def test_a_part_says_how_many_queries_lead_into_it() -> None:
    images = make_gallery(400)
    spring = images["taken_at"].str[:7] == "2024-03"
    first = np.append(np.flatnonzero(spring)[:7], np.flatnonzero(~spring)[:5])
    parts = find_uncovered(images, (~spring).to_numpy(), None, first)[0].set_index(["by", "part"])
    assert parts.loc[("month", "2024-03"), "queries"] == 7

"""Ten planted leaks are found, each by the system that uses it; sets without a leak give no alarm."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.shortcut_systems import MAX_IMAGES, draw_sample
from querytruth.audit.shortcuts import describe_shortcuts, measure_shortcuts
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import expected_by_chance
from querytruth.evaluation.metrics import parse_metric
from querytruth.sets.benchmark_set import Tables

WORDS = ["dog", "beach", "river", "tower", "bridge", "apple", "train", "clock", "sofa", "window", "小狗", "海滩"]
Truth = np.ndarray


def draw_set(seed: int, queries: int = 60, images: int = 300, most: int = 4) -> tuple[Tables, Truth, Truth]:
    """A set whose truth is drawn, without a relation to anything else; and the rows of its pairs."""
    rng = np.random.default_rng(seed)
    image_table = pd.DataFrame(
        {
            "image_id": [f"img_{row:05}" for row in range(images)],
            "file_name": [f"photos/{name}.jpg" for name in rng.permutation(10**6)[:images]],
            "width": rng.choice([640, 480, 600, 1024], images),
            "height": rng.choice([640, 480, 427], images),
            "caption": [" ".join(rng.choice(WORDS, 3)) for _ in range(images)],
        }
    )
    text = [" ".join(rng.choice(WORDS, 3, replace=False)) for _ in range(queries)]
    query_table = pd.DataFrame({"query_id": [f"q_{row:05}" for row in range(queries)], "text": text, "labels": None})
    pairs = [(q, i) for q in range(queries) for i in rng.choice(images, rng.integers(1, most + 1), replace=False)]
    query, image = np.array(pairs).T
    return tables_of(query_table, image_table, query, image), query, image


def tables_of(queries: pd.DataFrame, images: pd.DataFrame, query: Truth, image: Truth) -> Tables:
    columns = {"query_id": queries["query_id"].to_numpy()[query], "image_id": images["image_id"].to_numpy()[image]}
    return Tables(queries, images, pd.DataFrame({**columns, "relevance": 1}).drop_duplicates())


def alarms(tables: Tables) -> set[str]:
    return {one.name for one in measure_shortcuts(tables) if one.beats_chance}


def leak_words(tables: Tables, query: Truth, image: Truth) -> Tables:
    for q, i in zip(query[::3], image[::3], strict=True):
        tables.images.loc[i, "file_name"] = f"photos/{tables.queries['text'][q].replace(' ', '_')}_{i}.jpg"
    return tables


def leak_id(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images.loc[image[::3], "file_name"] = [f"photos/{q:05}.jpg" for q in query[::3]]
    tables.queries["source_id"] = [str(q) for q in range(len(tables.queries))]
    return tables


def leak_captions(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images.loc[image, "caption"] = tables.queries["text"].to_numpy()[query]
    return tables


def leak_large(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images.loc[image, ["width", "height"]] = 1280, 1000
    return tables


def leak_rare_size(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images["width"], tables.images["height"] = 640, 480
    tables.images.loc[image, "width"] = 500 + image % 280
    return tables


def leak_wide(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images.loc[image, "width"] = 3 * tables.images["height"].to_numpy()[image]
    return tables


def leak_folder(tables: Tables, query: Truth, image: Truth) -> Tables:
    tables.images.loc[image, "file_name"] = tables.images.loc[image, "file_name"].str.replace("photos", "answers")
    return tables


def leak_first(tables: Tables, query: Truth, image: Truth) -> Tables:
    return tables_of(tables.queries, tables.images, query, image // 2)


def leak_order(tables: Tables, query: Truth, image: Truth) -> Tables:
    near = query * len(tables.images) // len(tables.queries) + image % 5
    return tables_of(tables.queries, tables.images, query, near)


def leak_popular(tables: Tables, query: Truth, image: Truth) -> Tables:
    return tables_of(tables.queries, tables.images, query, np.where(image % 3 == 0, 7 + image % 4, image))


LEAKS: dict[str, Callable[[Tables, Truth, Truth], Tables]] = {
    "words in file names": leak_words,
    "query id in file names": leak_id,
    "words in captions": leak_captions,
    "image size: large ones": leak_large,
    "how common the image size is: rare ones": leak_rare_size,
    "image shape: wide ones": leak_wide,
    "folder": leak_folder,
    "gallery position: first ones": leak_first,
    "query order as gallery position": leak_order,
    "popularity": leak_popular,
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found_and_is_on_the_card(name: str) -> None:
    tables = LEAKS[name](*draw_set(1))
    assert name in alarms(tables)
    assert any(name in line for line in describe_shortcuts(tables))


def test_a_set_without_a_leak_gives_no_alarm() -> None:
    tables = draw_set(1)[0]
    assert len(measure_shortcuts(tables)) >= 15
    assert describe_shortcuts(tables) == []


def test_the_most_common_label_answers_queries_of_labels_that_come_with_it() -> None:
    tables, query, image = draw_set(2, 40, 200, 1)
    tables.queries["labels"] = [[f"label{row}"] for row in range(40)]
    common = np.arange(20)
    query, image = np.concatenate([query, np.repeat(np.arange(6), 20)]), np.concatenate([image % 20, *[common] * 6])
    assert "most common label" in alarms(tables_of(tables.queries, tables.images, query, image))


def test_a_question_about_two_labels_is_answered_by_its_words_in_the_labels() -> None:
    tables, query, image = draw_set(3, 40, 200, 4)
    texts = [WORDS[row] if row < 12 else f"{WORDS[row % 12]} without {WORDS[(row + 1) % 12]}" for row in range(40)]
    labels = [[text] if row < 12 else text.split(" without ") for row, text in enumerate(texts)]
    leaked = {q: image[query == q] for q in range(12)}
    pairs = [(q, i) for q in range(40) for i in leaked[q % 12]]
    query, image = np.array(pairs).T
    queries = tables.queries.assign(text=texts, labels=labels)
    assert "words in labels" in alarms(tables_of(queries, tables.images, query, image))


def test_chance_is_that_of_the_metric_and_of_the_permuted_truths() -> None:
    tables = draw_set(4)[0]
    truth = index_qrels(tables.qrels, tables.images["image_id"])
    expected = expected_by_chance(parse_metric("ndcg(gain=linear)"), truth, len(tables.images))
    result = measure_shortcuts(tables)[0]
    assert np.allclose(result.chance, expected)
    assert abs(result.null.mean() - result.chance.mean()) < 3 * result.null.std() / np.sqrt(len(result.null))


def test_of_a_large_set_each_query_keeps_at_most_a_thousand_images_whatever_the_order_of_the_judgments() -> None:
    tables, query, image = draw_set(5, 30, 3_000, 1_500)
    counts = np.bincount(query)
    sample, again = (draw_sample(replace(tables, qrels=qrels)) for qrels in (tables.qrels, tables.qrels[::-1]))
    assert len(query) > MAX_IMAGES and counts.max() > 1_000 > counts.min()
    assert sample.relevant_counts().tolist() == np.minimum(counts, 1_000).tolist()
    judged = set(zip(query.tolist(), image.tolist(), strict=True))
    pairs, pairs_again = (set(zip(one.query.tolist(), one.image.tolist(), strict=True)) for one in (sample, again))
    assert pairs == pairs_again and pairs <= judged


def test_judgments_of_images_that_the_set_lacks_are_left_out() -> None:
    tables = draw_set(6)[0]
    lost = tables.qrels["image_id"][0]
    images = tables.images[tables.images["image_id"] != lost].reset_index(drop=True)
    sample, kept = draw_sample(replace(tables, images=images)), tables.qrels[tables.qrels["image_id"] != lost]
    ids = [table[name].to_numpy() for table, name in ((sample.queries, "query_id"), (sample.images, "image_id"))]
    assert 0 < len(kept) < len(tables.qrels)
    assert [*zip(ids[0][sample.query], ids[1][sample.image], strict=True)] == [
        *zip(kept["query_id"], kept["image_id"], strict=True)
    ]


def test_too_few_queries_measure_nothing() -> None:
    assert measure_shortcuts(draw_set(1, 9)[0]) == []

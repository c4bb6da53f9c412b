"""Near hashes and shared texts, against brute force."""

import numpy as np
import pandas as pd

from querytruth.audit.overlap_pairs import MAX_PAIRS, NearHashIndex, TextOverlap
from querytruth.sets.leaked_queries import classify_queries

SENTENCE = "a brown dog runs over the wet sand of a long beach in the evening sun"


def test_all_near_hashes_are_found_and_no_other() -> None:
    rng = np.random.default_rng(3)
    ours = rng.integers(0, 1 << 63, 60, dtype=np.uint64)
    others = rng.integers(0, 1 << 63, 20_000, dtype=np.uint64)
    for row in range(1000):  # copies with 0 to 9 bits changed
        bits = rng.choice(64, row % 10, replace=False)
        flipped = sum(1 << int(bit) for bit in bits)
        others[row] = ours[row % 60] ^ np.uint64(flipped)
    distances = np.bitwise_count(ours[:, None] ^ others)
    expected = {(int(a), int(b), int(distances[a, b])) for a, b in np.argwhere(distances <= 6)}
    found = [pair for block in NearHashIndex(ours).find_near(others) for pair in zip(*block, strict=True)]
    assert len(found) == len(expected) >= 700
    assert {(int(a), int(b), int(c)) for a, b, c in found} == expected


def test_texts_are_found_whatever_their_case_and_punctuation_and_longer_ones_by_a_part() -> None:
    long_chinese = "一只棕色的狗在傍晚的阳光下跑过长长的湿沙滩"
    overlap = TextOverlap({"q1": "A dog, wet!", "q2": SENTENCE, "q3": long_chinese, "q4": "?"})
    stream = [
        ("a", "a DOG wet"),
        ("b", f"Photo: {SENTENCE}."),
        ("c", f"照片：{long_chinese}。"),
        ("d", "a dry dog"),
        ("e", "!"),
    ]
    found = [(name, item, evidence) for name, item, evidence, _ in overlap.find_pairs(stream)]
    assert found == [("q1", "a", "text"), ("q2", "b", "13-gram"), ("q3", "c", "13-gram")]


def test_a_text_of_eight_tokens_is_found_inside_a_longer_one_and_a_shorter_text_is_not() -> None:
    overlap = TextOverlap(
        {"q1": "A brown dog runs over the wet sand.", "q2": "a dog runs over sand", "q3": "棕色的狗跑过沙滩"}
    )
    stream = [
        ("a", "Look! A brown dog runs over the wet sand, and a dog runs over sand."),
        ("b", "a brown dog runs over the wet sand"),
        ("c", "a brown dog runs over the wet grass today"),
        ("d", "图中棕色的狗跑过沙滩。"),
    ]
    found = [(name, item, evidence) for name, item, evidence, _ in overlap.find_pairs(stream)]
    assert found == [("q1", "a", "contained"), ("q1", "b", "text"), ("q3", "d", "contained")]


def test_a_text_that_is_there_a_thousand_times_gives_few_pairs_and_the_whole_count() -> None:
    overlap = TextOverlap({"q1": "a dog"})
    assert len(list(overlap.find_pairs((str(row), "A dog.") for row in range(1000)))) == MAX_PAIRS
    assert overlap.counts["q1", "text"] == 1000


def test_only_relevant_images_leak_a_query_and_their_share_counts() -> None:
    queries = pd.DataFrame({"query_id": ["q1", "q2", "q3", "q4", "q5"]})
    judged = [("q1", "i1", 1), ("q2", "i1", 0), *(("q4", f"i{number}", 1) for number in (1, 2, 3)), ("q5", "i9", 1)]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    table = classify_queries(queries, qrels, {"i1"}, {"q3"}, {"i9"})
    assert table["overlap"].tolist() == ["leaked", "clean", "leaked", "partly_leaked", "unknown"]
    assert table["images_shared"].tolist() == [1, 0, 0, 0.333, 0]

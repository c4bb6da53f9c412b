"""The draw of an audit: by hash, without the order of anything, and each pair in one stratum."""

import pandas as pd

from querytruth.audit.pool import AuditPool, build_audit_pool, draw_outside, draw_pairs

IMAGES = [f"i{number:02}" for number in range(40)]
QUERIES = [f"q{number}" for number in range(30)]


def make_pool(reverse: bool = False) -> AuditPool:
    """Two systems that return images in opposite orders; each query has a relevant image and a judged zero."""
    runs = {}
    for name, images in (("up", IMAGES), ("down", IMAGES[::-1])):
        rows = [(query, image, rank) for query in QUERIES for rank, image in enumerate(images[:15], start=1)]
        runs[name] = pd.DataFrame(rows, columns=["query_id", "image_id", "rank"])
    judged = [(query, image, grade) for query in QUERIES for image, grade in (("i00", 1), ("i01", 0), ("i20", 2))]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    candidates = pd.DataFrame([("q0", "i02"), ("q0", "i22")], columns=["query_id", "image_id"])
    ordered = dict(reversed(runs.items())) if reverse else runs
    return build_audit_pool(qrels, candidates, ordered, len(QUERIES), len(IMAGES))


def test_each_pair_is_in_one_stratum() -> None:
    pool = make_pool()
    assert pool.count_strata() == {
        "judged_relevant": 60,  # i00 at rank 1, and i20, which no system returned
        "judged_zero": 30,
        "candidate": 2,  # also the one that a system returned
        "first_ranks": 30 * 18 - 1,
        "later_ranks": 30 * 10,
    }
    assert pool.outside_size == 30 * 40 - len(pool.pairs)
    assert not pool.pairs.duplicated(["query_id", "image_id"]).any()


def test_the_order_of_systems_and_the_other_strata_change_no_draw() -> None:
    wanted = {"judged_relevant": 20, "first_ranks": 50, "later_ranks": 40}
    drawn = draw_pairs(make_pool(), wanted, 3)
    assert drawn.equals(draw_pairs(make_pool(reverse=True), wanted, 3))
    fewer = draw_pairs(make_pool(), {**wanted, "judged_relevant": 5}, 3)
    one, other = (set(table.loc[table["stratum"] == "first_ranks", "image_id"]) for table in (drawn, fewer))
    assert one == other
    assert not drawn.equals(draw_pairs(make_pool(), wanted, 4))
    assert drawn["stratum"].value_counts().to_dict() == wanted
    shares = drawn.groupby("stratum")["probability"].first().to_dict()
    assert shares["judged_relevant"] == 20 / 60 and shares["later_ranks"] == 40 / 300
    assert drawn["order"].tolist() == list(range(1, 111)) and not drawn["stratum"].is_monotonic_increasing


def test_more_judgments_keep_what_was_drawn() -> None:
    few, many = (draw_pairs(make_pool(), {"later_ranks": count}, 3) for count in (20, 60))
    pairs = [set(zip(table["query_id"], table["image_id"], strict=True)) for table in (few, many)]
    assert pairs[0] < pairs[1]


def test_pairs_outside_are_new_and_different() -> None:
    pool = make_pool()
    outside = draw_outside(pool, QUERIES, IMAGES, 25, 1)
    pairs = set(zip(outside["query_id"], outside["image_id"], strict=True))
    assert len(pairs) == 25 and not pairs & set(zip(pool.pairs["query_id"], pool.pairs["image_id"], strict=True))
    assert outside.equals(draw_outside(pool, QUERIES[::-1], IMAGES[::-1], 25, 1))
    assert len(draw_outside(pool, QUERIES, IMAGES, 10_000, 1)) == pool.outside_size

"""The seed article's rules for what an image search found, and what goes beyond them: the same image elsewhere."""

import hashlib
import random
from functools import partial
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.gallery.near_duplicates import find_duplicates
from builders.generated.image_collection import (
    FETCHED_IMAGE_COLUMNS,
    CollectionResult,
    assign_images,
    list_urls_to_fetch,
)
from builders.generated.result_screening import (
    SEARCH_RESULT_COLUMNS,
    SEARCHED_QUERY_COLUMNS,
    CollectionRules,
    find_placeholders,
    list_collection_thresholds,
    screen_results,
)
from querytruth.formats.set_card import licence_family
from querytruth.records import stable_hash
from querytruth.sets.ledger import Ledger
from tests.drawn_views import draw_views

GROUP = partial(find_duplicates, distance=6)
SMALL = CollectionRules(min_results=10, first=6, keep=3)


def searched(**reported: int | None) -> pd.DataFrame:
    """Queries by id; the text is the id with a sign."""
    rows = [(name, f"<{name}>", number, None, None, None) for name, number in reported.items()]
    return pd.DataFrame(rows, columns=SEARCHED_QUERY_COLUMNS).astype({"reported": "Int64"})


def result(query: str, rank: int, url: str, **told: Any) -> dict[str, Any]:
    return (
        dict.fromkeys(SEARCH_RESULT_COLUMNS)
        | {"query_id": query, "rank": rank, "url": url, "is_advertisement": False}
        | told
    )


def results(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=SEARCH_RESULT_COLUMNS).astype({"width": "Int64", "height": "Int64"})


def plain(query: str, count: int, **told: Any) -> list[dict[str, Any]]:
    return [result(query, rank, f"http://{query}/{rank}", **told) for rank in range(count)]


def image(url: str, shows: str = "", width: int = 300, height: int = 200, **problem: str) -> dict[str, Any]:
    """An image that shows what its words say: the same words look the same, at any size."""
    shows = shows or url
    digest = hashlib.sha256(f"{shows} {url if shows != url else ''} {width}".encode()).hexdigest()
    code = stable_hash(shows)
    looks = draw_views(code, code % 2**32)
    return dict.fromkeys(FETCHED_IMAGE_COLUMNS) | {
        "url": url, "sha256": digest, "pixels": digest[:32], "width": width, "height": height, **looks, **problem
    }  # fmt: skip


def images(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: [row[name] for row in rows] for name in FETCHED_IMAGE_COLUMNS})


def reasons(ledger: Ledger, stage: str) -> dict[str, int]:
    one = next(found for found in ledger.stages if found.stage == stage)
    return one.rejected | one.quarantined | one.pending


def collect(
    queries: pd.DataFrame,
    found: list[dict[str, Any]],
    rules: CollectionRules = SMALL,
    at: dict[str, dict[str, Any]] | None = None,
    wanted: frozenset[str] = frozenset(),
) -> tuple[CollectionResult, Ledger, list[list[str]]]:
    """All steps, with a web in which `at` an address lies something else than an image of its own."""
    ledger, rounds = Ledger(), list[list[str]]()
    batches = screen_results(queries, results(found), rules, ledger, wanted)
    fetched: dict[str, dict[str, Any]] = {}
    while needed := list_urls_to_fetch(batches, images(list(fetched.values())), rules, GROUP, wanted):
        rounds.append(needed)
        fetched |= {url: (at or {}).get(url) or image(url) for url in needed}
    return assign_images(batches, images(list(fetched.values())), rules, GROUP, ledger, wanted), ledger, rounds


def truth(collected: CollectionResult) -> dict[str, list[str]]:
    return collected.relevant_results.groupby("query_id")["url"].agg(list).to_dict()


def test_the_article_s_figures_are_the_defaults() -> None:
    cuts = {cut["name"]: cut["value"] for cut in list_collection_thresholds(CollectionRules())}
    assert cuts == {
        "collect.min_results": 100,
        "collect.first": 24,
        "collect.min_side": 112,
        "collect.max_ratio": 2.0,
        "collect.keep": 12,
    }
    assert CollectionRules().same_url == "drop"


def test_of_forty_results_the_first_twenty_four_are_looked_at_and_the_first_twelve_good_ones_kept() -> None:
    found = plain("q", 40)
    found[0]["is_advertisement"] = True
    found[1] |= {"width": 111, "height": 200}
    found[2] |= {"width": 112, "height": 224}
    found[3] |= {"width": 112, "height": 225}
    collected, ledger, rounds = collect(searched(q=100), found, CollectionRules())
    assert truth(collected)["q"] == [f"http://q/{n}" for n in (2, *range(4, 15))]
    assert reasons(ledger, "results") == {"advertisement": 1, "too_small": 1, "too_elongated": 1}
    assert (ledger.stages[1].entered, ledger.stages[1].accepted) == (24, 21)
    assert rounds == [sorted(f"http://q/{n}" for n in (2, *range(4, 15)))], "nothing is fetched that is not needed"
    assert reasons(ledger, "images") == {"not_needed": 9}


@pytest.mark.parametrize(("reported", "reason"), [(99, "too_few_results"), (None, "results_not_reported"), (100, "")])
def test_a_query_needs_a_hundred_results(reported: int | None, reason: str) -> None:
    collected, ledger, _ = collect(searched(q=reported), plain("q", 24), CollectionRules())
    assert collected.query_ids == ([] if reason else ["q"])
    assert reasons(ledger, "search") == ({reason: 1} if reason else {})


def test_a_query_with_eleven_images_left_goes_and_nothing_is_fetched_for_it() -> None:
    found = plain("q", 24)
    for row in found[11:]:
        row["is_advertisement"] = True
    collected, ledger, rounds = collect(searched(q=500), found, CollectionRules())
    assert (collected.query_ids, rounds) == ([], [])
    assert reasons(ledger, "batches") == {"too_few_images": 1}


def test_a_search_that_failed_is_pending_or_gone_as_its_failure_is() -> None:
    queries = searched(a=None, b=None)
    queries["reason"], queries["kind"] = ["connection_failed", "service_error"], ["transient", "final"]
    _, ledger, _ = collect(queries, [])
    assert ledger.stages[0].pending == {"connection_failed": 1}
    assert ledger.stages[0].rejected == {"service_error": 1}


def test_what_cannot_be_fetched_is_made_up_for_by_the_next_results() -> None:
    at = {
        "http://q/0": image("http://q/0", reason="not_found", kind="final", detail="status 404"),
        "http://q/2": image("http://q/2", width=100),
        "http://q/3": image("http://q/3", reason="timeout", kind="transient"),
    }
    collected, ledger, rounds = collect(searched(q=10), plain("q", 6), SMALL, at)
    assert truth(collected) == {"q": ["http://q/1", "http://q/4", "http://q/5"]}
    assert [len(wanted) for wanted in rounds] == [3, 2, 1]
    assert ledger.stages[-2].quarantined == {"not_found": 1}
    assert ledger.stages[-2].pending == {"timeout": 1}
    assert ledger.stages[-2].rejected == {"too_small": 1}


def test_a_query_that_can_no_longer_come_to_enough_images_costs_no_more_fetches() -> None:
    at = {f"http://q/{n}": image(f"http://q/{n}", reason="not_found", kind="final") for n in range(3)}
    collected, ledger, rounds = collect(searched(q=10), plain("q", 5), SMALL, at)
    assert (collected.query_ids, len(rounds), len(rounds[0])) == ([], 1, 3)
    assert reasons(ledger, "images") == {"not_found": 3, "query_dropped": 2}


@pytest.mark.parametrize(("kind", "bucket"), [("transient", "pending"), ("final", "rejected")])
def test_a_query_that_the_next_run_may_complete_is_pending(kind: str, bucket: str) -> None:
    at = {f"http://q/{n}": image(f"http://q/{n}", reason="nothing", kind=kind) for n in range(4)}
    collected, ledger, _ = collect(searched(q=10), plain("q", 6), SMALL, at)
    assert collected.query_ids == []
    stage = next(stage for stage in ledger.stages if stage.stage == "queries")
    assert getattr(stage, bucket) == {"too_few_images": 1}
    assert reasons(ledger, "images") == {"nothing": 4, "query_dropped": 2}


def test_any_address_of_the_batch_that_an_earlier_query_uses_drops_the_query() -> None:
    """Also one that would not be kept; but not one that the earlier query had no need of."""
    last = [*plain("b", 5), result("b", 5, "http://a/2")]
    collected, ledger, _ = collect(searched(a=10, b=10), plain("a", 6) + last)
    assert collected.query_ids == ["a"]
    assert reasons(ledger, "queries") == {"url_used_before": 1}
    rows = ledger.rows()
    used = rows[rows["reason"] == "url_used_before"].iloc[0]
    assert (used["text"], used["related_item"], used["detail"]) == ("<b>", "<a>", "http://a/2")
    unused = [*plain("b", 5), result("b", 5, "http://a/3")]
    assert collect(searched(a=10, b=10), plain("a", 6) + unused)[0].query_ids == ["a", "b"]


def test_a_query_that_went_uses_nothing() -> None:
    """b goes because of a; c shares with b alone, and stays."""
    found = [*plain("a", 3), result("b", 0, "http://a/0"), *plain("b", 4)[1:]]
    found.extend([*plain("c", 2), result("c", 2, "http://b/1")])
    collected, _, _ = collect(searched(a=10, b=10, c=10), found)
    assert collected.query_ids == ["a", "c"]


def test_by_policy_an_address_of_two_queries_is_true_for_both() -> None:
    rules = CollectionRules(min_results=10, first=6, keep=3, same_url="merge")
    found = [*plain("a", 3), result("b", 0, "http://a/1"), *plain("b", 3)[1:]]
    collected, _, rounds = collect(searched(a=10, b=10), found, rules)
    assert truth(collected)["b"][0] == "http://a/1"
    assert len(collected.images) == 5
    assert len(rounds[0]) == 5, "and fetched once"
    assert collected.figures["pictures_of_several_queries"] == 1
    assert collected.figures["queries_that_share_images"] == 2


def test_the_same_image_twice_in_a_query_counts_once() -> None:
    at = {
        "http://q/1": image("http://q/1", "a cat", width=300),
        "http://q/2": image("http://q/2", "a cat", width=600, height=400),
        "http://q/3": image("http://q/1", "a cat", width=300) | {"url": "http://q/3"},
    }
    collected, ledger, _ = collect(searched(q=10), plain("q", 6), SMALL, at)
    assert truth(collected) == {"q": ["http://q/0", "http://q/1", "http://q/4"]}
    assert reasons(ledger, "images") == {"near_duplicate": 1, "exact_duplicate": 1, "not_needed": 1}


def test_an_address_that_a_query_found_twice_counts_once() -> None:
    found = [result("q", 0, "http://q/0"), result("q", 1, "http://q/0"), *plain("q", 6)[2:]]
    collected, ledger, _ = collect(searched(q=10), found)
    assert truth(collected) == {"q": ["http://q/0", "http://q/2", "http://q/3"]}
    assert reasons(ledger, "results") == {"repeated_url": 1}


def shared(policy: str) -> tuple[CollectionResult, Ledger]:
    at = {
        "http://a/1": image("http://a/1", "a cat", width=300),
        "http://b/0": image("http://b/0", "a cat", width=600, height=400),
    }
    rules = CollectionRules(min_results=10, first=6, keep=3, same_image=policy)
    return collect(searched(a=10, b=10), plain("a", 3) + plain("b", 3), rules, at)[:2]


def test_the_same_image_of_two_queries_is_in_the_gallery_once_and_true_for_both() -> None:
    collected, ledger = shared("merge")
    of = collected.relevant_results.groupby("query_id")["image_id"].agg(set)
    assert len(of["a"] & of["b"]) == 1
    assert len(of["a"]) == len(of["b"]) == 3
    (common,) = of["a"] & of["b"]
    image = collected.images.set_index("image_id").loc[common]
    assert image["url"] == "http://b/0", "the larger one stands for both"
    assert len(collected.images) == 5
    assert collected.duplicates["is_representative"].tolist() == [True, False]
    assert image["duplicate_group"] == collected.duplicates["duplicate_group"][0]
    assert reasons(ledger, "duplicates") == {"near_duplicate": 1}
    assert collected.figures["same_picture_at_other_addresses"] == 1


def test_by_policy_a_query_that_shows_an_earlier_one_s_image_goes() -> None:
    collected, ledger = shared("drop")
    assert collected.query_ids == ["a"]
    assert reasons(ledger, "queries") == {"image_used_before": 1}


def test_licences_are_filtered_by_family_and_counted() -> None:
    codes = ["cc-by-sa-3.0-de", "cc-by-nc-2.0", None, "pd", "cc0-1.0", "cc-by-4.0"]
    found = [row | {"licence": code} for row, code in zip(plain("q", 6), codes, strict=True)]
    rules = CollectionRules(min_results=10, first=6, keep=3, licences=frozenset({"cc-by-sa", "pd", "cc0"}))
    collected, ledger, _ = collect(searched(q=10), found, rules)
    assert truth(collected) == {"q": ["http://q/0", "http://q/3", "http://q/4"]}
    assert reasons(ledger, "results") == {"licence_not_allowed": 2, "licence_unknown": 1}
    assert collected.figures["licences"] == {"cc-by-sa": 1, "cc0": 1, "pd": 1}


@pytest.mark.parametrize(
    ("licence", "family"),
    [
        ("CC BY-SA 4.0", "cc-by-sa"),
        ("cc-by-nc-nd-2.0", "cc-by-nc-nd"),
        ("cc-by-2.5-cn", "cc-by"),
        ("PD-old-70", "pd"),
        ("public-domain", "pd"),
        ("cc0-1.0", "cc0"),
        ("gfdl", "gfdl"),
    ],
)
def test_a_family_is_a_licence_without_version_and_country(licence: str, family: str) -> None:
    assert licence_family(licence) == family


def test_rules_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(ValueError, match=r"keep .13."):
        CollectionRules(first=12, keep=13)
    with pytest.raises(ValueError, match="same_url"):
        CollectionRules(same_url="report")


def test_nothing_found_is_an_empty_set() -> None:
    collected, ledger, rounds = collect(searched(), [])
    assert (collected.query_ids, rounds, len(collected.images)) == ([], [], 0)
    assert [stage.entered for stage in ledger.stages] == [0] * 6


# --- what people want all the same ------------------------------------------------------------------------------------


def test_a_query_that_people_want_keeps_what_there_is_and_no_more_than_the_others() -> None:
    found = plain("few", 2) + plain("many", 6) + plain("none", 6) + [result("ad", 0, "http://ad/0")]
    found[-1]["is_advertisement"] = True
    queries, at = searched(few=3, many=None, none=3, ad=3), {}
    for rank in range(6):
        at[f"http://none/{rank}"] = image(f"http://none/{rank}") | {"reason": "gone", "kind": "final"}
    names = frozenset({"few", "many", "none", "ad"})
    collected, ledger, rounds = collect(queries, found, at=at, wanted=names)
    assert truth(collected) == {"few": ["http://few/0", "http://few/1"], "many": [f"http://many/{n}" for n in range(3)]}
    assert reasons(ledger, "search") == {} and reasons(ledger, "batches") == {"too_few_images": 1}
    assert reasons(ledger, "queries") == {"too_few_images": 1} and len(rounds) == 2
    assert collect(queries, found, at=at)[0].query_ids == []


@pytest.mark.parametrize(
    ("kinds", "pending"),
    [
        (["", "final", "final", "transient"], False),  # it could not come to three, and all was asked for
        (["", "final", "", "transient"], True),  # the next run may find three
        (["", "final", "final", "not_fetched"], True),  # nobody has asked yet
        (["final", "final", "final", "transient"], True),  # one may come, and one is enough
        (["final", "final", "final", "final"], False),
    ],
)
@pytest.mark.thorough
def test_it_waits_while_images_may_come_but_not_for_what_would_never_be_enough(kinds: list[str], pending: bool) -> None:
    found, at = plain("q", 4), {}
    for rank, kind in enumerate(kinds):
        told = {"reason": kind, "kind": "final" if kind == "final" else "transient"} if kind else {}
        at[f"http://q/{rank}"] = image(f"http://q/{rank}", **told)
    collected, ledger, _ = collect(searched(q=99), found, at=at, wanted=frozenset({"q"}))
    (stage,) = [one for one in ledger.stages if one.stage == "queries"]
    assert stage.pending == ({"too_few_images": 1} if pending else {})
    assert collected.query_ids == (["q"] if not pending and "" in kinds else [])


def test_a_result_that_people_want_is_read_by_its_rank_whatever_is_said_of_it() -> None:
    found = plain("q", 6)
    found[0] |= {"is_advertisement": True, "width": 90, "height": 300, "licence": None}
    found[1] |= {"width": 500, "height": 200}
    found[2]["url"] = found[0]["url"]
    at = {"http://q/0": image("http://q/0", width=90, height=300), "http://q/3": image("http://q/3", width=90)}
    rules = CollectionRules(min_results=10, first=6, keep=3, licences=frozenset({"cc0"}))
    for row in found[1:]:
        row["licence"] = "cc0"
    wanted = frozenset({"http://q/0", "http://q/3"})
    collected, ledger, _ = collect(searched(q=10), found, rules, at, wanted)
    assert truth(collected)["q"] == ["http://q/0", "http://q/3", "http://q/4"]
    assert reasons(ledger, "results") == {"repeated_url": 1, "too_elongated": 1}
    assert reasons(ledger, "images") == {"not_needed": 1}
    gone = {"http://q/0": image("http://q/0") | {"reason": "gone", "kind": "final"}}
    assert "http://q/0" not in collect(searched(q=10), found, SMALL, gone, wanted)[0].relevant_results["url"].to_list()


@pytest.mark.parametrize("rule", ["url", "image"])
@pytest.mark.thorough
def test_nobody_goes_because_of_what_people_want(rule: str) -> None:
    """The first of three shares something with the second, which shares something with the third."""
    queries, found = searched(a=3, b=10, c=10), plain("a", 3) + plain("b", 4) + plain("c", 4)
    at = {}
    if rule == "url":
        found[0]["url"], found[10]["url"] = "http://shared/1", "http://shared/2"
        found[3]["url"], found[4]["url"] = "http://shared/1", "http://shared/2"
    else:
        at = {url: image(url, scene) for url, scene in {
            "http://a/0": "one", "http://b/0": "one", "http://b/1": "two", "http://c/0": "two"}.items()}  # fmt: skip
    rules = CollectionRules(min_results=10, first=6, keep=3, same_url="drop", same_image="drop")
    before = truth(collect(queries, found, rules, at)[0])
    assert set(before) == {"b"}
    both = truth(collect(queries, found, rules, at, frozenset({"a", "c"}))[0])
    assert both["b"] == before["b"] and set(both) == {"a", "b", "c"} and {len(urls) for urls in both.values()} == {3}


def test_a_result_that_people_want_makes_no_query_share() -> None:
    found = plain("a", 4) + plain("b", 4)
    found[0] |= {"url": "http://shared", "is_advertisement": True}
    found[4] |= {"url": "http://shared", "is_advertisement": True}
    rules = CollectionRules(min_results=10, first=6, keep=3, same_url="drop", same_image="drop")
    collected, _, _ = collect(searched(a=10, b=10), found, rules, wanted=frozenset({"http://shared"}))
    assert [urls[0] for urls in truth(collected).values()] == ["http://shared"] * 2
    assert collected.figures["pictures_of_several_queries"] == 1


@pytest.mark.parametrize("wanted_one", ["http://a/0", "http://b/0"])
def test_nor_does_its_image_at_another_address(wanted_one: str) -> None:
    """Both queries find the same image, one of them in an advertisement that people want."""
    found = plain("a", 4) + plain("b", 4)
    next(row for row in found if row["url"] == wanted_one)["is_advertisement"] = True
    at = {url: image(url, "one") for url in ("http://a/0", "http://b/0")}
    rules = CollectionRules(min_results=10, first=6, keep=3, same_image="drop")
    collected, _, _ = collect(searched(a=10, b=10), found, rules, at, frozenset({wanted_one}))
    assert [urls[0] for urls in truth(collected).values()] == ["http://a/0", "http://b/0"]


# --- whatever comes first ---------------------------------------------------------------------------------------------


def small_world(seed: int) -> tuple[pd.DataFrame, list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Queries that share addresses and images, and hosts that fail now and then."""
    draw = random.Random(seed)
    names = [f"q{n}" for n in range(12)]
    found = [
        result(name, rank, f"http://host/{draw.randrange(60)}", width=draw.choice([None, 90, 300]), height=200)
        for name in names
        for rank in range(draw.randrange(3, 9))
    ]
    at = {}
    for n in range(60):
        url = f"http://host/{n}"
        kind = draw.choice(["final", "transient", None, None, None, None])
        at[url] = image(url, f"scene {draw.randrange(50)}", width=draw.choice([200, 300, 500]))
        at[url] |= {"reason": "broken", "kind": kind} if kind else {}
    return searched(**{name: draw.choice([9, 10, 99]) for name in names}), found, at


@settings(max_examples=12)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["drop", "merge"]),
    st.sampled_from(["drop", "merge"]),
    st.randoms(),
    st.frozensets(st.sampled_from(["q1", "q5", "q11", *[f"http://host/{n}" for n in range(0, 60, 6)]])),
)
@pytest.mark.thorough
def test_the_order_in_which_things_came_is_no_matter(
    seed: int, url: str, same: str, chance: random.Random, people: frozenset[str]
) -> None:
    queries, found, at = small_world(seed)
    rules = CollectionRules(min_results=10, first=6, keep=3, same_url=url, same_image=same)
    first, ledger, rounds = collect(queries, found, rules, at, people)
    mixed = found.copy()
    chance.shuffle(mixed)
    ledger_again = Ledger()
    queries = queries.sample(frac=1, random_state=chance.randrange(99))
    batches = screen_results(queries, results(mixed), rules, ledger_again, people)
    fetched = [at[one] for wanted in rounds for one in wanted]
    fetched += [at[one] for one in at if chance.random() < 0.3]  # what nobody asked for does not matter
    chance.shuffle(fetched)
    again = assign_images(batches, images(fetched), rules, GROUP, ledger_again, people)
    pd.testing.assert_frame_equal(first.relevant_results, again.relevant_results)
    pd.testing.assert_frame_equal(first.images, again.images)
    assert first.figures == again.figures
    by_rules = first.relevant_results[~first.relevant_results["query_id"].isin(people)].groupby("query_id")
    assert set(by_rules.size()) <= {3} and set(by_rules["image_id"].nunique()) <= {3}
    assert set(first.relevant_results.groupby("query_id").size()) <= {1, 2, 3}
    for stage in ledger.stages:
        lost = sum(sum(bucket.values()) for bucket in (stage.rejected, stage.quarantined, stage.pending))
        assert stage.entered == stage.accepted + lost


# ---- placeholders

MANY = ["dog", "bus", "pear", "oak", "rain", "chess"]


def with_first(shows: str | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """The first result of each query shows the same card, in another size each time; None: a blank."""
    cards = {
        f"http://{name}/0": image(f"http://{name}/0", shows or name, 300 + 40 * n, 240 + 40 * n)
        for n, name in enumerate(names)
    }
    return cards if shows else {url: card | draw_views(None) for url, card in cards.items()}


@pytest.mark.parametrize("shows", ["no longer available", None], ids=["a card", "blanks"])
@pytest.mark.parametrize("same_image", ["merge", "drop"])
def test_a_card_that_hosts_send_for_many_queries_answers_none(shows: str | None, same_image: str) -> None:
    rules = CollectionRules(min_results=10, first=6, keep=3, same_image=same_image)
    found = [row for name in MANY for row in plain(name, 5)]
    collected, ledger, _ = collect(searched(**dict.fromkeys(MANY, 99)), found, rules, with_first(shows, MANY))
    assert reasons(ledger, "queries") == {}, "no query is lost"
    assert reasons(ledger, "images")["placeholder"] == collected.figures["placeholders"] == 6
    assert not any(url.endswith("/0") for urls in truth(collected).values() for url in urls)


def test_an_image_that_two_queries_share_is_no_placeholder() -> None:
    found = [row for name in MANY for row in plain(name, 5)]
    collected, _, _ = collect(searched(**dict.fromkeys(MANY, 99)), found, at=with_first("a pug", MANY[:3]))
    assert collected.figures["placeholders"] == 0 and collected.figures["pictures_of_several_queries"] == 1


def test_an_image_of_one_topic_is_no_placeholder_whatever_its_queries() -> None:
    answers = [("pug", f"http://{n}", f"q{n}", "dogs") for n in range(6)]
    others = [(f"image {n}", f"http://{n}/1", f"r{n}", f"topic {n}") for n in range(6)]
    assert find_placeholders([*answers, *others], 12) == {}
    assert find_placeholders([(image, at, query, None) for image, at, query, _ in [*answers, *others]], 12) == {
        "pug": 6
    }
    assert find_placeholders([("pug", "http://one", f"q{n}", None) for n in range(6)], 12) == {}, "one address"


def test_in_a_large_collection_a_twentieth_of_the_queries_is_enough() -> None:
    answers = [("card", f"http://{n}/0", f"q{n}", f"topic {n % 8}") for n in range(0, 400, 19)]
    answers += [(f"image {n}", f"http://{n}/1", f"q{n}", f"topic {n % 8}") for n in range(400)]
    assert find_placeholders(answers, 400) == {"card": 22}

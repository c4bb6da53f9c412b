"""People who err, simulated: what is stated of a truth holds, whatever the share of relevant pairs."""

import numpy as np

from querytruth.audit.certificate import PEOPLE_ALPHA
from querytruth.audit.judging_errors import (
    SECOND_RATINGS,
    Pair,
    bound_errors,
    choose_second_ratings,
    count_needed_ratings,
)
from tests.audit.erring_people import People, is_held


def test_bounds_carry_what_people_get_wrong() -> None:
    """One cell of `benchmarks/promises.py people`: 5% slips, 5% missed."""
    rng = np.random.default_rng(11)
    held = np.array([is_held(People(300, 0.1, 0.05, 0.05, rng)) for _ in range(30)])
    assert held.mean(axis=0).min() >= 0.9


def test_people_who_agree_leave_little_doubt() -> None:
    people = People(600, 0.2, 0.0, 0.0, np.random.default_rng(1))
    people.rate_again()
    wrong, missed, slips, again = bound_errors(people.ratings, PEOPLE_ALPHA)
    assert wrong < 0.02 and missed < 0.06 and slips < 0.1 and again > 150


def test_one_slip_in_twenty_makes_a_rare_truth_mostly_wrong_and_says_so() -> None:
    """Of 1,000 pairs 5 are relevant: what one look finds is wrong in 9 of 10 pairs, and half of it after three."""
    people = People(1000, 0.005, 0.05, 0.0, np.random.default_rng(3))
    people.rate_again()
    truth = people.truth()
    wrong = sum(not people.is_relevant[pair] for pair in truth) / len(truth)
    assert bound_errors(people.ratings, PEOPLE_ALPHA)[0] >= wrong > 0.3


def test_what_is_judged_again_is_a_part_of_both_sides_and_grows() -> None:
    ratings: dict[Pair, list[bool]] = {("q", str(number)): [number % 3 == 0] for number in range(900)}
    chosen = choose_second_ratings(ratings, 5)
    assert sum(ratings[pair][0] for pair in chosen) == SECOND_RATINGS[True]
    assert sum(not ratings[pair][0] for pair in chosen) == SECOND_RATINGS[False]
    assert chosen == choose_second_ratings(dict(reversed(ratings.items())), 5)
    assert len(choose_second_ratings({("q", "1"): [True]}, 5)) == 1


def test_a_third_look_is_for_pairs_on_which_two_differ() -> None:
    assert [count_needed_ratings(ratings) for ratings in ([True], [True, True], [True, False])] == [2, 2, 3]

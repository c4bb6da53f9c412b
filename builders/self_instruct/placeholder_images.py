"""Images that answer everything: what hosts send in place of a picture that is gone, or that only they may show.

Such an image comes back for queries that have nothing in common, each time from another address, since each address was
once that of another picture. No list of known ones is kept. Sizes and formats differ from host to host: images are
compared by their hashes alone, and all of those without any structure (blanks, trackers) count as one.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

LEAST_QUERIES, LEAST_TOPICS = 4, 3  # that a placeholder answers: a few queries may well share a picture
LEAST_SHARE = 0.2  # of all queries; of large collections:
LEAST_SHARE_OF_MANY, LEAST_SHARE_OF_TOPICS = 0.05, 0.5
MEDIANS, OUTLIER = 4, 10  # times the median image's queries, and times those of the 95th of a hundred


def find_placeholders(
    answers: Iterable[tuple[Hashable, str, str, str | None]], query_count: int
) -> dict[Hashable, int]:
    """Returns the images that are no picture of what was asked for, with the number of queries that each answers.
    `answers`: image, address, query_id and topic (None: the query is a topic of its own) of each fetched result;
    `query_count`: of all queries.

    An image is a placeholder if it lies at four addresses or more and answers at least four queries of three topics:
    a fifth of all queries, or a twentieth of them in half of the topics.
    """
    found: dict[Hashable, tuple[set[str], set[str], set[str]]] = defaultdict(lambda: (set(), set(), set()))
    all_topics: set[str] = set()
    for image, address, query_id, topic in answers:
        own = found[image]
        for values, value in zip(own, (address, query_id, topic or query_id), strict=True):
            values.add(value)
        all_topics.add(topic or query_id)
    return {
        image: len(queries)
        for image, (addresses, queries, topics) in found.items()
        if min(len(addresses), len(queries)) >= LEAST_QUERIES
        and len(topics) >= LEAST_TOPICS
        and _is_large_share(len(queries) / max(1, query_count), len(topics) / len(all_topics))
    }


def _is_large_share(of_queries: float, of_topics: float) -> bool:
    if of_queries >= LEAST_SHARE:
        return True
    return of_queries >= LEAST_SHARE_OF_MANY and of_topics >= LEAST_SHARE_OF_TOPICS


def find_implausible_answers(counts: Sequence[int], query_count: int) -> list[int]:
    """Returns the places of images that are right for implausibly many of a set's queries. `counts`: per image that is
    right for any the number of its queries.

    It is at least four, four times that of the median image, and a fifth of all queries or ten times that of an image
    which 95% do not exceed: in sets with several captions an image, all images have as many.
    """
    if not len(counts):
        return []
    values = np.asarray(counts)
    is_high = (values >= LEAST_QUERIES) & (values >= MEDIANS * np.median(values))
    is_high &= (values >= LEAST_SHARE * query_count) | (values >= OUTLIER * np.quantile(values, 0.95, method="lower"))
    found: list[int] = np.flatnonzero(is_high).tolist()
    return found

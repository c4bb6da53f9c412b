"""Why a query may have failed, as far as the tables of its set say: likely causes, not proofs.

Looked at are the results before the first right one; where none is right, the first five."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from review.evaluation.evidence import Known, Moment
from review.evaluation.selection import NEAR, SUCCESS, Asked, Result

_FEW = 0.5  # share of the first ten that is judged, below which a figure says little
_ALIKE = 0.75  # Dice coefficient of two texts' pairs of characters
_LABELS = 3  # of a picture, and pictures, named
_TWIN_SECONDS, _TWIN_DEGREES = 60, 0.0005  # two shots of one moment; the place within about 50 metres


@dataclass(frozen=True, slots=True)
class Cause:
    """A short code, what it means in words, and the ranks of the results that it is about."""

    code: str
    says: str
    ranks: tuple[int, ...] = ()


def causes_of(asked: Asked, known: Known) -> list[Cause]:
    """The likely causes of this query's failure, the most telling first; none for a success."""
    if asked.bin == SUCCESS:
        return []
    if not asked.results:
        return [Cause("nothing_came_back", "The system returned nothing for this query.")]
    before = [one for one in asked.results[:NEAR] if one.judged.relevance <= 0 and _ahead(one, asked)]
    found = [cause for look in _LOOKS for cause in look(asked, before, known)]
    if len(found) > 1 and not known.knows_wrong:  # where all but the right ones are unjudged, that is no news
        found = [cause for cause in found if cause.code != "unjudged"]
    silent = "The tables of the set hold no reason: as far as they say, the system is wrong."
    return found or [Cause("none_found", silent)]


def _ahead(one: Result, asked: Asked) -> bool:
    return asked.first is None or one.rank is None or one.rank < asked.first


def _unjudged(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    open_ = [
        one
        for one in before
        if one.judged.relevance < 0
        and (asked.query_id, one.item_id) not in known.suspected
        and not (known.labels.get(asked.query_id) and one.item_id in known.seen)
    ]
    first = asked.results[:10]
    judged = sum(one.judged.relevance >= 0 for one in first)
    if open_ and not known.knows_wrong:
        yield Cause("unjudged", "Never judged, as this set knows right answers alone: does it fit?", _ranks(open_))
    elif open_ and judged < _FEW * len(first):
        yield Cause("few_judged", f"Never judged, and only {judged} of the first {len(first)} are.", _ranks(open_))
    elif open_:
        yield Cause("unjudged", "Never judged: does it fit?", _ranks(open_))


def _suspected(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    for one in before:
        if says := known.suspected.get((asked.query_id, one.item_id)):
            yield Cause("ambiguous_query", f"The set suspects that it fits, too ({says}).", _ranks([one]))


def _near_duplicates(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    right = known.right.get(asked.query_id, frozenset())
    groups = {known.groups[name] for name in right if name in known.groups}
    same = [one for one in before if known.groups.get(one.item_id) in groups and one.item_id in known.groups]
    if same:
        yield Cause("near_duplicate", "A near-duplicate of a right picture: it should be right, too.", _ranks(same))
    moments = [known.moments[name] for name in right if name in known.moments]
    shots = [one for one in before if one not in same and _is_twin(known.moments.get(one.item_id), moments)]
    if shots:
        yield Cause("same_moment", "Taken within a minute of a right picture, at its place.", _ranks(shots))


def _is_twin(moment: Moment | None, others: list[Moment]) -> bool:
    return moment is not None and any(_near(moment, other) for other in others)


def _near(one: Moment, other: Moment) -> bool:
    if (one[0].tzinfo is None) != (other[0].tzinfo is None):
        return False
    apart = abs((one[0] - other[0]).total_seconds())
    return apart <= _TWIN_SECONDS and max(abs(one[1] - other[1]), abs(one[2] - other[2])) <= _TWIN_DEGREES


def _all_but_one(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    """By the labels that the truth of other queries shows on a picture; where those say nothing, by its evidence."""
    wanted = known.labels.get(asked.query_id, ())
    lacking: dict[str, list[Result]] = {}
    for one in before:
        lost = [label for label in wanted if label not in known.seen.get(one.item_id, frozenset())]
        if len(wanted) > 1 and len(lost) == 1:
            lacking.setdefault(f"All labels but one are there: {lost[0]} is not.", []).append(one)
        elif len(wanted) > 1 and one.judged.relevance == 0 and one.judged.evidence:
            lacking.setdefault(f"Judged not relevant: {one.judged.evidence}.", []).append(one)
    for says, ones in lacking.items():
        yield Cause("all_but_one_label", says, _ranks(ones))


def _other_labels(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    """Pictures that other queries' truth sees something else on, and not what this one asks for."""
    wanted = set(known.labels.get(asked.query_id, ()))
    shown = []
    for one in before:
        seen = sorted(known.seen.get(one.item_id, frozenset()))
        if seen and len(wanted.difference(seen)) > min(1, len(wanted) - 1):
            shown.append(f"{one.rank} has {', '.join(seen[:_LABELS])}" + (" …" if len(seen) > _LABELS else ""))
    if wanted and shown:
        says = "; ".join(shown[:_LABELS]) + ("; and so on" if len(shown) > _LABELS else "")
        yield Cause("other_labels", f"By the truth of other queries rank {says}.")


def _same_words(asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    """Another query asks for that picture in nearly the same words; of texts that came back: a right one says it.
    Queries for labels are all made alike, and left out."""
    if known.labels.get(asked.query_id):
        return
    mine = [known.texts[asked.query_id]] if asked.query_id in known.texts else []
    mine += [known.texts[name] for name in sorted(known.right.get(asked.query_id, frozenset())) if name in known.texts]
    for one in before:
        theirs = [known.texts[one.item_id]] if one.item_id in known.texts else []
        theirs += known.captions.get(one.item_id, {}).values()
        alike = max(((likeness(a, b), b) for a in mine for b in theirs), default=(0.0, ""))
        if alike[0] >= _ALIKE:
            yield Cause("ambiguous_words", f"Right for nearly the same words: {alike[1]}", _ranks([one]))


def _tied(asked: Asked, before: list[Result], _known: Known) -> Iterator[Cause]:
    right = next((one for one in asked.results if one.judged.relevance > 0), None)
    tied = [one for one in before if right is not None and one.score == right.score]
    if tied:
        yield Cause("tied", "The same score as the first right one: the ids alone decide the order.", _ranks(tied))


def _intruders(_asked: Asked, before: list[Result], known: Known) -> Iterator[Cause]:
    numbers = {one: known.intruders[one.item_id] for one in before if one.item_id in known.intruders}
    if numbers:
        many = sorted(numbers.values())
        often = f"{many[0]:,}" if many[0] == many[-1] else f"{many[0]:,} to {many[-1]:,}"
        says = f"Among the first five of {often} queries that ask for something else."
        yield Cause("comes_for_everything", says, _ranks(list(numbers)))


Look = Callable[[Asked, list[Result], Known], Iterator[Cause]]
_LOOKS: tuple[Look, ...] = (
    _near_duplicates,
    _suspected,
    _all_but_one,
    _same_words,
    _tied,
    _intruders,
    _other_labels,
    _unjudged,
)


def _ranks(results: Sequence[Result]) -> tuple[int, ...]:
    return tuple(one.rank for one in results if one.rank is not None)


def likeness(one: str, other: str) -> float:
    """How alike two texts are, 0 to 1: the Dice coefficient of their pairs of neighbouring characters, without case
    and blanks."""
    a, b = (_pairs("".join(text.casefold().split())) for text in (one, other))
    return 2 * (a & b).total() / (a.total() + b.total()) if a or b else 0.0


def _pairs(text: str) -> Counter[str]:
    return Counter(text[n : n + 2] for n in range(len(text) - 1))

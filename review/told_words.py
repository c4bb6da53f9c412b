"""What people said of a set beside its queries, for the view of decisions: how much, and what of it builds follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = dict[str, str]


class Word(Protocol):
    """What decisions about pictures and about rejects have in common."""

    @property
    def decision_id(self) -> str: ...
    @property
    def decision(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Followed:
    """Words that only a build can follow: how many this version holds, how many wait for the next build, and those
    that it could not follow, with the reason."""

    held: int = 0
    waiting: int = 0
    stale: list[Row] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.held or self.waiting or self.stale)


@dataclass(frozen=True, slots=True)
class ToldWords:
    """Per kind of word, by its name on the page, whose each one is that stands; and what builds make of them."""

    whose: dict[str, list[str]] = field(default_factory=dict)
    followed: Followed = field(default_factory=Followed)


def followed(
    said: Iterable[Word], last: Sequence[Word], decided: Mapping[str, Any], text_of: Callable[[Word], str]
) -> Followed:
    """`said`: all lines of the log; `last`: those that count; `decided`: the decisions of the version's manifest. A
    word that the version holds and that was taken back since waits, too: the next build is without it."""
    in_effect = set(decided["in_effect"])
    why = {row["decision"]: row["why"] for row in decided["stale"]}
    stand = {word.decision_id for word in last}
    held = {word.decision_id for word in said} & in_effect
    stale = [word for word in last if word.decision_id in why and word.decision_id not in held]
    rows = [
        {"decision": word.decision, "text": text_of(word), "why": str(why[word.decision_id])} for word in stale
    ]  # fmt: skip
    return Followed(len(held & stand), len((stand ^ held) - {word.decision_id for word in stale}), rows)


def by_person(whose: Mapping[str, Iterable[str]]) -> list[tuple[str, list[int]]]:
    """Per person, by name, how many words of each kind."""
    counts = [Counter(name or "nobody named" for name in names) for names in whose.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]

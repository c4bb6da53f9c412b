"""How fetching goes: pictures per second, hosts, and failures by reason, for people and for the set's notes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from backends.web.decoded_pictures import FetchedPicture
from backends.web.web_urls import BadUrl, read_url
from flows.steps import Advance, current

_SAID_EVERY = 15.0  # seconds
_MOST = 12  # hosts and reasons listed


@dataclass(slots=True)
class FetchWatch:
    """Told of every address that is done; says now and then how it goes."""

    started: float = field(default_factory=time.monotonic)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    there: int = 0
    fetched: int = 0  # now: the rest was known
    failed: Counter[str] = field(default_factory=Counter)
    hosts: set[str] = field(default_factory=set)
    _said: float = field(default_factory=time.monotonic)

    def note(self, picture: FetchedPicture, advance: Advance) -> None:
        """One more address is done."""
        advance(1)
        if picture.reason:
            self.failed[picture.reason] += 1
        else:
            self.there += 1
        if host := host_of(picture.url):
            self.hosts.add(host)
            self.fetched += picture.fetched_at >= self.since
        if time.monotonic() - self._said > _SAID_EVERY:
            self._said = time.monotonic()
            current().reporter.say(self.line)

    @property
    def line(self) -> str:
        """Where it stands."""
        seconds = max(time.monotonic() - self.started, 0.001)
        told = f"{self.there:,} pictures" + (f" from {_hosts(len(self.hosts))}" if self.hosts else "")
        told += f", {self.fetched:,} addresses fetched now ({self.fetched / seconds:.0f}/s)" if self.fetched else ""
        why = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in _most(self.failed))
        return f"{told}; failed: {why}" if why else told


def fetch_figures(pictures: Iterable[FetchedPicture]) -> dict[str, Any]:
    """What came of the pictures that were wanted: how many are there, why others are not, and from which hosts."""
    failed: Counter[str] = Counter()
    hosts: dict[str, list[int]] = {}
    times: list[str] = []
    there = 0
    for picture in pictures:
        if picture.reason:
            failed[picture.reason] += 1
        else:
            there += 1
            times += [picture.fetched_at] if picture.fetched_at else []
        if host := host_of(picture.url):
            hosts.setdefault(host, [0, 0])[bool(picture.reason)] += 1
    most = sorted(hosts.items(), key=lambda item: (-sum(item[1]), item[0]))[:_MOST]
    return {
        "there": there,
        "failed": dict(sorted(failed.items())),
        "hosts": len(hosts),
        "most": [{"host": host, "there": good, "failed": bad} for host, (good, bad) in most],
        "first": min(times, default=None),
        "last": max(times, default=None),
    }


def host_of(url: str) -> str:
    """The host that an address names; '' for a local file's name."""
    try:
        return read_url(url).place
    except BadUrl:
        return ""


def _hosts(number: int) -> str:
    return "1 host" if number == 1 else f"{number:,} hosts"


def _most(failed: Counter[str]) -> list[tuple[str, int]]:
    return sorted(failed.items(), key=lambda item: (-item[1], item[0]))[:_MOST]

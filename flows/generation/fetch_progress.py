"""The progress of fetching: images per second, hosts, and failures by reason, for the terminal and for the set's
notes."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from backends.web.decoded_images import FetchedImage
from backends.web.web_urls import parse_host
from flows.steps import Advance, current_run

_REPORT_INTERVAL = 15.0  # seconds
_MAX_LISTED = 12  # hosts and reasons listed


@dataclass(slots=True)
class FetchProgress:
    """Counts finished fetches, and reports the progress at intervals."""

    started: float = field(default_factory=time.monotonic)
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    succeeded: int = 0
    fetched: int = 0  # now: the rest was known
    failed: Counter[str] = field(default_factory=Counter)
    hosts: set[str] = field(default_factory=set)
    _last_report: float = field(default_factory=time.monotonic)

    def record(self, image: FetchedImage, advance: Advance) -> None:
        """Counts one more finished fetch."""
        advance(1)
        if image.reason:
            self.failed[image.reason] += 1
        else:
            self.succeeded += 1
        if host := parse_host(image.url):
            self.hosts.add(host)
            self.fetched += image.fetched_at >= self.started_at
        if time.monotonic() - self._last_report > _REPORT_INTERVAL:
            self._last_report = time.monotonic()
            current_run().reporter.log(self.summary)

    @property
    def summary(self) -> str:
        """Returns the progress as one line."""
        seconds = max(time.monotonic() - self.started, 0.001)
        hosts = f"{len(self.hosts):,} host{'s' if len(self.hosts) > 1 else ''}"
        text = f"{self.succeeded:,} pictures" + (f" from {hosts}" if self.hosts else "")
        text += f", {self.fetched:,} addresses fetched now ({self.fetched / seconds:.0f}/s)" if self.fetched else ""
        reasons = sorted(self.failed.items(), key=lambda item: (-item[1], item[0]))[:_MAX_LISTED]
        why = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons)
        return f"{text}; failed: {why}" if why else text


def summarize_fetches(images: Iterable[FetchedImage]) -> dict[str, Any]:
    """Counts the fetched images, the failures by reason, and the hosts."""
    failed: Counter[str] = Counter()
    hosts: dict[str, list[int]] = {}
    times: list[str] = []
    there = 0
    for image in images:
        if image.reason:
            failed[image.reason] += 1
        else:
            there += 1
            times += [image.fetched_at] if image.fetched_at else []
        if host := parse_host(image.url):
            hosts.setdefault(host, [0, 0])[bool(image.reason)] += 1
    most = sorted(hosts.items(), key=lambda item: (-sum(item[1]), item[0]))[:_MAX_LISTED]
    return {
        "there": there,
        "failed": dict(sorted(failed.items())),
        "hosts": len(hosts),
        "most": [{"host": host, "there": good, "failed": bad} for host, (good, bad) in most],
        "first": min(times, default=None),
        "last": max(times, default=None),
    }

"""Rules of hosts for crawlers: robots.txt (RFC 9309), X-Robots-Tag, pauses, and few requests at a time.

A host that cannot be reached, or refuses everything for minutes, is skipped for the rest of the run; the next run
tries it again.
"""

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from querytruth.backends.web.web_records import FailedFetch, RefusedFetch

ROBOTS_AGENT = "querytruth"  # our product token, which a robots.txt may name
MAX_ROBOTS_BYTES = 500 * 1024  # that are read of a robots.txt: RFC 9309, 2.5
_LONGEST_DELAY = 30.0  # seconds between two requests: longer ones are not plausible
_FORBID = frozenset({"noindex", "noimageindex", "none", "noai", "noimageai"})
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_UNRESERVED = {f"{ord(c):02X}": c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"}
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})
LONGEST_PAUSE = 60.0  # seconds: the most that a server can ask for
_DEAD_AFTER = 3  # failed connections in a row before the first answer
_REFUSES_AFTER = 5  # addresses in a row with only 429 or 503 as answers
_PATIENCE = 300.0  # seconds during which a host may refuse everything


@dataclass(frozen=True, slots=True)
class RobotRules:
    """The rules for one agent: patterns and whether they allow, and the seconds between two requests (not in the RFC,
    but in common use)."""

    patterns: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def is_allowed(self, target: str) -> bool:
        """Return whether a path with its query may be fetched: the longest matching pattern decides; of equal length
        an allowing one."""
        wanted = _plain(target)
        fitting = [(len(pattern), allows) for pattern, allows in self.patterns if _fits(pattern, wanted)]
        return max(fitting, default=(0, True))[1]


def parse_robots(text: str) -> RobotRules:
    """Return the rules for our agent: of all groups that name it, else of the groups for `*`, else none."""
    groups: dict[str, list[tuple[str, str]]] = {}
    named: set[str] = set()
    in_rules = False
    for line in re.split(r"[\r\n]+", text.removeprefix("\ufeff")):
        field, colon, value = line.partition("#")[0].partition(":")
        field, value = field.strip().lower(), value.strip()
        if not colon:
            continue
        if field == "user-agent":
            named = set() if in_rules else named
            in_rules = False
            named |= {value.split("/")[0].strip().lower()} & {ROBOTS_AGENT, "*"}  # else many names times many rules
            groups |= {name: groups.get(name, []) for name in named}
        elif field in ("allow", "disallow", "crawl-delay"):
            in_rules = True
            for name in named:
                groups[name].append((field, value))
    lines = groups.get(ROBOTS_AGENT, groups.get("*", []))
    patterns = tuple((_plain(value), field == "allow") for field, value in lines if field != "crawl-delay" and value)
    return RobotRules(patterns, max([_seconds(value) for field, value in lines if field == "crawl-delay"], default=0.0))


def find_forbidding_directive(values: Iterable[str]) -> str:
    """Return the directive of X-Robots-Tag headers that forbids storing the response; empty where none does."""
    for value in values:
        is_for_us = True
        for part in value.split(","):
            name, colon, rest = part.strip().lower().partition(":")
            if colon and name.strip() not in _WITH_VALUES:  # the rest is for the named agent
                is_for_us = name.strip() in (ROBOTS_AGENT, "*")
                name = rest
            if is_for_us and name.strip() in _FORBID:
                return name.strip()
    return ""


def _seconds(value: str) -> float:
    return min(float(value), _LONGEST_DELAY) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) else 0.0


def _plain(text: str) -> str:
    """Normalize percent-encoding: only characters that need it are encoded."""
    escaped = _ESCAPE.sub(lambda match: _UNRESERVED.get(match[1].upper(), f"%{match[1].upper()}"), text)
    return quote(escaped, safe="/%?=&*$:@!,;+'()")


def _fits(pattern: str, target: str) -> bool:
    """Return whether the pattern matches the beginning of the target: * is any text, a final $ is the end. The time
    grows with the target's length only."""
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not target.startswith(first):
        return False
    place = len(first)
    for number, piece in enumerate(rest):
        if anchored and number == len(rest) - 1:
            return len(target) - len(piece) >= place and target.endswith(piece)
        place = target.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return not anchored or place == len(target)


class Host:
    """Turns with a host, a name with its port, in one event loop: so many requests at a time, seconds apart. `interval`
    rises where its robots.txt asks for more."""

    def __init__(self, per_host: int, interval: float) -> None:
        self.interval = interval
        self._slots, self._opens_at = asyncio.Semaphore(per_host), 0.0
        self._unreachable, self._has_answered = 0, False
        self._refused: set[str] = set()
        self._refuses_since: float | None = None
        self._given_up: FailedFetch | None = None
        self._is_given_up = asyncio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a slot. Raises RefusedFetch where the host was given up."""
        async with self._slots:
            await self.wait_until_open()
            if self._given_up:
                raise RefusedFetch(self._given_up.reason, "transient", self._given_up.detail)
            self._opens_at = max(self._opens_at, time.monotonic() + self.interval)
            yield

    async def wait_until_open(self) -> None:
        """Wait until the host accepts the next request, or is given up."""
        while not self._given_up and (wait := self._opens_at - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._is_given_up.wait()

    def record_answer(self) -> None:
        """Record an answer other than 429 or 503."""
        self._has_answered, self._unreachable, self._refuses_since = True, 0, None
        self._refused.clear()

    def record_unreachable(self, failed: FailedFetch) -> None:
        """Record a failed connection."""
        self._unreachable += 1
        if not self._has_answered and self._unreachable >= _DEAD_AFTER:
            self._give_up(failed)

    def record_refusal(self, url: str, failed: FailedFetch, pause: float) -> None:
        """Record a 429 or 503. After several refused addresses the host is paused for `pause` seconds, and after
        minutes of refusals it is given up."""
        now = time.monotonic()
        self._refused.add(url)
        if len(self._refused) < _REFUSES_AFTER:
            return
        self._refuses_since = now if self._refuses_since is None else self._refuses_since
        self._opens_at = max(self._opens_at, now + pause)
        if now - self._refuses_since > _PATIENCE:
            self._give_up(failed)

    def _give_up(self, failed: FailedFetch) -> None:
        self._given_up = failed
        self._is_given_up.set()


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the server asks to wait, 0 to 60, given as a number or a date; 0 if not valid."""
    value = headers.get("retry-after", "").strip()
    try:
        if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})?", value):
            seconds = float(value)
        else:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else 0.0

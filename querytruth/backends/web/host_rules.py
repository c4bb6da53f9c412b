"""What hosts ask of a crawler: robots.txt (RFC 9309), X-Robots-Tag, pauses, and few requests at a time.

A host that cannot be reached, or that refuses everything for minutes, is given up for the rest of the run; the next run
tries it again.
"""

import asyncio
import math
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
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
        """Returns whether a path with its query may be fetched: the longest matching pattern decides; of equal length
        an allowing one."""
        wanted = _plain(target)
        fitting = [(len(pattern), allows) for pattern, allows in self.patterns if _fits(pattern, wanted)]
        return max(fitting, default=(0, True))[1]


def parse_robots(text: str) -> RobotRules:
    """Returns the rules for our agent: of all groups that name it, else of the groups for `*`, else none."""
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
    """Returns the directive of X-Robots-Tag headers that forbids storing the response; empty where none does."""
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
    """Normalizes percent-encoding: only characters that need it are encoded."""
    escaped = _ESCAPE.sub(lambda match: _UNRESERVED.get(match[1].upper(), f"%{match[1].upper()}"), text)
    return quote(escaped, safe="/%?=&*$:@!,;+'()")


def _fits(pattern: str, target: str) -> bool:
    """Returns whether the pattern matches the beginning of the target: * is any text, a final $ is the end. The time
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


class _Host:
    def __init__(self, per_host: int) -> None:
        self.slots, self.opens_at, self.interval = asyncio.Semaphore(per_host), 0.0, 0.0
        self.unreachable, self.has_answered = 0, False
        self.refused: set[str] = set()
        self.refuses_since: float | None = None
        self.given_up: FailedFetch | None = None
        self.is_given_up = asyncio.Event()

    def give_up(self, failed: FailedFetch) -> None:
        self.given_up = failed
        self.is_given_up.set()

    async def wait_until_open(self) -> None:
        while not self.given_up and (wait := self.opens_at - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.is_given_up.wait()


class HostThrottle:
    """Turns with the hosts, for one event loop; a host is a name with its port."""

    def __init__(self, per_host: int, interval: float) -> None:
        self._interval = interval
        self._hosts: dict[str, _Host] = defaultdict(partial(_Host, per_host))

    @asynccontextmanager
    async def acquire(self, host: str) -> AsyncIterator[None]:
        """Waits for a slot of the host. Raises RefusedFetch where it was given up."""
        state = self._hosts[host]
        async with state.slots:
            await state.wait_until_open()
            if state.given_up:
                raise RefusedFetch(state.given_up.reason, "transient", state.given_up.detail)
            state.opens_at = max(state.opens_at, time.monotonic() + max(self._interval, state.interval))
            yield

    async def wait_until_open(self, host: str) -> None:
        """Waits until the host accepts the next request, or is given up."""
        await self._hosts[host].wait_until_open()

    def set_interval(self, host: str, seconds: float) -> None:
        """Sets the shortest interval between two requests that the host's robots.txt asks for."""
        self._hosts[host].interval = seconds

    def record_answer(self, host: str) -> None:
        """Records an answer other than 429 or 503."""
        state = self._hosts[host]
        state.has_answered, state.unreachable, state.refuses_since = True, 0, None
        state.refused.clear()

    def record_unreachable(self, host: str, failed: FailedFetch) -> None:
        """Records a failed connection."""
        state = self._hosts[host]
        state.unreachable += 1
        if not state.has_answered and state.unreachable >= _DEAD_AFTER:
            state.give_up(failed)

    def record_refusal(self, host: str, url: str, failed: FailedFetch, pause: float) -> None:
        """Records a 429 or 503. After several refused addresses the host is paused for `pause` seconds, and after
        minutes of refusals it is given up."""
        now, state = time.monotonic(), self._hosts[host]
        state.refused.add(url)
        if len(state.refused) < _REFUSES_AFTER:
            return
        state.refuses_since = now if state.refuses_since is None else state.refuses_since
        state.opens_at = max(state.opens_at, now + pause)
        if now - state.refuses_since > _PATIENCE:
            state.give_up(failed)


def retry_after(headers: Mapping[str, str]) -> float:
    """Returns the seconds that the server asks to wait, 0 to 60, given as a number or a date; 0 if not valid."""
    value = headers.get("retry-after", "").strip()
    try:
        if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})?", value):
            seconds = float(value)
        else:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else 0.0

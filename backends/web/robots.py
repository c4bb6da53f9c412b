"""Rules of a site for crawlers: robots.txt (RFC 9309) and the header X-Robots-Tag."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

ROBOTS_AGENT = "querytruth"  # our product token, which a robots.txt may name
MAX_ROBOTS_BYTES = 500 * 1024  # that are read of a robots.txt: RFC 9309, 2.5
_LONGEST_DELAY = 30.0  # seconds between two requests: longer ones are not plausible
_FORBID = frozenset({"noindex", "noimageindex", "none", "noai", "noimageai"})
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_UNRESERVED = {f"{ord(c):02X}": c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"}
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})


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
    named: list[str] = []
    in_rules = False
    for line in re.split(r"[\r\n]+", text.removeprefix("\ufeff")):
        field, colon, value = line.partition("#")[0].partition(":")
        field, value = field.strip().lower(), value.strip()
        if not colon:
            continue
        if field == "user-agent":
            named = [] if in_rules else named
            in_rules = False
            named.append(value.split("/")[0].strip().lower())
            groups.setdefault(named[-1], [])
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

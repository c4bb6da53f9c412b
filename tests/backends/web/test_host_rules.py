"""robots.txt as RFC 9309 has it, and X-Robots-Tag."""

import time

import pytest

from querytruth.backends.web.host_rules import find_forbidding_directive, parse_robots


@pytest.mark.parametrize(
    ("lines", "target", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: QueryTruth\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/b", True),
        ("User-agent: QueryTruth/2.0\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/a", False),
        ("User-agent: querytruth\nUser-agent: other\nDisallow: /a", "/a", False),
        ("User-agent: querytruth\nDisallow: /a\nUser-agent: querytruth\nDisallow: /b", "/a", False),
        ("User-agent: querytruth\n\nUser-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.jpg$", "/x/y.jpg", False),
        ("User-agent: *\nDisallow: /*.jpg$", "/x/y.jpg?size=1", True),
        ("User-agent: *\nDisallow: /*/private/*", "/x/private/y", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /a$", "/a", False),
        ("User-agent: *\nDisallow: /图", "/%E5%9B%BE/1", False),
        ("User-agent: *\nDisallow: /%e5%9b%be", "/%E5%9B%BE", False),
        ("User-agent: *\nDisallow: /%7Ejoe", "/~joe", False),
        ("User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
        ("User-agent: *\nDisallow: /a # why not", "/a", False),
        ("  USER-AGENT : *\r\n disallow:/a\r", "/a", False),
        ("\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("Disallow: /a", "/a", True),
        ("Sitemap: http://x\nUser-agent: *\nSitemap: http://y\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /a?b=", "/a?b=1", False),
        ("User-agent: *\nDisallow: /A", "/a", True),
        ("<html><body>not found</body></html>", "/a", True),
    ],
)
def test_the_longest_line_that_fits_decides(lines: str, target: str, allowed: bool) -> None:
    assert parse_robots(lines).is_allowed(target) is allowed


def test_a_delay_counts_where_it_is_for_us_and_makes_sense() -> None:
    assert parse_robots("User-agent: *\nCrawl-delay: 2.5").delay == 2.5
    assert parse_robots("User-agent: *\nCrawl-delay: 86400").delay == 30
    assert parse_robots("User-agent: other\nCrawl-delay: 9\nUser-agent: *\nDisallow:").delay == 0
    assert parse_robots("User-agent: *\nCrawl-delay: soon").delay == 0


def test_a_hostile_pattern_takes_no_time() -> None:
    rules = parse_robots("User-agent: *\nDisallow: /" + "*a" * 5000 + "$")
    start = time.process_time()
    assert rules.is_allowed("/" + "a" * 4000 + "b")
    assert time.process_time() - start < 0.5


def test_many_names_with_many_rules_take_no_time() -> None:
    """As many as fit into what is read of a robots.txt; only the groups that may be ours are kept."""
    names = "".join(f"User-agent: bot{number}\n" for number in range(15_000)) + "User-agent: *\n"
    start = time.process_time()
    assert not parse_robots(names + "Disallow: /a\n" * 15_000).is_allowed("/a")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("headers", "directive"),
    [
        (["noindex"], "noindex"),
        (["nofollow, NoImageIndex"], "noimageindex"),
        (["none"], "none"),
        (["max-snippet: 10, noai"], "noai"),
        (["nofollow"], ""),
        (["googlebot: noindex"], ""),
        (["googlebot: noindex", "noimageai"], "noimageai"),
        (["googlebot: nofollow, otherbot: noindex, none"], ""),
        (["otherbot: nofollow, querytruth: noindex"], "noindex"),
        (["*: noindex"], "noindex"),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], "noindex"),
        ([], ""),
    ],
)
def test_the_header_speaks_to_all_or_to_whom_it_names(headers: list[str], directive: str) -> None:
    assert find_forbidding_directive(headers) == directive

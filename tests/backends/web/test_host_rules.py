"""robots.txt as RFC 9309 has it, and X-Robots-Tag."""

import gzip
import time
from collections.abc import Callable

import pytest

from querytruth.backends.web.host_rules import find_forbidding_directive, parse_robots
from querytruth.backends.web.web_records import FailedFetch, FetchedResource
from tests.backends.web.hostile_web import (
    OK,
    QUICK_LIMITS,
    fetch_failure_reason,
    fetch_once,
    jpeg,
    packed,
    serving,
    small_web,
)
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback, send_endlessly, send_slowly


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
        (["max-snippet: 10, noai"], "noai"),
        (["googlebot: noindex"], ""),
        (["googlebot: noindex", "noimageai"], "noimageai"),
        (["googlebot: nofollow, otherbot: noindex, none"], ""),
        (["otherbot: nofollow, querytruth: noindex"], "noindex"),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], "noindex"),
        ([], ""),
    ],
)
def test_the_header_speaks_to_all_or_to_whom_it_names(headers: list[str], directive: str) -> None:
    assert find_forbidding_directive(headers) == directive


def with_robots(text: str | bytes, status: int = 200) -> Callable[[ReceivedRequest], LoopbackAnswer]:
    return lambda asked: CannedResponse(text, status) if asked.path == "/robots.txt" else jpeg()


def test_robots_txt_is_asked_once_and_respected() -> None:
    with loopback(with_robots("User-agent: *\nDisallow: /private")) as server:
        web = small_web()
        assert fetch_failure_reason(f"{server.url}/private/a", web) == "forbidden_by_robots"
        assert not fetch_failure_reason(f"{server.url}/public/a", web)
        assert [asked.path for asked in server.asked] == ["/robots.txt", "/public/a"]
        assert not fetch_failure_reason(f"{server.url}/private/a", small_web(respect_robots=False))
        assert not fetch_failure_reason(f"{server.url}/private/a", small_web(), is_api=True, kind="page")


@pytest.mark.parametrize(
    ("status", "told"), [(404, ""), (403, ""), (410, ""), (500, "robots_unreachable"), (503, "robots_unreachable")]
)
def test_what_is_not_there_forbids_nothing_and_what_cannot_be_had_everything(status: int, told: str) -> None:
    with loopback(with_robots("User-agent: *\nDisallow: /", status)) as server:
        answer, _ = fetch_once(f"{server.url}/a")
    assert (answer.reason if isinstance(answer, FailedFetch) else "") == told
    assert isinstance(answer, FetchedResource) or answer.kind == "transient"


FORBIDS = b"User-agent: *\nDisallow: /"


@pytest.mark.parametrize(
    "robots",
    [
        packed(b"\x0b\x0e\x80" + FORBIDS + b"\x03", "br"),
        packed(gzip.compress(gzip.compress(FORBIDS)), "gzip, gzip"),
        packed(gzip.compress(gzip.compress(FORBIDS)), "gzip"),
        CannedResponse(gzip.compress(FORBIDS)),
        CannedResponse(FORBIDS[:10], 206, {"Content-Range": "bytes 0-9/26"}),
        CannedResponse(b"", 204),
    ],
    ids=["brotli", "gzip twice", "gzip twice, said once", "gzip, not said", "a part", "no content"],
)
def test_a_robots_txt_that_cannot_be_read_forbids_everything_for_now(robots: CannedResponse) -> None:
    with loopback(lambda asked: robots if asked.path == "/robots.txt" else jpeg()) as server:
        assert fetch_failure_reason(f"{server.url}/a") == "robots_unreadable"
        assert {asked.path for asked in server.asked} == {"/robots.txt"}


def test_the_robots_txt_of_where_a_redirect_leads_counts_too() -> None:
    leads = {"Location": ""}
    leading = serving(CannedResponse(status=302, headers=leads))
    with loopback(with_robots("User-agent: *\nDisallow: /")) as other, loopback(leading) as server:
        leads["Location"] = f"{other.url}/a"
        assert fetch_failure_reason(f"{server.url}/a") == "forbidden_by_robots"
    assert [asked.path for asked in other.asked] == ["/robots.txt"]


@pytest.mark.thorough
def test_a_robots_txt_that_never_ends_costs_no_more_than_the_image_s_time_and_is_asked_once() -> None:
    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return send_slowly(OK, b"X") if asked.path == "/robots.txt" else jpeg()

    with loopback(answer) as server:
        web, start = small_web(), time.monotonic()
        assert [fetch_failure_reason(f"{server.url}/{n}", web) for n in range(3)] == ["deadline"] * 3
        assert time.monotonic() - start < QUICK_LIMITS.seconds + 8
    assert len(server.asked) == 1


def test_of_an_endless_robots_txt_the_beginning_counts() -> None:
    lines = b"User-agent: *\nDisallow: /private\n" + b"# more\n" * 90_000

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return send_endlessly(OK + b"\r\n" + lines, b"# and more\n") if asked.path == "/robots.txt" else jpeg()

    with loopback(answer) as server:
        web = small_web()
        assert fetch_failure_reason(f"{server.url}/private", web) == "forbidden_by_robots"
        assert not fetch_failure_reason(f"{server.url}/public", web)


def test_a_delay_that_robots_txt_asks_for_is_kept() -> None:
    with loopback(with_robots("User-agent: *\nCrawl-delay: 0.3\nDisallow:")) as server:
        web = small_web()
        start = time.monotonic()
        assert [fetch_failure_reason(f"{server.url}/{n}", web) for n in range(3)] == ["", "", ""]
    assert time.monotonic() - start > 0.55

"""The crawler's way to the web, with every fault that hosts have."""

import gc
import gzip
import io
import ipaddress
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.pinned_connections import Address, is_public
from querytruth.backends.web.web_records import FailedFetch, FetchedResource, StoreWriteError, WebLimits, WebRequest
from querytruth.errors import UserError
from tests.backends.web.hostile_web import (
    IMAGE,
    LOOPBACK_NETWORKS,
    OK,
    QUICK_LIMITS,
    encrypted,
    fetch_failure_reason,
    fetch_once,
    jpeg,
    packed,
    serving,
    small_web,
)
from tests.loopback import (
    CannedResponse,
    LoopbackAnswer,
    ReceivedRequest,
    loopback,
    reset_connection,
    send_endlessly,
    send_raw,
    send_slowly,
    stay_silent,
    unused_url,
)


def reason_of(answer: LoopbackAnswer, **request: Any) -> str:
    """Why nothing came of an address that is answered so; empty where something came."""
    with loopback(serving(answer)) as server:
        return fetch_failure_reason(f"{server.url}/a", **request)


@contextmanager
def refusing_to_dial(but: str = "") -> Iterator[list[tuple[str, int]]]:
    """The addresses that anything in this process dials, none of which is reached but that of this URL."""
    allowed = ("127.0.0.1", int(but.rpartition(":")[2])) if but else None
    dialled: list[tuple[str, int]] = []
    real = socket.socket.connect

    def note(self: socket.socket, address: tuple[str, int]) -> None:
        if address[:2] == allowed:
            return real(self, address)
        dialled.append(address[:2])
        raise ConnectionRefusedError

    socket.socket.connect = note  # type: ignore[method-assign,assignment]
    try:
        yield dialled
    finally:
        socket.socket.connect = real  # type: ignore[method-assign]


# --- a good answer ----------------------------------------------------------------------------------------------------


def test_an_image_comes_whole_with_what_was_said_of_it() -> None:
    with loopback(serving(jpeg(Last_Modified="Sat, 01 Nov 2025 00:00:00 GMT", Set_Cookie="a=b"))) as server:
        answer, body = fetch_once(f"{server.url}/a")
    assert isinstance(answer, FetchedResource)
    assert (body, answer.size, answer.status, answer.final_url) == (IMAGE, len(IMAGE), 200, f"{server.url}/a")
    assert answer.headers["last-modified"].startswith("Sat")
    assert "set-cookie" not in answer.headers


def test_connections_are_used_again_and_nothing_of_us_is_told_but_who_we_are() -> None:
    web = small_web(contact="https://example.org/us")
    with loopback(serving(jpeg(Set_Cookie="a=b"))) as server:
        for number in range(5):
            assert not fetch_failure_reason(f"{server.url}/{number}", web, referer="http://pages.example/猫#x")
    assert server.connections == 1
    asked = server.asked[-1]
    assert asked.headers["user-agent"] == "querytruth/1.0 (https://example.org/us)"
    assert asked.headers["referer"] == "http://pages.example/%E7%8C%AB"
    assert asked.headers["host"] == server.url.removeprefix("http://")
    assert not {"cookie", "authorization"} & set(asked.headers)


def test_no_proxy_and_no_password_of_the_environment_has_a_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with loopback(lambda _asked: CannedResponse(b"proxied")) as proxy, loopback(serving(jpeg())) as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert fetch_once(f"{server.url}/a")[1] == IMAGE
    assert not proxy.asked
    assert "authorization" not in server.asked[-1].headers


# --- where it connects to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "①②⑦.⓪.⓪.①", "127.0.0.1.", "localhost"),
        "LOCALHOST.",
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[fe80::1]"),
        *("[2002:7f00:1::]", "[2001:0:7f00:1::]", "0.0.0.0", "0", "10.0.0.1", "192.168.0.1", "169.254.169.254"),
        *("a.example@127.0.0.1", "a.example\\@127.0.0.1", "127.0.0.1%2f.example.com", "inside.example"),
    ],
)
@pytest.mark.parametrize("port", ["", ":8080"])
@pytest.mark.thorough
def test_no_connection_to_what_is_not_public_however_it_is_spelled(host: str, port: str) -> None:
    """The connections that anything makes are watched, with all guards as they are in use."""

    def system(name: str, port: int) -> list[str]:
        if name == "inside.example":
            return ["127.0.0.1", "10.0.0.1", "::1"]
        return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]

    with refusing_to_dial() as dialled:
        reason = fetch_failure_reason(f"http://{host}{port}/a", CrawlerClient(QUICK_LIMITS, resolve=system))
    assert reason in ("address_not_public", "bad_url", "user_in_url")
    assert not dialled


def test_a_name_server_that_rebinds_gets_no_connection_inside() -> None:
    """It says a public address whenever it is asked for the first time, and this machine's from then on."""
    counts: dict[str, int] = {}

    def rebinding(host: str, _port: int) -> list[str]:
        counts[host] = counts.get(host, 0) + 1
        return ["8.8.8.8"] if counts[host] == 1 else ["127.0.0.1"]

    web = CrawlerClient(QUICK_LIMITS, resolve=rebinding)
    with refusing_to_dial() as dialled:
        for number in range(20):
            fetch_failure_reason(f"http://rebound-{number % 4}.example/{number}", web)
    assert {address for address, _ in dialled} == {"8.8.8.8"}


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://10.0.0.1/", "address_not_public"),
        ("http://[::ffff:10.0.0.1]/", "address_not_public"),
        ("http://inside.example/", "address_not_public"),
        ("file:///etc/passwd", "scheme_not_allowed"),
        ("gopher://127.0.0.1:6379/_", "scheme_not_allowed"),
        ("http://user@8.8.8.8/", "user_in_url"),
        ("http://0x0a000001/", "bad_url"),
        ("http://8.8.8.8:22/", "port_not_allowed"),
    ],
)
def test_every_hop_of_a_redirect_is_judged(location: str, told: str) -> None:
    web = small_web(resolve=lambda host, _port: ["10.9.9.9"] if host == "inside.example" else ["127.0.0.1"])
    leading = serving(CannedResponse(status=302, headers={"Location": location}))
    with loopback(leading) as server, refusing_to_dial(server.url) as dialled:
        assert fetch_failure_reason(f"{server.url}/a", web) == told
    assert not dialled


def test_the_last_word_is_asked_of_the_very_address_that_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a list of addresses were wrong."""
    web = CrawlerClient(QUICK_LIMITS, respect_robots=False)
    inside = ipaddress.ip_address("127.0.0.1")

    async def wrong(*_: object) -> list[Address]:
        return [inside]

    monkeypatch.setattr("querytruth.backends.web.pinned_connections.AddressResolver.resolve_public", wrong)
    with refusing_to_dial() as dialled:
        assert fetch_failure_reason("http://public.example/", web) == "address_not_public"
    assert not is_public(inside) and not dialled


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hops", "told"), [(5, ""), (6, "too_many_redirects")])
def test_five_redirects_are_followed(hops: int, told: str) -> None:
    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        number = int(asked.path.strip("/")) if asked.path.strip("/").isdigit() else 0
        return CannedResponse(status=302, headers={"Location": f"/{number - 1}"}) if number else serving(jpeg())(asked)

    with loopback(answer) as server:
        assert fetch_failure_reason(f"{server.url}/{hops}") == told


def test_a_redirect_without_a_place_is_no_image() -> None:
    assert reason_of(CannedResponse(status=302)) == "unexpected_status"


# --- bodies -----------------------------------------------------------------------------------------------------------


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BOMB = gzip.compress(IMAGE + b"\0" * 30_000_000)
FAULTS: dict[str, tuple[LoopbackAnswer, str]] = {
    "a page in place of an image": (CannedResponse("<!doctype html><h1>captcha</h1>" * 99), "not_an_image"),
    "nothing found": (CannedResponse(status=404), "not_found"),
    "gone": (CannedResponse(status=410), "not_found"),
    "forbidden": (CannedResponse(status=403), "forbidden"),
    "no content": (CannedResponse(status=204), "unexpected_status"),
    "a broken server": (CannedResponse(status=500), "server_error"),
    "too often": (CannedResponse(status=429), "rate_limited"),
    "more than is allowed, as is said": (jpeg(Content_Length="100001"), "too_many_bytes"),
    "an endless list of pieces": (send_endlessly(CHUNKED + chunked(IMAGE), chunked(b"x" * 9999)), "too_many_bytes"),
    "less than is said": (send_raw(OK + b"Content-Length: 9000\r\n\r\n" + IMAGE[:900]), "incomplete"),
    "pieces that break off": (send_raw(CHUNKED + b"%x\r\n" % 9000 + IMAGE[:900]), "incomplete"),
    "hung up at once": (send_raw(b""), "connection_failed"),
    "no HTTP": (send_raw(b"SSH-2.0-OpenSSH_9.6\r\n" * 9), "bad_http"),
    "a header without an end": (send_raw(OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n"), "bad_http"),
    "silence": (stay_silent(), "timeout"),
    "silence after the head": (lambda link: (link.sendall(OK + b"\r\n"), stay_silent()(link)), "timeout"),  # type: ignore
    "a dribbled head": (send_slowly(OK, b"X"), "deadline"),
    "a dribbled body": (send_slowly(OK + b"Content-Length: 9000\r\n\r\n" + IMAGE[:99], b"x"), "deadline"),
    "dribbled pieces of something else": (send_slowly(CHUNKED, b"1\r\n\xff\r\n"), "not_an_image"),
    "pieces that stop having a size": (send_raw(CHUNKED + chunked(IMAGE[:900]) + b"zz\r\n"), "incomplete"),
    "go on, go on": (send_slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "deadline"),
    "a bomb": (packed(BOMB, "gzip"), "too_many_bytes"),
    "packed in a way that nobody asked for": (packed(IMAGE, "br"), "bad_encoding"),
    "not packed as is said": (packed(IMAGE, "gzip"), "bad_encoding"),
    "packed, and cut": (packed(gzip.compress(IMAGE)[:-20], "gzip"), "bad_encoding"),
    "a tag that forbids": (jpeg(X_Robots_Tag="noimageai"), "forbidden_by_robots_tag"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.thorough
def test_every_fault_has_its_reason_in_time(fault: str) -> None:
    answer, told = FAULTS[fault]
    start = time.monotonic()
    assert reason_of(answer) == told
    assert time.monotonic() - start < QUICK_LIMITS.seconds + 8


@pytest.mark.parametrize(
    "answer",
    [
        packed(gzip.compress(IMAGE), "gzip"),
        packed(zlib.compress(IMAGE), "deflate"),
        packed(zlib.compress(IMAGE)[2:-4], "deflate"),
        send_raw(CHUNKED + chunked(IMAGE[:9]) + chunked(IMAGE[9:]) + b"0\r\n\r\n"),
        send_raw(OK + b"\r\n" + IMAGE),
        send_raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + IMAGE),
        send_raw(OK + b"Content-Length: %d\r\n\r\n" % len(IMAGE) + IMAGE + b"and more that nobody wants"),
        send_raw(
            OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(IMAGE) + IMAGE + b"\r\n<!-- more -->\r\n\r\n"
        ),
        send_raw(OK.replace(b"\r", b"") + b"Content-Type: image/jpeg\n\n" + IMAGE),
    ],
)
def test_what_is_odd_but_whole_is_taken(answer: LoopbackAnswer) -> None:
    with loopback(serving(answer)) as server:
        assert fetch_once(f"{server.url}/a")[1] == IMAGE


def test_the_rest_of_a_wrong_answer_is_not_the_next_one_s_beginning() -> None:
    """A body longer than its stated length: what comes after it looks like an answer to whatever is asked next."""

    def lying(link: socket.socket) -> None:
        link.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(IMAGE) + IMAGE)
        time.sleep(0.05)
        link.sendall(OK + b"Content-Length: 3\r\n\r\n\xff\xd8\xff")
        stay_silent(2)(link)

    web = small_web()
    with loopback(lambda asked: lying if asked.path == "/lies" else serving(jpeg())(asked)) as server:
        for _ in range(3):
            assert fetch_once(f"{server.url}/lies", web)[1] == IMAGE
            time.sleep(0.15)
            assert fetch_once(f"{server.url}/good", web)[1] == IMAGE


def test_of_many_open_connections_the_oldest_idle_ones_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querytruth.backends.web.pinned_connections._MOST_OPEN", 2)
    web = small_web(respect_robots=False)
    with loopback(serving(jpeg())) as one, loopback(serving(jpeg())) as two, loopback(serving(jpeg())) as three:
        for server in (one, two, one, three, one, two):
            assert not fetch_failure_reason(f"{server.url}/gone_on", web)
        assert [server.connections for server in (one, two, three)] == [1, 2, 1]


def test_a_client_that_nobody_stopped_leaves_nothing_open() -> None:
    handles = Path("/proc/self/fd")
    if not handles.exists():
        pytest.skip("no /proc")
    with loopback(serving(jpeg())) as server:
        assert not fetch_failure_reason(f"{server.url}/a")  # starts the loop
        before = len(list(handles.iterdir()))
        for number in range(20):
            assert not fetch_failure_reason(f"{server.url}/{number}")
        gc.collect()
        time.sleep(0.1)
        assert len(list(handles.iterdir())) <= before + 4


def test_a_page_may_be_what_it_likes_and_an_image_of_few_bytes_is_for_the_decoder() -> None:
    assert reason_of(CannedResponse("<html>"), kind="page") == reason_of(CannedResponse("<html>")) == ""


def test_a_body_that_is_not_wanted_is_not_read_to_its_end() -> None:
    sent = 0

    def pour(link: socket.socket) -> None:
        nonlocal sent
        link.sendall(OK + b"Content-Length: 90000\r\n\r\n")
        for _ in range(9):
            link.sendall(b"<html>" + b" " * 9994)
            sent += 10_000
            time.sleep(0.05)

    with loopback(serving(pour)) as server:
        assert fetch_failure_reason(f"{server.url}/a") == "not_an_image"
        time.sleep(0.2)
    assert sent < 90_000


def test_memory_stays_small_whatever_is_sent() -> None:
    import tracemalloc

    limits = replace(QUICK_LIMITS, max_bytes=20_000_000, seconds=20)
    with loopback(serving(packed(gzip.compress(IMAGE + b"\0" * 19_000_000), "gzip"))) as server:
        web, out = small_web(limits=limits), _Counting()
        tracemalloc.start()
        answer = web.start(web.try_fetch(WebRequest(f"{server.url}/a"), out, time.monotonic() + 20)).result()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert isinstance(answer, FetchedResource)
    assert out.size == len(IMAGE) + 19_000_000
    assert peak < 2_000_000


class _Counting(io.BytesIO):
    size = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.size += len(data)
        return len(data)


class _Full(io.BytesIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_no_fault_of_the_host_s() -> None:
    web = small_web()
    with loopback(serving(jpeg())) as server, pytest.raises(StoreWriteError, match="No space left"):
        web.start(web.try_fetch(WebRequest(f"{server.url}/a"), _Full(), time.monotonic() + 2)).result()


# --- tries and turns --------------------------------------------------------------------------------------------------


def test_what_may_pass_is_tried_again_but_not_for_ever() -> None:
    answers = iter([CannedResponse(status=503), reset_connection(), jpeg()])
    with loopback(lambda asked: CannedResponse(status=404) if asked.path == "/robots.txt" else next(answers)) as server:
        assert isinstance(small_web().fetch_with_retries(WebRequest(f"{server.url}/a"))[0], FetchedResource)
    with loopback(serving(CannedResponse(status=500))) as server:
        assert small_web().fetch_with_retries(WebRequest(f"{server.url}/a"))[0] == FailedFetch(
            "server_error", "transient", "status 500", retry_in=0.0
        )
        assert len(server.asked) == 1 + 3


@pytest.mark.parametrize("wish", ["0.3", "99999999", "soon"])
@pytest.mark.thorough
def test_any_wish_to_wait_ends_in_time(wish: str) -> None:
    """One that fits into the fetch's time is fulfilled; a longer one ends it, for the next run."""
    answers = iter([CannedResponse(status=429, headers={"Retry-After": wish}), jpeg()])
    with loopback(lambda asked: CannedResponse(status=404) if asked.path == "/robots.txt" else next(answers)) as server:
        start = time.monotonic()
        answer, _ = small_web().fetch_with_retries(WebRequest(f"{server.url}/a"))
        took = time.monotonic() - start
    assert isinstance(answer, FailedFetch if wish == "99999999" else FetchedResource)
    assert took < 5
    assert took >= 0.3 or wish != "0.3"


def test_a_host_that_cannot_be_reached_is_given_up_and_others_are_not() -> None:
    web, dead = small_web(respect_robots=False), unused_url()
    for number in range(3):
        assert fetch_failure_reason(f"{dead}/{number}", web) == "connection_failed"
    with refusing_to_dial() as dialled:
        assert fetch_failure_reason(f"{dead}/4", web) == "connection_failed"
    assert not dialled
    with loopback(serving(jpeg())) as server:
        assert not fetch_failure_reason(f"{server.url}/a", web)


def test_a_host_that_answered_once_is_never_given_up() -> None:
    web = small_web(respect_robots=False)
    with loopback(lambda asked: jpeg() if "good" in asked.path else reset_connection()) as server:
        assert not fetch_failure_reason(f"{server.url}/good", web)
        for number in range(6):
            assert fetch_failure_reason(f"{server.url}/{number}", web) == "connection_failed"
        assert not fetch_failure_reason(f"{server.url}/good", web)


def test_stopping_ends_what_is_under_way() -> None:
    web = small_web(limits=WebLimits(interval=0))
    with loopback(serving(stay_silent())) as server:
        threading.Timer(0.3, web.stop).start()
        start = time.monotonic()
        answer, body = web.fetch_with_retries(WebRequest(f"{server.url}/a"))
    assert isinstance(answer, FailedFetch) and answer.reason == "stopped" and not body
    assert time.monotonic() - start < 5


def test_a_contact_that_is_no_header_is_refused() -> None:
    with pytest.raises(UserError, match="contact"):
        small_web(contact="me\r\nCookie: a=b")


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_the_host_s_name_is_verified_though_its_address_is_dialled(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    """The certificate is for 127.0.0.1: good for that name, and not for another that leads to the same place."""
    tls = encrypted(certificate)
    with loopback(serving(jpeg()), tls) as server:
        assert fetch_failure_reason(f"{server.url}/a") == "tls_error", "nobody trusts it"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        web = small_web(resolve=lambda _host, _port: ["127.0.0.1"])
        assert [fetch_once(f"{server.url}/{n}", web)[1] for n in range(2)] == [IMAGE] * 2
        port = server.url.rpartition(":")[2]
        assert fetch_failure_reason(f"https://other.example:{port}/a", web) == "tls_error"
    assert {asked.headers["host"] for asked in server.asked} == {f"127.0.0.1:{port}"}


@pytest.mark.thorough
def test_a_handshake_that_never_ends_ends_in_time(certificate: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        start = time.monotonic()
        assert fetch_failure_reason(f"https://127.0.0.1:{mute.getsockname()[1]}/a") in ("timeout", "deadline")
    assert time.monotonic() - start < QUICK_LIMITS.seconds + 8
    assert isinstance(encrypted(certificate), ssl.SSLContext)


def test_the_switch_for_tests_is_off_unless_it_is_given() -> None:
    with loopback(serving(jpeg())) as server:
        assert fetch_failure_reason(f"{server.url}/a", CrawlerClient(QUICK_LIMITS)) == "address_not_public"
        assert not server.connections
        assert LOOPBACK_NETWORKS

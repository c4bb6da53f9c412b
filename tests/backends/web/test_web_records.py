"""Addresses on the web: one spelling, one meaning, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.web.web_records import BadUrl, WebRequest, normalize_url, parse_url, resolve_redirect


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://Example.COM", "http://example.com/"),
        ("  https://example.com:443/a#part\n", "https://example.com/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("HTTP://example.com:8080/?q=1", "http://example.com:8080/?q=1"),
        ("http://example.com/a/./b/../c/%2e%2E/d", "http://example.com/a/d"),
        ("http://example.com/a/..", "http://example.com/"),
        (
            "http://example.com/图片 1.jpg?名=猫&x=a|b",
            "http://example.com/%E5%9B%BE%E7%89%87%201.jpg?%E5%90%8D=%E7%8C%AB&x=a|b",
        ),
        ("http://example.com/100%/%e4", "http://example.com/100%25/%e4"),
        ("http://中文.com/", "http://xn--fiq228c.com/"),
        ("http://[2001:DB8::1]:81/a", "http://[2001:db8::1]:81/a"),
        ("http://example.com/a\\..\\b", "http://example.com/a%5C..%5Cb"),
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/"),
    ],
)
def test_an_address_has_one_spelling(written: str, read: str) -> None:
    assert parse_url(written).normalized == read
    assert parse_url(read).normalized == read


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("file:///etc/passwd", "scheme_not_allowed"),
        ("javascript:alert(1)", "bad_url"),
        ("//example.com/a", "bad_url"),
        ("http://", "bad_url"),
        ("", "bad_url"),
        ("http://user:secret@example.com/", "user_in_url"),
        ("http://example.com\\@127.0.0.1/", "user_in_url"),
        ("http://127.0.0.1\\.example.com/", "bad_url"),
        ("http://example.com:22/", "port_not_allowed"),
        ("http://example.com:65536/", "port_not_allowed"),
        ("http://example.com:http/", "bad_url"),
        ("http://example.com:80:80/", "bad_url"),
        ("http://example.com/a\tb", "bad_url"),
        ("http://example.com/a\r\nHost: other", "bad_url"),
        ("http://example.com/\ud800", "bad_url"),
        ("http://%31%32%37.0.0.1/", "bad_url"),
        ("http://127.1/", "bad_url"),
        ("http://0177.0.0.1/", "bad_url"),
        ("http://0x7f000001/", "bad_url"),
        ("http://2130706433/", "bad_url"),
        ("http://1.1.1.0x1/", "bad_url"),
        ("http://[::1%25lo]/", "bad_url"),
        ("http://[127.0.0.1]/", "bad_url"),
        ("http://[::1/", "bad_url"),
        ("http://a..b/", "bad_url"),
        ("http://a*b/", "bad_url"),
        ("http://" + "a" * 64 + ".com/", "bad_url"),
        ("http://example.com/" + "a" * 9000, "bad_url"),
    ],
)
def test_what_could_be_read_in_two_ways_or_leads_elsewhere_is_refused(written: str, reason: str) -> None:
    with pytest.raises(BadUrl) as refused:
        parse_url(written)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/b", "http://example.com/b"),
        ("b?c", "http://example.com/a/b?c"),
        ("//other.com/x", "http://other.com/x"),
        ("https://other.com", "https://other.com/"),
        ("/\\other.com", "http://example.com/%5Cother.com"),
        ("图", "http://example.com/a/%E5%9B%BE"),
    ],
)
def test_a_redirect_leads_where_browsers_go(location: str, leads: str) -> None:
    assert resolve_redirect(parse_url("http://example.com/a/"), location).normalized == leads


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://u@other.com", "http://[::1", "http://1/", "ftp://a"]
)
def test_a_redirect_is_read_as_strictly_as_any_address(location: str) -> None:
    with pytest.raises(BadUrl):
        resolve_redirect(parse_url("http://example.com/a/"), location)


@pytest.mark.thorough
@given(st.text(max_size=40) | st.text("ht:p/\\@#?%.[]:0127xaé图 ", max_size=40).map(lambda text: f"http://{text}"))
def test_any_text_is_an_address_in_one_spelling_or_refused(text: str) -> None:
    try:
        read = parse_url(text)
    except BadUrl:
        return
    assert read.normalized.isascii()
    assert not set(read.normalized) & set(' \\"<>\r\n\t\x00')
    assert parse_url(read.normalized) == read
    assert normalize_url(text) == read.normalized


def test_two_spellings_of_an_address_are_kept_under_one_key_and_two_purposes_are_not() -> None:
    assert WebRequest("http://A.com/./x").key == WebRequest("http://a.com:80/x#y", referer="http://b/").key
    assert WebRequest("http://a.com/x").key != WebRequest("http://a.com/x", "page").key
    assert WebRequest("no address").key

"""File names as text: reversible whatever their bytes, and never leading out of a list's folder."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.images.source_names import decode_item, encode_item, join_url, parent_url, parse_list_entry


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "ignore")))
def test_every_name_becomes_text_and_comes_back(name: bytes) -> None:
    item = encode_item(name)
    assert item.encode("utf-8").decode("utf-8") == item
    assert decode_item(item) == name


@given(st.binary(), st.binary())
def test_two_names_never_share_a_text(one: bytes, other: bytes) -> None:
    assert (encode_item(one) == encode_item(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "item"),
    [
        (b"holiday/a b.jpg", "holiday/a b.jpg"),
        ("节日/图.jpg".encode(), "节日/图.jpg"),
        (b"caf\xe9/a b.jpg", "bytes:caf%E9/a b.jpg"),
        (b"bytes:a.jpg", "bytes:bytes%3Aa.jpg"),
        ("‮gpj.a".encode(), "‮gpj.a"),
        (b"a\nb.jpg", "a\nb.jpg"),
    ],
)
def test_names_that_are_utf_8_stand_for_themselves(name: bytes, item: str) -> None:
    assert (encode_item(name), decode_item(item)) == (item, name)


@pytest.mark.parametrize(
    ("entry", "item"),
    [
        (b"a.jpg", "a.jpg"),
        (b"./b//a.jpg", "b/a.jpg"),
        (b"b/../a.jpg", "a.jpg"),
        (b"..jpg", "..jpg"),
        (b".../..a/a..", ".../..a/a.."),
        (b"#1.jpg", "#1.jpg"),
        (b"/album/./a.jpg", "/album/a.jpg"),
        (b"//album/a.jpg", "/album/a.jpg"),
        (b"file:///album/a.jpg", "/album/a.jpg"),
        (b"s3://album/a//b.jpg", "s3://album/a//b.jpg"),
        (b"zip://a.jpg::album.zip", "zip://a.jpg::album.zip"),
    ],
)
def test_what_a_list_may_name(entry: bytes, item: str) -> None:
    assert parse_list_entry(entry, remote=False) == (item, "")


@pytest.mark.parametrize(
    ("entry", "remote", "reason"),
    [
        (b"..", False, "not_a_relative_name"),
        (b".", False, "not_a_relative_name"),
        (b"../a.jpg", False, "not_a_relative_name"),
        (b"a/../../b.jpg", False, "not_a_relative_name"),
        (b"a\x00.jpg", False, "not_a_relative_name"),
        (b"s3://album/a\x00.jpg", False, "not_a_relative_name"),
        (b"/etc/passwd", True, "not_a_relative_name"),
        (b"file:///etc/passwd", True, "not_a_relative_name"),
        (b"zip://a.jpg::/home/album.zip", True, "not_a_relative_name"),
        (b"http://127.0.0.1/a.jpg", False, "web_address"),
        (b"HTTPS://example.org/a.jpg", False, "web_address"),
        (b"zip://a.jpg::simplecache::https://example.org/a.zip", False, "web_address"),
    ],
)
def test_what_a_list_may_not_name(entry: bytes, remote: bool, reason: str) -> None:
    assert parse_list_entry(entry, remote=remote)[1] == reason


def test_a_password_is_not_published() -> None:
    assert parse_list_entry(b"sftp://me:secret@host/a.jpg", remote=False) == ("sftp://host/a.jpg", "holds_a_password")
    assert parse_list_entry(b"https://me:secret@host/a.jpg", remote=False) == ("https://host/a.jpg", "web_address")
    assert parse_list_entry(b"sftp://me@host/a:b@c.jpg", remote=False) == ("sftp://me@host/a:b@c.jpg", "")


@given(st.lists(st.sampled_from([b"..", b".", b"", b"a", b"..b", b"/"])).map(b"/".join))
def test_no_relative_entry_leads_out(entry: bytes) -> None:
    item, reason = parse_list_entry(entry, remote=False)
    if not reason and not item.startswith("/"):
        assert posixpath.normpath("/home/" + item).startswith("/home/")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("s3://bucket/album", "s3://bucket/album/x/a.jpg"),
        ("s3://bucket/album/", "s3://bucket/album/x/a.jpg"),
        ("memory://", "memory://x/a.jpg"),
        ("hdfs:///", "hdfs:///x/a.jpg"),
        ("zip://::file:///album.zip", "zip://x/a.jpg::file:///album.zip"),
        ("zip://in/::album.zip", "zip://in/x/a.jpg::album.zip"),
    ],
)
def test_a_name_below_a_url(base: str, url: str) -> None:
    assert join_url(base, "x/a.jpg") == url
    assert join_url(parent_url(url), "a.jpg") == url

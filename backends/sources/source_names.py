"""File names, which are bytes, as the text that stands for them in tables; and what a list may name."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

_ESCAPED = "bytes:"  # what follows is percent-encoded
_LOCAL = {b"file", b"local"}
_WEB = {b"http", b"https", b"ftp"}
_PASSWORD = re.compile(r"(?<=://)[^/@]*:[^/@]*@")


def encode_item(name: bytes) -> str:
    """The name itself where it is UTF-8, else escaped: `b"caf\\xe9.jpg"` is `bytes:caf%E9.jpg`. Reversible."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        text = _ESCAPED
    return _ESCAPED + quote_from_bytes(name, safe="/ ") if text.startswith(_ESCAPED) else text


def decode_item(item: str) -> bytes:
    """The name that the item stands for."""
    return unquote_to_bytes(item[len(_ESCAPED) :]) if item.startswith(_ESCAPED) else item.encode("utf-8")


def parse_list_entry(entry: bytes, *, remote: bool) -> tuple[str, str]:
    """The item for an entry of a list, and the reason why it is refused (else "").

    Relative entries stay below the list's folder, in whatever way they are written; absolute paths and URLs are the
    user's will. A list that lies elsewhere (`remote`) names no file of this machine. Pages of the web are left to
    the client that guards itself; and what is listed is published, so that no password may stand in it.
    """
    name, protocols = entry, _protocols(entry)
    if protocols & _WEB:
        return strip_password(encode_item(entry)), "web_address"
    if protocols and strip_password(encode_item(entry)) != encode_item(entry):
        return strip_password(encode_item(entry)), "holds_a_password"
    if b"\x00" in entry or (remote and (protocols & _LOCAL or entry.startswith(b"/"))):
        return encode_item(entry), "not_a_relative_name"
    if protocols - _LOCAL:
        return encode_item(entry), ""
    if protocols:
        name = b"/" + name.partition(b"://")[2]
    name = posixpath.normpath(name)
    if name in (b".", b"..") or name.startswith(b"../"):
        return encode_item(entry), "not_a_relative_name"
    return encode_item(b"/" + name.lstrip(b"/") if name.startswith(b"/") else name), ""


def _protocols(entry: bytes) -> set[bytes]:
    """Of every link of a URL such as `zip://a.jpg::file:///album.zip`; empty for a path."""
    if b"://" not in entry:
        return set()
    links = [link.partition(b"://") for link in entry.split(b"::")]
    return {protocol.lower() if mark else b"file" for protocol, mark, _ in links}


def is_url(text: str) -> bool:
    """Whether it is for fsspec to open, and no path."""
    return "://" in text


def is_web_url(url: str) -> bool:
    """Whether any link of it is a page of the web."""
    return bool(_protocols(url.encode("utf-8", "surrogateescape")) & _WEB)


def strip_password(text: str) -> str:
    """The text with what stands before the hosts in its URLs left out, where that is a name and a password."""
    return _PASSWORD.sub("", text)


def join_url(base: str, name: str) -> str:
    """The URL of a name below a URL; in a chain the first link is the one that holds the files."""
    first, link, rest = base.partition("::")
    protocol, _, path = first.partition("://")
    return f"{protocol}://{path.rstrip('/') + '/' if path else ''}{name}{link}{rest}"


def parent_url(url: str) -> str:
    """The URL of the folder that a URL lies in."""
    first, link, rest = url.partition("::")
    protocol, _, path = first.partition("://")
    return f"{protocol}://{path.rpartition('/')[0]}{link}{rest}"

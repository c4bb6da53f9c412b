"""Item names: file names (bytes) as text, entries of a list, and URLs; millions of them in little memory."""

import posixpath
import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

_ESCAPED = "bytes:"  # what follows is percent-encoded
_LOCAL = {b"file", b"local"}
_WEB = {b"http", b"https", b"ftp"}
# All that a source may name: no scheme that asks the web, and none that copies files (simplecache, filecache).
_ALLOWED = _LOCAL | set(b"memory zip tar s3 s3a gs gcs az abfs abfss adl oss oci hdfs sftp ssh smb".split())
_PASSWORD = re.compile(r"(?<=://)[^/@]*:[^/@]*@")


def encode_item(name: bytes) -> str:
    r"""Return the name itself where it is UTF-8, else reversibly escaped: `b"caf\xe9.jpg"` is `bytes:caf%E9.jpg`."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        text = _ESCAPED
    return _ESCAPED + quote_from_bytes(name, safe="/ ") if text.startswith(_ESCAPED) else text


def decode_item(item: str) -> bytes:
    """Return the file name of an item."""
    return unquote_to_bytes(item[len(_ESCAPED) :]) if item.startswith(_ESCAPED) else item.encode("utf-8")


def parse_list_entry(entry: bytes, *, remote: bool) -> tuple[str, str]:
    """Return the item for an entry of a list, and the reason for refusing it, or "".

    Relative entries must stay below the list's folder. Absolute paths and URLs are accepted, except in a `remote` list,
    which must not name files of this machine. Web addresses are refused, since only the guarded web client may fetch
    them. Passwords are refused, because items are published.
    """
    name, protocols = entry, _protocols(entry)
    if protocols & _WEB:
        return strip_password(encode_item(entry)), "web_address"
    if protocols - _ALLOWED:
        return encode_item(entry), "scheme_not_allowed"
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
    """Return the protocols of all links of a URL such as `zip://a.jpg::file:///album.zip`; empty for a path."""
    if b"://" not in entry:
        return set()
    links = [link.partition(b"://") for link in entry.split(b"::")]
    return {protocol.lower() if mark else b"file" for protocol, mark, _ in links}


def is_url(text: str) -> bool:
    """Return whether the text is a URL for fsspec, and no path."""
    return "://" in text


def is_web_url(url: str) -> bool:
    """Return whether any link of the URL is a web address."""
    return bool(_protocols(url.encode("utf-8", "surrogateescape")) & _WEB)


def is_allowed_url(url: str) -> bool:
    """Return whether every link of the URL has a scheme that is allowed for a source of images."""
    return _protocols(url.encode("utf-8", "surrogateescape")) <= _ALLOWED


def strip_password(text: str) -> str:
    """Return the text without the user names and passwords in its URLs."""
    return _PASSWORD.sub("", text)


def join_url(base: str, name: str) -> str:
    """Return the URL of a name below a URL; in a chain the first link holds the files."""
    first, link, rest = base.partition("::")
    protocol, _, path = first.partition("://")
    return f"{protocol}://{path.rstrip('/') + '/' if path else ''}{name}{link}{rest}"


def parent_url(url: str) -> str:
    """Return the URL of the folder that holds a URL."""
    first, link, rest = url.partition("::")
    protocol, _, path = first.partition("://")
    return f"{protocol}://{path.rpartition('/')[0]}{link}{rest}"


def is_inside(path: bytes, folder: bytes) -> bool:
    """Return whether a real path is a real folder or is below it."""
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")

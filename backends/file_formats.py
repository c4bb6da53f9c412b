"""Recognises a file of another format than the expected text (compressed, in UTF-16, a web page, a binary file), and a
table whose header is ambiguous."""

from collections.abc import Collection, Sequence

from builders.errors import UserError

_SIGNATURES = (
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first: gunzip FILE"),
    (b"PK\x03\x04", "is a ZIP archive, or a spreadsheet", "unpack it, or save the table as CSV in UTF-8"),
    (b"BZh", "is compressed with bzip2", "unpack it first: bunzip2 FILE"),
    (b"\xfd7zXZ\x00", "is compressed with xz", "unpack it first: unxz FILE"),
    (b"\x28\xb5\x2f\xfd", "is compressed with Zstandard", "unpack it first: unzstd FILE"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive", "unpack it first"),
    (b"\xff\xfe", "is text in UTF-16", "save it as UTF-8: iconv -f utf-16 -t utf-8"),
    (b"\xfe\xff", "is text in UTF-16", "save it as UTF-8: iconv -f utf-16 -t utf-8"),
    (b"PAR1", "is a Parquet file", "give the text file, or convert it"),
    (b"\xff\xd8\xff", "is a JPEG image", "check the path"),
    (b"\x89PNG", "is a PNG image", "check the path"),
    (b"%PDF-", "is a PDF document", "check the path"),
    (b"version https://git-lfs", "is a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"),
)
_WEB_PAGE = (b"<!doctype html", b"<html", b"<head", b"<?xml")
_BOM = b"\xef\xbb\xbf"


def require_text(stage: str, item: object, head: bytes) -> None:
    """Checks the first bytes of a file of text, such as JSON or CSV. Raises UserError that names the format of another
    file."""
    for signature, reason, next_step in _SIGNATURES:
        if head.startswith(signature):
            raise UserError(stage, item, reason, next_step.replace("FILE", str(item)))
    if head[:4096].removeprefix(_BOM).lstrip().lower().startswith(_WEB_PAGE):
        reason = "is a web page (HTML or XML): a server's error or a page about the file was saved"
        raise UserError(stage, item, reason, "download the file itself again")
    if head[1:2] == b"\0" or head[:1] == b"\0":
        raise UserError(stage, item, "is text in UTF-16 or a binary file", "save it as UTF-8")


def refuse_repeated_columns(stage: str, item: object, header: Sequence[str], used: Collection[str]) -> None:
    """Raises UserError for a used column that the header names twice: which of the two counts would be a guess."""
    if twice := next((name for name in header if name in used and header.count(name) > 1), None):
        raise UserError(stage, item, f"has the column {twice!r} twice", "rename or remove one of them")

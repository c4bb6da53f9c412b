"""One strict reader each for CSV, JSON and YAML, and the detection of other file types.

CSV is for spreadsheets: UTF-8 with BOM, CRLF line ends, and no cell that a spreadsheet runs as a formula, except links
to files. A repeated key of a JSON object is an error; `json` would keep the last value. YAML must be small and shallow,
also after its aliases are expanded. The error for a compressed file, UTF-16, a web page or a binary file names the
type.
"""

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from querytruth.backends.files.durable_files import write_atomically
from querytruth.errors import UserError, translate_write_errors

_MAX_DEPTH = 40
_MAX_DIGITS = 18  # of an integer
MAX_YAML_BYTES = 1 << 20
_MAX_YAML_DEPTH = 50
_MAX_NODES = 100_000  # each alias counts as all that it stands for
_RISKY = frozenset("=+-@|%'\N{MINUS SIGN}")
_LONGEST_LINK = 255  # characters of a text inside a formula, in Excel
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
    (b"version https://git-lfs", "is a Git LFS pointer, not the file itself", "fetch the file: git lfs pull"),
)
_WEB_PAGE = (b"<!doctype html", b"<html", b"<head", b"<?xml")
_BOM = b"\xef\xbb\xbf"
# The order decides for texts of several scripts: kana beside Chinese characters is Japanese.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u3096\u30a1-\u30fa]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh", re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("en", re.compile("[a-z\u00c0-\u024f]", re.I)),
)


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the value of a JSON text; `options` are passed to `json.loads`. Raises ValueError for invalid JSON and a
    repeated key, and RecursionError for a text nested too deeply."""
    if isinstance(text, str) and not options:
        return _DECODER.decode(text)
    return json.loads(text, object_pairs_hook=require_unique_keys, **options)


def refuse_repeated_keys(text: str | bytes) -> None:
    """Raise ValueError for a key that an object of a JSON text has twice, as `parse_json` does; keeps no values."""
    json.loads(text, object_pairs_hook=_unique_keys_alone)


def canonical_json(value: object) -> bytes:
    """Return JSON as UTF-8 with sorted keys, two-space indents and a final line end. Raises ValueError for NaN."""
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2, sort_keys=True) + "\n").encode()


def parse_bounded_json(text: str | bytes) -> Any:
    """Return the value of a JSON text that may be a stranger's. Raises ValueError also for infinite numbers, for more
    than 18 digits, for half a character, and for a depth of more than 40."""
    try:
        value = parse_json(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
        _check_depth(value, _MAX_DEPTH)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half a character") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"number {digits[:20]}… has more than {_MAX_DIGITS} digits")
    return int(digits)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is not a number")
    return value


def _check_depth(value: object, left: int) -> None:
    if not left:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, left - 1)


def _unique_keys_alone(pairs: list[tuple[str, Any]]) -> None:
    require_unique_keys(pairs)


def require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises ValueError for a duplicate key."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:80]!a} occurs twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=require_unique_keys)  # made once: logs have a hundred thousand lines


def load_yaml(text: str) -> Any:
    """Return the value of one document. Raises yaml.YAMLError, also for one that is too large, deep or expanding."""
    if len(text) > MAX_YAML_BYTES:
        raise yaml.YAMLError(f"is larger than {MAX_YAML_BYTES >> 20} MB")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count_nodes(node, 0, {})
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("is nested too deeply") from None
    finally:
        loader.dispose()


def describe_yaml_error(stage: str, source: object, error: yaml.YAMLError | UnicodeDecodeError) -> UserError:
    """Return the error of a text that is not YAML, with its line where that is known."""
    mark = getattr(error, "problem_mark", None)
    where = f"{source} line {mark.line + 1}" if mark else source
    problem = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "problem", None) or error
    return UserError(stage, where, f"is not valid YAML ({problem})", "fix the line" if mark else "fix the file")


def read_package_yaml(path: Path) -> Any:
    """Return the value of a YAML file of this package: trusted, and read while modules are imported."""
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # the one in C: 8 times as fast


def letters_and_digits(text: str) -> str:
    """Return the letters and digits of a text, casefolded."""
    return "".join(char for char in text if char.isalnum()).casefold()


def has_words(text: str) -> bool:
    """Return whether a text contains a letter or a Chinese character."""
    return any(map(str.isalpha, text))


def _count_nodes(node: yaml.Node, depth: int, known: dict[int, int]) -> int:
    """Return the number of nodes with all aliases written out. Raises yaml.YAMLError beyond the limits."""
    if depth > _MAX_YAML_DEPTH:
        raise yaml.YAMLError(f"is nested more than {_MAX_YAML_DEPTH} levels deep")
    if id(node) not in known:
        _check_keys(node)
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        inner = [part for pair in parts for part in pair] if isinstance(node, yaml.MappingNode) else parts
        known[id(node)] = 1 + sum(_count_nodes(part, depth + 1, known) for part in inner)
    if known[id(node)] > _MAX_NODES:
        raise yaml.YAMLError(f"has aliases that expand to more than {_MAX_NODES:,} values")
    return known[id(node)]


def _check_keys(node: yaml.Node) -> None:
    """Raise yaml.YAMLError with the line of a key that a mapping has twice: PyYAML takes the last value silently."""
    seen = set[str]()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else []:
        if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
            raise yaml.MarkedYAMLError(problem=f"has the key {key.value!r} twice", problem_mark=key.start_mark)
        seen.add(str(key.value))


@dataclass(frozen=True, slots=True)
class FileLink:
    """A cell that reads "open" and opens a file. `path`: relative to the folder of the table, with /."""

    path: str

    def to_formula(self) -> str:
        """Return the cell with the path's quotes encoded, since they would end the text inside the formula. Return ""
        if the path is too long for a spreadsheet."""
        target = re.sub(r'["%#?\x00-\x20\x7f]', lambda found: quote(found[0], safe=""), f"./{self.path}")
        return f'=HYPERLINK("{target}","open")' if len(target) <= _LONGEST_LINK else ""


def write_csv(path: Path, columns: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Replace the file with a table. Raises UserError where it cannot be written."""
    with translate_write_errors("write table", path):
        write_atomically(path, encode_csv(columns, rows))


def encode_csv(columns: Iterable[object], rows: Iterable[Iterable[object]]) -> bytes:
    """Return the bytes of a file. None becomes an empty cell; a NUL, which spreadsheets do not accept, becomes a
    replacement character."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    # Most cells of large tables are numbers, which a call each would cost twice the time.
    writer.writerows([value if isinstance(value, float) else _encode_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8-sig", "replace")


def _encode_cell(value: object) -> object:
    if isinstance(value, FileLink):
        return value.to_formula()
    return escape_formula(value.replace("\x00", "\N{REPLACEMENT CHARACTER}")) if isinstance(value, str) else value


def escape_formula(cell: str) -> str:
    """Return the cell with an apostrophe before it if a spreadsheet could run it as a formula."""
    return f"'{cell}" if _is_risky(cell) else cell


def unescape_formula(cell: str) -> str:
    """Return the cell before `escape_formula`; an apostrophe that it would not have added stays."""
    return cell[1:] if cell.startswith("'") and _is_risky(cell[1:]) else cell


def _is_risky(cell: str) -> bool:
    """Return whether the first visible character may begin a formula. Blanks and invisible characters (zero-width,
    direction marks, controls) are skipped, because tools strip different ones of them."""
    first = next((c for c in cell if unicodedata.category(c)[0] not in "ZC"), "")
    return unicodedata.normalize("NFKC", first)[:1] in _RISKY or cell.startswith(("\t", "\r", "\n"))


def require_text(stage: str, item: object, head: bytes) -> None:
    """Check the first bytes of a file of text, such as JSON or CSV. Raises UserError that names the format of another
    file."""
    for signature, reason, next_step in _SIGNATURES:
        if head.startswith(signature):
            raise UserError(stage, item, reason, next_step.replace("FILE", str(item)))
    if head[:4096].removeprefix(_BOM).lstrip().lower().startswith(_WEB_PAGE):
        reason = "is a web page (HTML or XML), such as an error page or a download page, not the file"
        raise UserError(stage, item, reason, "download the file itself")
    if head[1:2] == b"\0" or head[:1] == b"\0":
        raise UserError(stage, item, "is text in UTF-16 or a binary file", "save it as UTF-8")


def refuse_repeated_columns(stage: str, item: object, header: Sequence[str], used: Collection[str]) -> None:
    """Raise UserError for a used column that the header names twice: which of the two counts would be a guess."""
    if twice := next((name for name in header if name in used and header.count(name) > 1), None):
        raise UserError(stage, item, f"has the column {twice!r} twice", "rename or remove one of them")


def detect_language(text: str) -> str:
    """Return the language by the script: en for Latin letters, und for none that is known."""
    if text.isascii():
        return "en" if any(c.isalpha() for c in text) else "und"
    return next((language for language, letters in _SCRIPTS if letters.search(text)), "und")

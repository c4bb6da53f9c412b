"""The one law for texts that become queries: of a bounded length, without characters that command or turn round what a
reader sees, and with nothing private: addresses, numbers of people and cards, secrets, instructions to a model.

The patterns are in `text_sieve.yaml`. A text is tested after normalisation, so that full-width digits and encoded
addresses count. Which part of it looked private is never returned: a reason alone goes on. Patterns find what has a
form; a person's name has none.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.errors import UserError
from querytruth.sets.decision_records import MAX_TEXT_CHARS

if TYPE_CHECKING:
    import pandas as pd

    from querytruth.sets.benchmark_set import Tables

_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BLANKS = re.compile(r"[\s\u200d]*\s[\s\u200d]*")  # a joiner inside an emoji stays
_PLUS = re.compile(r"[^\W\d][\w'-]*(?:\+[^\W\d][\w'-]*)+")
_ESCAPES = re.compile(r"%u([0-9a-f]{4})|\\u([0-9a-f]{4})", re.IGNORECASE)
_PERCENT = re.compile(r"(?:%[0-9a-f]{2})+", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,6}|#x[0-9a-f]{2,6});", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u9fff]")
_PATTERNS: dict[str, list[str]] = read_package_yaml(Path(__file__).with_suffix(".yaml"))
PRIVATE_KINDS = ("card_number", *_PATTERNS)
_CARD = re.compile(r"(?<![\d.,])(?:[3-6]|2[2-7])(?:[ ./_·-]{0,2}\d){11,18}(?!\d)")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[ ./_·-](?=[\dx])", re.I)
_CHINESE_ID = re.compile(
    r"(?<![0-9a-z])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dx](?!\w)", re.I
)
_UNLAWFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# An id of another publisher is often a long number, or a name of a file.
_NAME_KINDS = frozenset(PRIVATE_KINDS) - {"card_number", "secret", "long_number"}
_DETAIL_KINDS = frozenset({"email", "telephone", "id_number"})  # of an error message, which names files and servers
_FILES = ["image", "line", "result", "box", "detection", "judgment"]  # kinds of the ledger that no text names
_WITHOUT_DIGITS = frozenset({"email", "web_address", "secret", "handle", "instruction", "formula"})


def normalise_query(text: str) -> str:
    """Return the text in form NFKC, on one line, without invisible characters, and with single blanks; what a browser
    or a page encoded is decoded."""
    if "%" in text or "+" in text or "&" in text or "\\" in text:
        text = _decode(text)
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))).strip()


def _decode(text: str) -> str:
    """Return the text without percent signs, pluses for blanks, and names of characters, also where these were encoded
    twice. What fits no encoding stays."""
    if " " not in text and (_PLUS.fullmatch(text) or _PERCENT.search(text)):
        text = text.replace("+", " ")
    for _ in range(2):
        text = _ESCAPES.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
        text = _PERCENT.sub(lambda found: _decode_bytes(found[0]), text)
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return text


def _decode_bytes(text: str) -> str:
    data = bytes.fromhex(text.replace("%", ""))
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeDecodeError):
            found = data.decode(encoding)
            if encoding == "utf-8" or all(map(_HAN.match, found)):
                return found
    return text


def find_private_kind(text: str, kinds: Collection[str] = PRIVATE_KINDS) -> str | None:
    """Return the first of PRIVATE_KINDS that a text seems to hold; None for none of `kinds`."""
    text = normalise_query(text)
    has_digits = any(c.isdigit() for c in text)
    return next((kind for kind in PRIVATE_KINDS if kind in kinds and _holds(kind, text, has_digits)), None)


def _holds(kind: str, text: str, has_digits: bool) -> bool:
    if not has_digits and kind not in _WITHOUT_DIGITS:
        return False
    if any(one.search(text) for one in _compile_patterns(kind)):
        return True
    if kind == "card_number":
        return any(_passes_luhn(found[0]) for found in _CARD.finditer(text))
    return kind == "id_number" and _CHINESE_ID.search(_BETWEEN_DIGITS.sub("", text)) is not None


@cache
def _compile_patterns(kind: str) -> list[re.Pattern[str]]:
    return [re.compile(one, re.IGNORECASE) for one in _PATTERNS.get(kind, ())]


def _passes_luhn(text: str) -> bool:
    """Return whether the last digit is the check digit of the others (ISO/IEC 7812-1)."""
    digits = [int(c) for c in text if c.isdigit()][::-1]
    return (sum(digits[::2]) + sum([sum(divmod(2 * digit, 10)) for digit in digits[1::2]])) % 10 == 0


def find_text_fault(text: str, kinds: Collection[str] = PRIVATE_KINDS) -> str | None:
    """Return why a text cannot become a query: too_long, control_characters, or one of PRIVATE_KINDS."""
    if len(text) > MAX_TEXT_CHARS:
        return "too_long"
    return "control_characters" if _UNLAWFUL.search(text) else find_private_kind(text, kinds)


def sieve_tables(
    tables: Tables, kinds: Collection[str], overridden: Collection[str]
) -> tuple[Tables, pd.DataFrame, list[str]]:
    """Return the tables without the queries whose text, topic or labels break the law, the ledger's rows of these, and
    the ids of those that a person allowed. Other values derived from such a text are left out as well."""
    import pandas as pd

    from querytruth.sets.ledger import rejection_rows

    queries = tables.queries
    labels = queries["labels"].explode() if "labels" in queries else queries["text"].head(0)
    parts = [queries["text"], *([queries["topic"]] if "topic" in queries else []), labels]
    faults = pd.concat([_find_faults(part, kinds).dropna() for part in parts])
    reasons = faults[~faults.index.duplicated()].sort_index()
    ids = queries["query_id"][reasons.index]
    is_out = ~ids.isin(list(overridden))
    if "source_id" in queries:
        is_private = _find_faults(queries["source_id"], _NAME_KINDS & {*kinds}).notna()
        queries = queries.assign(source_id=queries["source_id"].mask(is_private))
    out = ids[is_out].tolist()
    boxes = tables.boxes
    boxes = boxes[_find_faults(boxes["label"], kinds).isna()] if len(boxes) else boxes
    images = {name: _hide(column, kinds) for name, column in tables.images.items() if name in ("caption", "creator")}
    kept = {
        name: table[~table["query_id"].isin(out)] if out and len(table) else table
        for name, table in (("qrels", tables.qrels), ("candidate_judgments", tables.candidate_judgments))
    }
    sieved = replace(
        tables,
        queries=queries[~queries["query_id"].isin(out)],
        images=tables.images.assign(**images),
        boxes=boxes,
        query_aliases=tables.query_aliases[~tables.query_aliases["query_id"].isin(out)],
        **kept,
    )
    rejections = rejection_rows(out, "quarantined", reasons[is_out].tolist(), item_id=out)
    return sieved, rejections, ids[~is_out].tolist()


def hide_private_texts(ledger: pd.DataFrame, kinds: Collection[str]) -> pd.DataFrame:
    """Return the rows of a ledger without the texts that break the law."""
    named = ledger["item"][~ledger["kind"].isin(_FILES).to_numpy()]
    faults = _find_faults(named[~named.str.match("q_[0-9a-f]{20}$")], _NAME_KINDS & {*kinds}).dropna()
    hidden = ("(hidden: " + faults.astype("str") + ")").reindex(ledger.index)
    columns = {name: _hide(ledger[name], of) for name, of in (("text", kinds), ("detail", _DETAIL_KINDS & {*kinds}))}
    return ledger.assign(item=ledger["item"].where(hidden.isna(), hidden), **columns)


def hide_addresses(tables: Tables) -> Tables:
    """Return the tables without e-mail addresses in the evidence of judgments, and without folders of this machine in
    the names of images."""
    evidence, names = tables.qrels["evidence"].astype("category"), tables.images["file_name"].astype("str")
    hidden = [one for one in evidence.cat.categories if find_private_kind(one, {"email"})]
    evidence = evidence.mask(evidence.isin(hidden)).cat.remove_unused_categories() if hidden else evidence
    qrels, images = tables.qrels.assign(evidence=evidence), tables.images
    return replace(tables, qrels=qrels, images=images.assign(file_name=names.str.replace("^/.*/", "", regex=True)))


def refuse_private(tables: Tables, stage: str, item: object) -> None:
    """Raise UserError for immutable tables that contain folders of this machine or addresses of reviewers."""
    next_step = "give --no-private (private=False) if readers may know that"
    names = tables.images[["path", "file_name"]].stack().astype("str")
    if number := int(names.str.startswith("/").sum()):
        next_step = f"build the set with `render`, or {next_step}"
        raise UserError(stage, item, f"contains paths on this machine for {number:,} images", next_step)
    evidence = tables.qrels["evidence"].dropna().unique()
    if number := sum(find_private_kind(str(one), {"email"}) is not None for one in evidence):
        raise UserError(stage, item, f"contains e-mail addresses in {number:,} evidence texts", next_step)


def _hide(column: pd.Series, kinds: Collection[str]) -> pd.Series:
    return column.mask(_find_faults(column, kinds).notna()) if column.notna().any() else column


def _find_faults(column: pd.Series, kinds: Collection[str]) -> pd.Series:
    """Return per text its fault; missing for a text without one."""
    faults: Mapping[str, str | None] = {text: find_text_fault(text, kinds) for text in column.dropna().unique()}
    return column.astype("object").map(faults)

"""A key that comes back from an endpoint is removed, in whatever form the endpoint returns it."""

import base64
import html
import json
import time
from urllib.parse import quote

import pytest

from querytruth.errors import REDACTED, Redaction

KEY = "sk-Ab/+1.2?x=9~secret&<q>"
REMOVE = Redaction([KEY])
FORMS = {
    "verbatim": KEY,
    "upper case": KEY.upper(),
    "JSON in JSON": json.dumps(json.dumps(KEY))[3:-3],
    "slashes of PHP": KEY.replace("/", "\\/"),
    "code points": "".join(f"\\u{ord(c):04X}" for c in KEY),
    "code points of JavaScript": "".join(f"\\u{{{ord(c):x}}}" for c in KEY),
    "bytes": "".join(f"\\x{ord(c):02x}" for c in KEY),
    "URL": quote(KEY, safe=""),
    "URL in a URL": quote(quote(quote(KEY, safe=""), safe=""), safe=""),
    "HTML": html.escape(KEY),
    "HTML in HTML": html.escape(html.escape(KEY)),
    "numbers of HTML": "".join(f"&#{ord(c):05};" for c in KEY),
    "names of HTML": KEY.replace("/", "&sol;").replace("+", "&plus;").replace("?", "&quest;").replace("=", "&equals;"),
    "UTF-16": KEY.encode("utf-16-le").decode().replace("\x00", "\\x00"),
    "zero-width characters": "\u200b".join(KEY),
    "folded": KEY[:9] + "\n  " + KEY[9:],
    "hexadecimal": KEY.encode().hex().upper(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of URLs": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "Basic": base64.b64encode(f"user:{KEY}".encode()).decode(),
    "Basic of one letter": base64.b64encode(f"u:{KEY}".encode()).decode(),
    "base64 in a text": base64.b64encode(f"key={KEY}; path=/".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_key_is_removed(form: str) -> None:
    cleaned = REMOVE(f"error: {FORMS[form]} is invalid")
    assert REDACTED in cleaned and REMOVE.contains_secret(FORMS[form])
    left = cleaned.replace(REDACTED, "").removeprefix("error: ").removesuffix(" is invalid")
    assert len(left) <= 24, left  # of base64 what stands before and after the key


def test_ordinary_texts_and_short_keys_stay() -> None:
    for text in ("一只狗", "a red dog / a cat + 1", json.dumps({"a": "b"}), "EMPTY"):
        assert REMOVE(text) == text and Redaction(["EMPTY"])(text) == text
        assert not Redaction(["EMPTY"]).contains_secret(text)


def test_a_hostile_text_takes_no_time() -> None:
    start = time.monotonic()
    for text in (
        "\\" * 20_000,
        "%25" * 20_000,
        "&amp;" * 20_000,
        KEY[:-1] * 2_000,
        "s\n" * 20_000,
        "&" + "amp;" * 20_000,
    ):
        REMOVE(text)
    assert time.monotonic() - start < 5

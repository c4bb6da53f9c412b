"""Reading a JSON object in windows is reading it whole: json.loads is the oracle, wherever the cuts fall."""

import hashlib
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.precision.annotation_files import read_annotations
from querytruth.backends.files import json_stream
from querytruth.backends.files.json_stream import JsonObjectReader
from querytruth.errors import UserError

ANYTHING = msgspec.json.Decoder(list[Any])


class Row(msgspec.Struct):
    a: int


def read(data: bytes, window: int = 1 << 20, decoder: Any = ANYTHING) -> dict[str, Any]:
    """The whole file as Python values: arrays through `batches`, `skip…` passed over, the rest through `value`."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "WINDOW", window)
        path = Path(folder) / "f.json"
        path.write_bytes(data)
        found: dict[str, Any] = {}
        with JsonObjectReader(path) as records:
            for key in records.keys():  # noqa: SIM118
                if key.startswith("skip"):
                    records.skip()
                elif records._next_character() == "[":
                    found[key] = []
                    for first, batch, _fits in records.batches(decoder):
                        assert first == len(found[key])
                        assert batch, "an empty batch"
                        found[key] += batch
                else:
                    found[key] = records.value()
            assert records.sha256 == hashlib.sha256(data).hexdigest()
        return found


def oracle(data: bytes) -> dict[str, Any] | None:
    """What json.loads makes of it, None where that is no object."""
    try:
        whole = json.loads(data.decode("utf-8", "surrogateescape").removeprefix("\ufeff"), strict=False)
    except (ValueError, RecursionError):
        return None
    return {k: v for k, v in whole.items() if not k.startswith("skip")} if isinstance(whole, dict) else None


REFUSED = r"f\.json .*( at byte \d+|is not a JSON object: it begins with '.*'|is empty)"


def agree(data: bytes, window: int) -> None:
    """Both read the same, or both refuse. Values are compared as text: NaN is not equal to itself."""
    wanted = oracle(data)
    if wanted is not None:
        assert repr(read(data, window)) == repr(wanted)
        return
    with pytest.raises(UserError, match=REFUSED):
        read(data, window)


NASTY = [
    "}, {",
    '"}, {"',
    "]",
    "[{",
    "\\",
    '\\"',
    "},\n{",
    "\u2028",
    "\x00",
    "字",
    "\U0001f600",
    "\x7f",
    "}]}",
]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(NASTY)
numbers = st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from([1e300, -0.0, 10**500])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
rows = st.lists(st.dictionaries(texts, values, max_size=4) | values, max_size=6)
files = st.dictionaries(
    st.sampled_from(["images", "annotations", "skip me", "info", "字", 'odd "key"', ""]),
    rows | values,
    max_size=5,
)


def rendered(value: Any, blank: Any, ascii_only: bool) -> str:
    """JSON with blanks of any kind between all tokens."""
    if isinstance(value, dict):
        inner = [f"{rendered(k, blank, ascii_only)}:{rendered(v, blank, ascii_only)}" for k, v in value.items()]
        return f"{blank()}{{{','.join(inner) or blank()}}}{blank()}"
    if isinstance(value, list):
        return f"{blank()}[{','.join(rendered(v, blank, ascii_only) for v in value) or blank()}]{blank()}"
    return f"{blank()}{json.dumps(value, ensure_ascii=ascii_only)}{blank()}"


@settings(max_examples=300)
@given(files, st.integers(1, 60), st.booleans(), st.randoms(use_true_random=False), st.booleans())
@pytest.mark.thorough
def test_whatever_the_file_holds_it_reads_as_json_loads_does(
    whole: dict[str, Any], window: int, ascii_only: bool, chance: random.Random, marked: bool
) -> None:
    text = rendered(whole, lambda: chance.choice(["", "", "", " ", "\n", "\t\r\n  "]), ascii_only)
    data = (b"\xef\xbb\xbf" if marked else b"") + text.encode()
    agree(data, window)


SMALL = (
    b'{"info": {"note": "a}, {b"}, "images": [{"id": 1, "n": "x\\u00e9\\ud83d\\ude00"}, {"id": 2.5e-3}],\n'
    b'"annotations": [{"a": [{"b": 1}, {"b": [2, {"c": "]}"}]}]} , {"a": []},{}, 12.25, -1e5, null], '
    b'"skip": [1, {"x": [true]}], "empty": [ ], "n": -12.5}'
)


@pytest.mark.parametrize("window", [*range(1, 40), 1000])
def test_every_window_gives_the_same(window: int) -> None:
    agree(SMALL, window)


@pytest.mark.parametrize("window", [3, 17, 64, 1000])
@pytest.mark.thorough
def test_every_truncation_is_refused_with_a_byte(window: int) -> None:
    for size in range(len(SMALL)):
        with pytest.raises(UserError, match=REFUSED):
            read(SMALL[:size], window)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}}",
        "{} x",
        '{"a": [1,]}',
        '{"a": [1 2]}',
        '{"a": [{},]}',
        '{"a": [{}\x0b, {}]}',
        '{"a": 1,}',
        '{,"a": 1}',
        "{a: 1}",
        '{"a" 1}',
        '{"a": }',
        '{"a": [{"b": 01}, {}]}',
        '{"a": [{"b": tru}, {}]}',
        '{"a": 1} {"b": 2}',
    ],
)
@pytest.mark.parametrize("window", [2, 1000])
def test_what_is_no_json_object_is_refused(text: str, window: int) -> None:
    assert oracle(text.encode()) is None
    agree(text.encode(), window)


def test_a_file_of_another_form_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "voc.xml").write_text("<annotation><filename>a.jpg</filename></annotation>")
    (tmp_path / "labels").mkdir()
    for name, reason in (("voc.xml", "is not a JSON object: it begins with '<'"), ("labels", "is a folder")):
        with pytest.raises(UserError, match=f"{reason}. Next: give a COCO instances file"):
            read_annotations(tmp_path / name)


@pytest.mark.parametrize("window", [10, 1 << 20])
@pytest.mark.parametrize("place", ['{"skip": %s}', '{"value": %s}', '{"rows": [{}, {"a": %s}, {}]}', '{"rows": [%s]}'])
@pytest.mark.parametrize("nest", ["[%s]", '{"a":%s}'])
def test_deep_nesting_is_refused_or_read(place: str, nest: str, window: int) -> None:
    opening, closing = nest.split("%s")
    for depth in (400, 990, 100_000):
        data = (place % (opening * depth + "1" + closing * depth)).encode()
        try:
            read(data, window)
        except UserError as error:
            assert "nested too deep" in str(error)


def test_numbers_of_any_length_are_read() -> None:
    digits = b"9" * 100_000
    found = read(b'{"a": %b, "b": [{"c": -%b}, {"c": 0.%b}, {"c": 1e999}]}' % (digits, digits, digits), 50)
    assert found == {"a": float("inf"), "b": [{"c": float("-inf")}, {"c": 1.0}, {"c": float("inf")}]}


def test_records_that_fit_come_typed_and_a_piece_with_one_that_does_not_comes_plain() -> None:
    lines = [json.dumps({"a": n}) for n in range(100)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "WINDOW", 100)
        path = Path(folder) / "f.json"
        path.write_text(f'{{"rows": [{", ".join([*lines, json.dumps({"a": "no"}), *lines])}]}}')
        with JsonObjectReader(path) as records:
            assert next(records.keys()) == "rows"
            batches = list(records.batches(msgspec.json.Decoder(list[Row])))
    got = [record.a if fits else record["a"] for _, batch, fits in batches for record in batch]
    assert got == [*range(100), "no", *range(100)]
    plain = [batch for _, batch, fits in batches if not fits]
    assert sum(map(len, plain)) < 30, "the others are typed"


def test_a_quote_that_is_never_closed_does_not_fill_the_memory() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "LONGEST", 1000)
        with pytest.raises(UserError, match="record 1: no end within 1000 bytes"):
            read(b'{"rows": [{}, {"a": "' + b"x" * 100_000, 50)


@pytest.mark.timeout(60)
@pytest.mark.thorough
def test_a_hundred_thousand_keys_or_odd_rows_take_seconds_not_hours() -> None:
    many = {f"k{n}": n for n in range(100_000)}
    assert read(json.dumps(many).encode()) == many
    odd = {"rows": [1, "}", "} ,{", None] * 50_000, "skip": [[[]], "}"] * 50_000}
    assert read(json.dumps(odd).encode()) == {"rows": odd["rows"]}
    assert read(b'{"rows": ["' + b"}" * 300_000 + b'"]}') == {"rows": ["}" * 300_000]}


def test_bytes_that_are_no_utf8_stay_in_their_record() -> None:
    found = read(b'{"rows": [{"a": "\xff"}, {"a": "\xe5\xad\x97"}, {"\xed\xa0\x80": 1}, {"a": "\\ud800"}]}', 12)
    assert found["rows"] == [{"a": "\udcff"}, {"a": "字"}, {"\udced\udca0\udc80": 1}, {"a": "\ud800"}]


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe.json", "folder.json", "absent.json"):
        with pytest.raises(UserError, match=name), JsonObjectReader(tmp_path / name):
            pass


def test_progress_adds_up_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", 7)
    (tmp_path / "f.json").write_bytes(SMALL)
    seen: list[int] = []
    with JsonObjectReader(tmp_path / "f.json", seen.append) as records:
        for _ in records.keys():  # noqa: SIM118
            records.skip()
    assert sum(seen) == len(SMALL)

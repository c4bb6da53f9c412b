"""The content digest: of what a set says, not of how Arrow happens to hold it."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from querytruth.records import TABLE_SCHEMAS
from querytruth.sets.benchmark_set import content_digest

TEXTS = st.lists(st.one_of(st.none(), st.text(alphabet="ab中é\x00", max_size=3)), max_size=12)


def digest(column: Any, rows: int) -> str:
    """Of a set whose only texts are these licences."""
    tables = {name: schema.empty_table() for name, schema in TABLE_SCHEMAS.items()}
    return content_digest(tables | {"images": pa.table({"licence": column, "width": pa.array([1] * rows, pa.int32())})})


@given(TEXTS, st.randoms())
def test_dictionaries_in_any_order_with_repeats_and_leftovers_are_the_plain_column(texts: Any, random: Any) -> None:
    plain = pa.chunked_array([pa.array(texts, pa.string())])
    words = [*{text for text in texts if text is not None}, "left over", *(text for text in texts if text)]
    random.shuffle(words)
    places = [
        None if text is None else random.choice([n for n, word in enumerate(words) if word == text]) for text in texts
    ]
    held = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(words, pa.string()))
    assert digest(pa.chunked_array([held]), len(texts)) == digest(plain, len(texts))


@given(TEXTS, TEXTS)
def test_columns_that_differ_have_digests_that_differ(one: Any, other: Any) -> None:
    columns = [pa.chunked_array([pa.array(texts, pa.string())]) for texts in (one, other)]
    same = digest(columns[0], len(one)) == digest(columns[1], len(other))
    assert same == (one == other)

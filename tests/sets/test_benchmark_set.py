"""The content digest: of what a set says, not of how Arrow happens to hold it."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.records import TABLE_SCHEMAS
from querytruth.sets.benchmark_set import content_digest, find_rendered_sizes, list_squashed_sizes

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


IMAGES = pd.DataFrame({"image_id": ["a", "b"], "path": ["images/a.jpg", None], "width": [400, 30], "height": [100, 90]})


def manifest(mode: str | None) -> dict[str, Any]:
    return {"configuration": {"render": {"size": 64, "mode": mode} if mode else None}, "notes": {}}


@pytest.mark.parametrize("mode", ["squash", "fit", "crop"])
def test_squares_need_no_columns(mode: str) -> None:
    sizes = find_rendered_sizes(IMAGES[:1].assign(rendered_width=None, rendered_height=None), manifest(mode))
    assert sizes.to_numpy().tolist() == [[64, 64]]
    assert find_rendered_sizes(IMAGES, manifest(mode)).notna().all(axis=1).tolist() == [True, False], "no file, no size"


def test_listed_sizes_come_first_and_unrendered_images_have_none() -> None:
    listed = IMAGES.assign(rendered_width=[64, 21], rendered_height=[16, 64])
    assert find_rendered_sizes(listed, manifest("longer_side")).to_numpy().tolist() == [[64, 16], [21, 64]]
    assert find_rendered_sizes(IMAGES, manifest(None)).isna().all(axis=None)
    assert find_rendered_sizes(IMAGES, None).isna().all(axis=None)


def test_a_recall_set_knows_how_its_gallery_squashed_its_images() -> None:
    of_gallery = {"configuration": {"render": None}, "notes": {"render": {"size": 64, "mode": "squash"}}}
    assert list_squashed_sizes(IMAGES, of_gallery) == {"a": (400, 100)}
    assert list_squashed_sizes(IMAGES, manifest("crop")) == {}

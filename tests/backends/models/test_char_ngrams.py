"""Texts by their spelling: no model, the same bits everywhere."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.models.embedders.char_ngrams import CharNgramEmbedder

TEXTS = st.text(st.characters(codec=None), max_size=40)  # lone surrogates, too: a model may write anything


def near(one: str, other: str) -> float:
    rows = CharNgramEmbedder().encode_texts([one, other])
    return float(rows[0] @ rows[1])


def test_rows_are_float32_of_length_one() -> None:
    embedder = CharNgramEmbedder()
    rows = embedder.encode_texts(["海滩上有一双拖鞋。", "a dog", "x"])
    assert (rows.shape, rows.dtype) == ((3, embedder.dimensions), np.dtype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert embedder.encode_texts([]).shape == (0, 512)
    assert not embedder.encode_texts(["", " ", "。！ …"]).any(), "nothing to tell by"


def test_every_machine_gives_these_bits() -> None:
    rows = CharNgramEmbedder(64).encode_texts(["一只棕色的狗，在公园里。", "A brown dog in the park."])
    assert hashlib.sha256(rows.astype("<f4").tobytes()).hexdigest()[:16] == "4eaf0d1d43d97423"
    assert CharNgramEmbedder(64).fingerprint == "char_ngrams@1:3:64"


def test_what_is_spelled_alike_is_near() -> None:
    assert near("一只狗在海滩上奔跑。", "一只狗，在海滩上奔跑") > 0.95
    assert near("Two dogs, running", "two dogs running.") > 0.95
    assert near("ＡＢＣ　１２", "abc 12") > 0.9999
    assert 0.5 < near("一只红色的狗", "一只蓝色的狗") < 0.95
    assert abs(near("一只狗在海滩上奔跑", "三架飞机停于机场")) < 0.25
    assert near("A dog bites a man on the beach", "Man bites dog: the beach") < 0.95


@given(st.lists(TEXTS, max_size=8))
def test_a_row_never_depends_on_its_neighbours(texts: list[str]) -> None:
    embedder = CharNgramEmbedder(32)
    together = embedder.encode_texts(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_array_equal(embedder.encode_texts([text])[0], row)


def test_more_texts_than_are_encoded_at_once_come_in_order() -> None:
    embedder = CharNgramEmbedder(16)
    texts = [f"text {number}" for number in range(5000)]
    rows = embedder.encode_texts(iter(texts))
    assert len(rows) == 5000
    np.testing.assert_array_equal(
        rows[[0, 4095, 4096, 4999]], embedder.encode_texts([texts[n] for n in (0, 4095, 4096, 4999)])
    )

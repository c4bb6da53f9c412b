"""Nothing of what is tested was seen, and the words that a new text encoder reads."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.dual_encoder.checkpoints import create_tokenizer
from querytruth.dual_encoder.definition import SplitOptions
from querytruth.dual_encoder.training_data import (
    SPECIAL_TOKENS,
    assign_queries_to_parts,
    build_vocabulary,
    read_parts,
    select_relevant_pairs,
    shuffle_batches,
    split_images,
)
from querytruth.errors import UserError


def image_frame(groups: list[int | None]) -> pd.DataFrame:
    names = [None if group is None else f"g{group}" for group in groups]
    ids = [f"img_{n:03}" for n in range(len(groups))]
    return pd.DataFrame({"image_id": ids, "duplicate_group": pd.Series(names, dtype="object")})


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=30, max_size=60), st.integers(0, 5), st.randoms())
@pytest.mark.thorough
def test_near_duplicates_stay_together_in_whatever_order(groups: list[int | None], seed: int, rng: object) -> None:
    images = image_frame(groups)
    parts = split_images(images, 0.2, 0.2, seed)
    for _, members in images.dropna().groupby("duplicate_group")["image_id"]:
        assert parts[members].nunique() == 1
    renamed = images.assign(duplicate_group=images["duplicate_group"].map(lambda name: name and f"other{name}"))
    order = list(range(len(images)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    again = split_images(renamed.iloc[order], 0.2, 0.2, seed)
    assert again.sort_index().equals(parts.sort_index())
    wanted = round(0.2 * len(groups))
    assert (parts == "test").sum() <= wanted and (parts == "validation").sum() <= wanted


def test_a_number_of_images_is_met_and_another_seed_draws_others() -> None:
    images = image_frame([None] * 100)
    parts = split_images(images, 15, 30, 0)
    assert parts.value_counts().to_dict() == {"train": 55, "test": 30, "validation": 15}
    assert not split_images(images, 15, 30, 1).equals(parts)
    grown = split_images(image_frame([None] * 101), 15, 30, 0)
    assert (grown[parts.index] != parts).sum() <= 2, "one more image moves hardly any other"


def test_a_part_without_images_is_an_error() -> None:
    with pytest.raises(UserError, match=r"validation .split.: gets none of the 3 images"):
        split_images(image_frame([None] * 3), 0.1, 0.4, 0)


def test_official_lists_say_which_images_are_in_which_part(tmp_path: Path) -> None:
    names = ["Flicker8k_Dataset/1_a.jpg", "2_b.jpg", "3_c.jpg", "4_d.jpg"]
    images = image_frame([0, 0, None, None]).assign(file_name=names)
    given = {"train": "1_a.jpg\n", "validation": "2_b\n", "test": "3_c.jpg\n9_gone.jpg\n\n"}
    lists = {part: tmp_path / f"Flickr_8k.{part}Images.txt" for part in given}
    for part, text in given.items():
        lists[part].write_text(text)
    parts = read_parts(images, lists)
    assert parts.dropna().to_dict() == {"img_000": "train", "img_001": "validation", "img_002": "test"}
    lists["test"].write_text("2_b.jpg\n")
    with pytest.raises(UserError, match="lists 2_b, which is also in the list of validation"):
        read_parts(images, lists)
    lists["test"].write_text("9_gone.jpg\n")
    with pytest.raises(UserError, match="lists none of the set's images"):
        read_parts(images, lists)


def test_lists_and_shares_at_once_are_refused() -> None:
    lists = {part: Path(f"{part}.txt") for part in ("train", "validation", "test")}
    assert SplitOptions(lists=lists).lists == lists
    with pytest.raises(ValueError, match="leave out validation and test"):
        SplitOptions(lists=lists, test=0.2)


def test_a_query_is_at_home_with_its_own_image_and_pairs_never_cross() -> None:
    parts = pd.Series(["train", "test", "train"], index=pd.Index(["img_a", "img_b", "img_c"], name="image_id"))
    queries = pd.DataFrame(
        {"query_id": ["q_1", "q_2", "q_3", "q_4"], "source_image_id": ["img_b", None, "img_gone", None]}
    )
    qrels = pd.DataFrame(
        [
            ("q_1", "img_a", 1), ("q_1", "img_b", 1),  # written of a test image, right for one that is trained on
            ("q_2", "img_c", 2), ("q_2", "img_b", 1),
            ("q_3", "img_a", 1), ("q_3", "img_c", 1), ("q_4", "img_a", 0),
        ],
        columns=["query_id", "image_id", "relevance"],
    )  # fmt: skip
    home = assign_queries_to_parts(queries, qrels, parts)
    assert home.to_dict() == {"q_1": "test", "q_2": "test", "q_3": "train"}, "q_4 has no relevant image"
    train = select_relevant_pairs("train", home, parts, qrels)
    assert train.to_numpy().tolist() == [["q_3", "img_a"], ["q_3", "img_c"]]
    assert select_relevant_pairs("test", home, parts, qrels).to_numpy().tolist() == [["q_1", "img_b"], ["q_2", "img_b"]]


def test_an_epoch_shows_every_pair_once_but_those_that_fill_no_batch() -> None:
    batches = shuffle_batches(100, 32, 0, 1)
    assert [len(batch) for batch in batches] == [32, 32, 32]
    shown = np.concatenate(batches)
    assert len(set(shown.tolist())) == 96
    assert all(np.array_equal(one, other) for one, other in zip(batches, shuffle_batches(100, 32, 0, 1), strict=True))
    assert not np.array_equal(shown, np.concatenate(shuffle_batches(100, 32, 0, 2)))
    assert [len(batch) for batch in shuffle_batches(5, 32, 0, 1)] == [5], "a set smaller than a batch is one"


TEXTS = ["A red Café by the sea.", "the red boat", "海边的红色小船", "Two boats, 2 birds"]


def test_frequent_words_are_whole_and_every_character_is_known() -> None:
    words = build_vocabulary(TEXTS)
    assert words[:5] == list(SPECIAL_TOKENS) and len(set(words)) == len(words)
    assert "the" in words and "red" in words and "boat" not in words
    assert {"海", "船", "b", "##o", "2", "."} <= set(words)
    assert build_vocabulary(reversed(TEXTS)) == words, "regardless of the order"


def test_a_tokenizer_of_them_reads_all_of_these_texts_without_an_unknown_token() -> None:
    tokenizer = create_tokenizer(build_vocabulary(TEXTS))
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids, tokenizer.convert_ids_to_tokens(ids)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("the red café 海边")["input_ids"])
    assert tokens == ["[CLS]", "the", "red", "c", "##a", "##f", "##e", "海", "边", "[SEP]"]

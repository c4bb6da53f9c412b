"""The words that a new text encoder reads."""

from querytruth.dual_encoder.checkpoints import create_tokenizer
from querytruth.dual_encoder.training_data import SPECIAL_TOKENS, build_vocabulary

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

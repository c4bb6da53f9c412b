"""Tiny random text models of sentence-transformers, saved as a hub folder is: BERT with CLS pooling, as bge-small."""

from pathlib import Path
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CHINESE = "一两只个的狗猫人车红蓝色海滩上公园里有和，。"


def save_text_model(folder: Path, alphabet: str = CHINESE, pooling: str = "cls", seed: int = 0) -> Path:
    """24 dimensions, at most 32 tokens; `alphabet`: the characters that it knows besides Latin letters."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    torch.manual_seed(seed)
    for part in _bert(alphabet):
        part.save_pretrained(folder / "bert")
    model = SentenceTransformer(
        modules=[Transformer(str(folder / "bert"), max_seq_length=32), Pooling(24, pooling_mode=pooling), Normalize()],
        device="cpu",
    )
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


def _bert(alphabet: str) -> tuple[Any, ...]:
    from transformers import BertConfig, BertModel, BertTokenizer

    listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *alphabet, *LETTERS, *("##" + letter for letter in LETTERS)]
    config = BertConfig(
        vocab_size=len(listed),
        hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.6,  # random weights this wide tell texts apart
    )
    return BertModel(config), BertTokenizer(vocab={token: number for number, token in enumerate(listed)})

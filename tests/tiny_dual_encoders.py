"""Tiny random models of the real classes that put images and texts into one space, saved as a hub folder is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MAX_TOKENS = 12  # tokens of a text, the special ones included
_SIDE = 32
_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
_TEXT = _TOWER | {"max_position_embeddings": MAX_TOKENS}
_VISION = _TOWER | {"image_size": _SIDE, "patch_size": 8}
_SQUARE = {"height": _SIDE, "width": _SIDE}


def save_dual_encoder(kind: str, folder: Path, seed: int = 0) -> Path:
    """A model of the kind `clip`, `chinese_clip` or `siglip`, with 24 dimensions (SigLIP: 32)."""
    import torch

    torch.manual_seed(seed)
    for part in KINDS[kind]():
        part.save_pretrained(folder)
    return folder


def _clip() -> tuple[Any, ...]:
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    start, end = "<|startoftext|>", "<|endoftext|>"
    vocabulary = _numbered([*LETTERS, *(letter + "</w>" for letter in LETTERS), start, end])
    text = _TEXT | {"vocab_size": len(vocabulary), "bos_token_id": vocabulary[start]}
    text |= {"eos_token_id": vocabulary[end], "pad_token_id": vocabulary[end]}
    return (
        CLIPModel(CLIPConfig(text_config=text, vision_config=_VISION, projection_dim=24)),
        CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=MAX_TOKENS),
        CLIPImageProcessorPil(size={"shortest_edge": _SIDE}, crop_size=_SQUARE),
    )


def _chinese_clip() -> tuple[Any, ...]:
    from transformers import BertTokenizer, ChineseCLIPConfig, ChineseCLIPImageProcessorPil, ChineseCLIPModel

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"狗猫人车一只的", *LETTERS, *("##" + c for c in LETTERS)]
    text = _TEXT | {"vocab_size": len(tokens)}
    return (
        ChineseCLIPModel(ChineseCLIPConfig(text_config=text, vision_config=_VISION, projection_dim=24)),
        BertTokenizer(vocab=_numbered(tokens)),  # names no limit of its own, as the real one does not
        ChineseCLIPImageProcessorPil(size=_SQUARE, do_center_crop=False),
    )


def _siglip() -> tuple[Any, ...]:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, SiglipConfig, SiglipImageProcessorPil, SiglipModel

    letters = _numbered(["</s>", "<unk>", " ", *LETTERS])
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    special = {"pad_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>"}
    text = _TEXT | {"vocab_size": len(letters), "projection_size": 32, "bos_token_id": 0, "eos_token_id": 0}
    return (
        SiglipModel(SiglipConfig(text_config=text | {"pad_token_id": 0}, vision_config=_VISION)),
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, **special),
        SiglipImageProcessorPil(size=_SQUARE),
    )


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


KINDS: dict[str, Callable[[], tuple[Any, ...]]] = {"clip": _clip, "chinese_clip": _chinese_clip, "siglip": _siglip}

"""Tiny random models of the real classes."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from querytruth.dual_encoder.model import DualEncoder, build_dual_encoder

SIZES: dict[str, dict[str, Any]] = {
    "resnet": {"embedding_size": 4, "hidden_sizes": [4, 4, 8, 8], "depths": [1, 1, 1, 1], "layer_type": "bottleneck"},
    "vit": {
        "hidden_size": 8, "num_hidden_layers": 12, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 32,
        "patch_size": 16,
    },
    "bert": {
        "hidden_size": 8, "num_hidden_layers": 12, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 100,
        "max_position_embeddings": 16,
    },
}  # fmt: skip
HEADS = {"width": 12, "hidden": 10, "dimensions": 6, "dropout": 0.1}


def make_tower(kind: str) -> Any:
    model = AutoModel.from_config(AutoConfig.for_model(kind, **SIZES[kind]))
    if kind != "resnet":
        model.pooler = None
    return model


def make_encoder(images: str = "resnet", texts: str = "bert", **heads: Any) -> DualEncoder:
    torch.manual_seed(0)
    reader = (
        {"kind": texts, "vocabulary": 30, "embedding": 5, "hidden": 4}
        if texts in ("gru", "lstm")
        else make_tower(texts)
    )
    return build_dual_encoder(make_tower(images), reader, HEADS | heads)


def make_inputs(count: int = 3, length: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(1)
    pixels = torch.randn(count, 3, 32, 32, generator=drawn)
    ids = torch.randint(1, 30, (count, length), generator=drawn)
    mask = torch.tensor([[int(place < length - text) for place in range(length)] for text in range(count)])
    return pixels, ids * mask, mask

"""The two towers: models of transformers by one interface, and a recurrent network in place of BERT.

`width` is the length of what comes out; `layers` are the parts that are frozen from the bottom up.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

RECURRENT_LAYERS = {"gru": nn.GRU, "lstm": nn.LSTM}
_WIDTHS = ("hidden_dim", "hidden_size")  # the last that there is; hidden_dim: EfficientNet
_CLASS_TOKENS = ("cls_token", "class_embedding")
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class ImageEncoder(nn.Module):
    """A model of transformers that takes `pixel_values`: of maps (ResNet) the mean over all places, of tokens the first
    one where it stands for all (ViT), else their mean (Swin). Raises ValueError where the width is unknown."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        sizes = getattr(config, "hidden_sizes", None) or [getattr(config, name, None) for name in _WIDTHS]
        widths = [size for size in sizes if isinstance(size, int)]
        if not widths:
            raise ValueError(f"a {config.model_type} does not say how wide its features are")
        self.width = widths[-1]
        names = (name.rpartition(".")[2] for name, _ in backbone.named_parameters())
        self._has_class_token = any(name in _CLASS_TOKENS for name in names)

    def forward(self, pixels: Tensor) -> Tensor:
        """(pictures, width) of pixels (pictures, 3, side, side), normalised as ImageNet's are."""
        features: Tensor = self.backbone(pixel_values=pixels).last_hidden_state
        if features.ndim == 4:
            return features.float().mean(dim=(2, 3))
        return features[:, 0].float() if self._has_class_token else features.float().mean(dim=1)

    def layers(self) -> list[nn.Module]:
        """The stem, then the stages or blocks."""
        return _stacked(self.backbone)

    def batch_norms(self) -> list[tuple[str, nn.Module]]:
        """Those of the tower with their names; a ViT has none."""
        return [(name, part) for name, part in self.named_modules() if isinstance(part, _BATCH_NORMS)]


class TransformerTextEncoder(nn.Module):
    """BERT, or what takes the same."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        self.width = int(config.hidden_size)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(texts, length, width) of token numbers and a mask, both (texts, length)."""
        token_vectors: Tensor = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        return token_vectors

    def layers(self) -> list[nn.Module]:
        """The embeddings, then the blocks."""
        return _stacked(self.backbone)


class RecurrentTextEncoder(nn.Module):
    """A GRU or an LSTM that reads a text from both ends; padding is never read."""

    def __init__(self, kind: str, vocabulary: int, embedding: int = 256, hidden: int = 256, depth: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.network: nn.RNNBase = RECURRENT_LAYERS[kind](
            embedding, hidden, depth, batch_first=True, bidirectional=True
        )
        self.width = 2 * hidden

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(texts, length, width); every text has a token, and its padding lies at its end."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.network(packed)[0], batch_first=True, total_length=ids.shape[1])[0]

    def layers(self) -> list[nn.Module]:
        """None that could be frozen: it was never trained before."""
        return []


def _stacked(backbone: Any) -> list[nn.Module]:
    """The bottom of a model of transformers, and then what is stacked on it: of an unknown form, its first part and its
    longest list."""
    bottom = next((getattr(backbone, name) for name in ("embedder", "embeddings") if hasattr(backbone, name)), None)
    encoder = backbone.encoder if hasattr(backbone, "encoder") else backbone
    named = [getattr(encoder, name) for name in ("stages", "layer", "layers", "blocks") if hasattr(encoder, name)]
    lists: list[Any] = [part for part in backbone.modules() if isinstance(part, nn.ModuleList)]
    stack: Sequence[nn.Module] = named[0] if named else max(lists, key=len, default=[])
    if bottom is None:
        bottom = next((part for part in backbone.modules() if not any(True for _ in part.children())), backbone)
    return [bottom, *stack]

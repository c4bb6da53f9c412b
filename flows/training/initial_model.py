"""Creates the model of a definition before training, and its description for checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.environment_faults import is_certain_environment_fault, make_environment_fault
from backends.models import training_checkpoints as checkpoints
from baselines.dual_encoder.vocabulary import build_vocabulary
from builders.errors import UserError, first_line
from flows.definitions import TrainingDefinition
from flows.definitions.training import RECURRENT_ARCHITECTURES
from flows.steps import step

_STAGE = "make model"
_MOST_UNKNOWN = 0.2  # of the tokens: a tokenizer of another language reads all texts as the same


@dataclass(frozen=True, slots=True)
class InitialModel:
    """An untrained model (or one with pretrained towers), its tokenizer, its description for a checkpoint, and which
    towers are pretrained."""

    model: Any
    tokenizer: Any
    description: dict[str, Any]
    is_image_tower_pretrained: bool
    is_text_tower_pretrained: bool


@step("make model")
def create_initial_model(definition: TrainingDefinition, texts: list[str]) -> InitialModel:
    """Creates the model with random weights by the seed and those of pretrained towers; a new text tower gets a
    vocabulary of the texts."""
    import torch

    from baselines.dual_encoder.augmentation import ENLARGEMENT
    from baselines.dual_encoder.model import build_dual_encoder

    torch.manual_seed(definition.seed)
    images = _image_tower(definition)
    tokenizer = _tokenizer(definition, texts)
    text_tower, text_description = _text_tower(definition, tokenizer)
    heads = definition.heads.model_dump()
    description = {
        "name": definition.name,
        "pictures": checkpoints.describe_tower(images),
        "texts": text_description,
        "heads": heads,
        "size": definition.size,
        "side": int(definition.size * ENLARGEMENT),
        "max_length": definition.max_length,
    }
    with _one_line(definition):
        model = build_dual_encoder(images, text_tower, heads)
        _try_images(model, definition.size)
    return InitialModel(
        model, tokenizer, description, definition.images.name is not None, definition.texts.name is not None
    )


@contextmanager
def _one_line(definition: TrainingDefinition) -> Iterator[None]:
    """Raises UserError for a model of transformers that is no tower for images."""
    name = definition.images.name or definition.images.architecture
    try:
        yield
    except Exception as error:  # of hundreds of models, each has its own
        if is_certain_environment_fault(error):  # which fails with every tower
            raise make_environment_fault(_STAGE, name, error) from None
        reason = f"cannot be the tower of images: {first_line(error)}"
        raise UserError(_STAGE, name, reason, "name an image model such as resnet, efficientnet or vit") from None


def _try_images(model: Any, size: int) -> None:
    """Encodes two images, as the training will. Raises any exception of the tower."""
    import torch

    model.eval()
    with torch.no_grad():
        model.encode_images(torch.zeros(2, 3, size, size))
    model.train()
    if len(model.pictures.layers()) < 2:
        raise ValueError("it has no layers to unfreeze")


def _image_tower(definition: TrainingDefinition) -> Any:
    tower = definition.images
    if tower.name is None:
        return checkpoints.create_tower(str(tower.architecture), tower.options, image_size=definition.size)
    model = checkpoints.load_pretrained_tower(tower.name)
    size = getattr(model.config, "image_size", definition.size)
    if size != definition.size:
        raise UserError(_STAGE, tower.name, f"takes pictures of {size} pixels", f"say --set size={size}")
    return model


def _tokenizer(definition: TrainingDefinition, texts: list[str]) -> Any:
    if definition.texts.name is None:
        return checkpoints.create_tokenizer(build_vocabulary(texts))
    tokenizer = checkpoints.load_pretrained_tokenizer(definition.texts.name)
    share = _unknown(tokenizer, texts)
    if share > _MOST_UNKNOWN:
        reason = f"does not know {share:.0%} of the tokens of these texts"
        raise UserError(_STAGE, definition.texts.name, reason, "name a model of their language, or choose `languages`")
    return tokenizer


def _unknown(tokenizer: Any, texts: list[str]) -> float:
    if tokenizer.unk_token_id is None:
        return 0.0
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    counts = np.array([(row.count(tokenizer.unk_token_id), len(row)) for row in rows]).sum(axis=0)
    return float(counts[0] / max(counts[1], 1))


def _text_tower(definition: TrainingDefinition, tokenizer: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the tower, or the parameters of a recurrent one, and its description for the checkpoint."""
    tower = definition.texts
    if tower.architecture in RECURRENT_ARCHITECTURES:
        if wrong := sorted(set(tower.options) - {"embedding", "hidden", "depth"}):
            raise UserError(_STAGE, f"texts.options.{wrong[0]}", "is unknown", "choose from embedding, hidden, depth")
        description = {"kind": tower.architecture, "vocabulary": len(tokenizer), **tower.options}
        return description, description
    if tower.name is not None:
        model = checkpoints.load_pretrained_tower(tower.name)
        limit = int(getattr(model.config, "max_position_embeddings", definition.max_length))
        if definition.max_length > limit:
            raise UserError(_STAGE, tower.name, f"takes {limit} tokens at most", f"say --set max_length={limit}")
    else:
        sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": definition.max_length, "pad_token_id": 0}
        model = checkpoints.create_tower(str(tower.architecture), tower.options, **sizes)
    return model, checkpoints.describe_tower(model)

"""A trained dual encoder on disk, the towers that it starts from, and the state of an unfinished training.

<folder>/dual_encoder.json    description; written last, its presence means complete
<folder>/model.safetensors    weights
<folder>/tokenizer/           tokenizer
<folder>/.best.safetensors, .state.pt      of an unfinished training
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from querytruth.backends.environment import is_certain_environment_fault, make_environment_fault
from querytruth.backends.files.durable_files import file_sha256, replace_atomically, sync_folder, write_atomically
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models import hub_models
from querytruth.errors import UserError, first_line, translate_write_errors
from querytruth.sets.benchmark_set import canonical_json

DESCRIPTION = "dual_encoder.json"
WEIGHTS, BEST_WEIGHTS, TRAINING_STATE, TOKENIZER = "model.safetensors", ".best.safetensors", ".state.pt", "tokenizer"
_FORMAT = 1
_STAGE = "load model"


def load_pretrained_tower(name: str) -> Any:
    """Load a model of transformers by its folder or its name on the hub, in single precision and without its pooler.
    Raises UserError where weights are missing."""
    import torch
    from transformers import AutoModel

    folder = hub_models.find_model_folder(name, _STAGE)
    hub_models.silence_transformers()
    try:
        model, state = AutoModel.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **hub_models.WEIGHTS_WITHOUT_CODE
        )
    except Exception as error:  # broken files and missing libraries raise any exception
        raise hub_models.make_loading_error(_STAGE, name, error) from None
    missing = sorted(key for key in state["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise UserError(
            _STAGE, name, f"lacks {len(missing)} of its weights ({missing[0]} …)", hub_models.download_hint(name)
        )
    return _without_pooler(model)


def create_tower(architecture: str, options: dict[str, Any], **fitting: int) -> Any:
    """Create a model of transformers of a type (resnet, vit, bert) with random weights. `fitting` are values that the
    data require (image_size, vocab_size …), used where the configuration has them and `options` do not. Raises
    UserError for invalid options."""
    from transformers import AutoConfig, AutoModel

    hub_models.silence_transformers()
    try:
        known = AutoConfig.for_model(architecture)
        wanted = {key: value for key, value in fitting.items() if hasattr(known, key)} | options
        return _without_pooler(
            AutoModel.from_config(AutoConfig.for_model(architecture, **wanted), **hub_models.WITHOUT_CODE)
        )
    except Exception as error:  # invalid configurations raise any exception
        if is_certain_environment_fault(error):
            raise make_environment_fault(_STAGE, architecture, error) from None
        reason = f"cannot be created ({type(error).__name__}: {first_line(error)})"
        next_step = "name a model type of transformers, such as resnet, vit or bert, and options of its configuration"
        raise UserError(_STAGE, architecture, reason, next_step) from None


def describe_tower(model: Any) -> dict[str, Any]:
    """Return the arguments of `create_tower` for the same architecture."""
    changed = model.config.to_diff_dict()
    omitted = ("model_type", "transformers_version", "dtype")
    options = {key: value for key, value in changed.items() if key not in omitted}
    return {"architecture": model.config.model_type, "options": options}


def load_pretrained_tokenizer(name: str) -> Any:
    """Load the tokenizer of a model by its folder or its name on the hub. Raises UserError."""
    from transformers import AutoTokenizer

    folder = hub_models.find_model_folder(name, _STAGE)
    hub_models.silence_transformers()
    try:
        return AutoTokenizer.from_pretrained(folder, **hub_models.WITHOUT_CODE)
    except Exception as error:  # as above
        raise hub_models.make_loading_error(_STAGE, name, error) from None


def create_tokenizer(tokens: Iterable[str]) -> Any:
    """Create a lower-case BERT tokenizer with these tokens."""
    from transformers import BertTokenizer

    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)}, do_lower_case=True)


def write_checkpoint(folder: Path, description: dict[str, Any], tokenizer: Any) -> None:
    """Make the best weights, written by `save_best_weights`, the folder's model. May be interrupted and repeated."""
    tokenizer.save_pretrained(folder / TOKENIZER)
    if (folder / BEST_WEIGHTS).exists():
        (folder / BEST_WEIGHTS).replace(folder / WEIGHTS)
    sync_folder(folder)
    digests = {"weights": file_sha256(folder / WEIGHTS)[0], "tokenizer": _tokenizer_digest(folder)}
    write_atomically(folder / DESCRIPTION, canonical_json(description | {"format": _FORMAT, "sha256": digests}))


def read_checkpoint(name: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return description, weights by parameter, and tokenizer of a folder. Raises UserError for changed files."""
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    folder = Path(name)
    description = read_model_description(folder)
    actual = {"weights": file_sha256(folder / WEIGHTS)[0], "tokenizer": _tokenizer_digest(folder)}
    if wrong := [part for part, digest in actual.items() if digest != description["sha256"][part]]:
        raise UserError(_STAGE, folder, f"its {wrong[0]} changed since it was trained", "train it again, or restore it")
    tokenizer = AutoTokenizer.from_pretrained(folder / TOKENIZER, local_files_only=True, **hub_models.WITHOUT_CODE)
    return description, load_file(folder / WEIGHTS), tokenizer


def read_model_description(folder: Path) -> dict[str, Any]:
    """Return the description of a folder's model. Raises UserError if there is none in this format."""
    try:
        description: dict[str, Any] = parse_json(read_regular(folder / DESCRIPTION))
    except FileNotFoundError:
        raise UserError(_STAGE, folder, f"has no {DESCRIPTION}", "give a folder that querytruth train made") from None
    except (OSError, ValueError) as error:
        raise UserError(_STAGE, folder / DESCRIPTION, f"cannot be read ({error})", "train it again") from None
    if description.get("format") != _FORMAT:
        reason = f"has format {description.get('format')}, but this release reads {_FORMAT}"
        raise UserError(_STAGE, folder / DESCRIPTION, reason, "use the release that wrote it")
    return description


def save_best_weights(folder: Path, model: Any) -> None:
    """Write the weights as the best so far, atomically."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    weights = {key: value.contiguous().cpu() for key, value in model.state_dict().items()}
    write_atomically(folder / BEST_WEIGHTS, save(weights))


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write, atomically, the state from which an interrupted training continues."""
    import torch

    replace_atomically(folder / TRAINING_STATE, lambda file: torch.save(state, file))


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state of an unfinished training on the CPU, or None. Raises UserError for a damaged file."""
    import torch

    file = folder / TRAINING_STATE
    if not file.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged archives raise any exception
        if is_certain_environment_fault(error):
            raise make_environment_fault("resume", file, error) from None
        reason = f"cannot be read ({type(error).__name__})"
        raise UserError("resume", file, reason, "remove the file: the training then starts again") from None
    return state


def delete_state(folder: Path) -> None:
    """Delete the state of a training that ended. Raises UserError."""
    with translate_write_errors("train", folder):
        (folder / TRAINING_STATE).unlink(missing_ok=True)


def _without_pooler(model: Any) -> Any:
    """Remove a pooler with weights, because its output is not used."""
    if getattr(model, "pooler", None) is not None and any(True for _ in model.pooler.parameters()):
        model.pooler = None
    return model


def _tokenizer_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((folder / TOKENIZER).glob("*")):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()

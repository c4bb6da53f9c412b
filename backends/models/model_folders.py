"""Where a model's files lie: a folder, or the hub's cache; the hub itself only for what is in neither."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from builders.errors import UserError

_NEEDED = ["*.json", "*.txt", "*.model", "*.safetensors", "pytorch_model*.bin"]  # not the same weights for TensorFlow


def find_model_folder(name: str, stage: str) -> Path:
    """The folder of a model by its path or its name on the hub; there a folder that bears the commit's name. With
    HF_HUB_OFFLINE=1 the hub is not asked."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        with suppress(LocalEntryNotFoundError):
            return Path(snapshot_download(name, local_files_only=True))
        return Path(snapshot_download(name, allow_patterns=_NEEDED))
    except Exception as error:  # the hub has two dozen kinds, for one meaning
        reason = f"is no folder here, and the hub does not give it ({type(error).__name__})"
        raise UserError(stage, name, reason, download_hint(name)) from None


def download_hint(name: str) -> str:
    """The next step for a model that is not whole."""
    if Path(name).is_dir():
        return "give a folder with all files of a model"
    return f"`hf download {name}` where there is a network, or give the folder of a copy"

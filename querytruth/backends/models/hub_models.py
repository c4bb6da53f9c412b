"""Models that this process loads: their files and revisions, by a folder or a name on the hub, and their device."""

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from querytruth.backends import environment
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.plugins import missing_library_error
from querytruth.backends.web.offline import is_offline
from querytruth.errors import UserError, first_line

# A model is data: no Python file beside it runs, and no pickle is opened.
WITHOUT_CODE = {"trust_remote_code": False}
WEIGHTS_WITHOUT_CODE = {"trust_remote_code": False, "use_safetensors": True}
_NEEDED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_WEIGHT_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors")
_COUNT = re.compile(r"(layers?|depths?|blocks|experts|stages)$")  # in names of configuration keys
_MOST_PARTS = 10_000
_WHOLE = 64 << 20  # files up to this size are digested whole
_SAMPLES, _SAMPLE = 64, 64 << 10


def find_model_folder(name: str, stage: str) -> Path:
    """Return the folder of a model by its path or its name on the hub; a folder of the hub is named after the commit.
    With HF_HUB_OFFLINE=1 only the cache is used. Raises UserError if the model does not exist or its weights are not
    safetensors."""
    if Path(name).is_dir():
        check_weight_format(name, Path(name), stage)
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = None
        with suppress(LocalEntryNotFoundError):
            folder = Path(snapshot_download(name, local_files_only=True))
        folder = folder or Path(snapshot_download(name, allow_patterns=_NEEDED))
    except Exception as error:  # the hub has many exceptions with this meaning
        raise _not_found_error(stage, name, error, download_hint(name)) from None
    check_weight_format(name, folder, stage)
    if next(folder.rglob("*.safetensors"), None) is None:
        raise _pickled_weights_error(stage, name, "has no safetensors weights on the hub")
    return folder


def must_download_model(name: str) -> bool:
    """Return whether a model must be requested from the hub; also False if the hub cannot be asked, which loading
    reports."""
    if Path(name).is_dir() or is_offline():
        return False
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot_download(name, local_files_only=True)
    except LocalEntryNotFoundError:
        return not constants.HF_HUB_OFFLINE
    except Exception:  # no name of a model on the hub
        return False
    return False


def check_download(name: str) -> None:
    """Ask the hub for a model that must be downloaded. Raises UserError where it does not give it: without a
    connection, for an unknown name, and for a model that needs an agreement and a token."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, timeout=10)
    except Exception as error:  # the hub has many exceptions with this meaning
        raise _not_found_error("doctor", name, error, download_hint(name)) from None


def check_weight_format(name: str, folder: Path, stage: str) -> None:
    """Raise UserError where a model, or a module of a sentence-transformers model, has its weights only in a format
    that can run code when it is read."""
    is_cached = folder.parent.name == "snapshots"  # the hub's cache links to its own blobs
    inside = folder.resolve().parents[1] if is_cached else folder.resolve()
    for part in [folder, *_module_folders(folder)]:
        for file in part.iterdir() if part.is_dir() else ():
            if file.is_symlink() and not file.resolve().is_relative_to(inside):
                raise UserError(stage, name, f"has a link to a file outside it ({file.name})", "copy the file into it")
        _check_configurations(name, part, stage)
        _check_index(name, part, stage)
        names = sorted(path.name for path in part.iterdir()) if part.is_dir() else []
        pickled = [file for file in names if file.endswith(_PICKLED)]
        if pickled and not any(file.endswith(".safetensors") for file in names):
            raise _pickled_weights_error(stage, name, f"stores weights as a pickle ({pickled[0]}), which can run code")


def _check_index(name: str, folder: Path, stage: str) -> None:
    """Raise UserError for an index of weights that names anything but plain safetensors files beside it: transformers
    opens each name as a path, and a file of another format as a pickle."""
    for file in sorted(folder.glob("*.safetensors.index.json")):
        try:
            files = json.loads(file.read_bytes())["weight_map"].values()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UserError(stage, name, f"has a damaged {file.name}", download_hint(name)) from None
        for one in files:
            if not (isinstance(one, str) and _WEIGHT_FILE.fullmatch(one)):
                reason = f"names {str(one)[:80]!r} in {file.name}, which is not a .safetensors file in the same folder"
                raise UserError(stage, name, reason, download_hint(name))


def _check_configurations(name: str, folder: Path, stage: str) -> None:
    """Raise UserError for a repeated key, since libraries differ in which value they use, and for more layers than any
    model has, since transformers creates all layers before it reads the weights."""
    for file in sorted([*folder.glob("modules.json"), *folder.glob("*config*.json")]):
        try:
            found = _find_endless(parse_json(file.read_bytes()))
        except (json.JSONDecodeError, UnicodeDecodeError, OSError, RecursionError):
            continue  # the library that reads it reports what is wrong with the file
        except ValueError as error:
            raise UserError(stage, name, f"has a damaged {file.name}: {error}", download_hint(name)) from None
        if found is not None:
            reason = f"has {found[0]}: {found[1]:,} in {file.name}, more than any model has"
            raise UserError(stage, name, reason, download_hint(name))


def _find_endless(part: Any, key: str = "") -> tuple[str, int] | None:
    """Return the first key of a configuration that counts parts of a model, and its value, where that is too large."""
    if isinstance(part, dict):
        return next(filter(None, (_find_endless(value, str(name)) for name, value in part.items())), None)
    if isinstance(part, list):
        return next(filter(None, (_find_endless(value, key) for value in part)), None)
    counts = isinstance(part, int) and part > _MOST_PARTS and _COUNT.search(key) is not None
    return (key, part) if counts else None


def _module_folders(folder: Path) -> list[Path]:
    try:
        modules = json.loads((folder / "modules.json").read_bytes())
        return [folder / module["path"] for module in modules if module["path"]]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []  # sentence-transformers reports what is wrong with the file


def download_hint(name: str) -> str:
    """Return the next step for an incomplete model."""
    if Path(name).is_dir():
        return "give a folder with all files of the model"
    return f"run `hf download {name}` with network access, or give the folder of a copy"


def resolve_model_revision(name: str, revision: str | None) -> tuple[str, str]:
    """Return the display name (for a folder, only its last part) and the revision: a digest of the folder's files, or
    the commit. The hub resolves a branch to its commit, or the cache if the hub does not answer. Raises UserError if
    the model does not exist."""
    if Path(name).is_dir():
        return Path(name).resolve().name, "files:" + _folder_digest(Path(name))
    if revision and re.fullmatch(r"[0-9a-f]{40}", revision):
        return name, revision
    from huggingface_hub import HfApi, hf_hub_download

    try:  # not by a download, which is tried for half a minute where there is no network
        commit = HfApi().model_info(name, revision=revision, timeout=10).sha
    except Exception as error:  # the hub has many exceptions with this meaning
        with suppress(Exception):
            config = Path(hf_hub_download(name, "config.json", revision=revision, local_files_only=True))
            return name, config.parent.name
        next_step = "give a folder, or a name and the revision (40 hex digits) that the replies were made with"
        raise _not_found_error("load model", name, error, next_step) from None
    return name, str(commit)


def _folder_digest(folder: Path) -> str:
    """Digest small files in full, and of weights the size and samples spread over the file: other weights differ
    everywhere, and reading 16 GB takes half a minute."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode("utf-8", "surrogateescape"))
        with path.open("rb") as file:
            if size <= _WHOLE:
                digest.update(file.read())
                continue
            for number in range(_SAMPLES):
                file.seek((size - _SAMPLE) * number // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


def choose_device(device: str | None, stage: str, next_step: str = "set the device to cpu") -> Any:
    """Return the torch device with this name, or for None a GPU if there is one. Raises UserError if it cannot be used
    or torch is not installed."""
    try:
        import torch
    except ImportError as error:
        raise missing_library_error(stage, "a local model", error) from None

    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = f"cannot be used ({first_line(error)}; {environment.library_of(error, torch)})"
        raise UserError(stage, name, reason, next_step) from None
    return torch.device(name)


def silence_transformers() -> None:
    """Turn off the progress bars and warnings of transformers."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def make_loading_error(stage: str, name: str, error: Exception) -> UserError:
    """Return the UserError for files of a model, or a library, that cannot be loaded."""
    if environment.is_certain_environment_fault(error):
        return environment.make_environment_fault(stage, name, error)
    reason = f"cannot be loaded ({type(error).__name__}: {first_line(error)})"
    if environment.may_be_environment_fault(error):  # or the files are of another kind
        reason += f", in {environment.library_of(error)}"
    return UserError(stage, name, reason, download_hint(name))


def _pickled_weights_error(stage: str, name: str, reason: str) -> UserError:
    command = f"AutoModel.from_pretrained('{name}').save_pretrained('FOLDER')"
    next_step = f"if you trust it, convert it with transformers: {command}; copy its tokenizer and give FOLDER"
    return UserError(stage, name, reason, next_step)


def _not_found_error(stage: str, name: str, error: Exception, next_step: str) -> UserError:
    source = "--offline forbids asking the hub" if is_offline() else "the hub did not provide it"
    return UserError(stage, name, f"is not a local folder, and {source} ({type(error).__name__})", next_step)

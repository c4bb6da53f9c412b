"""The device on which a torch model runs."""

from typing import Any

from backends.environment_faults import library_of
from backends.plugin_loader import missing_library_error
from builders.errors import UserError, first_line


def choose_device(device: str | None, stage: str, next_step: str = "give the device cpu") -> Any:
    """Returns the torch device of that name; for None a GPU if there is one. Raises UserError where it cannot be
    used, or torch is not installed."""
    try:
        import torch
    except ImportError as error:
        raise missing_library_error(stage, "a local model", error) from None

    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = f"cannot be used ({first_line(error)}; {library_of(error, torch)})"
        raise UserError(stage, name, reason, next_step) from None
    return torch.device(name)

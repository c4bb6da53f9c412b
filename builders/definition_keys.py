"""Renamed keys of definitions: in a file an old key is an error, in a definition stored with a set it is renamed."""

from typing import Any

RENAMED_KEYS: dict[tuple[str, ...], str] = {
    ("ambiguity", "pictures"): "images",
    ("augmentation", "keep_what_is_said"): "respect_captions",
    ("captions", "per_picture"): "per_image",
    ("collect", "same_picture"): "same_image",
    ("objects", "longest"): "max_length",
    ("topics", "at_once"): "parallel_questions",
    ("topics", "longest"): "max_length",
}


_FORMER_MAX_TOKENS, _FORMER_MAX_LENGTH = 256, 4000  # of an endpoint's reply, of a caption


def add_former_limits(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored definition with the limits of captions that held before they were keys: its questions stay those
    of the stored replies."""
    captions = definition.get("captions")
    if not isinstance(captions, dict) or "max_tokens" in captions:
        return definition
    options = dict(captions.get("options") or {})
    if captions.get("model") == "openai_compatible":
        options.setdefault("max_tokens", _FORMER_MAX_TOKENS)
    return definition | {"captions": {**captions, "options": options, "max_length": _FORMER_MAX_LENGTH}}


def rename_old_keys(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored definition with the present names of its keys."""
    renamed = {key: dict(value) if isinstance(value, dict) else value for key, value in definition.items()}
    for (section, old), new in RENAMED_KEYS.items():
        options = renamed.get(section)
        if isinstance(options, dict) and old in options:
            options[new] = options.pop(old)
    return renamed

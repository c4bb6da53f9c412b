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


def rename_old_keys(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored definition with the present names of its keys."""
    renamed = {key: dict(value) if isinstance(value, dict) else value for key, value in definition.items()}
    for (section, old), new in RENAMED_KEYS.items():
        options = renamed.get(section)
        if isinstance(options, dict) and old in options:
            options[new] = options.pop(old)
    return renamed

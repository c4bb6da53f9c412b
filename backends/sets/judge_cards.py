"""The cards of judges, beside the versions of a set: <set>/judges/<model>.json."""

import json
import re
from pathlib import Path
from typing import Any

from backends.contained_paths import contained_path
from backends.durable_files import make_durable_folder, write_atomically
from backends.file_errors import translate_read_errors, translate_write_errors
from backends.regular_files import read_regular
from builders.benchmark_set import canonical_json
from builders.errors import UserError

_FOLDER = "judges"


def write_judge_card(set_folder: Path, card: dict[str, Any]) -> Path:
    """Replaces the card of a model and returns its file. Raises UserError where it cannot be written."""
    path = _locate(set_folder, card["name"])
    with translate_write_errors("write judge card", path):
        make_durable_folder(path.parent)
        write_atomically(path, canonical_json(card))
    return path


def read_judge_card(set_folder: Path, judge: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the card of a judge (its name and digest), None without one. Raises UserError for a stale card: of
    another revision, other parameters, prompts, grades or sizes of images."""
    path = _locate(set_folder, judge["name"])
    if not path.is_file():
        return None
    with translate_read_errors("read judge card", path, "querytruth judge check SET", also=(ValueError,)):
        card: dict[str, Any] = json.loads(read_regular(path))
    if card.get("digest") != judge["digest"]:
        reason = "is stale: the model's revision or parameters, the prompt or the size of the images is another by now"
        raise UserError(
            "read judge card", path, reason, f"querytruth judge check {set_folder.name}, or remove the card"
        )
    return card


def _locate(set_folder: Path, name: str) -> Path:
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:80] or "judge"
    return contained_path(set_folder, f"{_FOLDER}/{slug}.json", "read judge card")

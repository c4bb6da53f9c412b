"""Names of sets: a folder holds the versions of one kind of set only."""

from pathlib import Path

from backends.sets.manifest_reading import read_manifest
from backends.sets.version_numbers import newest_version
from builders.errors import UserError
from flows.definitions.common import SetDefinition

_SUFFIXES = {
    "gallery": "pictures",
    "recall": "captions",
    "precision": "objects",
    "generated": "topics",
    "imported": "imported",
}


def check_set_name(definition: SetDefinition) -> None:
    """Raises UserError where a set of another kind has the name: its versions and decisions would be mixed with those
    of this one."""
    folder = definition.out / definition.name
    other = _published_kind(folder)
    if other in (None, definition.kind):
        return
    reason = f"is a {other} set; a {definition.kind} set cannot have its name"
    next_step = (
        f"choose another, such as --set name={propose_set_name(definition.name, definition.kind, definition.out)}"
    )
    raise UserError("build", f"{folder.name}/v{newest_version(folder)}", reason, next_step)


def propose_set_name(name: str, kind: str, out: Path) -> str:
    """Returns the name, or one like it where a set of another kind has it."""
    suffixed = f"{name[:50]}-{_SUFFIXES.get(kind, kind)}"
    candidates = [name, suffixed, *(f"{suffixed}-{number}" for number in range(2, 100))]
    return next((one for one in candidates if _published_kind(out / one) in (None, kind)), suffixed)


def _published_kind(folder: Path) -> str | None:
    """Returns the kind of the newest version in a set's folder; None where there is none."""
    version = newest_version(folder)
    return None if version is None else str(read_manifest(folder / f"v{version}")["kind"])

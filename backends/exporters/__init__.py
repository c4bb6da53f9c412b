"""Export formats: one file each, whose name is the format's.

`export(stored, out)` fills the empty folder `out`; `LIMITS` says what the format needs and what it does not hold.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Protocol

from backends.plugin_loader import PluginPackage
from backends.sets.set_files import StoredSet
from builders.errors import UserError

EXPORTERS = PluginPackage("backends.exporters", "format", "export")


class Exporter(Protocol):
    """Writes a set into a folder, which appears whole or not at all."""

    def __call__(self, stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
        """Returns what the format does not hold; a UserError where that changes figures and is not allowed."""
        ...


def load_exporter(name: str) -> Exporter:
    """The exporter of a format. It writes beside `out`, which must be new or empty, and puts that in place at the
    end: no export mixes with another, and none is half there."""
    plugin = EXPORTERS.import_plugin(name)

    def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError("export", out, "exists and is not empty", "give a new folder")
        lost: list[str] = plugin.LIMITS.check(stored, name, allow_loss)
        temporary = out.absolute().with_name(f".{out.absolute().name}.{secrets.token_hex(4)}")
        temporary.mkdir(parents=True)
        try:
            plugin.export(stored, temporary)
            temporary.replace(out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return lost

    return export

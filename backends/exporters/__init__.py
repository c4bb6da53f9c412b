"""Export formats: one file each, whose name is the format's and whose `export` writes it.

`export(stored, out, allow_loss=…)` fills the empty folder `out` and returns what the format does not hold. What would
change the meaning of figures (grades, judged zeros, several right pictures) is refused unless `allow_loss`.
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
    """What `load` gives: writes the set into the folder, which appears whole or not at all."""

    def __call__(self, stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
        """Returns what the format does not hold."""
        ...


def load_exporter(name: str) -> Exporter:
    """The exporter of a format. It writes beside `out`, which must be new or empty, and puts that in place at the
    end: no export mixes with another, and none is half there."""
    exporter: Exporter = EXPORTERS.import_plugin(name).export

    def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError("export", out, "exists and is not empty", "give a new folder")
        temporary = out.absolute().with_name(f".{out.absolute().name}.{secrets.token_hex(4)}")
        temporary.mkdir(parents=True)
        try:
            lost = exporter(stored, temporary, allow_loss=allow_loss)
            temporary.replace(out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return lost

    return export


def require_queries(stored: StoredSet) -> None:
    """Refuse a set that asks nothing, where the format is made of queries."""
    if not len(stored.tables.queries):
        raise UserError("export", stored.path, "holds no queries", "export a recall, precision or generated set")

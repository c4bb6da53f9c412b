"""Export formats: one file each, whose name is the format's and whose `export(stored, out)` writes it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.sets.set_files import StoredSet
from builders.errors import UserError, nearest

Exporter = Callable[[StoredSet, Path], list[str]]


def formats() -> list[str]:
    """The names of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Exporter:
    """The exporter of a format: it writes into the folder `out` and returns what the format cannot hold."""
    if name not in formats():
        raise UserError("export", name, "is no format", nearest(name, formats()))
    module: Any = importlib.import_module(f"{__name__}.{name}")
    exporter: Exporter = module.export
    return exporter


def need_queries(stored: StoredSet) -> None:
    """Refuse a set that asks nothing, where the format is made of queries."""
    if not len(stored.tables.queries):
        raise UserError("export", stored.path, "holds no queries", "export a recall, precision or generated set")


def empty_folder(out: Path) -> Path:
    """The folder to write into; one that holds something is refused, so that no export mixes with another."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("export", out, "exists and is not empty", "give a new folder")
    out.mkdir(parents=True, exist_ok=True)
    return out

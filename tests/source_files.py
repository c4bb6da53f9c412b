"""The project's own source as trees, read once for all tests that look at it."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("builders", "flows", "prompts", "querytruth")  # what a wheel installs


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file, the module first."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))

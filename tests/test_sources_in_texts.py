"""Sources that tests hand to other processes as texts: what they name and import is there."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.thorough
OURS = ("builders", "flows", "querytruth", "tests")


@functools.cache
def sources() -> list[tuple[str, ast.Module, str]]:
    """Place, tree and text of every text of several lines in a test that is Python and imports something of ours."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count("\n") > 2):
                continue
            try:
                tree = ast.parse(node.value.format(work="pass") if "{work}" in node.value else node.value)
            except (SyntaxError, ValueError):
                continue
            if any(one.module.split(".")[0] in OURS for one in imports(tree)):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", tree, node.value))
    return found


def imports(tree: ast.Module) -> list[ast.ImportFrom]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module]


def names_of(module: str) -> set[str] | None:
    """What a module of ours has at its top; None where there is no such module."""
    place = ROOT / module.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return set() if place.is_dir() else None
    names = {one.stem for one in place.iterdir()} if place.is_dir() else set[str]()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=found) | ast.ImportFrom(names=found):
                names |= {(one.asname or one.name).split(".")[0] for one in found}
    return names


def test_what_they_import_is_there() -> None:
    missing = []
    for place, tree, _ in sources():
        for one in imports(tree):
            if one.module.split(".")[0] in OURS:
                found = names_of(one.module)
                missing += [f"{place} {one.module}"] if found is None else []
                missing += [
                    f"{place} {one.module}.{name.name}" for name in one.names if found and name.name not in found
                ]
    assert missing == []


def test_what_they_name_is_defined(tmp_path: Path) -> None:
    for number, (_, _, text) in enumerate(sources()):
        (tmp_path / f"{number}.py").write_text(f"import sys  # as those that start them put it before\n{text}", "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""

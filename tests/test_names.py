"""Names: one class, one name; and none of the words that say nothing outside the file that uses them."""

import ast
import functools
import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("builders", "flows", "prompts", "querytruth")
# Metaphors of speech, of houses and of sight;
# docs/glossary.md has the field's word for each. (A `word` is one of a text.)
VAGUE_PARTS = {
    *("told", "said", "saying", "spoken", "away", "mend", "mended"),
    *("sight", "looks", "settle", "settled", "rivals"),
}
# Keys of definitions and of manifests, which change with them.
STORED = {"builders/recall/definition.py": {"rivals"}, "querytruth/sets/manifest_notes.py": {"rivals"}}


@functools.cache
def modules() -> dict[str, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    gc.disable()  # which looks through millions of nodes again and again, and takes two thirds of the time
    try:
        return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in paths}
    finally:
        gc.enable()


def definitions(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path, tree in modules().items():
        for node in definitions(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_made_of_a_word_that_says_nothing(package: str) -> None:
    """Modules, classes, functions, parameters and variables."""
    vague = set()
    for path, tree in modules().items():
        if not path.startswith(f"{package}/"):
            continue
        names = {Path(path).stem, *(node.name for node in definitions(tree))}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names -= STORED.get(path, set())
        vague |= {f"{path}: {name}" for name in names if _parts(name) & VAGUE_PARTS}
    assert not vague


def _parts(name: str) -> set[str]:
    """The words of an identifier: `apply_duplicate_overrides` and `OverriddenGroups` are both told, groups."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}

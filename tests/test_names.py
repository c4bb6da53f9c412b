"""Names: one class, one name; and none of the words that say nothing outside the file that uses them."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.source_files import PACKAGES, files, name_of, nodes

# Metaphors of speech, of houses and of sight;
# docs/glossary.md has the field's word for each. (A `word` is one of a text.)
VAGUE_PARTS = {
    *("told", "said", "saying", "spoken", "away", "mend", "mended"),
    *("sight", "looks", "settle", "settled", "rivals"),
}
# Keys of definitions and of manifests, which change with them.
STORED = {"builders/recall/definition.py": {"rivals"}, "querytruth/sets/manifest_notes.py": {"rivals"}}


def definitions(path: Path) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in nodes(path) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in [file for package in PACKAGES for file in files(package)]:
        for node in definitions(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_made_of_a_word_that_says_nothing(package: str) -> None:
    """Modules, classes, functions, parameters and variables."""
    vague = set()
    for path in files(package):
        names = {path.stem, *(node.name for node in definitions(path))}
        names |= {node.arg for node in nodes(path) if isinstance(node, ast.arg)}
        names |= {node.id for node in nodes(path) if isinstance(node, ast.Name)}
        names -= STORED.get(name_of(path), set())
        vague |= {f"{name_of(path)}: {name}" for name in names if _parts(name) & VAGUE_PARTS}
    assert not vague


def _parts(name: str) -> set[str]:
    """The words of an identifier: `apply_duplicate_overrides` and `OverriddenGroups` are both told, groups."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}

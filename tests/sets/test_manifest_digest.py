"""A manifest that changed anywhere is refused by its own digest, also where no other check looks."""

import json
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.sets.manifest import read_manifest
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.parametrize("key", ["title", "licence"])
def test_one_changed_character_of_a_manifest_is_refused(key: str, tmp_path: Path) -> None:
    version = publish_small_set(tmp_path, small_tables()).path
    file = version / "manifest.json"
    manifest = read_manifest(version)
    stored = json.loads(file.read_bytes())
    assert stored[key] == manifest[key]
    file.write_text(json.dumps(stored | {key: stored[key] + "x"}, ensure_ascii=False), "utf-8")
    with pytest.raises(UserError, match="its own checksum differs"):
        read_manifest(version)

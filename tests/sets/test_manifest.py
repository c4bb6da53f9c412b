"""A manifest that changed anywhere is refused by its own digest, also where no other check looks."""

import json
from pathlib import Path

import pytest

from querytruth.backends.files.text_formats import canonical_json
from querytruth.errors import UserError
from querytruth.sets.manifest import manifest_digest, read_manifest
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.parametrize("key", ["title", "licence", "name"])
def test_one_changed_character_of_a_manifest_is_refused(key: str, tmp_path: Path) -> None:
    version = publish_small_set(tmp_path, small_tables()).path
    file = version / "manifest.json"
    manifest = read_manifest(version)
    stored = json.loads(file.read_bytes())
    assert stored[key] == manifest[key]
    file.write_text(json.dumps(stored | {key: stored[key] + "x"}, ensure_ascii=False), "utf-8")
    with pytest.raises(UserError, match="its checksum does not match"):
        read_manifest(version)


@pytest.mark.parametrize(
    ("note", "value", "where"),
    [
        ("judge", {"name": "m"}, "asked"),
        ("collection", {"search": 7}, "collection"),
        ("log", {"file": "log.csv", "strata": [{}]}, "strata"),
    ],
)
def test_a_sealed_manifest_with_wrong_notes_is_refused(note: str, value: object, where: str, tmp_path: Path) -> None:
    """What a card, a page or a rebuild would trip over later is said when the set is read."""
    version = publish_small_set(tmp_path, small_tables()).path
    file = version / "manifest.json"
    stored = json.loads(file.read_bytes())
    stored["notes"][note] = value
    file.write_bytes(canonical_json(stored | {"manifest_digest": manifest_digest(stored)}))
    with pytest.raises(UserError, match=f"does not have the expected form: .*{where}"):
        read_manifest(version)

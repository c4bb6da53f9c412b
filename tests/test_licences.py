"""Nothing is locked whose licence would bind whoever ships this project."""

import importlib.util
from importlib.metadata import Distribution
from pathlib import Path

import pytest

LOCKS = Path(__file__).parents[1] / "locks"
spec = importlib.util.spec_from_file_location("licences", LOCKS / "licences.py")
assert spec is not None and spec.loader is not None
licences = importlib.util.module_from_spec(spec)
spec.loader.exec_module(licences)


def test_every_locked_package_has_a_licence_that_was_decided_about() -> None:
    found, elsewhere = licences.list_licences(LOCKS / "dev.txt")
    assert len(found) > 200 and len(elsewhere) < 10
    assert licences.find_unknown(found) == []
    assert set(licences.OTHER) <= set(found), "no decision about what is gone"
    assert "psycopg" in licences.describe(found, elsewhere)


@pytest.mark.parametrize(
    ("stated", "is_known"),
    [
        ("License-Expression: MIT", True),
        ("License-Expression: MIT AND AGPL-3.0-only", False),
        ("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)", False),
        ("Classifier: License :: OSI Approved :: BSD License\nClassifier: License :: OSI Approved", True),
        ("License: Apache License 2.0\n        and its whole text", True),
        ("License: free for research", False),
        ("Summary: says nothing", False),
    ],
)
def test_a_licence_is_read_from_whatever_states_it(tmp_path: Path, stated: str, is_known: bool) -> None:
    folder = tmp_path / "one-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: one\nVersion: 1\n{stated}\n")
    found = {"one": licences.read_licence(Distribution.at(folder))}
    assert licences.find_unknown(found) == ([] if is_known else ["one"])


def test_what_is_locked_and_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text('no-such-package==1 ; sys_platform == "none" \\\n    --hash=sha256:0\n')
    assert licences.list_licences(tmp_path / "lock.txt") == ({}, ["no-such-package"])
    (tmp_path / "lock.txt").write_text("no-such-package==1 \\\n    --hash=sha256:0\n")
    with pytest.raises(SystemExit, match="no-such-package is locked and not installed"):
        licences.list_licences(tmp_path / "lock.txt")

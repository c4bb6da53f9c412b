"""Descriptions that somebody else wrote."""

import os
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.formats.set_description import find_config_files


def test_a_readme_of_gigabytes_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    os.truncate(tmp_path / "README.md", 3 << 30)  # takes no room on the disk
    with pytest.raises(UserError, match=r"README.md \(import\): cannot be read \(is larger than 64 MB\)"):
        find_config_files(tmp_path, "test")

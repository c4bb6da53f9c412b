"""Names of shards: files, ranges, alternatives and wildcards."""

from pathlib import Path

import pytest

from querytruth.backends.files.tar_files import find_shards
from querytruth.errors import UserError


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("a/00.tar", ["00.tar"]),
        ("a/{00..02}.tar", ["00.tar", "01.tar", "02.tar"]),
        ("{a,b}/0{0,1}.tar", ["a/00.tar", "a/01.tar", "b/00.tar", "b/01.tar"]),
        ("*/?0.tar", ["a/00.tar", "b/00.tar"]),
        ("a", []),
        ("a/none.tar", []),
        ("a/00.parquet", []),
    ],
)
def test_a_pattern_names_its_files(
    given: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/00.tar", "a/01.tar", "a/02.tar", "b/00.tar", "b/01.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shards = find_shards("find overlap", given)
    assert [shard.name for shard in shards] == names
    assert all(shard.path.is_file() for shard in shards)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{00..01}.tar", "01.tar .*is not there"),
        ("b*.tar", "matches no file"),
        ("{000000..999999}{0..9}.tar", "more than 1,000,000"),
        ("00.tar.gz", "is compressed"),
    ],
)
def test_a_pattern_that_misses_files_is_refused(
    given: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "00.tar").touch()
    with pytest.raises(UserError, match=reason):
        find_shards("find overlap", given)

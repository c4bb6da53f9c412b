"""The small set as every exporter is given it."""

from pathlib import Path

import pytest

from querytruth.sets.set_files import StoredSet
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    """Two grades, judged zeros, several right images a query, and a query that nothing was judged for."""
    return publish_small_set(tmp_path, small_tables())


@pytest.fixture
def plain(tmp_path: Path) -> StoredSet:
    """Every query has one right image, and there is one grade."""
    return publish_small_set(tmp_path, small_tables(graded=False))

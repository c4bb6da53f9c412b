"""A small set, and a bucket for it."""

from pathlib import Path

import pytest

from querytruth.sets.set_files import StoredSet
from tests.object_service import ObjectService
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture
def service(object_service: ObjectService) -> ObjectService:
    return object_service


@pytest.fixture
def small(tmp_path: Path) -> StoredSet:
    return publish_small_set(tmp_path, small_tables())

"""Addresses of sets in object storage."""

from pathlib import Path

import pytest

from querytruth.backends.files.bucket_urls import BucketFolder, SetUrl, is_object_url, join_set_url, list_versions
from querytruth.errors import UserError


def test_a_url_names_a_set_and_perhaps_a_version() -> None:
    newest, third = SetUrl.parse("s3://benchmarks/sets/small"), SetUrl.parse("s3://benchmarks/sets/small/v3/")
    assert (newest.name, newest.version, str(newest)) == ("small", None, "s3://benchmarks/sets/small")
    assert (third.name, third.version, str(third)) == ("small", 3, "s3://benchmarks/sets/small/v3")
    assert third == newest.at_version(3)
    assert (str(third.folder), third.manifest_name) == ("s3://benchmarks/sets/small", "v3/manifest.json")


def test_a_set_may_lie_in_the_bucket_itself() -> None:
    assert str(BucketFolder.parse("s3://benchmarks").set_url("small", 1).folder) == "s3://benchmarks/small"
    assert SetUrl.parse("s3://benchmarks/small").name == "small"


def test_a_url_that_went_through_a_path_is_still_one() -> None:
    spec = str(Path("s3://benchmarks/sets/small"))
    assert spec == "s3:/benchmarks/sets/small" and is_object_url(spec)
    assert str(SetUrl.parse(spec)) == "s3://benchmarks/sets/small"
    assert join_set_url("small/v2", str(Path("s3://benchmarks/sets"))) == "s3:/benchmarks/sets/small/v2"
    assert join_set_url("small", "datasets") is None


@pytest.mark.parametrize(
    "url",
    [
        "s3://", "s3://B_ucket/sets/small", "s3://benchmarks", "s3://benchmarks/sets/Small", "s3://benchmarks/../small",
        "s3://benchmarks/./small", "s3://benchmarks//small", "s3://benchmarks/sets/small?x=1", "s3://bench\nmarks/small",
        "https://benchmarks/sets/small", "s3://benchmarks/sets/sm\u202eall", "s3://benchmarks/a\\b/small",
    ],
)  # fmt: skip
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(UserError):
        SetUrl.parse(url)


def test_a_password_is_refused_and_not_repeated() -> None:
    for url in ("s3://key:very-secret@benchmarks/small", "s3://very-secret@benchmarks/small"):
        with pytest.raises(UserError) as refused:
            SetUrl.parse(url)
        assert "very-secret" not in str(refused.value)


def test_versions_are_listed_newest_first() -> None:
    assert list_versions(["v2", "objects", "v10", "v01", "v1x", "v1"]) == [10, 2, 1]

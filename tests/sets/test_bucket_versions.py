"""Versions are published to a real S3 service, whole or not at all."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from querytruth.backends.files.bucket_urls import BucketFolder, cache_folder
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import content_digest
from querytruth.sets.bucket_reading import fetch_version
from querytruth.sets.bucket_versions import check_objects, publish_version
from querytruth.sets.set_files import StoredSet, find_set, read_set, verify_set
from tests.object_service import SECRET_KEY, ObjectService
from tests.small_sets import files_of, publish_other_small_set, publish_small_set, small_tables

pytestmark = pytest.mark.thorough


def publish(stored: StoredSet, service: ObjectService) -> object:
    return publish_version(stored.path, BucketFolder.parse(service.url))


def test_a_version_is_read_as_it_was_published(small: StoredSet, service: ObjectService) -> None:
    stored = publish_version(small.path, BucketFolder.parse(service.url))
    assert (stored.url, stored.is_new) == (f"{service.url}/small/v1", True)
    for spec, out in ((f"{service.url}/small", "x"), (f"{service.url}/small/v1", "x"), ("small", service.url)):
        path = find_set(spec, Path(out), remote="whole")
        assert path.name == "v1" and path.parent.name == "small"
        assert files_of(path) == files_of(small.path)
    assert list(verify_set(path)) == []
    assert content_digest(read_set(path).tables.to_arrow_tables()) == small.manifest["content_digest"]


def test_the_manifest_is_last_and_its_request_has_the_condition(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    written = [key for method, key in service.asked if method == "PUT"]
    assert written[-1] == "sets/small/v1/manifest.json"
    assert written.count(written[-1]) == 1
    assert len(service.asked) < 2 * len(files_of(small.path)) + 8


def test_nothing_is_sent_twice(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    service.asked.clear()
    again = publish_version(small.path, BucketFolder.parse(service.url))
    assert (again.is_new, again.sent_files) == (False, 0)
    assert {method for method, _ in service.asked} == {"GET"}
    fetch_version(f"{service.url}/small")
    service.asked.clear()
    fetch_version(f"{service.url}/small")
    assert len(service.asked) == 2  # the versions that there are, and the manifest


def test_another_version_of_that_number_is_refused(small: StoredSet, service: ObjectService, tmp_path: Path) -> None:
    publish(small, service)
    before = files_of(fetch_version(f"{service.url}/small"))
    with pytest.raises(UserError, match="already exists with another content digest") as refused:
        publish(publish_other_small_set(tmp_path), service)
    assert "\n" not in str(refused.value) and "nothing was published" in str(refused.value)
    shutil.rmtree(cache_folder())
    assert files_of(fetch_version(f"{service.url}/small")) == before


def test_an_image_of_two_versions_is_stored_once(small: StoredSet, service: ObjectService, tmp_path: Path) -> None:
    publish(small, service)
    tables = small_tables()
    changed = dataclasses.replace(tables, queries=tables.queries.assign(style="phrase"))
    second = publish_small_set(tmp_path, changed)
    assert second.path.name == "v2"
    stored = publish_version(second.path, BucketFolder.parse(service.url))
    assert stored.is_new and stored.sent_files < 8
    assert fetch_version(f"{service.url}/small").name == "v2"
    assert fetch_version(f"{service.url}/small/v1").name == "v1"


def test_a_damaged_file_is_not_published(small: StoredSet, service: ObjectService) -> None:
    image = next((small.path / "images").rglob("*.jpg"))
    image.write_bytes(image.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=f"{image.name}.*is damaged"):
        publish(small, service)
    assert not [key for key in service.list_keys() if key.endswith("manifest.json")]


def test_a_missing_version_and_a_missing_bucket_are_one_line(small: StoredSet, service: ObjectService) -> None:
    for url, reason in (
        (f"{service.url}/small", "has no published version"),
        (f"{service.url}/small/v7", "has no published version"),
        ("s3://no-such-bucket/small", "bucket no-such-bucket does not exist"),
    ):
        with pytest.raises(UserError, match=reason):
            fetch_version(url)
    with pytest.raises(UserError, match="bucket no-such-bucket does not exist"):
        publish_version(small.path, BucketFolder.parse("s3://no-such-bucket/sets"))


def test_an_incomplete_newer_version_is_not_seen(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    service.ask("PUT", "sets/small/v2/logs-00/decisions.jsonl", b"{}")
    assert fetch_version(f"{service.url}/small").name == "v1"


def test_what_is_published_holds_no_secret(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    assert not any(SECRET_KEY.encode() in service.ask("GET", key) for key in service.list_keys())
    assert not any(SECRET_KEY.encode() in data for data in files_of(cache_folder().parent).values())


def test_a_changed_object_is_named_and_never_used(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    name = "queries.parquet"
    listed = {file["path"]: file["sha256"] for file in json.loads((small.path / "manifest.json").read_text())["files"]}
    key = f"sets/small/objects/{listed[name][:2]}/{listed[name]}"
    data = service.ask("GET", key)
    for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[:-1], data + b"x", b""):
        service.ask("PUT", key, changed)
        with pytest.raises(UserError, match=f"{name}|is larger than") as refused:
            fetch_version(f"{service.url}/small")
        assert listed[name] in str(refused.value)
        assert not list(cache_folder().rglob(name))
        path, problems = check_objects(f"{service.url}/small")
        assert path is None and len(problems) == 1
    service.ask("DELETE", key)
    assert check_objects(f"{service.url}/small")[1][0].startswith(f"{name}: is missing")
    publish(small, service)  # what is missing is sent again
    assert check_objects(f"{service.url}/small")[1] == []


def test_a_changed_manifest_is_refused(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    key = "sets/small/v1/manifest.json"
    data = service.ask("GET", key)
    service.ask("PUT", key, data.replace(b"A small set", b"A Small set"))
    with pytest.raises(UserError, match="is damaged: its checksum does not match"):
        fetch_version(f"{service.url}/small")
    service.ask("PUT", "sets/small/v4/manifest.json", data)
    with pytest.raises(UserError, match="contains the manifest of version 1"):
        fetch_version(f"{service.url}/small")


def test_a_damaged_cache_is_repaired(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    path = fetch_version(f"{service.url}/small")
    for file in (path / "queries.parquet", path / "qrels.parquet"):
        file.chmod(0o644)
        file.write_bytes(b"x" * file.stat().st_size)  # also in the cache's objects: they are links
    assert files_of(fetch_version(f"{service.url}/small")) == files_of(small.path)


def test_verify_reads_the_objects_and_not_the_cache(small: StoredSet, service: ObjectService) -> None:
    publish(small, service)
    fetch_version(f"{service.url}/small")
    image = next((small.path / "images").rglob("*.jpg"))
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    service.ask("PUT", f"sets/small/objects/{digest[:2]}/{digest}", b"x" * image.stat().st_size)
    _, problems = check_objects(f"{service.url}/small")
    assert len(problems) == 1 and problems[0].startswith(f"images/{image.parent.name}/{image.name}: differs")

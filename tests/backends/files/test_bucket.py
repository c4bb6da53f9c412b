"""Objects in a bucket, whatever service keeps them: the same promises on S3, in a folder and in memory."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from querytruth.backends.files.bucket import BucketObjects, client_settings
from querytruth.backends.files.bucket_urls import BucketFolder, SetUrl
from querytruth.backends.images.image_decoding import fsspec_for
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.web.offline import forbid_connections
from querytruth.errors import UserError
from querytruth.sets.bucket_reading import fetch_version
from querytruth.sets.bucket_versions import publish_version
from tests.bucket_stores import keep
from tests.object_service import ObjectService
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture(params=["s3", "azure", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> BucketFolder:
    if request.param == "s3":
        return BucketFolder.parse(request.getfixturevalue("object_service").url)
    if request.param == "azure":
        return BucketFolder.parse(f"{request.getfixturevalue('azure')}/sets")
    place = f"file://{tmp_path}/bucket" if request.param == "file" else f"memory://{secrets.token_hex(6)}/sets"
    return BucketFolder.parse(place)


def test_of_sixteen_writers_of_a_new_object_one_wins(folder: BucketFolder) -> None:
    objects = BucketObjects(folder)
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda number: objects.put_new({"new": b"%d" % number}) == {"new"}, range(16)))
    assert won.count(True) == 1 and objects.read(["new"], 9)["new"].data == b"%d" % won.index(True)


def test_of_sixteen_writers_who_replace_an_object_one_wins(folder: BucketFolder) -> None:
    objects, key = BucketObjects(folder), "changed"
    objects.put({key: b"first"})
    tag = objects.read([key], 9)[key].tag
    if folder.scheme == "file":
        with pytest.raises(UserError, match="its service does not support conditional writes"):
            objects.put_changed(key, b"x", tag)
        return
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda number: objects.put_changed(key, b"%d" % number, tag), range(16)))
    assert won.count(True) == 1 and objects.read([key], 9)[key].data == b"%d" % won.index(True)
    assert not objects.put_changed("none", b"x", tag)


def test_objects_are_listed_read_in_parts_and_removed(folder: BucketFolder, tmp_path: Path) -> None:
    objects = BucketObjects(folder)
    (tmp_path / "large").write_bytes(large := bytes(range(256)) * (17 << 12))
    objects.put_file("deep/large", tmp_path / "large")
    objects.put({"b 1": b"abc", "ü": b"abc", "empty": b""})
    sizes = {name: size for name, (size, _) in objects.list_objects().items()}
    assert sizes == {"deep/large": len(large), "b 1": 3, "ü": 3, "empty": 0}
    assert objects.list_below("deep/") == ["deep/large"]
    assert sorted(objects.list_level()) == ["b 1", "deep", "empty", "ü"]
    found = objects.read(["deep/large", "empty", "none"], 1 << 30)
    assert {name: one.data for name, one in found.items()} == {"deep/large": large, "empty": b""}
    pieces: list[bytes] = []
    assert objects.stream("deep/large", pieces.append, 5, pieces.clear, start=254) and pieces == [large[254:259]]
    with pytest.raises(UserError, match="is larger than the limit of 2 bytes"):
        objects.read(["ü"], 2)
    objects.remove(["ü", "gone", "b 1"])
    assert sorted(objects.list_level()) == ["deep", "empty"]


def test_a_set_is_published_and_read(folder: BucketFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stored = publish_small_set(tmp_path, small_tables())
    published = publish_version(stored.path, folder)
    assert published.is_new and str(SetUrl.parse(published.url)) == published.url == f"{folder}/small/v1"
    assert (fetch_version(f"{folder}/small") / "manifest.json").read_bytes() == (
        stored.path / "manifest.json"
    ).read_bytes()


def test_replies_need_a_place_that_replaces_on_a_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with open_reply_store("memory://replies/all") as store:
        keep(store)
        with store.create_leases().hold(["k"]) as held, store.create_leases().hold(["k"]) as others:
            assert held == {"k"} and not others
    with (
        open_reply_store(f"file://{tmp_path}/replies") as store,
        pytest.raises(UserError, match="a file or database"),
    ):
        keep(store)


@pytest.mark.parametrize("url", ["gs://benchmarks/sets/small", "az://benchmarks/sets/small"])
def test_other_services_have_addresses_of_their_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(SetUrl.parse(url)) == url
    with forbid_connections(), pytest.raises(UserError, match="--offline"):
        BucketObjects(BucketFolder.parse(url)).list_level()
    if url.startswith("az"):
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
        with pytest.raises(UserError, match="AZURE_STORAGE_ACCOUNT_NAME") as refused:
            BucketObjects(BucketFolder.parse(url)).list_level()
        assert "\n" not in str(refused.value)


def test_keys_may_stand_in_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "keys").write_text("[work]\naws_access_key_id = me\naws_secret_access_key = %1\n")
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-1\nsso_session = x\n[profile bare]\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    keys = {"aws_access_key_id": "me", "aws_secret_access_key": "%1", "region": "eu-west-1"}
    assert client_settings("s3")["config"] == keys
    monkeypatch.setenv("AWS_PROFILE", "bare")
    with pytest.raises(UserError, match=r"AWS profile bare .*has no access keys"):
        client_settings("s3")


def test_a_key_that_is_no_path_is_named(object_service: ObjectService) -> None:
    object_service.ask("PUT", "sets/a/%2E%2E/%2E%2E/x", b"1")
    if not any(".." in key for key in object_service.list_keys()):
        object_service.ask("PUT", "sets/a//x", b"1")
    objects = BucketObjects(BucketFolder.parse(object_service.url))
    with pytest.raises(UserError, match=r"invalid path.*delete that object") as refused:
        objects.list_below("")
    assert "\n" not in str(refused.value)


def test_images_in_a_bucket_are_read_by_the_same_library(object_service: ObjectService) -> None:
    object_service.ask("PUT", "album/a.png", b"png")
    url = f"s3://{object_service.bucket}/album/a.png"
    with fsspec_for(url).open(url, "rb") as file:
        assert file.read() == b"png"
    with forbid_connections(), pytest.raises(PermissionError):
        fsspec_for(url)

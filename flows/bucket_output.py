"""Builds whose sets are stored in a bucket: the newest version is fetched before, the new one is published after."""

import re
from dataclasses import replace
from pathlib import Path

from backends.object_storage.bucket import Bucket
from backends.object_storage.set_download import fetch_version, find_newest_version
from backends.object_storage.set_upload import publish_version
from backends.object_storage.set_urls import BucketFolder, SetUrl
from backends.sets.manifest_reading import read_manifest
from backends.sets.set_publishing import install_version
from backends.sets.version_numbers import newest_version
from builders.errors import UserError
from flows.definitions import RecallDefinition, SetDefinition
from flows.set_publication import BuildResult
from flows.steps import current_run, step

_SET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(/v[1-9][0-9]{0,8})?")


def find_work_folder(definition: SetDefinition) -> BucketFolder | None:
    """Returns where the set's work is kept in a bucket; None where its definition names no such place."""
    return None if definition.work is None else BucketFolder.parse(definition.work).below(definition.name)


@step("fetch")
def fetch_gallery(definition: SetDefinition) -> None:
    """Put the gallery of a recall set into the definition's `out`, where it is named and only the bucket has it. Raises
    UserError where `out` has another version of that number."""
    gallery = definition.gallery if isinstance(definition, RecallDefinition) else None
    if definition.publish_to is None or gallery is None or Path(gallery).exists():
        return
    if _SET_NAME.fullmatch(gallery):
        _fetch(SetUrl.parse(f"{BucketFolder.parse(definition.publish_to)}/{gallery}"), definition.out)


@step("fetch")
def fetch_newest_versions(definition: SetDefinition) -> None:
    """Put the newest version of the set in the bucket, and of the smaller sets in it, into the definition's `out`, so
    that the next one follows it. Raises UserError where `out` has another version of that number."""
    if definition.publish_to is None:
        return
    folder = BucketFolder.parse(definition.publish_to)
    names = Bucket(folder).list_names(f"{folder.prefix}/".lstrip("/"))
    nested = re.compile(re.escape(definition.name) + r"-[0-9]+")
    for name in sorted(one for one in names if one == definition.name or nested.fullmatch(one)):
        _fetch(folder.set_url(name), definition.out)


def _fetch(asked: SetUrl, out: Path) -> None:
    remote, here = find_newest_version(asked), out / asked.name
    if remote is None:
        return
    present = here / f"v{remote.url.version}"
    if (present / "manifest.json").is_file():
        if read_manifest(present)["content_digest"] != remote.manifest["content_digest"]:
            reason = f"is another version than {remote.url}: both were built from the one before"
            raise UserError("fetch", present, reason, f"move {present} away, then run the same command")
    elif asked.version is not None or (newest_version(here) or 0) < (remote.url.version or 0):
        install_version(fetch_version(str(remote.url)), here, current_run().reporter.log)


@step("publish to the bucket")
def publish_to_bucket(definition: SetDefinition, result: BuildResult) -> BuildResult:
    """The result with the URLs of the version and of the smaller sets in the bucket, where they are stored now. Raises
    UserError where another build published that version meanwhile."""
    if definition.publish_to is None:
        return result
    nested_results = [publish_to_bucket(definition, nested) for nested in result.nested_results]
    stored = publish_version(result.path, BucketFolder.parse(definition.publish_to))
    return replace(result, nested_results=nested_results, url=stored.url)

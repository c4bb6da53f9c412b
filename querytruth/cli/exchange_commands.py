"""`querytruth export`, `import`, `publish` and `fetch`: sets in other formats and in object storage."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from flows.requests import ImportRequest
from querytruth import terminal
from querytruth.cli import options
from querytruth.cli.command_line import argument, command, option
from querytruth.defaults import DATASETS_FOLDER
from querytruth.requests import ByName, ByPlace, Request


class ExportRequest(Request):
    """A set as others read it."""

    stage: ClassVar[str] = "export"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    format: Annotated[str, ByPlace("FORMAT")] = Field(description="Format name; see docs/formats.md.")
    to: Annotated[Path, ByPlace("OUT")] = Field(description="New or empty folder.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
    allow_loss: bool = Field(False, description="Drop or split what the format cannot represent.")
    with_places: bool = Field(False, description="Keep the places where images were taken.")
    with_names: bool = Field(False, description="Keep queries that name people, places or texts of an album.")
    private: bool = Field(True, description="Remove the owners and devices of images, local folders, and reviewers.")
    images: Annotated[list[str], ByName("--images", "ROOT")] = Field(
        default_factory=list, description="Folder or URL outside the set where its images can be read."
    )


@command
def export(json: options.JsonOption = False, *, request: ExportRequest) -> None:
    """Export a set in the format of another evaluator.

    Example: querytruth export family-album huggingface out/family-album
    """
    from querytruth.api.loaded_set import load
    from querytruth.formats.exporters import EXPORTERS
    from querytruth.sets.set_files import describe_place

    EXPORTERS.import_plugin(request.format)  # a wrong name is refused before the set is looked for
    loaded = load(request.of, out=request.out, images=request.images)
    dropped_features = loaded.export(
        request.format, request.to, **request.model_dump(include={"allow_loss", "with_places", "with_names", "private"})
    )
    if json:
        terminal.print_json({"path": str(request.to), "format": request.format, "not_held": dropped_features})
        return
    loss_note = f"; not in this format: {', '.join(dropped_features)}" if dropped_features else ""
    text = f"{describe_place(request.of, request.out, loaded.path)} exported as {request.format} to {request.to}"
    terminal.say(text + loss_note)


@command
def import_(json: options.JsonOption = False, *, request: ImportRequest) -> None:
    """Create a set from files in another format; then lint, evaluate and review it like any other.

    Example: querytruth import flickr8k_cn Flickr8k-CN datasets/flickr8k-cn --images Flicker8k_Dataset
    """
    terminal.report(f"querytruth: reading {request.source}")
    from querytruth.api.set_builds import import_set
    from querytruth.cli.build_output import show_build_result, summarize_build

    with terminal.reported_run(workers=options.CPU_CORES):
        done = import_set(**request.model_dump())
    terminal.print_json(summarize_build(done.result)) if json else show_build_result(done.result)


class PublishRequest(Request):
    """A version for readers elsewhere."""

    stage: ClassVar[str] = "publish"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    to: Annotated[str, ByName("--to", "s3://BUCKET/FOLDER")] = Field(description="Folder of sets in a bucket.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
    with_places: bool = Field(False, description="Also store a version that contains the places of images.")
    with_names: bool = Field(False, description="Also store a version that names people, places or texts of an album.")
    private: bool = Field(True, description="Do not store the host and folders of the build, nor the decision logs.")


@command
def publish(json: options.JsonOption = False, *, request: PublishRequest) -> None:
    """Store a version in object storage: readers of s3://BUCKET/FOLDER/NAME see all of it or nothing. Files
    that are already stored are not sent again.

    Example: querytruth publish family-album --to s3://benchmarks/sets
    """
    from querytruth.api.loaded_set import LoadedSet, find_version

    loaded, allowed = LoadedSet(find_version(request.of, request.out)), {"with_places", "with_names", "private"}
    stored = loaded.publish(request.to, **request.model_dump(include=allowed))
    if json:
        terminal.print_json(asdict(stored))
        return
    what = "published" if stored.is_new else "is already stored"
    sent = f"{stored.sent_files:,} files sent, {stored.sent_bytes / 1e6:,.1f} MB"
    terminal.say(f"{stored.url}: {what}; {sent}")


@command
def fetch(
    url: Annotated[str, argument(metavar="s3://BUCKET/FOLDER/NAME", help="Set, or one version of it: …/NAME/v3.")],
    to: Annotated[Path, option(help="Folder of sets that receives it.")] = DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Download a version from object storage into a folder of sets, with its published decision logs, to review it and
    build on it. Every file is checked.

    Example: querytruth fetch s3://benchmarks/sets/family-album --to datasets
    """
    from querytruth.api import loaded_set

    fetched = loaded_set.fetch(url, to)
    if json:
        terminal.print_json({"path": str(fetched.path), "is_new": fetched.is_new})
        return
    terminal.say(f"{fetched.path}: {'fetched' if fetched.is_new else 'already there'}")

"""The digests that the image files of a folder must have before a version or a question carries them on."""

from collections.abc import Collection, Mapping
from pathlib import Path

from backends.file_errors import translate_read_errors
from backends.images.rendered_digests import read_recorded_digests
from backends.sets.manifest_reading import read_manifest
from backends.sets.set_files import read_image_digests


def read_intact_digests(folder: Path) -> Mapping[str, Collection[str]] | None:
    """Returns by path the digests that an intact image file may have: in a version as it lists them, below a folder of
    rendered images as its record has them. None for another folder, which has no list. Raises UserError."""
    if (folder / "manifest.json").is_file():
        return {path: (sha256,) for path, sha256 in read_image_digests(folder, read_manifest(folder)).items()}
    with translate_read_errors("read pictures", folder, "fix that, then run the same command"):
        return read_recorded_digests(folder) or None

"""Exchanges the vectors of a model, which this machine computes, with a bucket."""

from pathlib import Path

from backends.checked_parquet import read_checked
from backends.durable_files import file_sha256
from backends.file_errors import translate_write_errors
from backends.object_storage.kept_objects import KeptObject, KeptObjects, map_at_once
from backends.object_storage.set_urls import BucketFolder
from backends.object_storage.transfer_bars import open_transfer_bar
from backends.vectors.vector_store import is_sound_vector_file

_KIND = "parquet"
_MAX_BYTES = 256 << 20


class KeptVectors:
    """The vector files of a folder here, named after their model, and of the folder of that name in a bucket."""

    def __init__(self, local: Path, work: BucketFolder) -> None:
        """Connects to nothing yet. Raises UserError as Bucket does."""
        self._local, self._objects = local, KeptObjects(work.below(f"vectors/{local.name}"))

    def exchange(self) -> None:
        """Gets the files that are only in the bucket, and stores those that are only here; damaged ones are left out.
        Raises UserError."""
        here = {file_sha256(path)[0]: path for path in sorted(self._local.glob(f"*.{_KIND}"))}
        stored = self._objects.list()
        new = [one for one in stored if one.sha256 not in here]
        with (
            open_transfer_bar("read vectors", sum(one.size for one in new)) as advance,
            translate_write_errors("embed pictures", self._local),
        ):

            def fetch(one: KeptObject) -> None:
                path = self._local / f"{one.sha256}.{_KIND}"
                if self._objects.fetch(one, path, _MAX_BYTES) and not is_sound_vector_file(path):
                    path.unlink()
                advance(one.size)

            list(map_at_once(fetch, new))
        known = {one.sha256 for one in stored}
        for sha256, path in here.items():
            if sha256 not in known and read_checked(path) is not None:
                self._objects.store(path, _KIND)

    def store(self, path: Path) -> None:
        """Stores a new file. Raises UserError and OSError."""
        self._objects.store(path, _KIND)

"""A folder in which the images of an annotation or import are looked up by their listed names."""

import filecmp
import os
from pathlib import Path, PurePosixPath
from threading import Lock

from backends.sources.source_readers import is_inside


class ImageFolder:
    """Finds listed images below a folder, never outside it, not even through a link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._home = os.path.realpath(os.fsencode(root))
        self._below: dict[str, list[str]] | None = None
        self._walk = Lock()

    def find(self, listed: str) -> Path | str:
        """Returns the file for a listed name, or a reason code.

        Data sets are unpacked in several ways: the name is tried as it is, then without its leading folders one by one
        (`images/v1/patch8/x.jpg`, `patch8/x.jpg`, `x.jpg`), then as the end of one file's path in a deeper folder
        (`val2017/x.jpg` for `x.jpg`). Files of one name in several folders are one image where their bytes are the
        same; the first by path is returned.
        """
        parts = PurePosixPath(listed.replace("\\", "/")).parts
        if not parts or any(part in ("..", "/") for part in parts) or "\x00" in listed:
            return "not_a_relative_name"
        for start in range(len(parts)):
            path = self.root.joinpath(*parts[start:])
            if self._is_inside(path):
                return path.resolve() if path.is_symlink() else path  # links are not followed when it is read
        files = self._files().get(parts[-1], [])
        deeper = sorted(path for path in files if PurePosixPath(path).parts[-len(parts) :] == parts)
        if not all(self._has_same_bytes(deeper[0], other) for other in deeper[1:]):
            return "found_in_several_folders"
        return self.root / deeper[0] if deeper else "image_missing"

    def _has_same_bytes(self, path: str, other: str) -> bool:
        try:
            return filecmp.cmp(self.root / path, self.root / other, shallow=False)
        except OSError:
            return False

    def _is_inside(self, path: Path) -> bool:
        try:
            return is_inside(os.path.realpath(os.fsencode(path), strict=True), self._home)
        except (OSError, ValueError):
            return False

    def _files(self) -> dict[str, list[str]]:
        """Returns the paths of all regular files below the root by name. Walks the folder once, when first needed."""
        with self._walk:
            if self._below is None:
                self._below = {}
                for folder, _, names in os.walk(self.root):
                    for name in names:
                        path = Path(folder, name)
                        if path.is_file() and not path.is_symlink():
                            self._below.setdefault(name, []).append(str(path.relative_to(self.root)))
            return self._below

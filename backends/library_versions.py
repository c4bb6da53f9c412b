"""The libraries of this environment beside the versions that the project was tested with."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_TESTED = Path(__file__).with_name("tested_versions.txt")  # `make lock` writes it


class LibraryVersion(NamedTuple):
    """A library that the project imports: the version here, None where it is not installed, and the tested one."""

    name: str
    installed: str | None
    tested: str

    @property
    def state(self) -> str:
        """`tested`, `newer`, `older` or `missing`; builds of one release, such as 2.13.0+cpu, count as that release."""
        if self.installed is None:
            return "missing"
        here, tested = Version(Version(self.installed).public), Version(self.tested)
        return "tested" if here == tested else "newer" if here > tested else "older"


def read_library_versions() -> list[LibraryVersion]:
    """Returns the version of each library that the project imports, by name."""
    requirements = map(Requirement, _TESTED.read_text("utf-8").splitlines())
    return [
        LibraryVersion(one.name, find_installed_version(one.name), next(iter(one.specifier)).version)
        for one in requirements
        if one.marker is None or one.marker.evaluate()
    ]


def find_installed_version(name: str) -> str | None:
    """Returns the version of an installed package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_tested_version(name: str) -> str | None:
    """Returns the tested version of a library that the project imports, None for any other."""
    name = canonicalize_name(name)
    return next((one.tested for one in read_library_versions() if canonicalize_name(one.name) == name), None)


def describe_newer(versions: Iterable[LibraryVersion]) -> str:
    """Returns one line: which libraries are newer than tested, with both versions."""
    newer = [f"{one.name} {one.installed} (tested: {one.tested})" for one in versions if one.state == "newer"]
    return f"newer than tested: {', '.join(newer)}" if newer else "none is newer than tested"

"""Faults of the environment: errors of a library, a driver or a device that no item causes.

A library whose names changed, a missing module or shared object, and a GPU that cannot be used fail for every item. One
odd item can raise some of the same types, such as TypeError: where items are tried one by one, the caller confirms the
fault on another item before it stops (`LocalChatModel`). Running out of memory is not a fault of the environment.

It also compares the libraries of this environment with the tested versions.

It makes allocators return freed memory to the system.

With a heap per thread, each keeping what it freed, a gallery of a million images took 720 MB at its peak, not 590.

It identifies this machine and tells whether a process on it still runs, for leases and for folders that runs write.
"""

import ctypes
import gc
import getpass
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, NamedTuple

from querytruth.errors import UserError, first_line

_TESTED = Path(__file__).with_name("tested_versions.txt")  # `make lock` writes it
_OWN_DISTRIBUTION = "querytruth"
_TYPES = (AttributeError, ImportError, NameError, NotImplementedError, TypeError)
_DEVICE_MARKERS = (
    *("cuda error", "cuda driver", "nvidia driver", "no cuda gpus", "cuda is not available", "not compiled with cuda"),
    *("cudnn", "cublas", "cusparse", "nccl error", "hip error", "no hip gpus", "no kernel image", "mps backend"),
    *("xpu is not", "not linked with support for", "invalid device ordinal"),
)
_LIBRARY_MARKERS = (
    *("shared object", "undefined symbol", "dlopen", "no such operator", "could not run 'aten::", "is not implemented"),
    *("not implemented for '", "unknown builtin op", "numpy is not available", "failed to import"),
)
_MEMORY_MARKERS = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
_TRIM_THRESHOLD, _ARENA_MAX = -1, -8  # of <malloc.h>
_MAX_KEPT_BYTES = 1 << 20  # at the end of the heap


class LibraryVersion(NamedTuple):
    """A library that the project imports: the version here, None where it is not installed, and the tested one."""

    name: str
    installed: str | None
    tested: str

    @property
    def state(self) -> str:
        """Return `tested`, `newer`, `older` or `missing`; builds of one release, such as 2.13.0+cpu, count as that
        release."""
        if self.installed is None:
            return "missing"
        from packaging.version import Version

        here, tested = Version(Version(self.installed).public), Version(self.tested)
        return "tested" if here == tested else "newer" if here > tested else "older"


def read_library_versions() -> list[LibraryVersion]:
    """Return the version of each library that the project imports, by name."""
    from packaging.requirements import Requirement

    requirements = map(Requirement, _TESTED.read_text("utf-8").splitlines())
    return [
        LibraryVersion(one.name, find_installed_version(one.name), next(iter(one.specifier)).version)
        for one in requirements
        if one.marker is None or one.marker.evaluate()
    ]


def find_installed_version(name: str) -> str | None:
    """Return the version of an installed package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_tested_version(name: str) -> str | None:
    """Return the tested version of a library that the project imports, None for any other."""
    from packaging.utils import canonicalize_name

    name = canonicalize_name(name)
    return next((one.tested for one in read_library_versions() if canonicalize_name(one.name) == name), None)


def describe_newer(versions: Iterable[LibraryVersion]) -> str:
    """Return one line: which libraries are newer than tested, with both versions."""
    newer = [f"{one.name} {one.installed} (tested: {one.tested})" for one in versions if one.state == "newer"]
    return f"newer than tested: {', '.join(newer)}" if newer else "no library is newer than the tested version"


class EnvironmentFault(UserError):
    """A library, a driver or a device failed, for whatever item: the run stops, and nothing is stored of it."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, of the machine or of the GPU."""
    message = str(error).lower()
    is_marked = any(marker in message for marker in _MEMORY_MARKERS)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_marked)


def may_be_environment_fault(error: BaseException) -> bool:
    """Return whether a broken environment raises such an error, or its cause, for every item."""
    if is_out_of_memory(error) or isinstance(error, UserError):
        return False
    if isinstance(error, _TYPES) or _is_of_device(error) or _is_of_operator(error):
        return True
    return error.__cause__ is not None and may_be_environment_fault(error.__cause__)


def is_certain_environment_fault(error: BaseException) -> bool:
    """Return whether neither an item nor a damaged model can raise this error."""
    if isinstance(error, (ImportError, NameError)) or (not is_out_of_memory(error) and _is_of_device(error)):
        return True
    return error.__cause__ is not None and is_certain_environment_fault(error.__cause__)


def library_of(error: BaseException, called: object = None) -> str:
    """Return the library that failed, with its version and, if it differs, the tested version: the library of the
    `called` object and, if it is another, the library that raised the error. Return "" if there is none."""
    names = list(dict.fromkeys([*_libraries_of(called), *_raising_libraries(error)[:1]]))
    if not names:
        return ""
    first, *others = [_name_version(name) for name in names]
    return first + "".join(f" (in {other})" for other in others)


def _name_version(name: str) -> str:
    from packaging.version import Version

    here, tested = version(name), find_tested_version(name)
    is_other = tested is not None and Version(here).public != tested  # of 2.13.0+cpu, 2.13.0
    return f"{name} {here} (tested with {tested})" if is_other else f"{name} {here}"


def make_environment_fault(stage: str, item: object, error: BaseException, called: object = None) -> EnvironmentFault:
    """Return the error message in one line: the failure, the library and the next step."""
    text = first_line(error) if isinstance(error, Exception) else type(error).__name__
    kind = type(error).__name__
    library = library_of(error, called)
    reason = f"failed in this environment: {kind}" + (f": {text}" if text != kind else "")
    reason += f", in {library}" if library else ""
    return EnvironmentFault(stage, item, reason, _next_step(error, library))


@contextmanager
def translate_environment_faults(stage: str, item: object, called: object = None) -> Iterator[None]:
    """Raise EnvironmentFault for the errors of a broken environment, where any of them ends the work anyway."""
    try:
        yield
    except Exception as error:
        if not may_be_environment_fault(error):
            raise
        raise make_environment_fault(stage, item, error, called) from None


def _next_step(error: BaseException, library: str) -> str:
    again = "then run the same command: finished work is not repeated"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"pip install {error.name.partition('.')[0]}, {again}"
    if _is_of_device(error):
        return f"set the device to cpu, or repair the driver, {again}"
    name, _, rest = library.partition(" ")
    tested = find_tested_version(name) if "tested" in rest else None
    wanted = f"{name}=={tested}" if tested else f"a working release of {name or 'the library'}"
    return f"install {wanted} (querytruth doctor compares all versions with the tested ones), {again}"


def _is_of_device(error: BaseException) -> bool:
    message = str(error).lower()
    kinds = (RuntimeError, AssertionError, OSError)
    return isinstance(error, kinds) and any(marker in message for marker in _DEVICE_MARKERS)


def _is_of_operator(error: BaseException) -> bool:
    message = str(error).lower()
    return isinstance(error, (RuntimeError, OSError)) and any(marker in message for marker in _LIBRARY_MARKERS)


def _raising_libraries(error: BaseException) -> list[str]:
    """Return the distributions from the innermost outwards: of the object that lacks a name, and of the frames."""
    found: list[str] = _libraries_of(getattr(error, "obj", None))
    modules, traceback = [], error.__traceback__
    while traceback is not None:
        modules.append(str(traceback.tb_frame.f_globals.get("__name__", "")))
        traceback = traceback.tb_next
    for module in reversed(modules):
        found += _distributions_of(module)
    return list(dict.fromkeys(found))


def _libraries_of(thing: object) -> list[str]:
    """Return the distribution of a library's module, class or object."""
    if thing is None:
        return []
    kind: Any = thing if isinstance(thing, type) else type(thing)
    module = getattr(thing, "__name__", "") if isinstance(thing, type(sys)) else kind.__module__
    return _distributions_of(str(module))


def _distributions_of(module: str) -> list[str]:
    top = module.partition(".")[0]
    if not top or top in sys.stdlib_module_names:
        return []
    return [name for name in packages_distributions().get(top, [])[:1] if name != _OWN_DISTRIBUTION]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the cycle collector, which takes a fifth of the time with millions of short-lived tuples."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def configure_allocator() -> None:
    """Configure the whole process; must run before pyarrow is imported. Malloc is configured on Linux only."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_TRIM_THRESHOLD, _MAX_KEPT_BYTES)


def current_user_name() -> str:
    """Return the user's login name, or ""."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this user id, as in some containers
        return ""


@cache
def this_machine() -> str:
    """Identify the running kernel and the process numbers in it; elsewhere than on Linux the name of the host."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return platform.node().replace(" ", "_")


def process_start(process: int) -> str:
    """Return when a process started, in the kernel's ticks; "running" where that is unknown, "" for no process, and
    for one that has ended and whose parent has not noticed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "running"
    return "running"

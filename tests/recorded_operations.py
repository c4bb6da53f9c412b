"""The file operations of a program, recorded below one folder by strace: what a crash may keep or lose.

Files and folders are numbers, as inodes are; names are entries of folders. A write is cut at the borders of blocks.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = 4096
ROOT_FOLDER = 0
_CALLS = (
    "open,openat,write,pwrite64,lseek,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,"
    "rmdir,mkdir,mkdirat,ftruncate,close,dup,dup2,dup3,fcntl"
)
# Calls that would change files past the record.
_UNREADABLE = "creat,writev,pwritev,pwritev2,truncate,fallocate,copy_file_range,sendfile,symlink,symlinkat,sync,syncfs"
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class Entry(NamedTuple):
    """A name of a folder gets another file or folder, or none; `also`: the second name that a rename changes with
    it."""

    folder: int
    name: str
    inode: int | None
    also: tuple[int, str, int | None] | None = None
    is_new_folder: bool = False


class Piece(NamedTuple):
    """Bytes of one block of a file."""

    inode: int
    start: int
    data: bytes


class Growth(NamedTuple):
    """A file becomes as long as its writes make it, before their bytes are there: until then it holds zeros."""

    inode: int
    size: int


class Cut(NamedTuple):
    """A file is cut or extended to a size."""

    inode: int
    size: int


class Sync(NamedTuple):
    """Everything earlier about a file, or about the entries of a folder, is on disk."""

    inode: int
    path: str


class Acknowledged(NamedTuple):
    """The program printed this line: whoever reads it may rely on what was done before."""

    line: str


Operation = Entry | Piece | Growth | Cut | Sync | Acknowledged


def record_operations(program: str, folder: Path) -> list[Operation]:
    """Run Python source with `folder` (new and empty) as its first argument. Skips the test without strace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (Debian: strace)")
    folder.mkdir()
    record = folder.with_name(f"{folder.name}.strace")
    options = ["-f", "--seccomp-bpf", "-xx", "-s", str(1 << 26), "-e", f"trace={_CALLS},{_UNREADABLE}", "-o", record]
    command = ["strace", *options, sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"]
    done = subprocess.run([*command, str(folder)], cwd="/", capture_output=True, text=True)
    if "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return list(_Reader(folder).read(_whole_calls(record)))


def _whole_calls(record: Path) -> Iterator[tuple[str, str, int]]:
    """The calls that succeeded: name, arguments, result. One that another thread interrupted counts when it ended."""
    begun: dict[str, str] = {}
    for line in record.read_text("ascii").splitlines():
        process, _, rest = line.partition(" ")
        if rest.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r" *<\.\.\. \w+ resumed>", rest):
            line = begun.pop(process) + rest[resumed.end() :]
        if (call := _LINE.match(line)) and int(call[3]) >= 0:
            yield call[1], call[2], int(call[3])


class _Opened(NamedTuple):
    inode: int
    path: Path
    appends: bool


class _Reader:
    """Follows names, descriptors and sizes through the calls."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inodes: dict[Path, int] = {root: ROOT_FOLDER}
        self._sizes: dict[int, int] = {}
        self._opened: dict[int, _Opened] = {}
        self._offsets: dict[int, int] = {}

    def read(self, calls: Iterator[tuple[str, str, int]]) -> Iterator[Operation]:
        for name, arguments, result in calls:
            strings = [bytes.fromhex(text.replace("\\x", "")) for text in _STRING.findall(arguments)]
            numbers = [part.strip() for part in _STRING.sub("", arguments).split(",")]
            if name in _WITHOUT_FOLDER:
                numbers = [part for argument in numbers for part in ("AT_FDCWD", argument)]
            method = getattr(self, f"_{_SAME.get(name, name)}", None)
            if method is not None:
                yield from method(numbers, strings, result)
            else:
                touched = [self._place("AT_FDCWD", text) for text in strings]
                is_ours = any(map(self._is_ours, touched)) or int(numbers[0] or -1) in self._opened
                assert not is_ours, f"{name} is not followed"

    def _openat(self, numbers: list[str], strings: list[bytes], result: int) -> Iterator[Operation]:
        path, flags = self._place(numbers[0], strings[0]), numbers[2]
        self._opened.pop(result, None)
        if not self._is_ours(path):
            return
        if path not in self._inodes:
            yield self._name(path, self._new_inode())
        inode = self._inodes[path]
        self._opened[result], self._offsets[result] = _Opened(inode, path, "O_APPEND" in flags), 0
        if "O_TRUNC" in flags and self._sizes.get(inode):
            self._sizes[inode] = 0
            yield Cut(inode, 0)

    def _close(self, numbers: list[str], _strings: list[bytes], _result: int) -> Iterator[Operation]:
        self._opened.pop(int(numbers[0]), None)
        yield from ()

    def _dup(self, numbers: list[str], _strings: list[bytes], _result: int) -> Iterator[Operation]:
        assert int(numbers[0]) not in self._opened, "a copied descriptor is not followed"
        yield from ()

    def _fcntl(self, numbers: list[str], strings: list[bytes], result: int) -> Iterator[Operation]:
        if numbers[1].startswith("F_DUPFD"):
            yield from self._dup(numbers, strings, result)

    def _lseek(self, numbers: list[str], _strings: list[bytes], result: int) -> Iterator[Operation]:
        self._offsets[int(numbers[0])] = result
        yield from ()

    def _write(self, numbers: list[str], strings: list[bytes], result: int) -> Iterator[Operation]:
        handle = int(numbers[0])
        if handle == 1 and strings[0].strip():
            yield Acknowledged(strings[0].decode().strip())
        if opened := self._opened.get(handle):
            start = self._sizes.get(opened.inode, 0) if opened.appends else self._offsets[handle]
            self._offsets[handle] = start + result
            yield from self._put(opened.inode, start, strings[0][:result])

    def _pwrite64(self, numbers: list[str], strings: list[bytes], result: int) -> Iterator[Operation]:
        if opened := self._opened.get(int(numbers[0])):
            yield from self._put(opened.inode, int(numbers[-1]), strings[0][:result])

    def _put(self, inode: int, start: int, data: bytes) -> Iterator[Operation]:
        if start + len(data) > self._sizes.get(inode, 0):
            self._sizes[inode] = start + len(data)
            yield Growth(inode, start + len(data))
        while data:
            first = BLOCK - start % BLOCK
            yield Piece(inode, start, data[:first])
            start, data = start + len(data[:first]), data[first:]

    def _ftruncate(self, numbers: list[str], _strings: list[bytes], _result: int) -> Iterator[Operation]:
        opened = self._opened.get(int(numbers[0]))
        if opened and self._sizes.get(opened.inode, 0) != int(numbers[1]):
            self._sizes[opened.inode] = int(numbers[1])
            yield Cut(opened.inode, int(numbers[1]))

    def _fsync(self, numbers: list[str], _strings: list[bytes], _result: int) -> Iterator[Operation]:
        if opened := self._opened.get(int(numbers[0])):
            yield Sync(opened.inode, opened.path.relative_to(self._root).as_posix())

    def _mkdirat(self, numbers: list[str], strings: list[bytes], _result: int) -> Iterator[Operation]:
        path = self._place(numbers[0], strings[0])
        if self._is_ours(path) and path != self._root:
            yield self._name(path, self._new_inode())._replace(is_new_folder=True)

    def _unlinkat(self, numbers: list[str], strings: list[bytes], _result: int) -> Iterator[Operation]:
        path = self._place(numbers[0], strings[0])
        if self._is_ours(path):
            del self._inodes[path]
            yield Entry(self._inodes[path.parent], path.name, None)

    def _linkat(self, numbers: list[str], strings: list[bytes], _result: int) -> Iterator[Operation]:
        old, new = self._place(numbers[0], strings[0]), self._place(numbers[2], strings[1])
        if self._is_ours(new):
            yield self._name(new, self._inodes[old])

    def _renameat(self, numbers: list[str], strings: list[bytes], _result: int) -> Iterator[Operation]:
        old, new = self._place(numbers[0], strings[0]), self._place(numbers[2], strings[1])
        if not self._is_ours(new):
            return
        inode = self._inodes.pop(old)
        for path in [path for path in self._inodes if path.is_relative_to(old)]:
            self._inodes[new / path.relative_to(old)] = self._inodes.pop(path)
        entry, gone = self._name(new, inode), (self._inodes[old.parent], old.name, None)
        if old.parent == new.parent:
            yield entry._replace(also=gone)
        else:  # two folders may reach the disk one after the other
            yield entry
            yield Entry(*gone)

    def _name(self, path: Path, inode: int) -> Entry:
        self._inodes[path] = inode
        return Entry(self._inodes[path.parent], path.name, inode)

    def _new_inode(self) -> int:
        self._newest = getattr(self, "_newest", ROOT_FOLDER) + 1
        return self._newest

    def _place(self, at: str, name: bytes) -> Path:
        if at == "AT_FDCWD" or name.startswith(b"/"):
            return Path("/", name.decode("utf-8", "surrogateescape"))
        opened = self._opened.get(int(at))
        return opened.path / name.decode() if opened else Path("/elsewhere")

    def _is_ours(self, path: Path) -> bool:
        return path.is_relative_to(self._root)


_WITHOUT_FOLDER = {"open", "mkdir", "rmdir", "unlink", "rename", "link"}
_SAME = {
    "open": "openat",
    "mkdir": "mkdirat",
    "rename": "renameat",
    "renameat2": "renameat",
    "link": "linkat",
    "unlink": "unlinkat",
    "rmdir": "unlinkat",
    "fdatasync": "fsync",
    "dup2": "dup",
    "dup3": "dup",
}

"""A file that has taken over its decoder: what the process may still do, and what its answers can do to the parent."""

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.rendering import PixelsJob, RenderJob, run_pixels_job, run_render_job
from querytruth.backends.images.worker_messages import DONE, LENGTH, InvalidAnswer, frame_answer, read_answer
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerFailure
from tests.images import make_jpeg

HAS_LANDLOCK = ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) >= 1
HAS_FILTER = platform.machine() in ("x86_64", "aarch64")
# Writes bytes of its own into the pipe to the parent, as a decoder that a file has taken over could.
SENDS = """
import os, stat
for pipe in range(3, 99):
    try:
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            os.write(pipe, bytes.fromhex("DATA"))
    except OSError:
        pass
"""


def do(deed: str, **options: Path) -> object:
    [result] = map_in_workers(eval, [deed], **options)
    return result


@pytest.mark.skipif(not HAS_LANDLOCK, reason="the kernel has no Landlock")
def test_a_decoder_writes_nothing_outside_the_folder_that_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "other").write_text("as it was")
    for deed in ("open({!r}, 'w')", "__import__('os').remove({!r})", "__import__('os').truncate({!r}, 0)"):
        for options in ({}, {"writable": tmp_path / "given"}):
            with pytest.raises(PermissionError):
                do(deed.format(str(tmp_path / "other")), **options)
    assert (tmp_path / "other").read_text() == "as it was"
    inside = str(tmp_path / "given" / "new")
    assert do(f"open({inside!r}, 'w').write('x')", writable=tmp_path / "given") == 1
    with pytest.raises(PermissionError):
        do(f"open({inside!r}, 'w')")


@pytest.mark.skipif(not HAS_LANDLOCK, reason="the kernel has no Landlock")
@pytest.mark.thorough
def test_a_decoder_reads_the_file_that_it_was_given_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("a key")
    (tmp_path / "a.jpg").write_bytes(make_jpeg())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "a.jpg")
    for deed in ("open({!r})", "open({!r}, 'r+')"):
        with pytest.raises(PermissionError):
            do(deed.format(str(tmp_path / "private")))
    with pytest.raises(PermissionError):
        do(f"__import__('os').listdir({str(tmp_path)!r})")
    names = ["a.jpg", "link", "pipe", "missing", "a.jpg"]
    reasons = [one.reason for one in map_in_workers(read_image, [str(tmp_path / name) for name in names])]
    assert reasons == [None, "not_a_regular_file", "not_a_regular_file", "unreadable", None]
    render = RenderJob(str(tmp_path / "link"), str(tmp_path / "out" / "b.jpg"), 40, "squash", None)
    (tmp_path / "out").mkdir()
    written = list(map_in_workers(run_render_job, [render, render], writable=tmp_path / "out"))
    assert written == 2 * [hashlib.sha256((tmp_path / "out" / "b.jpg").read_bytes()).hexdigest()]


@pytest.mark.skipif(not HAS_LANDLOCK, reason="the kernel has no Landlock")
def test_a_worker_that_takes_no_files_holds_nobody_up() -> None:
    deeds = ["7"] * 2000
    assert list(map_in_workers(eval, deeds)) == [7] * 2000, "more than a socket holds, none of them a file"
    assert list(map_in_workers(len, ["/dev/null"] * 2000)) == [9] * 2000, "each of them a file"


@pytest.mark.skipif(not HAS_FILTER, reason="no list of system calls for this processor")
def test_a_decoder_starts_no_program_and_opens_no_socket() -> None:
    for deed in ("__import__('os').execv('/bin/true', ['true'])", "__import__('socket').socket()"):
        with pytest.raises(PermissionError):
            do(deed)
    assert list(map_in_workers(len, ["/a", "s3://bucket/a", "/b"])) == [2, 13, 2], "a URL gets a worker with sockets"


@pytest.mark.parametrize(
    "answer",
    [
        b"cos\nmkdir\n(V/tmp/ran\ntR.",  # a pickle that would call a function
        b"\x93\x00\x01",
        msgspec.msgpack.encode((0, {"record": ["os:system", ["true"]]})),
        msgspec.msgpack.encode((0, {"record": ["pathlib:Path", ["/"]]})),
        msgspec.msgpack.encode(
            (0, {"record": ["querytruth.backends.images.image_reading:ScannedImage", ["one", "of", "many"] * 99]})
        ),
        msgspec.msgpack.encode((0, {"array": ["|O", [1], b"12345678"]})),
        msgspec.msgpack.encode((0, {"array": ["|u1", [1 << 40], b"1"]})),
        msgspec.msgpack.encode((0, {"integer": "9" * 9999})),
        msgspec.msgpack.encode((0, {"anything": [], "else": []})),
        msgspec.msgpack.encode((2, {"error": ["SystemExit", [], []]})),
        msgspec.msgpack.encode((2, {"error": ["eval", ["1"], []]})),
        msgspec.msgpack.encode((2, "no error")),
        msgspec.msgpack.encode((0, {"error": ["OSError", [], []]})),
        msgspec.msgpack.encode((7, None)),
        b"\x92\x00" + b"\x91" * 100_000 + b"\xc0",
    ],
)
def test_bytes_that_are_no_answer_are_those_of_a_crashed_worker(answer: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        read_answer(answer)
    result = do(f"exec({SENDS.replace('DATA', (len(answer).to_bytes(8, 'little') + answer).hex())!r})")
    assert isinstance(result, WorkerFailure) and result.reason == "worker_crashed" and "not valid data" in result.detail
    assert do("6 * 7") == 42


Plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(Plain, st.sampled_from(["u1", "<i4", "<f4", "<f8", "?"]), st.lists(st.integers(0, 4), max_size=3))
def test_what_is_sent_arrives(value: object, kind: str, shape: list[int]) -> None:
    assert read_answer(frame_answer(DONE, value)[LENGTH:]) == (DONE, value)
    array = np.arange(int(np.prod(shape))).astype(kind).reshape(shape)
    _, arrived = read_answer(frame_answer(DONE, (array, "\udcff"))[LENGTH:])
    assert arrived[1] == "\udcff" and arrived[0].dtype == array.dtype and (arrived[0] == array).all()
    assert arrived[0].shape == array.shape and arrived[0].flags.writeable


@pytest.mark.parametrize("work", ["image_reading", "rendering"])
def test_a_worker_imports_no_heavy_library(work: str) -> None:
    code = f"import sys, querytruth.backends.images.{work} as _; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "pyarrow", "fsspec", "scipy", "torch"} & set(done.stdout.split())


def test_records_arrays_and_exceptions_arrive_as_they_were_sent(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(make_jpeg((9, 99, 200), (80, 60)))
    [scanned] = map_in_workers(read_image, [str(tmp_path / "a.jpg")])
    assert isinstance(scanned, ScannedImage) and (scanned.width, scanned.height) == (80, 60)
    [pixels] = map_in_workers(run_pixels_job, [PixelsJob(str(tmp_path / "a.jpg"), 40, None)])
    assert isinstance(pixels, np.ndarray) and pixels.shape == (30, 40, 3)
    with pytest.raises(OSError, match="No such file") as error:
        do("open('/nowhere/at/all')")
    assert error.value.errno == 2
